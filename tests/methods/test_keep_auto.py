"""A with keep: auto goes back to the old weights as far as the new domain's validation set allows."""

import copy
import math
import random
from functools import partial
from pathlib import Path

import pytest
import torch
from memgrow.lockstep import adapt_together
from memgrow.methods.old_weights import SHARES, Averaging, Figure, choose_share, mixtures
from memgrow.training.evaluation import tally_each
from memgrow.training.stacked import together
from memgrow.training.stacked.together import StackedDomain

from memgrow.data.synthetic_dialogue import synthetic_dialogue
from memgrow.learner import Learner
from memgrow.methods import METHODS, Method, MethodSettings, Plugin
from memgrow.models import ModelSettings, Tally, tally_of
from memgrow.training import loop
from memgrow.training.settings import TrainingSettings
from tests.support.breaking import Plug, PulledPlug
from tests.support.opposed_reviews import opposed_reviews

TEXTS = ModelSettings(embedding=6, hidden=5, slots=4, perceptron=7)
GRU = ModelSettings(cell="gru", embedding=6, hidden=5, slots=4, perceptron=7)
REPLIES = ModelSettings(cell="gru", embedding=6, hidden=5, slots=4, bidirectional=False)


@pytest.fixture(scope="module")
def stream():
    return opposed_reviews()


@pytest.fixture(scope="module")
def dialogues():
    return synthetic_dialogue(domains=2, train=48, validation=16, test=16)


def make(model: ModelSettings = TEXTS, method: str = "F+M+V+A", seed: int = 0, keep: float | str = "auto") -> Learner:
    training, options = TrainingSettings(rate=0.02, epochs=6, batch=16), MethodSettings(keep=keep)
    return Learner.create(method, model=model, training=training, options=options, seed=seed, device="cpu")


def weights(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in learner.trained().named_parameters()}


# The rule, over figures


def drawn(seed: int, examples: int) -> dict[float, Figure]:
    """Accuracies as a set of that many examples may give them: with few, there are many ties."""
    rng = random.Random(seed)
    means = [rng.randint(0, examples) / examples for _ in SHARES]
    return {k: Figure(p, math.sqrt(p * (1 - p) / examples)) for k, p in zip(SHARES, means, strict=True)}


@pytest.mark.parametrize("examples", [1, 2, 5, 40, 1000])
def test_the_largest_share_is_taken_that_is_near_enough_to_the_best(examples):
    for seed in range(100):
        figures = drawn(seed, examples)
        best = max(figure.mean for figure in figures.values())
        error = math.sqrt(best * (1 - best) / examples)
        for tolerance in (0.0, 0.5, 1.0, 3.0):
            share = choose_share(figures, tolerance)
            assert figures[share].mean >= best - tolerance * error
            assert all(figures[k].mean < best - tolerance * error for k in SHARES if k > share)


def test_more_tolerance_never_goes_back_less_far():
    for seed in range(100):
        figures = drawn(seed, 50)
        shares = [choose_share(figures, tolerance) for tolerance in (0.0, 0.25, 0.5, 1.0, 2.0, 100.0)]
        assert shares == sorted(shares)


def test_without_tolerance_the_best_is_taken_and_of_equals_the_largest_share():
    for seed in range(100):
        figures = drawn(seed, 5)
        best = max(figure.mean for figure in figures.values())
        assert choose_share(figures, 0.0) == max(k for k in SHARES if figures[k].mean == best)


def test_where_every_step_back_costs_too_much_none_is_taken():
    assert choose_share({k: Figure(0.9 - k, 0.02) for k in SHARES}) == 0.0


def test_where_nothing_is_lost_it_goes_all_the_way_that_is_tried():
    assert choose_share({k: Figure(1.0, 0.0) for k in SHARES}) == 0.9


@pytest.mark.parametrize("broken", [math.nan, -math.inf])
def test_a_share_whose_figure_is_no_number_is_never_taken(broken):
    figures = {k: Figure(-1.0, 0.1) if k < 0.5 else Figure(broken, math.nan) for k in SHARES}
    assert choose_share(figures) == 0.45
    assert choose_share({k: Figure(broken, math.nan) for k in SHARES}) == 0.0


def test_the_error_of_an_accuracy_is_the_binomial_one():
    for right in range(8):
        tally, p = tally_of(torch.arange(7) < right), right / 7
        assert tally.mean == tally.score == pytest.approx(p)
        assert tally.standard_error == pytest.approx(math.sqrt(p * (1 - p) / 7))


