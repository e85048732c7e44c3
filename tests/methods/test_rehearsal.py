"""Rehearsal keeps a few rows of each domain, learns them again with later ones, and hides it from nobody."""

import hashlib
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from memgrow.training.plain_stepper import PlainStepper

from memgrow.data import Domain, Example, Stream, synthetic_stream
from memgrow.data.synthetic_dialogue import synthetic_dialogue
from memgrow.errors import ModelError, SettingsError
from memgrow.export.huggingface_folder import export_huggingface
from memgrow.learner import Learner
from memgrow.methods import METHODS, MethodSettings, find_method
from memgrow.methods.rehearsal import Rehearsal, draw_balanced
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings
from memgrow.versions import undo
from tests.support.breaking import Plug, PulledPlug
from tests.support.new_labels import with_label

FILE = "rehearsal.json"
MODEL = ModelSettings(embedding=4, hidden=3, slots=2, perceptron=4)
TRAINING = TrainingSettings(rate=0.01, batch=8, epochs=2, patience=2)
ROWS = 6


@pytest.fixture(scope="module")
def stream() -> Stream:
    domains = synthetic_stream(domains=3, train=24, validation=6, test=6, seed=3)
    return Stream([domains[0], with_label(domains[1]), domains[2]])


def create(method: str = "rehearsal", share: float = 0.25, seed: int = 0, **given: object) -> Learner:
    options = MethodSettings(rehearse=ROWS, rehearsal_share=share)
    return Learner.create(method, model=MODEL, training=TRAINING, options=options, seed=seed, device="cpu", **given)


def kept(learner: Learner) -> dict[str, tuple[Example, ...]]:
    (part,) = learner.plugins.parts
    assert isinstance(part, Rehearsal)
    return part.kept


def same_weights(one: Learner, other: Learner) -> bool:
    ours, theirs = one.trained().state_dict(), other.trained().state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


# Which rows are kept


@settings(deadline=None, max_examples=50)
@given(st.lists(st.sampled_from("abc"), max_size=30), st.integers(1, 12), st.integers(0, 2**40))
def test_rows_are_drawn_once_each_and_equally_many_of_each_label(labels, count, seed):
    drawn = draw_balanced(labels, count, seed)
    assert len(set(drawn)) == len(drawn) == min(count, len(labels))
    assert drawn == draw_balanced(labels, count, seed)
    there, taken = Counter(labels), Counter(labels[index] for index in drawn)
    most = max(taken.values(), default=0)
    assert all(taken[label] >= min(there[label], most - 1) for label in there)


def test_each_domain_leaves_so_many_of_its_rows_and_nothing_of_where_they_came_from(stream):
    placed = [replace(example, where="secret.jsonl, line 7") for example in stream[0].train]
    learner = create()
    learner.learn([replace(stream[0], train=placed), stream[1]])
    rows = kept(learner)
    assert list(rows) == [stream[0].name, stream[1].name]
    for domain, own in zip(stream, rows.values(), strict=False):
        assert len(own) == ROWS
        assert set(own) <= set(domain.train)
        assert not any(example.where for example in own)
        assert {example.label for example in own} == set(domain.labels)
    assert [stage.note for stage in learner.history.stages] == [{"rows_kept": ROWS}] * 2
    other = create(seed=1)
    other.adapt(stream[0])
    assert kept(other)[stream[0].name] != rows[stream[0].name], "another seed draws others"


# What a later domain is learnt with


def epochs_of(learner: Learner, domain: Domain, monkeypatch: pytest.MonkeyPatch) -> list[Counter[tuple[object, ...]]]:
    """The examples of each epoch in which the learner learns the domain, as it is shown them, batch after batch."""
    seen: list[Counter[tuple[object, ...]]] = []
    whole = PlainStepper.epoch

    def epoch(self, number, orders, first):
        texts, labels = self.data.texts, self.data.labels
        chosen = [index for batch in orders[0] for index in batch]
        seen.append(Counter((*map(tuple, texts[index]), labels[index]) for index in chosen))
        return whole(self, number, orders, first)

    monkeypatch.setattr(PlainStepper, "epoch", epoch)
    learner.adapt(domain)
    return seen


