"""Runs and records: what tells them apart, what they share, what is kept."""

import json
from dataclasses import asdict, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memgrow.experiments.run import SECTIONS, Record, Run
from memgrow.history import Stage
from memgrow.methods import METHODS, Grew, MethodSettings, find_method
from memgrow.models import ModelSettings, PretrainedSettings
from memgrow.training.settings import TrainingSettings

NAMES = ("books", "dvds", "games")
DATA = {name: f"hash of {name}" for name in NAMES}
# Other values of settings that are no positive numbers.
OTHER = {
    "domains_read": 2,
    "cell": "gru",
    "pooling": "last",
    "fisher": "sampled",
    "bidirectional": False,
    "tied": True,
    "lowercase": True,
    "slot_size": 7,
    "slots": 7,
    "dropout": 0.25,
    "quiet": 0.25,
    "new_rate": 0.25,
    "warm_up": 7,
    "schedule": "linear",
}
KINDS = {"model": ModelSettings, "training": TrainingSettings, "options": MethodSettings}
SETTINGS = [(section, one.name) for section, kind in KINDS.items() for one in fields(kind)]


def changed(run: Run, section: str, name: str) -> Run:
    """The run with one setting moved to another value that is allowed."""
    settings = getattr(run, section)
    now = getattr(settings, name)
    value = OTHER[name] if name in OTHER else 2 * now if isinstance(now, int) else now / 2
    return replace(run, **{section: replace(settings, **{name: value})})


@pytest.mark.parametrize(("section", "name"), SETTINGS)
def test_any_setting_makes_another_key(section, name):
    run = Run("F+M+V", NAMES)
    assert changed(run, section, name).key(DATA) != run.key(DATA)


@given(
    st.lists(
        st.builds(
            Run,
            st.sampled_from(sorted(METHODS)),
            st.permutations(NAMES).flatmap(lambda names: st.integers(1, 3).map(lambda n: tuple(names[:n]))),
            st.integers(0, 3),
            st.builds(ModelSettings, hidden=st.integers(1, 3), dropout=st.sampled_from([0, 0.0, 0.5])),
            st.builds(TrainingSettings, rate=st.sampled_from([1, 1.0, 1e-3])),
            st.builds(MethodSettings, strength=st.sampled_from([10, 10.0, 20.0])),
        ),
        min_size=2,
        max_size=6,
    )
)
def test_runs_have_the_same_key_exactly_if_they_are_the_same(runs):
    for a in runs:
        for b in runs:
            assert (a == b) == (a.key(DATA) == b.key(DATA))


def test_data_that_is_learnt_is_part_of_the_key_and_other_data_is_not():
    run = Run("F", NAMES[:2])
    assert run.key({**DATA, "dvds": "other"}) != run.key(DATA)
    assert run.key({**DATA, "games": "other"}) == run.key(DATA)


def test_a_setting_that_joins_later_changes_no_key(monkeypatch):
    run = Run("F", NAMES, options=MethodSettings(strength=5.0))
    before = run.key(DATA)
    monkeypatch.setattr(
        "memgrow.experiments.run.fields", lambda kind: [one for one in fields(kind) if one.name != "temperature"]
    )
    assert run.key(DATA) == before


def test_the_spelling_of_a_method_makes_no_other_run():
    assert Run("f+m+v", list(NAMES)) == Run("F+M+V", NAMES)


def test_an_encoder_is_known_by_its_weights_and_until_they_are_by_its_name():
    models = [PretrainedSettings(encoder=name, weights=found) for name in ("minilm", "a/folder") for found in "xy"]
    assert len({Run("F", NAMES, model=model).key(DATA) for model in models}) == 2
    unknown = [ModelSettings(), PretrainedSettings(), PretrainedSettings(encoder="a/folder")]
    assert len({Run("F", NAMES, model=model).key(DATA) for model in unknown}) == 3


def test_methods_share_their_first_stage_and_no_other():
    runs = [Run(name, NAMES) for name, method in METHODS.items() if not method.afresh]
    assert {run.stages()[0] for run in runs} == {Run("F", NAMES[:1]), Run("ridge", NAMES[:1])}
    assert len({run.stages()[0] for run in runs if find_method(run.method).shares_first}) == 1
    assert len({stage for run in runs for stage in run.stages()[1:]}) == 2 * len(runs)


@pytest.mark.parametrize("name", [*METHODS, "F+V+A", "EWC+D"])
def test_every_stage_goes_on_from_the_one_before_it(name):
    stages = Run(name, NAMES).stages()
    for before, stage in zip([None, *stages], stages, strict=False):
        parent = stage.parent()
        if parent is not None and parent.takes_notes():
            assert find_method(parent.method).plugins(parent.options).needs_every_domain
            parent = parent.parent()
        assert parent == (None if find_method(name).afresh else before)


def test_notes_are_shared_by_all_strengths_and_all_methods_that_take_the_same():
    strengths = [Run("EWC", NAMES, options=MethodSettings(strength=s)) for s in (1.0, 10.0)]
    (notes,) = {run.stages()[1].parent() for run in (*strengths, Run("EWC+A", NAMES))}
    assert notes.takes_notes()
    other = Run("EWC", NAMES, options=MethodSettings(fisher="sampled")).stages()[1].parent()
    assert other != notes


def record(**changes) -> Record:
    stage = Stage(("books",), "F", Grew(4, 5, 6), 100, 48, 2, 1, 0.5, 1.25, "print", {"fisher": "exact"})
    tried_on = {"books": "b", "dvds": "d"}
    return replace(Record("key", stage, {"books": (True,)}, {"books": (False, True)}, {}, tried_on), **changes)


@given(st.dictionaries(st.text(min_size=1, max_size=3), st.lists(st.booleans(), max_size=70).map(tuple), max_size=3))
def test_a_record_comes_back_from_json_as_it_was(answers):
    kept = record(test=answers, validation=answers)
    assert Record.from_json(json.loads(json.dumps(kept.to_json()))) == kept


def test_a_record_serves_only_for_the_examples_that_it_was_tried_on():
    run = Run("F", ("books",))
    kept = record(run=asdict(run))
    assert kept.stands_for(run, {"books": "b"})
    assert not kept.stands_for(run, {"books": "b", "dvds": "other"})
    assert not kept.stands_for(run, {"games": "g"})


@pytest.mark.parametrize("section", SECTIONS)
def test_a_record_does_not_serve_once_a_default_has_changed(section):
    run = Run("F", ("books",))
    then = asdict(run)
    name = next(iter(then[section]))
    then[section] = {**then[section], name: "what it was"}
    assert not record(run=then).stands_for(run, {})


def test_a_record_from_before_a_setting_joined_still_serves():
    run = Run("F", ("books",))
    then = asdict(run)
    del then["options"]["temperature"]
    assert record(run=then).stands_for(run, {})