def test_the_error_of_replies_counts_replies_and_not_words():
    """A set in which every reply stands twice says no more of each, and has half the variance of the mean."""
    sums, counts = -torch.tensor([3.0, 8.0, 9.5, 1.0]).double(), torch.tensor([2.0, 4.0, 3.0, 1.0]).double()
    once, twice = Tally(sums, counts, True), Tally(sums.repeat(2), counts.repeat(2), True)
    assert once.mean == twice.mean == pytest.approx(-2.15)
    assert twice.standard_error == pytest.approx(once.standard_error / math.sqrt(2))
    assert Tally(sums, -sums, True).standard_error == 0, "where all words are alike, chance has no part"


# What is evaluated


@pytest.mark.parametrize("model", [TEXTS, GRU, REPLIES], ids=["texts", "gru", "replies"])
def test_a_tally_makes_the_score(model, stream, dialogues):
    domain = (dialogues if model is REPLIES else stream)[0]
    learner = make(model)
    learner.adapt(domain)
    data = learner.encode(domain.validation)
    tally = learner.model.tally(data)
    assert len(tally.sums) == len(tally.counts) == len(data)
    assert tally.score == pytest.approx(learner.model.score(data), rel=1e-5)


@pytest.fixture(scope="module")
def grown(stream):
    learner = make(keep=0.0)
    learner.adapt(stream[0])
    old = learner.model
    learner.adapt(stream[1])
    return old, learner.model, learner.encode(stream[1].validation)


@pytest.fixture
def grown_pair(grown):
    """A model, one that has grown from it and trained, and data; the models are the test's own."""
    *models, data = grown
    return *copy.deepcopy(models), data


def test_weights_side_by_side_answer_as_one_after_another_do(grown_pair, monkeypatch):
    old, new, data = grown_pair
    before = {name: p.detach().clone() for name, p in new.named_parameters()}
    plain = tally_each(new, data, mixtures(old, new, SHARES))
    assert len({tuple(tally.sums.tolist()) for tally in plain}) > 1, "the mixtures were to answer differently"
    for side_by_side in (1, 4, 100):
        monkeypatch.setattr(together, "SIDE_BY_SIDE", side_by_side)
        domain = StackedDomain([new], data, [0], torch.device("cpu"))
        domain.prepare(data, 16)
        stacked = domain.tally_each(0, mixtures(old, new, SHARES))
        for ours, theirs in zip(stacked, plain, strict=True):
            assert torch.equal(ours.sums, theirs.sums)
            assert torch.equal(ours.counts, theirs.counts)
    for name, parameter in new.named_parameters():
        assert torch.equal(parameter, before[name]), name


def test_weights_that_are_not_named_are_the_models_own(grown_pair):
    _, new, data = grown_pair
    name = "heads.0.0.weight"
    other = torch.zeros_like(dict(new.named_parameters())[name])
    domain = StackedDomain([new], data, [0], torch.device("cpu"))
    domain.prepare(data, 16)
    for evaluate in (partial(tally_each, new, data), partial(domain.tally_each, 0)):
        own, changed, again = evaluate([{}, {name: other}, {}])
        assert own.score == again.score == pytest.approx(new.score(data))
        assert not torch.equal(own.sums, changed.sums)


