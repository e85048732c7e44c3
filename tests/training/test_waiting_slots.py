"""Slots that wait until a text reads them end where plain Adam has them, and a step touches no others."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from memgrow.data import Domain
from memgrow.data.batches import collate
from memgrow.learner import Learner
from memgrow.methods import MethodSettings, Plugins, find_method
from memgrow.methods.trains import everything
from memgrow.models import Model, ModelSettings, build, recurrent_encoder
from memgrow.training import waiting_slots
from memgrow.training.lazy_adam import LazyAdam
from memgrow.training.optimiser import optimiser_for
from memgrow.training.plain_stepper import PlainStepper
from memgrow.training.settings import TrainingSettings
from memgrow.training.waiting_slots import waiting_banks
from tests.support.breaking import LAST, Plug, PulledPlug, keep_epoch

MODEL = ModelSettings(embedding=6, hidden=5, slots=4, perceptron=7, dropout=0.0, domains_read=1)
OPTIONS = MethodSettings(fisher_examples=5)
RATE = 3e-3


@pytest.fixture
def waiting(monkeypatch):
    """Let even the slots of few domains wait."""
    monkeypatch.setattr(waiting_slots, "LARGE_BANK", 1)
    monkeypatch.setattr(waiting_slots, "SPARED", 1)


def learner(method: str = "F+M+V", model: ModelSettings = MODEL, clip: float = 5.0, epochs: int = 2) -> Learner:
    training = TrainingSettings(rate=RATE, batch=4, epochs=epochs, clip=clip)
    return Learner.create(method, model=model, training=training, options=OPTIONS, device="cpu")


def weights(learnt: Learner) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in learnt.trained().state_dict().items()}


@pytest.fixture
def domains(stream) -> list[Domain]:
    """A few batches of each of three domains."""
    return [replace(one, train=one.train[:16], validation=one.validation[:8]) for one in stream[:3]]


@pytest.mark.parametrize(
    ("method", "domains_read", "clip"),
    [("F+M+V", 1, 5.0), ("F+M+V", 1, 1e-7), ("F+M+V", 2, 5.0), ("F+M+V+A+Q", 1, 5.0), ("frozen+M", 1, 5.0)],
)
def test_a_learner_learns_what_it_learns_by_plain_adam(method, domains_read, clip, domains, waiting, monkeypatch):
    if domains_read == 2:
        monkeypatch.setattr(recurrent_encoder, "OPERATIONS", -1_000_000)  # in groups of texts
    found, moved, step = [], [], LazyAdam.step
    monkeypatch.setattr(LazyAdam, "step", lambda self, rows: (moved.append(len(rows.numbers)), step(self, rows))[1])
    for large, count in ((1, 2 * 2 * 4 * 4), (10**12, 0)):  # of two domains: epochs, batches, keys and values
        monkeypatch.setattr(waiting_slots, "LARGE_BANK", large)
        moved.clear()
        one = learner(method, replace(MODEL, domains_read=domains_read), clip)
        for domain in domains:
            one.adapt(domain)
        found.append(weights(one))
        assert len(moved) == (count if domains_read == 1 else count // 2)
        assert len(set(moved)) > 1 or domains_read == 2 or not moved, "or no slot has waited"
    for name, tensor in found[0].items():
        torch.testing.assert_close(
            tensor, found[1][name], rtol=1e-3, atol=1e-4, msg=lambda text, name=name: name + text
        )


def test_at_the_end_of_an_epoch_slots_that_missed_its_last_steps_have_caught_up(domains, waiting, monkeypatch):
    """Texts of all domains in turn, each a batch: slots are read, are missed for some steps, and are read again."""
    one = learner()
    for domain in domains:
        one.adapt(domain)
    data = one.encode([example for rows in zip(*(domain.train for domain in domains), strict=True) for example in rows])
    order, waited, found = [[number] for number in range(len(data))], False, []
    for large in (1, 10**12):
        monkeypatch.setattr(waiting_slots, "LARGE_BANK", large)
        model, settings = copy.deepcopy(one.trained()), replace(one.training, batch=1)
        trains = everything(None, model)
        stepper = PlainStepper(model, data, data, settings=settings, trains=trains, plugins=Plugins([]))
        for done in stepper.epoch(0, [order], 0):
            if done == len(order):
                before = [bank.values.detach().clone() for bank in model.banks]
        waited |= any(not torch.equal(old, bank.values) for old, bank in zip(before, model.banks, strict=True))
        found.append({name: parameter.detach() for name, parameter in model.named_parameters()})
    assert waited, "the end of the epoch moved nothing: none has waited, or none has caught up"
    for name, tensor in found[0].items():
        torch.testing.assert_close(
            tensor, found[1][name], rtol=1e-4, atol=1e-5, msg=lambda text, name=name: name + text
        )


def test_frozen_slots_keep_their_bits_while_others_wait(domains, waiting):
    one = learner("frozen+M")
    one.adapt(domains[0])
    before = one.trained().banks[0].keys.detach().clone()
    one.adapt(domains[1])
    bank = one.trained().banks[0]
    assert torch.equal(bank.keys.detach()[: len(before)], before)


def grown(segments: int) -> Model:
    torch.manual_seed(0)
    model = build("text", MODEL, 30, 2, "d0")
    for number in range(1, segments):
        model.grow(slots=3, domain=f"d{number}")
    for number in range(segments):
        model.encoder.router.fit(number, 0.1 * torch.randn(9, 6) + torch.randn(6))
    return model


def test_a_step_has_gradients_of_the_slots_that_it_reads_and_no_others(domains, waiting):
    one = learner()
    for domain in domains[:2]:
        one.adapt(domain)
    model = one.trained()
    data = one.encode(list(domains[1].train)[:4])
    trains = everything(None, model)
    stepper = PlainStepper(model, data, data, settings=one.training, trains=trains, plugins=Plugins([]))
    batch = collate(data, range(len(data)), model.device)
    chosen = set(model.encoder._chosen(batch.words, batch.lengths).flatten().tolist())
    read = [number for n in sorted(chosen) for number in range(*_ends(model, n))]
    seen = []
    with stepper.optimiser.serving(model.word_vectors):
        step = stepper.optimiser.slots.step
        stepper.optimiser.slots.step = lambda: (seen.append(_active(stepper)), step())
        stepper.step(batch)
    assert seen == [[read] * 4]
    assert all(bank.keys.grad is None and bank.values.grad is None for bank in model.banks)
    assert all(bank.activate is None for bank in model.banks)


def _ends(model: Model, number: int) -> tuple[int, int]:
    return model.banks[0].segments[number].start, model.banks[0].segments[number].stop


def _active(stepper: PlainStepper) -> list[list[int]]:
    return [table.rows.numbers.tolist() for table in stepper.optimiser.slots._tables]


def test_a_run_that_was_killed_within_an_epoch_ends_with_the_same_bits(domains, tmp_path, waiting, monkeypatch):
    keep_epoch(LAST, monkeypatch)
    monkeypatch.setattr("memgrow.training.loop.REPORT_EVERY_S", -1.0)
    whole, broken = learner(epochs=3), 0
    for domain in domains[:2]:
        whole.adapt(domain)
    first = learner(epochs=3)
    first.adapt(domains[0], folder=tmp_path / "model")
    for reports in (1, 3, 2, 1000):
        try:
            resumed = Learner.load(tmp_path / "model", device="cpu")
            resumed.adapt(domains[1], folder=tmp_path / "model", save_every=0, progress=Plug(reports))
        except PulledPlug:
            broken += 1
    assert broken == 3
    assert all(torch.equal(tensor, weights(resumed)[name]) for name, tensor in weights(whole).items())


@pytest.mark.parametrize(
    ("method", "waits"), [("F+M", True), ("F+M+V+A", True), ("F+M+V+D+Q", True), ("EWC", False), ("F+M+V+L", False)]
)
def test_slots_wait_unless_the_method_looks_at_all_of_them_in_each_step(method, waits, waiting):
    model = grown(3)
    plugins = Plugins([part(OPTIONS) for part in find_method(method).remembers])
    assert bool(waiting_banks(model, everything(None, model), plugins)) is waits


def test_slots_wait_only_where_they_are_many_and_few_of_them_are_read(monkeypatch):
    model, nothing = grown(4), Plugins([])
    trains = everything(None, model)
    assert not waiting_banks(model, trains, nothing), "a small bank is moved as ever"
    monkeypatch.setattr(waiting_slots, "LARGE_BANK", model.banks[0].keys.numel())
    assert [(bank, frozen) for bank, frozen in waiting_banks(model, trains, nothing)] == [(b, 0) for b in model.banks]
    assert not waiting_banks(grown(3), trains, nothing)
    assert not waiting_banks(model, find_method("frozen").trains(model, model), nothing), "nothing of it trains"
    assert not optimiser_for(model, trains, nothing, RATE, one_rate=False).slots.moving()
