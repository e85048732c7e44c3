"""Files that hold the same part of a domain twice are refused: a row might be learnt from that another is tested by."""

import pytest

from memgrow.data import Columns, load_for_evaluation, load_stream
from memgrow.errors import DataError


def test_a_file_without_a_part_in_its_name_beside_that_of_the_training_rows_is_refused(reviews):
    paths = [reviews("books.jsonl", 30), reviews("books_train.jsonl"), reviews("books_test.jsonl")]
    with pytest.raises(DataError, match=r"books.jsonl and books_train.jsonl both have train rows of the domain books"):
        load_stream(paths)


def test_a_file_whose_rows_say_that_they_are_of_another_part_is_taken_beside_it(reviews):
    (domain,) = load_stream([reviews("books.jsonl", split="test"), reviews("books_train.jsonl")]).stream
    assert len(domain.test) == 100


def test_where_a_column_names_the_domains_several_files_may_have_rows_of_one(reviews):
    paths = [reviews("monday.jsonl", topic="law"), reviews("tuesday.jsonl", topic="law")]
    (domain,) = load_stream(paths, columns=Columns(by="topic")).stream
    assert len(domain.train) + len(domain.validation) + len(domain.test) == 200
    assert len(load_for_evaluation(paths, Columns(by="topic")).stream["law"].test) == 200


def test_two_files_of_one_domain_are_not_evaluated_as_one(reviews):
    paths = [reviews("books_train.jsonl"), reviews("books_test.jsonl")]
    with pytest.raises(DataError, match=r"books_train.jsonl and .*books_test.jsonl would both be the domain books"):
        load_for_evaluation(paths)
    assert len(load_for_evaluation(paths[:1]).stream["books"].test) == 100
