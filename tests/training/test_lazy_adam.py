"""Adam that moves rows when they are needed ends where plain Adam does."""

import copy
from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memgrow.data.synthetic_dialogue import synthetic_dialogue
from memgrow.learner import Learner
from memgrow.methods import MethodSettings, Plugins, Trains, find_method
from memgrow.methods.plugin import Plugin
from memgrow.methods.trains import everything, what_is_new
from memgrow.models import Model, ModelSettings, build
from memgrow.training import optimiser
from memgrow.training.lazy_adam import LazyAdam
from memgrow.training.optimiser import Optimiser, optimiser_for
from memgrow.training.resume import Position, ResumeFolder, under
from memgrow.training.settings import TrainingSettings
from tests.support.breaking import FIRST, LAST, Plug, PulledPlug, keep_epoch
from tests.support.waiting import count_waiting, with_rare_words

RATE = 1e-3
ROWS, SIZE = 40, 3


class Table:
    """A table of vectors, and the optimiser that moves it."""

    def __init__(self, start: Tensor, lazy: bool) -> None:
        self.weight = nn.Parameter(start.clone())
        self.optimiser = torch.optim.Adam([self.weight], lr=RATE)
        self.vectors = LazyAdam(self.weight, self.optimiser) if lazy else None

    def step(self, words: Tensor, slopes: Tensor) -> Tensor:
        """One step down the sum of vectors times slopes; returns the gradient."""
        if self.vectors is not None:
            active = self.vectors.activate(words)
            (active(words) * slopes).sum().backward()
            self.vectors.step(active)
            return active.vectors.grad
        self.optimiser.zero_grad()
        (F.embedding(words, self.weight) * slopes).sum().backward()
        self.optimiser.step()
        return self.weight.grad


