"""Files become domains in three parts, with a sentence for everything that was decided."""

import re
from itertools import combinations

import pytest

from memgrow.data import Columns, load_for_evaluation, load_stream
from memgrow.errors import DataError, SettingsError


def sizes(domain):
    return len(domain.train), len(domain.validation), len(domain.test)


def texts(part):
    return {example.text for example in part}


def refusal(*paths, **options):
    with pytest.raises(DataError) as caught:
        load_stream(paths, **options)
    return str(caught.value)


@pytest.fixture
def genres(write_rows):
    """Write rows of three genres, 40 of each by default, three to a prompt."""

    def write_file(name, count=40, names=("travel", "letters", "slate"), **further):
        rows = [
            {
                "text": f"{name} {genre} {i}",
                "label": "xyz"[i % 3],
                "genre": genre,
                "prompt": f"{genre}{i // 3}",
                **further,
            }
            for i in range(count)
            for genre in names
        ]
        return write_rows(name, rows)

    return write_file


@pytest.mark.parametrize("name", ["books.jsonl", "books_train.jsonl"])
def test_missing_parts_are_drawn_from_a_lone_file(reviews, name):
    loaded = load_stream(reviews(name, 100))
    assert loaded.stream.names == ("books",)
    assert sizes(loaded.stream[0]) == (80, 10, 10)
    assert loaded.notices == (f"validation (10%) and test (10%) were drawn by text from {name}",)


def test_files_of_one_name_are_the_parts_of_one_domain(reviews):
    loaded = load_stream([reviews("books_train.jsonl.gz", 100), reviews("books_test.jsonl.gz", 30)])
    assert loaded.stream.names == ("books",)
    assert sizes(loaded.stream["books"]) == (90, 10, 30)
    assert texts(loaded.stream["books"].test) == {f"books_test review {i}" for i in range(30)}
    assert loaded.notices == ("validation (10%) was drawn by text from books_train.jsonl.gz",)


