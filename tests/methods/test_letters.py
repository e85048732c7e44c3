"""Letters after a method's name: what each does, and what does not go together."""

from collections.abc import Callable
from dataclasses import fields
from functools import cache

import pytest
import torch
from memgrow.methods.distillation import Distillation
from memgrow.methods.weight_ema import WeightEMA, follow, warm_up

from memgrow.data import Domain, synthetic_stream
from memgrow.errors import SettingsError
from memgrow.learner import Learner
from memgrow.methods import LETTERS, METHODS, MethodSettings, find_method
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings


@pytest.fixture(scope="module")
def stream():
    return [
        Domain(domain.name, domain.train[:80], domain.validation[:20], domain.test[:20])
        for domain in synthetic_stream(seed=0)[:2]
    ]


def learner(method: str, **options) -> Learner:
    return Learner.create(
        method,
        model=ModelSettings(embedding=6, hidden=5, slots=4, perceptron=7),
        training=TrainingSettings(rate=3e-3, epochs=1, batch=16),
        options=MethodSettings(**options),
        device="cpu",
    )


def answers_of(learner: Learner, domain: Domain) -> torch.Tensor:
    """Probabilities of training examples as the model gives them, at temperature 1."""
    return learner.classifier().logits(learner.encode(domain.train)).softmax(-1)


def weights(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in learner.trained().named_parameters()}


@pytest.fixture(scope="module")
def after_two(stream) -> Callable[..., tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]]:
    """The weights after the first domain and after the second, to be looked at alone: many tests ask for the same."""

    @cache
    def taught(method: str, **options) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        one = learner(method, **options)
        one.adapt(stream[0])
        before = weights(one)
        one.adapt(stream[1])
        return before, weights(one)

    return taught