def test_a_model_has_its_weights_back_after_an_evaluation_that_failed(grown_pair, monkeypatch):
    old, new, data = grown_pair
    before = {name: p.detach().clone() for name, p in new.named_parameters()}
    monkeypatch.setattr(type(new), "tally", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        tally_each(new, data, mixtures(old, new, (0.5,)))
    assert all(torch.equal(p, before[name]) for name, p in new.named_parameters())


def test_choosing_draws_no_random_number(grown_pair):
    old, new, data = grown_pair
    state = torch.get_rng_state()
    Averaging(MethodSettings(keep="auto")).choose_weights(old, new, partial(tally_each, new, data))
    assert torch.equal(torch.get_rng_state(), state)


# What becomes of the weights


@pytest.mark.parametrize("wanted", [0.0, 0.35, 0.9])
def test_the_weights_are_exactly_those_of_the_share_that_was_chosen(wanted, grown_pair):
    old, new, _ = grown_pair
    with torch.no_grad():
        new.heads[0][0].weight[0, 0] = -0.0
    expected = {name: p.detach().clone() for name, p in new.named_parameters()}
    if wanted:
        for name, first in old.named_parameters():
            part = expected[name][tuple(map(slice, first.shape))]
            part.copy_(torch.lerp(part, first.detach(), wanted))

    def evaluate(variants):
        return [tally_of(torch.tensor([share <= wanted])) for share, _ in zip(SHARES, variants, strict=True)]

    plugin = Averaging(MethodSettings(keep="auto"))
    plugin.choose_weights(old, new, evaluate)
    for name, parameter in new.named_parameters():
        assert torch.equal(parameter.view(torch.int32), expected[name].view(torch.int32)), name
    note = plugin.after_domain(new, None, None)
    assert note == {"keep": wanted, "keep_chosen": "auto", "validation_after_averaging": 1.0}
    assert plugin.after_domain(new, None, None) == {}, "a choice holds for one domain"


@pytest.mark.parametrize("model", [TEXTS, GRU, REPLIES], ids=["texts", "gru", "replies"])
def test_it_ends_as_if_the_share_had_been_given(model, stream, dialogues):
    domains = (dialogues if model is REPLIES else stream)[:2]
    chosen = make(model)
    chosen.learn(domains)
    first, second = chosen.history.stages
    assert first.note == {}, "there is nothing to go back to"
    assert second.note["keep"] in SHARES
    given = make(model, keep=second.note["keep"])
    given.learn(domains)
    for name, tensor in weights(given).items():
        assert torch.equal(tensor, weights(chosen)[name]), name
    assert given.history.stages[1].validation == second.validation, "that of the best epoch"
    score = chosen.model.score(chosen.encode(domains[1].validation))
    assert second.note["validation_after_averaging"] == pytest.approx(score, rel=1e-5)


@pytest.mark.slow
def test_on_a_pretrained_encoder_f_a_goes_back_as_far_unless_a_share_is_given(stream, tmp_path):
    pytest.importorskip("transformers")
    from tests.support.tiny_encoder import make_encoder

    folder, training = make_encoder(tmp_path / "encoder"), TrainingSettings(rate=3e-3, epochs=3)
    usual = {"encoder": folder, "training": training, "device": "cpu"}
    chosen = Learner.create("F+A", **usual)
    chosen.learn(stream)
    note = chosen.history.stages[1].note
    assert note["keep_chosen"] == "auto"
    given = Learner.create("F+A", options=MethodSettings(keep=note["keep"]), **usual)
    given.learn(stream)
    for name, tensor in weights(given).items():
        assert torch.equal(tensor, weights(chosen)[name]), name


def test_stacked_seeds_choose_what_each_chooses_alone(stream):
    company, alone = ([make(seed=seed) for seed in range(4)] for _ in range(2))
    for domain in stream:
        adapt_together(company, domain)
        for learner in alone:
            learner.adapt(domain)
    chosen = [[one.history.stages[1].note for one in group] for group in (company, alone)]
    assert chosen[0] == chosen[1]
    assert len({note["keep"] for note in chosen[0]}) > 1, "each seed was to choose for itself"


@pytest.mark.slow
@pytest.mark.parametrize("reports", [pytest.param(2, marks=pytest.mark.extras), 9])
def test_a_run_that_is_killed_chooses_what_an_unbroken_one_does(
    reports: int, stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "REPORT_EVERY_S", -1.0)
    whole = make()
    whole.learn(stream)
    make().adapt(stream[0], folder=tmp_path / "model")
    broken = 0
    for progress in (Plug(reports), Plug()):
        learner = Learner.load(tmp_path / "model", device="cpu")
        assert learner.options.keep == "auto"
        try:
            learner.adapt(stream[1], folder=tmp_path / "model", save_every=0, progress=progress)
        except PulledPlug:
            broken += 1
    assert broken == 1
    assert learner.history.stages[1].note == whole.history.stages[1].note
    for name, tensor in weights(learner).items():
        assert torch.equal(tensor, weights(whole)[name]), name


# The hook


class Halved(Plugin):
    """Knows the plain hook alone, as plugins from outside do."""

    @torch.no_grad()
    def after_training(self, old, new):
        new.heads[-1][0].bias.mul_(0.5)


class Asking(Plugin):
    """Takes the better of two biases."""

    def choose_weights(self, old, new, evaluate):
        assert isinstance(old, type(new))
        self.scores = [tally.score for tally in evaluate([{}, {"heads.0.0.bias": torch.ones(7)}])]

    def after_domain(self, model, data, device):
        return {"scores": getattr(self, "scores", None)}

    def stacked(self, others):
        return Asking(self.settings)


def test_plugins_with_the_plain_hook_and_with_the_other_are_both_called(stream, monkeypatch):
    monkeypatch.setitem(METHODS, "mine", Method("mine", "from outside", remembers=(Halved, Asking)))
    monkeypatch.setitem(METHODS, "less", Method("less", "from outside", remembers=(Asking,)))
    biases = []
    for method in ("mine", "less"):
        learner = make(method=method)
        learner.learn(stream)
        assert [len(stage.note["scores"] or ()) for stage in learner.history.stages] == [0, 2]
        biases.append(learner.model.heads[0][0].bias.detach())
    assert torch.equal(biases[0], biases[1] * 0.5)
