"""E with smooth: auto keeps the mean of the weights, but the last ones where validation is clearly better with them."""

import copy
from functools import partial
from pathlib import Path

import pytest
import torch
from memgrow.lockstep import adapt_together
from memgrow.methods.plugin import WEIGHT
from memgrow.methods.weight_ema import WeightEMA
from memgrow.training.evaluation import tally_each

from memgrow.learner import Learner
from memgrow.methods import METHODS, Method, MethodSettings, find_method
from memgrow.models import ModelSettings, Tally, tally_of
from memgrow.training import loop
from memgrow.training.settings import TrainingSettings
from tests.support.breaking import Plug, PulledPlug
from tests.support.opposed_reviews import opposed_reviews

TEXTS = ModelSettings(embedding=6, hidden=5, slots=4, perceptron=7)
SLOW, FAST = 0.002, 0.02  # at the slow rate the mean is as good as the last weights; at the fast one it lags
SEED = 3  # which learns something in four epochs


@pytest.fixture(scope="module")
def stream():
    return opposed_reviews()


def make(
    method: str = "F+M+V+E", rate: float = FAST, seed: int = SEED, smooth: float | str = "auto", epochs: int = 4
) -> Learner:
    training, options = TrainingSettings(rate=rate, epochs=epochs, batch=16), MethodSettings(smooth=smooth)
    return Learner.create(method, model=TEXTS, training=training, options=options, seed=seed, device="cpu")


def weights(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in learner.trained().named_parameters()}


@pytest.fixture
def trained(stream):
    """A model, the mean of a training that went on from it, last weights that are others, and data."""
    learner = make(smooth=0.999)
    learner.adapt(stream[0])
    old = copy.deepcopy(learner.model)
    learner.adapt(stream[1])
    last = {name: torch.randn_like(p) for name, p in learner.model.named_parameters()}
    return old, learner.model, last, learner.encode(stream[1].validation)


def chosen(old, new, last, evaluate) -> tuple[dict[str, object], WeightEMA]:
    plugin = WeightEMA(MethodSettings(smooth="auto"))
    plugin.before_domain(old, lambda: torch.empty(0))
    plugin.after_steps({name: {WEIGHT: weight} for name, weight in last.items()})
    plugin.choose_weights(old, new, evaluate)
    return plugin.after_domain(new, None, None), plugin


@pytest.mark.parametrize(
    ("mean_right", "last_right", "kept"),
    [(50, 50, "mean"), (60, 50, "mean"), (87, 90, "mean"), (86, 90, "last"), (70, 90, "last"), (99, 100, "last")],
)
def test_the_last_weights_are_kept_where_they_are_better_by_more_than_a_standard_error(
    mean_right, last_right, kept, trained
):
    """Of 100 answers: the standard error is 3 answers at 90 right, and none at 100."""
    old, new, last, _ = trained
    mean = {name: p.detach().clone() for name, p in new.named_parameters()}

    def evaluate(variants):
        assert [bool(one) for one in variants] == [False, True], "the model's own, then the last"
        return [tally_of(torch.arange(100) < right) for right in (mean_right, last_right)]

    note, plugin = chosen(old, new, last, evaluate)
    right = mean_right if kept == "mean" else last_right
    assert note == {"smooth": 0.999, "kept": kept, "validation_of_kept": right / 100}
    expected = mean if kept == "mean" else last
    for name, parameter in new.named_parameters():
        assert torch.equal(parameter, expected[name]), name
    assert plugin.after_domain(new, None, None) == {"smooth": 0.999}, "a choice holds for one domain"


@pytest.mark.parametrize("mean", [float("nan"), -float("inf")])
def test_where_no_figure_is_finite_the_mean_is_kept(mean, trained):
    old, new, last, _ = trained
    broken = Tally(torch.full((3,), mean).double(), torch.ones(3).double(), True)
    note, _ = chosen(old, new, last, lambda _: [broken, broken])
    assert note["kept"] == "mean"


def test_what_was_chosen_among_is_not_held_afterwards(trained):
    old, new, last, data = trained
    _, plugin = chosen(old, new, last, partial(tally_each, new, data))
    plugin.choose_weights(old, new, lambda _: pytest.fail("there is nothing to choose among"))


def test_only_last_weights_that_are_chosen_among_are_copied(stream):
    """The optimiser's state is several times as large as the model."""
    wanted = []

    class Watched(WeightEMA):
        def after_steps(self, state):
            wanted.append({kind for kinds in state.values() for kind in kinds})
            super().after_steps(state)

    def asked(smooth: float | str) -> list[set[str]]:
        wanted.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(METHODS, "watched", Method("watched", "for this test", remembers=(Watched,)))
            make("watched", smooth=smooth).learn(stream)
        return list(wanted)

    assert asked("auto") == [{WEIGHT}], "of the second domain alone"
    assert asked(0.999) == []


def test_a_share_that_was_given_is_no_question(stream):
    given = make(smooth=0.999)
    given.learn(stream)
    assert given.history.stages[1].note == {"smooth": 0.999}