def old(tensor: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return tensor[tuple(slice(size) for size in like.shape)]


def test_letters_make_methods():
    method = find_method("f+m+v+a+d")
    assert method.name == "F+M+V+A+D"
    assert method.grows == ("slots", "words")
    assert len(method.remembers) == 2
    assert find_method("EWC+M+V").grows == ("slots", "words")
    assert find_method("F+M+V+Q").quiet > 0
    assert find_method("F+M+V") is METHODS["F+M+V"], "the paper's rows stay as they are"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("F+X", "there is no method 'F[+]X'; there are F, "),
        ("A", "there is no method 'A'"),
        ("+A", "there is no method ''"),
        ("F+", "there is no method 'F[+]'"),
        ("F+A+A", "F[+]A has A already"),
        ("F+V+V", "F[+]V has V already"),
        ("multi-task+E+E", "multi-task[+]E takes no further letters"),
        ("EWC+Q", "EWC adds no slots.*put M before it"),
        ("multi-task+A", "multi-task takes no further letters"),
        ("in-domain+D", "in-domain takes no further letters"),
        ("in-domain+E", "in-domain takes no further letters"),
        ("Progressive+A", "Progressive takes no further letters"),
        ("F+H+A", "A does not go with hidden units that grow"),
        ("F+H+M", "hidden units in the place of slots"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_reason(name, why):
    with pytest.raises(SettingsError, match=why):
        find_method(name)


@pytest.mark.parametrize("letter", LETTERS)
def test_every_letter_goes_behind_some_method(letter):
    base = {"Q": "F+M", "M": "EWC", "V": "EWC"}.get(letter, "F")
    assert find_method(f"{base}+{letter}").name == f"{base}+{letter}"


def test_averaging_goes_the_stated_part_of_the_way_back(after_two):
    before, free = after_two("F+M+V")
    for keep in (0.0, 0.25, 1.0):
        same, averaged = after_two("F+M+V+A", keep=keep)
        for name, first in before.items():
            assert torch.equal(same[name], first), "the first domain is learnt as ever"
            expected = free[name].clone()
            old(expected, first).lerp_(first, keep)
            torch.testing.assert_close(averaged[name], expected)


def test_the_mean_that_is_kept_lies_between_the_old_weights_and_the_last_ones(after_two):
    def distance(smooth: float) -> float:
        before, after = after_two("F+V+E", smooth=smooth)
        return float(sum((old(after[name], first) - first).square().sum() for name, first in before.items()))

    assert 0 < distance(0.9) < distance(0.5) < distance(0.1) < distance(0.0)
    assert distance(0.99) == distance(1.0) > 0, "no memory is longer than three epochs"
    _, plain = after_two("F+V")
    _, last = after_two("F+V+E", smooth=0.0)
    assert all(torch.equal(last[name], tensor) for name, tensor in plain.items())


def test_the_first_domain_is_learnt_without_a_mean_but_by_multi_task(stream):
    ones = {method: learner(method) for method in ("F", "F+V+E", "multi-task", "multi-task+E")}
    for one in ones.values():
        one.adapt(stream[0])
    found = {method: weights(one)["encoder.embedding.weight"] for method, one in ones.items()}
    assert torch.equal(found["F"], found["F+V+E"])
    assert not torch.equal(found["multi-task"], found["multi-task+E"])


@pytest.mark.slow
def test_the_mean_is_given_the_time_to_catch_up():
    assert [warm_up(smooth, 100) for smooth in (0.0, 0.5, 0.99, 0.995, 0.999, 1.0)] == [0, 1, 1, 2, 3, 3]
    first, second = synthetic_stream(seed=0)[:2]
    epochs = {}
    for method in ("F+V", "F+V+E"):
        one = learner(method)
        one.training = TrainingSettings(rate=1e-9, epochs=20, patience=2, batch=100)  # nothing gets better, ever
        one.adapt(first)
        one.adapt(second)
        epochs[method] = [stage.epochs for stage in one.history.stages]
    assert epochs == {"F+V": [3, 3], "F+V+E": [3, 5]}


def test_a_running_mean_follows_the_weights_and_stands_in_for_them():
    weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    optimiser = torch.optim.Adam([weight], lr=0.1)
    expected = None
    for _ in range(5):
        weight.grad = torch.ones(2)
        optimiser.step()
        follow(optimiser, 0.9, batches=100)
        expected = weight.detach().clone() if expected is None else 0.9 * expected + 0.1 * weight.detach()
    last = weight.detach().clone()
    evaluated = WeightEMA(MethodSettings()).evaluated_weights(optimiser, {"weight": weight})
    torch.testing.assert_close(evaluated["weight"], expected)
    assert torch.equal(weight.detach(), last)


def test_distilling_holds_the_answers_of_the_old_model(stream):
    def drift(weight: float) -> float:
        one = learner("F+V+D", distil=weight)
        one.adapt(stream[0])
        said = answers_of(one, stream[1])
        one.adapt(stream[1])
        says = answers_of(one, stream[1])
        return float((said - says).abs().mean())

    assert drift(100.0) < 0.7 * drift(0.0)


def test_distilling_with_no_weight_is_plain_fine_tuning(after_two):
    _, plain = after_two("F+V")
    _, distilled = after_two("F+V+D", distil=0.0)
    for name, tensor in plain.items():
        torch.testing.assert_close(distilled[name], tensor)


def test_the_old_model_takes_new_words_as_unknown(stream, monkeypatch):
    """It is asked for what it says of the new texts with the words that it knows."""
    one, answers, before_domain = learner("F+V+D"), [], Distillation.before_domain

    def listened(self, old, ask):
        answers.append(torch.softmax(ask(), dim=-1))
        before_domain(self, old, ask)

    one.adapt(stream[0])
    says = answers_of(one, stream[1])
    words = len(one.vocabulary)
    monkeypatch.setattr(Distillation, "before_domain", listened)
    one.adapt(stream[1])
    assert len(one.vocabulary) > words, "the second domain was to bring words"
    torch.testing.assert_close(answers[0], says)


def test_old_parameters_move_slowly_and_new_ones_do_not(after_two):
    moved = {}
    for share in (0.0, 0.1, 1.0):
        before, after = after_two("F+M+V+L", old_rate=share)
        moved[share] = {name: float((old(after[name], first) - first).norm()) for name, first in before.items()}
        keys, slots = after["encoder.columns.0.banks.0.keys"], len(before["encoder.columns.0.banks.0.keys"])
        assert keys.shape[0] == 2 * slots
    assert all(distance == 0 for distance in moved[0.0].values())
    assert sum(moved[0.1].values()) < 0.3 * sum(moved[1.0].values())
    _, plain = after_two("F+M+V")
    _, full = after_two("F+M+V+L", old_rate=1.0)
    for name, tensor in plain.items():
        torch.testing.assert_close(full[name], tensor)


@pytest.mark.parametrize("letters", ["A", "L", "A+E"])
def test_what_is_frozen_keeps_even_the_sign_of_its_zeros(letters, stream):
    one = learner(f"frozen+M+{letters}", keep=0.3)
    one.adapt(stream[0])
    with torch.no_grad():
        one.trained().word_vectors.weight[2] = -0.0
    one.adapt(stream[1])
    assert torch.signbit(one.trained().word_vectors.weight[2]).all()


def test_quiet_slots_get_little_attention_at_first(stream):
    def share(method: str) -> float:
        one = learner(method)
        one.adapt(stream[0])
        one.training = TrainingSettings(rate=1e-9, epochs=1)
        one.adapt(stream[1])
        (first, *_) = one.reading(stream[1].train[0])
        return float(first[stream[1].name].mean())

    assert share("F+M+V") > 0.4
    assert share("F+M+V+Q") < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("method", ["F+V+A", "F+M+V+D", "EWC+M+V", "F+M+V+Q+L", "F+V+A+E"])
def test_what_letters_did_is_in_the_record_and_survives_saving(method, stream, tmp_path):
    one = learner(method)
    one.adapt(stream[0])
    one.save(tmp_path / "m")
    two = Learner.load(tmp_path / "m", device="cpu")
    one.adapt(stream[1])
    two.adapt(stream[1])
    for name, tensor in weights(one).items():
        assert torch.equal(tensor, weights(two)[name])
    assert two.method.name == method
    assert two.history.stages[1].note


def test_a_model_may_take_letters_up_later_but_not_ewc(stream):
    one = learner("F")
    one.adapt(stream[0])
    one.use("F+V+A+D")
    one.adapt(stream[1])
    with pytest.raises(SettingsError, match="takes note of every domain"):
        one.use("EWC+M+V")


@pytest.mark.parametrize(
    "wrong", [{"keep": 1.5}, {"keep": "half"}, {"old_rate": -0.1}, {"distil": -1.0}, {"temperature": 0.0}]
)
def test_numbers_without_a_meaning_are_refused(wrong):
    with pytest.raises(SettingsError):
        MethodSettings(**wrong)


def test_a_method_knows_which_settings_it_does_not_read():
    changed = MethodSettings(
        slots=3,
        quiet=1.0,
        strength=2.0,
        fisher="sampled",
        fisher_examples=5,
        keep=0.3,
        distil=2.0,
        temperature=3.0,
        old_rate=0.5,
        smooth=0.9,
    )
    every = {one.name for one in fields(changed) if getattr(changed, one.name) != one.default}
    read = {name: every - set(find_method(name).unread(changed)) for name in ("F", "F+H", "EWC", "F+M+V+A+D+L+E")}
    assert read["F"] == set()
    assert read["F+H"] == {"slots"}
    assert read["EWC"] == {"strength", "fisher", "fisher_examples"}
    assert read["F+M+V+A+D+L+E"] == every - read["EWC"]
    assert find_method("F").unread(MethodSettings()) == []
