"""Known encoders come out of wheels that pip fetches: checked, without running any code, whole or not at all."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from memgrow.data import synthetic_stream
from memgrow.errors import MemgrowError
from memgrow.learner import Learner
from memgrow.models.fetch import get
from memgrow.models.hub import KNOWN, Wheel, encoder_called, find_encoder
from tests.models.test_transformer import PAIRS, TEXTS, close, encoded, make, naive, vectors
from tests.support.archives import get_or_skip, known_encoder, use_as_index, wheel
from tests.support.tiny_encoder import make_encoder

FILES = ("config.json", "tokenizer.json", "model.safetensors")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_encoder(tmp_path_factory.mktemp("made") / "tiny")


@pytest.fixture(scope="module")
def contents(made):
    return {name: (made / name).read_bytes() for name in FILES}


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMGROW_ENCODERS", str(tmp_path / "shelf"))
    return tmp_path / "shelf"


@pytest.fixture
def tiny(contents, shelf, monkeypatch):
    """A row of the table for the tiny encoder, which two packages carry."""
    row = known_encoder(contents, Wheel("tiny-one", "1.0", 1000), Wheel("tiny-two", "2.0", 1000))
    monkeypatch.setitem(KNOWN, "tiny", row)
    return row


@pytest.fixture
def index(tmp_path, monkeypatch):
    return use_as_index(tmp_path / "index", monkeypatch)


def put(index: Path, package: str, version: str, files: dict[str, bytes]) -> Path:
    name, content = wheel(package, version, files)
    path = index / name
    path.write_bytes(content)
    return path


def in_folder(folder: str, files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{folder}/{name}": content for name, content in files.items()}


def refusal(shelf, *arguments):
    """The sentence, after which the shelf is as it was."""
    before = {path: path.read_bytes() for path in shelf.rglob("*") if path.is_file()}
    with pytest.raises(MemgrowError) as caught:
        get("tiny", *arguments)
    assert {path: path.read_bytes() for path in shelf.rglob("*") if path.is_file()} == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_files_come_out_of_a_wheel_with_licence_and_notice_and_its_code_does_not_run(
    tiny, index, contents, tmp_path
):
    trace = tmp_path / "ran"
    code = f"open({str(trace)!r}, 'w')".encode()
    legal = {"LICENSE": b"the licence", "NOTICE": b"the notice", "README.md": b"not wanted"}
    put(index, "tiny-one", "1.0", {"one/__init__.py": code, **in_folder("one/data/it", contents | legal)})
    assert get("tiny") == "the package tiny-one 1.0"
    folder = encoder_called("tiny").folder
    assert {path.name for path in folder.iterdir()} == {*FILES, "LICENSE", "NOTICE", "encoder.json"}
    files = find_encoder("tiny")
    assert files.name == "tiny"
    assert files.licences == {"LICENSE": "the licence", "NOTICE": "the notice"}
    assert files.sha256 == tiny.files["model.safetensors"][1]
    assert not trace.exists()
    assert [path.name for path in folder.parent.iterdir() if path.is_dir() and any(path.iterdir())] == ["tiny"]


def test_the_next_package_is_tried_where_one_is_wrong(tiny, index, contents):
    put(index, "tiny-two", "2.0", in_folder("two", contents))
    put(index, "tiny-one", "1.0", in_folder("one", {**contents, "config.json": b"{}" + contents["config.json"][2:]}))
    assert get("tiny") == "the package tiny-two 2.0"


@pytest.mark.parametrize("name", FILES)
def test_weights_tokenizer_and_configuration_must_be_those_that_are_known(tiny, shelf, contents, tmp_path, name):
    other = bytes([contents[name][0] ^ 1]) + contents[name][1:]
    path = put(tmp_path, "tiny-one", "1.0", in_folder("one", {**contents, name: other}))
    assert f"{name} of {path} " in refusal(shelf, path)


def test_an_older_copy_stays_until_the_new_one_is_in_place(tiny, shelf, contents, tmp_path):
    good = put(tmp_path, "tiny-one", "1.0", in_folder("one", contents))
    get("tiny", good)
    bad = put(tmp_path, "tiny-two", "2.0", in_folder("two", {**contents, "model.safetensors": b"other"}))
    refusal(shelf, bad)
    assert find_encoder("tiny").name == "tiny"


def test_an_archive_that_would_unpack_to_more_than_can_be_right_is_not_unpacked(tiny, shelf, contents, tmp_path):
    long = {**contents, "model.safetensors": bytes(10_000_000)}
    archive = put(tmp_path, "tiny-one", "1.0", in_folder("one", long))
    assert archive.stat().st_size < 100_000
    assert "would unpack to more than" in refusal(shelf, archive)
    archive = put(tmp_path, "tiny-one", "1.0", in_folder("one", contents | {"LICENSE": bytes(2_000_000)}))
    assert "LICENSE would unpack" in refusal(shelf, archive)


def test_damaged_and_wrong_archives_are_told(tiny, shelf, contents, tmp_path):
    whole = put(tmp_path, "tiny-one", "1.0", in_folder("one", contents)).read_bytes()
    broken = tmp_path / "broken.whl"
    for content in (whole[:-200], b"no archive", whole[:100] + bytes(1000) + whole[1100:]):
        broken.write_bytes(content)
        assert "cannot be unpacked" in refusal(shelf, broken)
    lacking = put(tmp_path, "tiny-one", "1.0", in_folder("one", {"config.json": b"{}"}))
    assert "does not hold" in refusal(shelf, lacking)
    assert "is no file and no folder" in refusal(shelf, tmp_path / "nowhere")


def test_a_folder_can_be_the_source(tiny, shelf, made, tmp_path):
    copy = shutil.copytree(made, tmp_path / "copy")
    (copy / "LICENSE").write_text("mine")
    assert get("tiny", copy) == str(copy)
    assert find_encoder("tiny").licences["LICENSE"] == "mine"
    (copy / "tokenizer.json").unlink()
    assert "does not hold tokenizer.json" in refusal(shelf, copy)


def test_weights_that_changed_after_they_were_fetched_are_told(tiny, made, shelf):
    get("tiny", made)
    weights = encoder_called("tiny").folder / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(MemgrowError, match="memgrow encoder get tiny --again"):
        find_encoder("tiny")
    weights.write_bytes(content)
    (encoder_called("tiny").folder / "encoder.json").write_text("{}")
    with pytest.raises(MemgrowError, match="--again"):
        find_encoder("tiny")


@pytest.mark.extras
@pytest.mark.slow
def test_the_real_minilm_is_fetched_is_what_it_should_be_and_reads_as_in_transformers(shelf, tmp_path):
    """All of it, where the package index that pip is set to answers."""
    from transformers import AutoModel

    get_or_skip("minilm")
    files = find_encoder("minilm")
    assert {"LICENSE", "NOTICE"} & set(files.licences)
    config = json.loads(files.config)
    assert (config["model_type"], config["num_hidden_layers"], config["hidden_size"]) == ("bert", 6, 384)
    model = AutoModel.from_pretrained(encoder_called("minilm").folder, local_files_only=True)
    assert sum(p.numel() for p in model.parameters()) == 22_713_216
    for texts in (TEXTS, PAIRS):
        ours = vectors(make(files, precision="float32"), encoded(files, texts))
        close(ours, naive(files, texts, longest=config["max_position_embeddings"]), 1e-5)
    domain = synthetic_stream(domains=1, train=24, validation=8, test=8)[0]
    learner = Learner.create("ridge", encoder="minilm", device="cpu")
    learner.adapt(domain, folder=tmp_path / "model")
    assert Learner.load(tmp_path / "model", "cpu").predict(domain.test) == learner.predict(domain.test)


def test_an_encoder_is_fetched_on_first_use_and_not_where_the_hub_is_offline(tiny, index, contents, monkeypatch):
    """The first package is missing: the next one is tried."""
    put(index, "tiny-two", "2.0", in_folder("two", contents))
    with pytest.raises(MemgrowError, match=r"could not be fetched.*`memgrow encoder get tiny`.*lstm") as caught:
        find_encoder("tiny")
    assert "\n" not in str(caught.value)
    monkeypatch.delenv("HF_HUB_OFFLINE")
    assert find_encoder("tiny").sha256 == tiny.files["model.safetensors"][1]


def test_the_hub_is_asked_first_and_what_it_sends_is_checked(tiny, index, contents, made, monkeypatch):
    import huggingface_hub

    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setitem(KNOWN, "tiny", replace(tiny, hub_name="owner/tiny"))
    monkeypatch.setattr(
        huggingface_hub,
        "snapshot_download",
        lambda name, *, allow_patterns, local_dir: shutil.copytree(made, local_dir),
    )
    assert get("tiny") == "the Hugging Face hub (owner/tiny)"
    put(index, "tiny-one", "1.0", in_folder("one", contents))

    def other(name, *, allow_patterns, local_dir):
        shutil.copytree(made, local_dir)
        (local_dir / "config.json").write_text("{}")
        return local_dir

    monkeypatch.setattr(huggingface_hub, "snapshot_download", other)
    assert get("tiny") == "the package tiny-one 1.0"


def test_a_full_disk_while_fetching_leaves_nothing(tiny, shelf, made, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("memgrow.models.fetch.write_new", full)
    assert "No space left" in refusal(shelf, made)
