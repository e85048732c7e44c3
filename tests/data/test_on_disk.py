"""Data on the disk is the same data: every part, every check and every batch, bit for bit."""

import pickle
import random
import string
from dataclasses import replace
from itertools import chain
from math import isqrt

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memgrow import Domain, Example, Learner, ModelSettings, TrainingSettings
from memgrow.data import Columns, draw, load_for_evaluation, load_stream
from memgrow.data.batches import by_length, by_tokens, collate, encode, shuffled, tokenize_examples, tokenize_large
from memgrow.data.domain import domain_fingerprint
from memgrow.data.example import LargeExamples, representatives
from memgrow.data.on_disk import ExampleFile, ExamplesOnDisk, joined
from memgrow.data.scratch import HELD, ScratchFile
from memgrow.data.splits import PARTS, fair_slice, rank
from memgrow.errors import DataError
from memgrow.text import Vocabulary, store_words

CPU = torch.device("cpu")
words = st.text(st.sampled_from("ab é\U0001f600'.\x1f\n\t"), max_size=12)
texts = words.filter(lambda text: text.strip() != "")
optional = st.none() | texts
places = st.sampled_from(["", "a.jsonl, line 7", "a.jsonl, line 07", "b, row 12", "here", "x -3", "n ²"])


def on_disk(examples):
    file = ExampleFile()
    for example in examples:
        file.append(example)
    return ExamplesOnDisk(file, np.arange(len(file)))


def fields(examples):
    """All of them, also where they stood, which does not count when examples are compared."""
    return [(one.text, one.pair, one.label, one.where, one.reply) for one in examples]


@settings(max_examples=50)
@given(st.lists(st.builds(Example, words, optional, optional, places, optional), min_size=1), st.data())
def test_examples_on_the_disk_are_the_examples(examples, data):
    stored = on_disk(examples)
    assert fields(stored) == fields(examples)
    assert stored[-1] == examples[-1]
    assert list(stored[1:]) == examples[1:]
    assert {(len(e.texts), e.label, e.reply is None) for e in stored.representatives()} == {
        (len(e.texts), e.label, e.reply is None) for e in examples
    }
    assert pickle.loads(pickle.dumps(stored)) == tuple(examples)
    limit = data.draw(st.integers(1, len(examples)))
    assert fields(fair_slice(stored, limit)) == fields(fair_slice(examples, limit))
    both = joined([stored, examples])
    assert fields(both) == 2 * fields(examples)
    assert fields(both[::-1]) == 2 * fields(examples[::-1])
    one, other = Domain("d", tuple(examples), (), tuple(examples)), Domain("d", stored, (), stored)
    assert (one.labels, one.has_replies, one.fingerprint()) == (other.labels, other.has_replies, other.fingerprint())
    assert domain_fingerprint(one) == domain_fingerprint(other)
    with pytest.raises(IndexError):
        stored[len(examples)]


def drawn_naively(groups, shares, seed):
    """The twin of `draw`, group by group."""
    sizes = {group: groups.count(group) for group in groups}
    parts = [part for part in shares if shares[part]]
    chosen = {part: [] for part in parts}
    at, current, border = 0, 0, shares[parts[0]] * len(groups)
    for group in sorted(sizes, key=lambda group: rank(seed, group)):
        while at + sizes[group] / 2 > border and current + 1 < len(parts):
            current += 1
            border += shares[parts[current]] * len(groups)
        chosen[parts[current]].append(group)
        at += sizes[group]
    for members in chosen.values():
        giver = max(chosen.values(), key=len)
        if not members and len(giver) > 1:
            smallest = min(giver, key=lambda group: sizes[group])
            giver.remove(smallest)
            members.append(smallest)
    return {part: tuple(i for i, g in enumerate(groups) if g in chosen.get(part, ())) for part in shares}


