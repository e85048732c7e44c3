import pytest

from memgrow.data import Columns, load_for_evaluation
from memgrow.errors import DataError


@pytest.mark.parametrize("name", ["books.jsonl", "books_train.jsonl", "books_dev.jsonl", "books_test.jsonl"])
def test_all_rows_are_test_rows_whatever_the_file_is_called(reviews, name):
    loaded = load_for_evaluation(reviews(name, 12))
    assert loaded.stream.names == ("books",)
    domain = loaded.stream[0]
    assert (len(domain.train), len(domain.validation), len(domain.test)) == (0, 0, 12)
    assert loaded.notices == ()


def test_of_a_file_with_a_split_column_the_test_rows_are_taken(write_rows):
    rows = [{"text": str(i), "label": "x", "split": part} for i, part in enumerate(["train", "dev", "test", "test"])]
    loaded = load_for_evaluation(write_rows("books.jsonl", rows))
    assert [example.text for example in loaded.stream[0].test] == ["2", "3"]
    assert loaded.notices == (
        "2 rows of books.jsonl were left out, as only its test rows are wanted (by its column split)",
    )


def test_a_column_makes_domains_and_the_user_chooses_among_them(write_rows):
    path = write_rows("all.jsonl", [{"text": str(i), "label": "x", "genre": "abc"[i % 3]} for i in range(9)])
    assert load_for_evaluation(path, Columns(by="genre")).stream.names == ("a", "b", "c")
    stream = load_for_evaluation(path, Columns(by="genre"), ["c", "a"]).stream
    assert [(domain.name, len(domain.test)) for domain in stream] == [("c", 3), ("a", 3)]
    with pytest.raises(DataError, match="no domain d in the data; there is a, b, c"):
        load_for_evaluation(path, Columns(by="genre"), ["d"])


def test_several_files_are_several_domains(reviews):
    assert load_for_evaluation([reviews("books.jsonl"), reviews("toys_test.jsonl")]).stream.names == ("books", "toys")