@pytest.mark.parametrize(
    ("method", "share", "times"), [("rehearsal", 0.0, 1), ("rehearsal+V", 0.25, 1), ("rehearsal", 0.8, 8)]
)
def test_batches_have_the_new_rows_once_and_the_kept_rows_and_no_others(stream, share, times, method, monkeypatch):
    learner = create(method, share)
    learner.learn(stream[:2])
    rows = [example for own in kept(learner).values() for example in own]
    assert len(rows) == 2 * ROWS
    epochs = epochs_of(learner, stream[2], monkeypatch)

    def naive(examples):
        words = [learner.encode([example]) for example in examples]
        return Counter((*map(tuple, one.texts[0]), one.labels[0]) for one in words)

    new, old = naive(stream[2].train), naive(rows)
    assert len(epochs) == 2
    for shown in epochs:
        assert shown == new + Counter({row: times * count for row, count in old.items()})


def test_the_first_domain_is_learnt_as_by_f(stream):
    ours, theirs = create(), create("F")
    ours.adapt(stream[0])
    theirs.adapt(stream[0])
    assert same_weights(ours, theirs)


def test_words_of_kept_rows_do_not_join_the_vocabulary(stream):
    twin, learner = create("F+V"), create("rehearsal+V")
    for one in (twin, learner):
        one.learn(stream)
    assert learner.vocabulary == twin.vocabulary


def test_replies_are_rehearsed_as_well():
    talks = synthetic_dialogue(domains=2, train=16, validation=6, test=6)
    model = ModelSettings(cell="gru", embedding=4, hidden=3, slots=2, bidirectional=False)
    learner = Learner.create("rehearsal", model=model, training=TRAINING, options=MethodSettings(rehearse=4))
    learner.learn(talks)
    assert all(len(own) == 4 and all(example.reply for example in own) for own in kept(learner).values())


# The file


def test_a_killed_run_ends_with_the_same_bits(stream, tmp_path):
    whole = create()
    whole.learn(stream, folder=tmp_path / "whole")
    broken = create()
    broken.learn(stream[:2], folder=tmp_path / "broken")
    with pytest.raises(PulledPlug):
        broken.adapt(stream[2], folder=tmp_path / "broken", save_every=0.0, progress=Plug(1))
    passed_on = Learner.load(tmp_path / "broken", device="cpu")
    passed_on.plugins.take_examples({})
    with pytest.raises(ModelError, match="an unfinished adaptation with another settings"):  # its epochs are shorter
        passed_on.adapt(stream[2], folder=tmp_path / "broken")
    again = Learner.load(tmp_path / "broken", device="cpu")
    heard = Plug()
    again.adapt(stream[2], watch=stream, folder=tmp_path / "broken", progress=heard)
    assert any("resuming in epoch" in note for note in heard.notes)
    assert same_weights(whole, again)
    assert (tmp_path / "whole" / FILE).read_bytes() == (tmp_path / "broken" / FILE).read_bytes()


def test_the_file_is_in_the_manifest_as_open_as_others_and_undo_takes_rows_back(stream, tmp_path):
    place = tmp_path / "m"
    create().learn(stream[:2], folder=place)
    assert FILE in json.loads((place / "manifest.json").read_text())["sha256"]
    assert (place / FILE).stat().st_mode == (place / "history.json").stat().st_mode
    undo(place)
    assert list(kept(Learner.load(place, device="cpu"))) == [stream[0].name]
    assert not list(place.glob("version-*"))