@given(
    st.lists(st.integers(0, 30).map(str), max_size=60),
    st.sampled_from([(0.8, 0.1, 0.1), (0.9, 0.1), (0.5, 0.0, 0.5), (0.0, 0.5, 0.5), (1.0,)]),
    st.integers(0, 9),
)
def test_parts_are_drawn_as_group_by_group(groups, fractions, seed):
    shares = dict(zip(PARTS, fractions, strict=False))
    assert draw(range(len(groups)), groups, shares, seed) == drawn_naively(groups, shares, seed)


def drawn_examples(kind, count, seed):
    rng = random.Random(seed)

    def text():
        return " ".join(rng.choice(string.ascii_letters) for _ in range(rng.choice((1, 1, 2, 3, 5, 30))))

    return [
        Example(
            text(),
            text() if kind == "pair" else None,
            None if kind == "reply" else rng.choice("xy"),
            "",
            text() if kind == "reply" else None,
        )
        for _ in range(count)
    ]


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["text", "pair", "reply"]), st.booleans(), st.integers(1, 60), st.integers(1, 9), st.integers(0, 99)
)
def test_batches_from_the_disk_are_those_from_memory(kind, numbered, count, size, seed):
    examples = drawn_examples(kind, count, seed)

    def tokenize(some):
        words = tokenize_examples(some, 20)
        numbers = [tuple([ord(word or "?") for word in text] for text in texts) for texts in words.texts]
        return replace(words, texts=numbers, numbered=True) if numbered else words

    read = tokenize(examples), tokenize_large(on_disk(examples), tokenize)
    assert list(read[0].documents) == list(read[1].documents)
    assert (read[0].labels, read[0].cut, read[0].answered) == (read[1].labels, read[1].cut, read[1].answered)
    for least in (1, 2, 3):
        known = [store_words(Vocabulary("a"), tokens.documents, seed % 4 + 1, least) for tokens in read]
        assert known[0] == known[1]
    vocabulary = store_words(Vocabulary(), read[0].documents).vocabulary
    memory, disk = (encode(tokens, vocabulary, ("x", "y")) for tokens in read)
    for one, other in ((memory, disk), (memory.as_known_to(9), disk.as_known_to(9))):
        assert one.longest == other.longest
        assert shuffled(one, size, seed, 3) == shuffled(other, size, seed, 3)
        assert list(by_length(one, size)) == list(by_length(other, size))
        assert list(by_tokens(one, 50)) == list(by_tokens(other, 50))
        for indices in chain(shuffled(one, size, seed, 3), by_tokens(one, 50)):
            for a, b in zip(*(vars(collate(data, indices, CPU)).values() for data in (one, other)), strict=True):
                assert a.dtype == b.dtype
                assert torch.equal(a, b)


def shuffled_naively(data, size, seed, turn):
    """The twin of `shuffled`, which sorts a list by its key."""
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed)).tolist()
    order.sort(key=data.bucket_key)
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    places = torch.randperm(len(batches), generator=torch.Generator().manual_seed(turn)).tolist()
    return [batches[place] for place in places]


