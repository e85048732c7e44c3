"""A bound on forgetting: a domain that costs too much of what is watched is learnt and not kept."""

import pickle

import pytest
from memgrow.adaptation import Adaptation
from memgrow.forgetting import Bound, guarded

from memgrow import ForgettingError, Learner
from memgrow.errors import SettingsError
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings
from tests.test_versions import tree

SMALL = ModelSettings(embedding=4, hidden=3, slots=2, perceptron=4)
SHORT = TrainingSettings(rate=0.01, batch=16, epochs=1)


@pytest.fixture
def learner(stream) -> Learner:
    """One that has learnt the kitchen."""
    new = Learner.create("F+V", model=SMALL, training=SHORT, device="cpu")
    new.adapt(stream[0])
    return new


def lose(points: float, monkeypatch) -> None:
    """Let all that a model is tried on seem so much worse once it has learnt something more."""
    finish = Adaptation.finish

    def worse(self, outcome, note, scores):
        old = self.before.model
        parts = {name: self.encode(part.test).as_known_to(old.vocabulary_size) for name, part in self.tested.items()}
        return finish(self, outcome, note, {name: old.score(parts[name]) - points / 100 for name in scores})

    monkeypatch.setattr(Adaptation, "finish", worse)


# The bound alone


def test_what_is_lost_counts_to_the_point_and_gains_do_not_make_up_for_it():
    bound = Bound(1.0, {"a": 0.80, "b": 0.50})
    bound.check("new", {"a": 0.79, "b": 0.99, "new": 0.0})
    with pytest.raises(ForgettingError, match=r"a falls from 80.0 to 78.9 \(1.1 points\), and at most 1 may") as caught:
        bound.check("new", {"a": 0.789, "b": 0.99})
    assert caught.value.before == {"a": 0.80, "b": 0.50}
    assert caught.value.after == {"a": 0.789, "b": 0.99}
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.after) == (str(caught.value), caught.value.after)


def test_the_worst_is_told_first():
    with pytest.raises(ForgettingError, match=r"new was learnt and not kept: b falls .*; a falls"):
        Bound(0.0, {"a": 0.5, "b": 0.5}).check("new", {"a": 0.4, "b": 0.3})


def test_it_is_for_what_was_learnt_and_for_what_is_watched_without_being_learnt():
    assert guarded(["a", "b", "c", "new"], learnt=["a"], coming=["new", "c"]) == ["a", "b"]
    assert guarded(["a"], learnt=["a"], coming=["a"]) == ["a"], "learnt again, it may be forgotten"
    assert guarded(["new"], learnt=[], coming=["new"]) == [], "the first domain"
    with pytest.raises(SettingsError, match="needs test examples of what was learnt before"):
        guarded(["new"], learnt=["a"], coming=["new"])


# A learner


def test_a_domain_that_costs_too_much_changes_neither_learner_nor_folder(learner, stream, tmp_path, monkeypatch):
    learner.save(tmp_path / "m")
    before, learnt = tree(tmp_path), learner.learnt
    lose(5.0, monkeypatch)
    with pytest.raises(ForgettingError, match=r"harbour was learnt and not kept: kitchen falls .*\(5.0 points\)"):
        learner.adapt(stream[1], watch=[stream[0]], folder=tmp_path / "m", max_forgetting=4.9, save_every=0.0)
    assert learner.learnt == learnt
    assert tree(tmp_path) == before
    learner.adapt(stream[1], watch=[stream[0]], folder=tmp_path / "m", max_forgetting=5.0)
    assert learner.history.domains == ("kitchen", "harbour")


def test_in_a_stream_what_came_before_is_saved(learner, stream, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(Bound, "check", lambda self, name, after: asked.append((name, sorted(self.before))))
    learner.learn(stream, folder=tmp_path / "m", max_forgetting=0.0)
    assert asked == [("harbour", ["kitchen"]), ("clinic", ["harbour", "kitchen"])]


@pytest.mark.parametrize("points", [-1.0, float("nan")])
def test_a_bound_that_is_none_is_refused_before_training(learner, stream, points, monkeypatch):
    with pytest.raises(SettingsError, match="it is the number of points that may be lost"):
        learner.adapt(stream[1], watch=stream, max_forgetting=points)


def test_nothing_to_hold_it_against_is_refused_before_training(learner, stream, monkeypatch):
    monkeypatch.setattr("memgrow.stage_training.train", lambda *_, **__: pytest.fail("it was trained"))
    with pytest.raises(SettingsError, match=r"needs test examples of what was learnt before \(kitchen\)"):
        learner.adapt(stream[1], max_forgetting=1.0)