def test_a_model_that_goes_on_by_another_method_gives_its_rows_up(stream, tmp_path):
    create().adapt(stream[0], folder=tmp_path / "m")
    learner = Learner.load(tmp_path / "m", device="cpu")
    learner.use("rehearsal+A")
    assert learner.plugins.rows_kept() == {stream[0].name: ROWS}
    learner.use("F")
    learner.save(tmp_path / "m", keep_versions=0)
    assert not list(tmp_path.rglob(FILE))


def test_a_model_that_is_passed_on_by_export_has_no_rows_and_goes_on_without_them(stream, tmp_path):
    learner = create()
    learner.learn(stream[:2])
    export_huggingface(learner, tmp_path / "hub")
    assert json.loads((tmp_path / "hub" / FILE).read_text()) == {}
    card = (tmp_path / "hub" / "README.md").read_text()
    assert "rows of the data that its method keeps were left out" in card
    loaded, heard = Learner.load(tmp_path / "hub", device="cpu"), Plug()
    loaded.adapt(stream[2], progress=heard)
    assert any(f"no rows were kept of {stream[0].name}, {stream[1].name}" in note for note in heard.notes)


def test_a_domain_that_is_learnt_again_is_not_told_to_be_lost(stream):
    learner, heard = create(), Plug()
    learner.use("F")
    learner.learn(stream[:2])
    learner.use("rehearsal")
    learner.adapt(stream[0], progress=heard)
    told = [note for note in heard.notes if "no rows were kept of" in note]
    assert told == [f"{stream[0].name}: no rows were kept of {stream[1].name}, which cannot be rehearsed"]


@pytest.fixture(scope="module")
def saved(stream, tmp_path_factory) -> Path:
    learner = create()
    learner.adapt(stream[0])
    learner.save(tmp_path_factory.mktemp("saved") / "m")
    return tmp_path_factory.getbasetemp() / learner._folder


def rewritten(saved: Path, place: Path, content: bytes) -> Path:
    """A copy of the model with another file of rows, whose checksum fits."""
    place.mkdir()
    for file in saved.iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    (place / FILE).write_bytes(content)
    manifest = json.loads((place / "manifest.json").read_text())
    manifest["sha256"][FILE] = hashlib.sha256(content).hexdigest()
    (place / "manifest.json").write_text(json.dumps({key: manifest[key] for key in ("format", "sha256")}))
    return place


def strange_rows(name: str, label: str) -> dict[str, object]:
    good = {"text": ["a", "b"], "pair": ["a", "b"], "label": [label, label]}
    return {
        "no object": [1],
        "no domains": {"Rehearsal": [good]},
        "no columns": {"Rehearsal": {name: ["a"]}},
        "no text": {"Rehearsal": {name: {"pair": ["a"], "label": [label]}}},
        "columns of two lengths": {"Rehearsal": {name: good | {"text": ["a"]}}},
        "another column": {"Rehearsal": {name: good | {"where": ["x", "y"]}}},
        "a number for a text": {"Rehearsal": {name: good | {"text": ["a", 7]}}},
        "a text for a column": {"Rehearsal": {name: good | {"text": "ab"}}},
        "half a character": {"Rehearsal": {name: good | {"text": ["a", "\ud800"]}}},
        "a label that there is not": {"Rehearsal": {name: good | {"label": ["nowhere", label]}}},
        "no label": {"Rehearsal": {name: {"text": ["a"], "pair": ["b"]}}},
        "no pair": {"Rehearsal": {name: {"text": ["a"], "label": [label]}}},
        "a reply": {"Rehearsal": {name: good | {"reply": ["a", "b"]}}},
        "a domain that was not learnt": {"Rehearsal": {"nowhere": good}},
    }


def test_a_folder_that_has_lost_its_rows_is_refused(saved, tmp_path):
    place = rewritten(saved, tmp_path / "m", b"")
    manifest = json.loads((place / "manifest.json").read_text())
    del manifest["sha256"][FILE]  # it does not know of them either
    (place / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelError, match=r"^rehearsal\.json is missing"):
        Learner.load(place, device="cpu")