@pytest.mark.parametrize("kind", ["pair", "reply"])
def test_batches_are_drawn_as_by_sorting_a_list(kind):
    data = encode(tokenize_examples(drawn_examples(kind, 500, 1), 40), Vocabulary())
    assert list(shuffled(data, 7, 3, 2)) == shuffled_naively(data, 7, 3, 2)
    assert list(shuffled(data, 7, 3, 2)[2:]) == shuffled_naively(data, 7, 3, 2)[2:]
    order = sorted(range(500), key=data.bucket_key, reverse=True)
    assert list(chain.from_iterable(by_tokens(data, 90))) == order
    squares = [n * n // 4 + d for n in range(2, 2000) for d in (-1, 0, 1)]
    assert np.sqrt(4 * np.array(squares)).astype(int).tolist() == [isqrt(4 * n) for n in squares]


def loaded_both_ways(paths, **options):
    return load_stream(paths, **options), load_stream(paths, in_memory=100, **options)


@pytest.mark.parametrize(
    "options", [{}, {"limit": 7}, {"seed": 3}, {"columns": Columns(by="genre")}, {"columns": Columns(group="genre")}]
)
def test_files_read_to_the_disk_are_the_same_domains(write_rows, reviews, options):
    rows = [{"text": f"text {i % 60}", "label": "xyz"[i % 3], "genre": f"g{i % 4}"} for i in range(90)]
    held = [{"text": f"held {i}", "label": "xyz"[i % 3], "genre": f"g{i % 4}"} for i in range(20)]
    paths, options = write_rows("all.jsonl", rows), {**options, "held_out": write_rows("held.jsonl", held)}
    memory, disk = loaded_both_ways(paths, **options)
    assert memory.notices == disk.notices
    assert memory.stream.names == disk.stream.names
    for one, other in zip(memory.stream, disk.stream, strict=True):
        assert isinstance(other.train, LargeExamples)
        assert one.fingerprint() == other.fingerprint()
        for part in PARTS:
            assert fields(getattr(one, part)) == fields(getattr(other, part))
    test = load_for_evaluation(paths, in_memory=100).stream[0].test
    assert fields(test) == fields(load_for_evaluation(paths).stream[0].test)
    assert isinstance(test, LargeExamples)


def test_an_error_names_the_same_place_from_the_disk(write_rows):
    rows = [{"text": f"text {i}", "label": "xy"[i % 2]} for i in range(30)]
    paths = [write_rows("a_train.jsonl", rows), write_rows("a_dev.jsonl", [*rows[:3], {"text": "q", "label": "z"}])]
    messages = set()
    for loaded in loaded_both_ways(paths):
        with pytest.raises(DataError) as caught:
            Learner.create(device="cpu").adapt(loaded.stream[0])
        messages.add(str(caught.value))
    assert len(messages) == 1
    assert "a_dev.jsonl, line 4" in messages.pop()


@pytest.mark.parametrize("method", ["EWC+M+V+D", "multi-task"])
def test_what_is_learnt_from_the_disk_is_the_same_to_the_bit(write_rows, method):
    rows = [{"text": f"{'xyz'[i % 3]} word{i} w{i % 7}" * (1 + i % 3), "label": "pq"[i % 2]} for i in range(40)]
    path = write_rows("all.jsonl", [row | {"genre": "gh"[i < 20]} for i, row in enumerate(rows)])
    sizes = ModelSettings(embedding=4, hidden=3, slots=2, perceptron=4)
    weights, scores = [], []
    for loaded in loaded_both_ways(path, columns=Columns(by="genre")):
        training = TrainingSettings(epochs=1, batch=8)
        learner = Learner.create(method, model=sizes, training=training, device="cpu")
        scores.append(learner.learn(loaded.stream).matrix)
        weights.append(learner.model.state_dict())
    assert scores[0] == scores[1]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())


def test_a_scratch_file_is_private_and_gives_pages_back(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    file = ScratchFile()
    file.write(bytes(range(256)) * 4096)
    assert list(tmp_path.iterdir()) == []  # it has no name
    file.will_read([(5000, 9000), (0, 10)])
    for _ in range(2 + HELD // (1 << 20)):
        assert file.read(300, 300 + (1 << 19)) == (bytes(range(256)) * 4096)[300 : 300 + (1 << 19)]
    file.write(b"more")
    assert file.read(file.size - 4, file.size) == b"more"


def test_no_room_for_a_scratch_file_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match=r"nowhere cannot hold it \(No such file or directory\): make room"):
        ScratchFile()


def test_a_full_disk_is_a_sentence():
    file = ScratchFile()
    file._file.close()
    file._file = open("/dev/full", "wb", buffering=0)  # noqa: SIM115, PTH123
    with pytest.raises(DataError, match="No space left on device"):
        file.write(b"x" * 100)


def test_examples_in_memory_stand_for_themselves():
    examples = (Example("a"), Example("b"))
    assert representatives(examples) is examples