def test_a_group_never_stands_in_two_parts(genres):
    columns = Columns(by="genre", group="prompt")
    loaded = load_stream(genres("all.jsonl", 90), columns=columns)
    for domain in loaded.stream:
        prompts = [
            {int(e.text.split()[-1]) // 3 for e in part} for part in (domain.train, domain.validation, domain.test)
        ]
        assert all(one.isdisjoint(other) for one, other in combinations(prompts, 2))
        assert all(prompts)
    assert loaded.notices == ("validation (10%) and test (10%) were drawn by group prompt from all.jsonl",)


def test_further_files_fill_the_part_they_are_given_for(reviews):
    loaded = load_stream(
        [reviews("books.jsonl"), reviews("toys.jsonl")],
        validation=[reviews("books_dev.jsonl", 7)],
        test=[reviews("toys_test.jsonl", 8), reviews("books_test.jsonl", 9)],
    )
    assert sizes(loaded.stream["books"]) == (100, 7, 9)
    assert sizes(loaded.stream["toys"]) == (90, 10, 8)


def test_a_split_column_goes_before_drawing_and_before_the_file_name(write_rows):
    rows = [
        {"text": f"{part} {i}", "label": "xy"[i % 2], "split": part}
        for part, count in (("train", 20), ("dev", 4), ("test", 6))
        for i in range(count)
    ]
    loaded = load_stream(write_rows("books_test.jsonl", rows))
    domain = loaded.stream["books"]
    assert sizes(domain) == (20, 4, 6)
    assert all(text.startswith("dev") for text in texts(domain.validation))
    assert loaded.notices == ()


def test_a_limit_holds_for_every_part_and_keeps_examples_of_the_same_part(reviews):
    path = reviews("books.jsonl", 400)
    full, cut = load_stream(path).stream[0], load_stream(path, limit=15).stream[0]
    assert sizes(cut) == (15, 15, 15)
    assert set(cut.train) < set(full.train)
    assert set(cut.validation) < set(full.validation)
    assert set(cut.test) < set(full.test)


def test_rows_left_out_are_counted_in_a_sentence(write_rows):
    rows = [{"text": str(i), "label": "xy-"[i % 3]} for i in range(30)]
    assert (
        "10 rows without a gold label were left out of books.jsonl"
        in load_stream(write_rows("books.jsonl", rows)).notices
    )
    rows = [{"text": str(i), "label": "xy"[i % 2]} for i in range(30)] + [{"text": "", "label": "x"}]
    loaded = load_stream(write_rows("books.jsonl", rows), skip_empty=True)
    assert "1 row with an empty text was left out of books.jsonl" in loaded.notices


def test_files_of_one_name_are_refused(reviews):
    paths = [reviews(f"{folder}/books.jsonl") for folder in ("north", "south")]
    for load in (load_stream, load_for_evaluation):
        with pytest.raises(DataError, match="both have"):
            load(paths)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_nothing_is_refused(reviews, limit):
    with pytest.raises(SettingsError, match=f"a limit of {limit}"):
        load_stream(reviews("books.jsonl"), limit=limit)


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
    assert len(loaded.notices) == 1
    assert "2 rows of books.jsonl were left out" in loaded.notices[0]


def test_a_column_makes_domains_and_the_user_chooses_among_them(write_rows):
    path = write_rows("all.jsonl", [{"text": str(i), "label": "x", "genre": "abc"[i % 3]} for i in range(9)])
    assert load_for_evaluation(path, Columns(by="genre")).stream.names == ("a", "b", "c")
    stream = load_for_evaluation(path, Columns(by="genre"), ["c", "a"]).stream
    assert [(domain.name, len(domain.test)) for domain in stream] == [("c", 3), ("a", 3)]
    with pytest.raises(DataError, match="no domain d; it has a, b, c"):
        load_for_evaluation(path, Columns(by="genre"), ["d"])


@pytest.mark.parametrize(
    ("options", "keyword"),
    [
        ({"columns": Columns(by="genre"), "domains": ["slate", "fiction"]}, "no domain fiction; it has travel"),
        ({"columns": Columns(by="genre"), "test": "more"}, "more.jsonl is of the domain fiction"),
        ({"test": "split"}, "split.jsonl has no test rows"),
        ({"test": "pairs"}, "single texts.*pairs"),
        ({"test": "all"}, "is given twice"),
        ({"test": "lost"}, "lost.jsonl does not exist"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(genres, write_rows, options, keyword, tmp_path):
    genres("more.jsonl", 6, ["fiction"])
    write_rows("split.jsonl", [{"text": "a", "label": "x", "split": "train"}])
    write_rows("pairs.jsonl", [{"premise": "a", "hypothesis": "b", "label": "x"}])
    named = {role: tmp_path / f"{name}.jsonl" for role, name in options.items() if isinstance(name, str)}
    assert re.search(keyword, refusal(genres("all.jsonl"), **options | named))
    assert "no file" in refusal()


def test_messages_and_replies_are_loaded_as_labels_are(write_rows):
    rows = [{"message": f"asks {i // 2}", "response": f"reply {i}"} for i in range(200)]
    domain = load_stream(write_rows("talk.jsonl", rows)).stream[0]
    assert sizes(domain) == (160, 20, 20)
    assert domain.labels == ()
    assert domain.has_replies
    parts = [texts(part) for part in (domain.train, domain.validation, domain.test)]
    assert all(one.isdisjoint(other) for one, other in combinations(parts, 2))
    assert {one.reply for part in (domain.train, domain.validation, domain.test) for one in part} == {
        row["response"] for row in rows
    }


@pytest.mark.parametrize("seed", range(6))
def test_the_only_row_of_a_label_stays_in_training(write_rows, seed):
    rows = [{"text": f"text {i}", "label": "xy"[i % 2] if i < 200 else f"rare {i}"} for i in range(210)]
    domain = load_stream(write_rows("books.jsonl", rows), seed=seed).stream[0]
    assert len(domain.labels) == 12
    assert min(sizes(domain)[1:]) > 10