def start(seed: int = 0, dtype: torch.dtype = torch.double) -> Tensor:
    return torch.randn(ROWS, SIZE, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def batches(seed: int, steps: int, scale: float, dtype: torch.dtype = torch.double) -> list[tuple[Tensor, Tensor]]:
    """Words as texts have them, few often and most rarely, and gradients that differ in size by powers of ten."""
    chance = torch.Generator().manual_seed(seed)
    often = 1 / torch.arange(1, ROWS + 1).double() ** 1.5
    made = []
    for _ in range(steps):
        count = int(torch.randint(1, 9, (), generator=chance))
        words = torch.multinomial(often, count, replacement=True, generator=chance)
        sizes = scale * 10 ** (0.5 * torch.randn(count, SIZE, generator=chance, dtype=dtype))
        made.append((words, sizes * torch.randn(count, SIZE, generator=chance, dtype=dtype)))
    return made


def distance(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference, as a share of the rate."""
    return float((ours - theirs).abs().max()) / RATE


def both(made: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    ours, theirs = Table(start(), lazy=True), Table(start(), lazy=False)
    for words, slopes in made:
        ours.step(words, slopes)
        theirs.step(words, slopes)
    ours.vectors.flush()
    return ours.weight.detach(), theirs.weight.detach()


@pytest.mark.slow
# The gradients of a model's vectors are about 1e-6 to 1e-5; Adam's eps is 1e-8.
@pytest.mark.parametrize(("scale", "allowed"), [(1e-1, 1e-8), (1e-3, 1e-5), (1e-5, 2e-3), (1e-8, 2e-2)])
@pytest.mark.parametrize(("seed", "steps"), [*((seed, steps) for seed in (0, 1) for steps in (1, 2, 5, 20)), (0, 400)])
def test_it_ends_where_plain_adam_does(scale, allowed, steps, seed):
    ours, theirs = both(batches(seed, steps, scale))
    assert distance(ours, theirs) < allowed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "missed"), [*((before, missed) for before in (1, 10, 300) for missed in (1, 100)), (10, 900)]
)
def test_a_row_that_no_batch_needs_for_long_is_where_plain_adam_has_it(before, missed):
    """The moments of such a row die away in closed form, early in a training and late."""
    slope = torch.full((1, SIZE), 1e-5, dtype=torch.double)
    often, rare = torch.tensor([3]), torch.tensor([7])
    ours, theirs = both([(often, slope)] * (before - 1) + [(rare, slope)] + [(often, slope)] * missed)
    assert float((theirs - start())[7].abs().min()) > 0.1 * RATE
    assert distance(ours, theirs) < 1e-4


def test_numbers_of_usual_precision_are_no_worse_than_in_plain_adam():
    made = batches(0, 300, 1e-5)
    exact = Table(start(), lazy=False)
    alike = [Table(start().float(), lazy=lazy) for lazy in (True, False)]
    for words, slopes in made:
        exact.step(words, slopes)
        for table in alike:
            table.step(words, slopes.float())
    alike[0].vectors.flush()
    ours, theirs = (distance(table.weight.detach(), exact.weight.detach()) for table in alike)
    assert ours < 1.5 * theirs


def test_rows_that_are_up_to_date_or_were_never_needed_keep_their_bits():
    table, first = Table(start(), lazy=True), start()
    for words, slopes in batches(1, 50, 1e-3):
        table.step(words % 20, slopes)
    table.vectors.flush()
    assert torch.equal(table.weight.detach()[20:], first[20:])
    flushed = copy.deepcopy((table.weight.detach(), table.optimiser.state[table.weight]))
    table.vectors.flush()
    assert torch.equal(table.weight.detach(), flushed[0])
    assert all(torch.equal(value, flushed[1][name]) for name, value in table.optimiser.state[table.weight].items())


def test_a_word_counts_once_in_the_norm_of_the_gradient_however_often_it_stands_in_a_batch():
    words, slopes = torch.tensor([[4, 9, 4], [4, 1, 9]]), torch.randn(2, 3, SIZE, dtype=torch.double)
    ours, theirs = (Table(start(), lazy=lazy).step(words, slopes).norm() for lazy in (True, False))
    assert float(ours) == pytest.approx(float(theirs), rel=1e-12)


def test_a_batch_may_have_more_words_than_there_are_rows():
    chance = torch.Generator().manual_seed(0)
    made = [(torch.randint(0, ROWS, (n,), generator=chance), torch.randn(n, SIZE).double()) for n in (5, 300, 7, 300)]
    assert distance(*both(made)) < 1e-6


def test_stacked_tables_move_as_each_alone():
    firsts, made = [start(seed) for seed in range(3)], [batches(seed, 60, 1e-4) for seed in range(3)]
    alone = [Table(first, lazy=True) for first in firsts]
    stacked = nn.Parameter(torch.stack(firsts))
    optimiser = torch.optim.Adam([stacked], lr=RATE)
    together = LazyAdam(stacked, optimiser)
    for step in range(60):
        count = min(len(one[step][0]) for one in made)
        words, slopes = (torch.stack([one[step][part][:count] for one in made]) for part in range(2))
        numbers = words + torch.arange(3).unsqueeze(1) * ROWS
        active = together.activate(numbers)
        (active(numbers) * slopes).sum().backward()
        for table, own, slope, gradient in zip(alone, words, slopes, active.vectors.grad, strict=True):
            assert float(gradient.norm()) == pytest.approx(float(table.step(own, slope).norm()))
        together.step(active)
    together.flush()
    for table, ours in zip(alone, stacked.detach(), strict=True):
        table.vectors.flush()
        torch.testing.assert_close(ours, table.weight.detach(), rtol=0, atol=1e-9 * RATE)


def test_what_was_moved_by_plain_adam_goes_on():
    made = batches(2, 80, 1e-3)
    ours, theirs = Table(start(), lazy=False), Table(start(), lazy=False)
    for number, (words, slopes) in enumerate(made):
        if number == 40:
            ours.vectors = LazyAdam(ours.weight, ours.optimiser)
        ours.step(words, slopes)
        theirs.step(words, slopes)
    ours.vectors.flush()
    assert distance(ours.weight.detach(), theirs.weight.detach()) < 1e-5


def test_a_state_that_was_saved_and_taken_up_ends_with_the_same_bits(tmp_path):
    made = batches(3, 60, 1e-3, torch.float32)

    def new() -> Optimiser:
        return Optimiser({"table": nn.Parameter(start().float())}, RATE, capturable=False, waits="table")

    def go(optimiser: Optimiser, some) -> None:
        for words, slopes in some:
            optimiser.begin(lambda words=words: words)
            (optimiser.rows(words) * slopes).sum().backward()
            optimiser.step()

    whole, broken, resumed = new(), new(), new()
    go(whole, made)
    go(broken, made[:33])
    folder = ResumeFolder(tmp_path / "state", 0, {}, 0)
    state = {"table": broken.parameters["table"]} | {f"optimiser/{n}": t for n, t in broken.state().items()}
    folder.save(Position(), state, torch.device("cpu"))
    _, tensors = folder.restore()
    resumed.parameters["table"].data.copy_(tensors["table"])
    resumed.load_state(under(tensors, "optimiser"))
    go(resumed, made[33:])
    for one in (whole, resumed):
        one.flush()
    assert torch.equal(whole.parameters["table"], resumed.parameters["table"])


MODEL = ModelSettings(embedding=6, hidden=5, slots=4, perceptron=7, dropout=0.2)
OPTIONS = MethodSettings(fisher_examples=5)


def learner(method: str = "F+M+V", model: ModelSettings = MODEL, clip: float = 5.0) -> Learner:
    training = TrainingSettings(rate=3e-3, batch=16, epochs=3, clip=clip)
    return Learner.create(method, model=model, training=training, options=OPTIONS, device="cpu")


@pytest.fixture
def counted(monkeypatch):
    """Let even a small table wait; says how often one was brought up to date."""
    flushed = []
    monkeypatch.setattr(optimiser, "LARGE", 1)
    whole = LazyAdam.flush
    monkeypatch.setattr(LazyAdam, "flush", lambda self: (flushed.append(self), whole(self))[1])
    return flushed


def weights(learnt: Learner) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in learnt.trained().state_dict().items()}


@pytest.mark.slow
# Adam hardly sees the size of a gradient, unless it is clipped down to about its eps.
@pytest.mark.parametrize("clip", [5.0, 1e-7])
@pytest.mark.parametrize("task", ["label", "reply"])
def test_a_learner_learns_what_it_learns_by_plain_adam(task, clip, stream, counted, monkeypatch):
    domains = stream if task == "label" else synthetic_dialogue(train=48, validation=16, test=16)
    model = MODEL if task == "label" else ModelSettings(cell="gru", embedding=6, hidden=8, slots=4)
    found = []
    for large in (1, 10**9):
        monkeypatch.setattr(optimiser, "LARGE", large)
        one = learner(model=model, clip=clip)
        for domain in domains[:2]:
            one.adapt(domain)
        found.append(weights(one))
    assert len(counted) == 6, "once in each epoch of both domains, and not with plain Adam"
    for name, tensor in found[0].items():
        torch.testing.assert_close(
            tensor, found[1][name], rtol=1e-3, atol=1e-4, msg=lambda text, name=name: name + text
        )


@pytest.mark.slow
@pytest.mark.parametrize("kept", [FIRST, LAST])
@pytest.mark.parametrize("loop", ["plain", "stacked"])
def test_a_run_that_was_killed_within_an_epoch_ends_with_the_same_bits(
    loop, kept, stream, tmp_path, counted, monkeypatch
):
    keep_epoch(kept, monkeypatch)
    waiting, domain = count_waiting(monkeypatch), with_rare_words(stream[0])
    monkeypatch.setattr("memgrow.training.loop.REPORT_EVERY_S", -1.0)
    whole, broken = learner(), 0
    whole.adapt(domain, loop=loop)
    for reports in (1, 3, 2, 2, 1000):
        try:
            resumed = learner()
            resumed.adapt(domain, folder=tmp_path / "model", save_every=0, progress=Plug(reports), loop=loop)
        except PulledPlug:
            broken += 1
    assert broken == 4
    assert [one.history.stages[0].best_epoch for one in (whole, resumed)] == [3 if kept == LAST else 1] * 2
    assert counted
    assert all(waiting)
    assert all(torch.equal(tensor, weights(resumed)[name]) for name, tensor in weights(whole).items())


def test_the_embedding_is_its_own_again_after_a_batch():
    embedding, words = nn.Embedding(ROWS, SIZE), torch.tensor([3, 1, 3])
    optimiser = Optimiser({"weight": embedding.weight}, RATE, capturable=False, waits="weight")
    with optimiser.serving(embedding):
        rows = optimiser.begin(lambda: words)["weight"]
        embedding(words).sum().backward()
        assert embedding.weight.grad is None
        assert rows.grad is not None
        optimiser.step()
        embedding(words).sum().backward()
        assert embedding.weight.grad is not None
    embedding.weight.grad = None
    embedding(words).sum().backward()
    assert embedding.weight.grad is not None


class Pulling(Plugin):
    """A plugin that somebody else may write."""

    def weight_loss(self, parameters):
        return sum(parameter.square().sum() for parameter in parameters.values())


def waits_in(model: Model, trains: Trains, plugins: Plugins) -> bool:
    return optimiser_for(model, trains, plugins, RATE).lazy is not None


@pytest.mark.parametrize(
    ("method", "waits"),
    [("F", True), ("F+M+V+A", True), ("F+M+V+D+Q", True), ("EWC", False), ("F+V+L", False), ("multi-task+E", False)],
)
def test_vectors_wait_unless_the_method_looks_at_all_of_them_in_each_step(method, waits, monkeypatch):
    monkeypatch.setattr(optimiser, "LARGE", 1)
    model = build("text", MODEL, 10, 2, "first")
    plugins = Plugins([part(OPTIONS) for part in find_method(method).remembers])
    assert waits_in(model, everything(None, model), plugins) is waits
    assert not waits_in(model, everything(None, model), Plugins([*plugins.parts, Pulling(OPTIONS)]))


def test_vectors_wait_only_where_all_of_them_train_and_none_is_an_answer(monkeypatch):
    monkeypatch.setattr(optimiser, "LARGE", 10)
    model, nothing = build("text", MODEL, 10, 2, "first"), Plugins([])
    assert waits_in(model, everything(None, model), nothing)
    assert not waits_in(model, Trains({model.name_of(model.word_vectors.weight): (0, 5)}), nothing)
    assert not waits_in(model, what_is_new(model, model), nothing)
    small = build("text", MODEL, 9, 2, "first")
    assert not waits_in(small, everything(None, small), nothing)
    for tied in (False, True):
        model = build("reply", ModelSettings(embedding=6, hidden=5, slots=4, tied=tied), 10, 0, "first")
        assert waits_in(model, everything(None, model), nothing) is not tied