@pytest.mark.parametrize("wrong", strange_rows("", ""))
def test_a_strange_file_of_rows_is_refused_with_a_sentence(wrong, stream, saved, tmp_path):
    content = json.dumps(strange_rows(stream[0].name, stream[0].labels[0])[wrong])
    with pytest.raises(ModelError, match=r"^rehearsal\.json (is not of the kind that it must be|cannot be read)"):
        Learner.load(rewritten(saved, tmp_path / "m", content.encode()), device="cpu")


def test_the_rows_that_strange_ones_are_made_of_are_taken(stream, saved, tmp_path):
    (made,) = strange_rows(stream[0].name, stream[0].labels[0])["a domain that was not learnt"]["Rehearsal"].values()
    content = json.dumps({"Rehearsal": {stream[0].name: made}}).encode()
    learner = Learner.load(rewritten(saved, tmp_path / "m", content), device="cpu")
    assert kept(learner)[stream[0].name][0] == Example("a", "a", stream[0].labels[0])


def test_lists_without_end_are_refused_but_texts_may_be_made_of_brackets(stream, saved, tmp_path):
    deep = b'{"Rehearsal": [' + b"[]," * 600_000 + b"[]]}"
    with pytest.raises(ModelError, match=r"^rehearsal\.json has 600,0.. lists and objects"):
        Learner.load(rewritten(saved, tmp_path / "deep", deep), device="cpu")
    endless = b'"' + b'\\"' * 300_000 + b"[" * 600_000
    with pytest.raises(ModelError, match=r"^rehearsal\.json cannot be read"):
        Learner.load(rewritten(saved, tmp_path / "endless", endless), device="cpu")
    brackets, label = ['"[{[{[{\\' * 200_000], stream[0].labels[0]
    rows = {"Rehearsal": {stream[0].name: {"text": brackets, "pair": ["a"], "label": [label]}}}
    learner = Learner.load(rewritten(saved, tmp_path / "m", json.dumps(rows).encode()), device="cpu")
    assert learner.plugins.rows_kept() == {stream[0].name: 1}


# The mark


def test_it_is_the_only_method_of_the_table_that_keeps_rows_and_no_default():
    assert [name for name, method in METHODS.items() if method.keeps_examples] == ["rehearsal"]
    assert find_method("rehearsal+V+A").keeps_examples
    assert not any(find_method(name).keeps_examples for name in ("F+V", "F+A", "F+V+E", "multi-task"))


def test_who_adapts_is_told_before_training_what_is_kept_and_where(stream, tmp_path):
    heard, first = Plug(), stream[0].name
    create().learn(stream[:2], folder=tmp_path / "m", progress=heard)
    told = [note for note in heard.notes if "row" in note]
    assert told[0] == f"{first}: rehearsal keeps {ROWS} rows of it, as text, in the model's folder (rehearsal.json)"
    assert told[2].endswith(f": {ROWS} rows of {first} are learnt with it, as 6 of the 30 rows of an epoch")
    assert len(told) == 3


def test_its_settings_are_in_the_folders_of_those_who_changed_them_alone(stream, tmp_path):
    for options, named in ((MethodSettings(), set()), (MethodSettings(rehearse=7), {"rehearse"})):
        learner = Learner.create("rehearsal", model=MODEL, training=TRAINING, options=options, device="cpu")
        learner.adapt(stream[0])
        learner.save(tmp_path / "m", overwrite=True)
        written = json.loads((tmp_path / "m" / "config.json").read_text())["options"]
        assert written.keys() & {"rehearse", "rehearsal_share"} == named
        assert Learner.load(tmp_path / "m", device="cpu").options == options


@pytest.mark.parametrize("wrong", [{"rehearse": 0}, {"rehearsal_share": -0.1}, {"rehearsal_share": float("nan")}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        MethodSettings(**wrong)
