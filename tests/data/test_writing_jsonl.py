import pytest

from memgrow.data import Domain, Example, Stream, load_stream, synthetic_stream, write_jsonl
from memgrow.errors import DataError


def test_what_is_written_is_read_back_the_same(tmp_path):
    stream = synthetic_stream(domains=3, train=20, validation=5, test=7)
    paths = write_jsonl(stream, tmp_path / "new" / "folder")
    loaded = load_stream(paths)
    assert list(loaded.stream) == list(stream)
    assert loaded.notices == ()


def test_single_texts_in_any_script_are_read_back_the_same(tmp_path):
    domain = Domain(
        "книги",
        (Example("ja\tnein\u2028“ö”", label="x"), Example("b", label="y")),
        (Example("v", label="x"),),
        (Example("t", label="y"),),
    )
    assert list(load_stream(write_jsonl(Stream([domain]), tmp_path)).stream) == [domain]


def test_only_finished_files_stay_in_the_folder(tmp_path):
    write_jsonl(synthetic_stream(domains=2, train=3, validation=0, test=0), str(tmp_path))
    write_jsonl(synthetic_stream(domains=2, train=6, validation=0, test=0), str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["harbour.jsonl", "kitchen.jsonl"]
    assert len((tmp_path / "kitchen.jsonl").read_text().splitlines()) == 6


def test_a_domain_whose_name_leads_out_of_the_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match="cannot name a file"):
        write_jsonl(Stream([Domain("../books")]), tmp_path / "here")
    assert not (tmp_path / "books.jsonl").exists()