def test_choosing_draws_no_random_number(trained, stream):
    old, new, last, data = trained
    state = torch.get_rng_state()
    note, _ = chosen(old, new, last, partial(tally_each, new, data))
    assert note["kept"] in ("mean", "last")
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("rate", "kept"), [(SLOW, "mean"), (FAST, "last")])
def test_it_ends_as_the_mean_or_as_the_last_step_left_it(rate, kept, stream, monkeypatch):
    last: dict[str, torch.Tensor] = {}
    after_steps = WeightEMA.after_steps

    def note_last(self, state):
        last.update({name: kinds[WEIGHT].clone() for name, kinds in state.items()})
        after_steps(self, state)

    monkeypatch.setattr(WeightEMA, "after_steps", note_last)
    auto, given = make(rate=rate), make(rate=rate, smooth=0.999)
    given.learn(stream)
    auto.learn(stream)
    assert [stage.note.get("kept") for stage in auto.history.stages] == [None, kept]
    expected = weights(given) if kept == "mean" else last
    for name, tensor in weights(auto).items():
        assert torch.equal(tensor, expected[name]), name
    score = auto.model.score(auto.encode(stream[1].validation))
    assert auto.history.stages[1].note["validation_of_kept"] == pytest.approx(score)


def test_the_last_weights_are_those_of_training_without_a_mean(stream):
    """The mean only watches: with as many epochs, F ends a training with the same weights."""
    auto, plain = (make(method, rate=0.05, epochs=1) for method in ("F+E", "F"))
    for one in (auto, plain):
        one.learn(stream)
    assert auto.history.stages[1].note["kept"] == "last", "one epoch is too short for the mean"
    for name, tensor in weights(auto).items():
        assert torch.equal(tensor, weights(plain)[name]), name


def test_letters_that_move_weights_start_from_what_was_kept(stream):
    assert find_method("F+A+E").remembers == find_method("F+E+A").remembers
    for order in ("F+E+A", "F+A+E"):
        both, alone = make(order), make("F+E")
        for one in (both, alone):
            one.learn(stream)
        assert both.history.stages[1].note["kept"] == alone.history.stages[1].note["kept"] == "last"
        before = make("F")
        before.adapt(stream[0])
        first, end = weights(before), weights(alone)
        for name, tensor in weights(both).items():
            torch.testing.assert_close(tensor, torch.lerp(end[name], first[name], 0.5), msg=name)


def test_stacked_seeds_choose_what_each_chooses_alone(stream):
    company, alone = ([make(seed=seed) for seed in range(4)] for _ in range(2))
    for domain in stream:
        adapt_together(company, domain)
        for learner in alone:
            learner.adapt(domain)
    notes = [[one.history.stages[1].note for one in group] for group in (company, alone)]
    assert notes[0] == notes[1]
    assert {note["kept"] for note in notes[0]} == {"mean", "last"}, "each seed was to choose for itself"
    for ours, theirs in zip(company, alone, strict=True):
        for name, tensor in weights(ours).items():
            torch.testing.assert_close(tensor, weights(theirs)[name], msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("reports", [2, 9, 22, 23])
def test_a_run_that_is_killed_keeps_what_an_unbroken_one_does(
    reports: int, stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the last of the reports the training has ended, and the last weights must be found again."""
    monkeypatch.setattr(loop, "REPORT_EVERY_S", -1.0)
    whole = make()
    whole.learn(stream)
    assert whole.history.stages[1].note["kept"] == "last"
    make().adapt(stream[0], folder=tmp_path / "model")
    broken = 0
    for progress in (Plug(reports), Plug()):
        learner = Learner.load(tmp_path / "model", device="cpu")
        assert learner.options.smooth == "auto"
        try:
            learner.adapt(stream[1], folder=tmp_path / "model", save_every=0, progress=progress)
        except PulledPlug:
            broken += 1
    assert broken == 1
    assert learner.history.stages[1].note == whole.history.stages[1].note
    for name, tensor in weights(learner).items():
        assert torch.equal(tensor, weights(whole)[name]), name


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["mean", "last"])
@pytest.mark.parametrize("method", ["F+E", "LoRA+E", "frozen+M+E", "EWC+E"])
def test_on_a_pretrained_encoder_it_goes_with_what_else_a_method_does(method, kept, stream, tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    from tests.support.tiny_encoder import make_encoder

    monkeypatch.setattr("memgrow.methods.weight_ema.choose_share", lambda *_: {"mean": 1.0, "last": 0.0}[kept])

    folder, training = make_encoder(tmp_path / "encoder"), TrainingSettings(rate=3e-3, epochs=2)
    usual = {"encoder": folder, "training": training, "device": "cpu"}
    learner = Learner.create(method, options=MethodSettings(smooth="auto", fisher_examples=5), **usual)
    learner.learn(stream, folder=tmp_path / "model")
    note = learner.history.stages[1].note
    assert note["kept"] == kept
    score = learner.model.score(learner.encode(stream[1].validation))
    assert note["validation_of_kept"] == pytest.approx(score, abs=1 / 40)
    loaded = Learner.load(tmp_path / "model", device="cpu")
    for name, tensor in weights(loaded).items():
        assert torch.equal(tensor, weights(learner)[name]), name


def test_multi_task_has_nothing_to_choose(stream):
    learner = make("multi-task+E")
    learner.learn(stream)
    assert "kept" not in learner.history.stages[-1].note
    (plugin,) = find_method("multi-task+E").plugins(MethodSettings(smooth="auto")).parts
    assert not plugin.wants_after_steps
