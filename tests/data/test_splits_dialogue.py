"""Parts of a set size: no message in two of them, or blocks of whole films."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from memgrow.data import Example
from memgrow.data.splits import blocks, draw_parts, each_once, exchange, without

PAIRS = st.lists(st.builds(lambda m, r: Example(f"m{m}", reply=f"r{r}"), st.integers(0, 9), st.integers(0, 3)))


def pairs(count, replies=1, name="m"):
    return [Example(f"{name} {i // replies}", reply=f"r {i}") for i in range(count)]


@given(PAIRS, st.tuples(*[st.integers(0, 6)] * 3), st.integers(0, 3))
def test_parts_have_the_sizes_asked_for_and_no_message_in_common_or_there_are_none(pool, sizes, seed):
    parts = draw_parts([pool] * 3, sizes, seed)
    if parts is None:
        assert sum(sizes) > 0
        assert draw_parts([pool] * 3, (0, 0, len(pool)), seed) is not None  # all of it can always be had as one
    else:
        assert tuple(map(len, parts)) == sizes
        messages = [{one.text for one in part} for part in parts]
        assert sum(map(len, messages)) == len(set().union(*messages))
        assert all(pool.count(one) >= part.count(one) for part in parts for one in part)


def test_at_most_one_message_of_a_part_loses_replies_and_no_other_part_has_them():
    parts = draw_parts([pairs(60, replies=3)] * 3, (20, 8, 7), 0)
    assert [len(part) for part in parts] == [20, 8, 7]
    for part in parts:
        replies = Counter(one.text for one in part)
        assert sum(count < 3 for count in replies.values()) <= 1


def test_the_test_part_does_not_depend_on_the_other_sizes_nor_what_is_drawn_on_the_order():
    pool = pairs(90, replies=3)
    few, many = draw_parts([pool] * 3, (5, 5, 10), 1), draw_parts([pool] * 3, (30, 20, 10), 1)
    assert few[2] == many[2]
    turned = draw_parts([pool[::-1]] * 3, (30, 20, 10), 1)
    assert [set(part) for part in turned] == [set(part) for part in many]
    assert draw_parts([pool] * 3, (30, 20, 10), 2) != many


def test_what_is_drawn_keeps_the_order_of_its_pool():
    pool = pairs(40)
    for part in draw_parts([pool] * 3, (10, 10, 10), 0):
        assert list(part) == sorted(part, key=pool.index)


def test_too_few_pairs_are_told_from_enough():
    assert draw_parts([pairs(10)] * 3, (4, 3, 3), 0) is not None
    assert draw_parts([pairs(10)] * 3, (5, 3, 3), 0) is None
    assert draw_parts([pairs(10, replies=5)] * 3, (1, 1, 1), 0) is None


def test_case_and_white_space_make_no_other_pair():
    one, same, other = (
        Example("Why  so?", reply="No."),
        Example("why so?", reply=" NO. "),
        Example("why so?", reply="n"),
    )
    assert exchange(one) == exchange(same) != exchange(other)
    assert each_once([one, same, other]) == [one, other]
    assert without([one, other, other], [same]) == (other, other)


def test_messages_alike_but_for_case_are_on_one_side():
    pool = [Example("Hi", reply="1"), Example(" hi", reply="2"), Example("yo", reply="3")]
    for seed in range(10):
        train, _, test = draw_parts([pool] * 3, (1, 0, 1), seed)
        assert (train[0].text == "yo") != (test[0].text == "yo")


def test_blocks_are_the_end_of_the_pairs_as_they_stand():
    pool = pairs(100)
    train, validation, test = blocks(pool, None, 20, 10)
    assert [*train, *validation, *test] == pool
    assert [len(train), len(validation), len(test)] == [70, 20, 10]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(1, 60), st.integers(1, 60))
def test_no_film_is_in_two_blocks_and_borders_are_the_nearest(lengths, validation, test):
    films = [str(film) for film, length in enumerate(lengths) for _ in range(length)]
    pool = pairs(len(films))
    parts = blocks(pool, films, min(validation, len(pool)), min(test, len(pool)))
    assert [one for part in parts for one in part] == pool
    seen = [{films[pool.index(one)] for one in part} for part in parts]
    assert sum(map(len, seen)) == len(set(films))
    assert abs(len(parts[2]) - min(test, len(pool))) <= max(lengths) / 2


def test_a_film_that_comes_again_later_begins_anew():
    films = ["a"] * 5 + ["b"] * 5 + ["a"] * 5
    assert [len(part) for part in blocks(pairs(15), films, 5, 5)] == [5, 5, 5]
