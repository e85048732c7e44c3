"""The loop: epochs, early stopping on the domain's validation set, gradient clipping, progress, resume."""

import time
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from memgrow.data.batches import Batch, Encoded, collate, shuffled
from memgrow.errors import SettingsError
from memgrow.methods import Plugins, Trains
from memgrow.methods.weight_ema import catching_up, follow, smoothed
from memgrow.models import Model, StepOutput
from memgrow.progress import Progress, Step
from memgrow.seeding import derive
from memgrow.training.lazy_adam import LazyAdam, defers
from memgrow.training.resume import Position, ResumeFolder

REPORT_EVERY_S = 0.2  # seconds between two reports: reading a number back from a GPU makes it wait


@dataclass(frozen=True)
class TrainingSettings:
    """How a domain is learnt. Rate, batch and optimiser (Adam) are the paper's."""

    rate: float = 3e-4
    batch: int = 32
    epochs: int = 20  # at most
    patience: int = 2  # epochs without a better validation accuracy before training stops
    clip: float = 5.0  # largest norm of a gradient
    min_count: int = 1  # a word seen less often in a domain is not stored
    max_words: int = 400  # of a longer text the beginning is read

    def __post_init__(self) -> None:
        for name in ("batch", "epochs", "patience", "min_count", "max_words"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("rate", "clip"):
            if not getattr(self, name) > 0:
                raise SettingsError(f"{name} must be above 0, not {getattr(self, name)}")


@dataclass(frozen=True)
class Outcome:
    """How a training went."""

    epochs: int
    best_epoch: int
    validation: float
    seconds: float


def train(
    model: Model,
    data: Encoded,
    validation: Encoded,
    *,
    name: str,
    settings: TrainingSettings,
    trains: Trains,
    plugins: Plugins,
    seed: int,
    resume: ResumeFolder,
    progress: Progress,
) -> Outcome:
    """Train until validation accuracy no longer rises; leaves the weights of the best epoch in the model."""
    device = next(model.parameters()).device
    optimiser = torch.optim.Adam(trains.prepare(model), lr=settings.rate, fused=True)
    table = model.word_vectors if defers(model, trains, plugins) else None
    vectors = None if table is None else LazyAdam(table.weight, optimiser)
    restored = resume.restore(model, optimiser)
    position, best = restored or (Position(), _snapshot(model))
    if restored:
        progress.note(f"{name}: goes on in epoch {position.epoch + 1}, behind batch {position.batch}")
    started, seconds_before, glanced = time.monotonic(), position.seconds, 0.0
    early = catching_up(plugins.smooth, -(-len(data) // settings.batch))
    while position.epoch < settings.epochs and position.epoch - max(position.best_epoch, early) < settings.patience:
        order = shuffled(data, settings.batch, derive(seed, "order", position.epoch), position.epoch)
        running = torch.tensor([position.loss, position.correct], dtype=torch.double, device=device)
        model.train()
        while position.batch < len(order):
            batch = collate(data, order[position.batch], device)
            output = _step(model, batch, optimiser, trains, plugins, settings.clip, vectors)
            if plugins.smooth:
                follow(optimiser, plugins.smooth, len(order))
            running += torch.stack((output.total, output.right.to(output.total)))
            position.batch, position.seen = position.batch + 1, position.seen + output.seen
            now = time.monotonic()
            if now - glanced > REPORT_EVERY_S or position.batch == len(order):
                glanced = now
                progress.step(_report(name, position, running, settings.epochs, len(order)))
            if resume.due():
                position.loss, position.correct = running.tolist()
                position.seconds = seconds_before + now - started
                resume.save(position, model, best, optimiser)
        if vectors is not None:
            vectors.flush()
        with smoothed(optimiser):
            accuracy = model.score(validation)
            if accuracy > position.best:
                best = _snapshot(model)
        position.epoch, position.batch, position.loss, position.correct, position.seen = (
            position.epoch + 1,
            0,
            0.0,
            0.0,
            0,
        )
        if accuracy > position.best:
            position.best, position.best_epoch = accuracy, position.epoch
        position.seconds = seconds_before + time.monotonic() - started
        resume.save(position, model, best, optimiser)
    model.load_state_dict(best)
    return Outcome(position.epoch, position.best_epoch, position.best, position.seconds)


def _step(
    model: Model,
    batch: Batch,
    optimiser: torch.optim.Optimizer,
    trains: Trains,
    plugins: Plugins,
    clip: float,
    vectors: LazyAdam | None = None,
) -> StepOutput:
    """One update; what comes back is still on the device. The words' vectors may be moved apart."""
    optimiser.zero_grad(set_to_none=True)
    borrowed = None if vectors is None else vectors.borrow(batch.words)
    table = model.word_vectors
    with nullcontext() if borrowed is None or table is None else borrowed.within(table):
        output = model.training_step(batch)
    parameters = dict(model.named_parameters())
    guidance = None if output.logits is None else plugins.output_loss(output.logits, batch.examples)
    terms = (output.loss, plugins.weight_loss(parameters), guidance)
    torch.stack([term for term in terms if term is not None]).sum().backward()  # type: ignore[no-untyped-call]
    trains.mask_gradients(model)
    moved = list(model.parameters()) if borrowed is None else [*model.parameters(), borrowed.vectors]
    nn.utils.clip_grad_norm_(moved, clip)
    plugins.before_step(parameters)
    optimiser.step()
    if vectors is not None and borrowed is not None:
        vectors.step(borrowed)
    plugins.after_step(parameters)
    return output


def _snapshot(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def _report(name: str, position: Position, running: Tensor, epochs: int, batches: int) -> Step:
    loss, correct = (running / max(position.seen, 1)).tolist()
    best = None if position.best_epoch == 0 else position.best
    return Step(name, position.epoch + 1, epochs, position.batch, batches, loss, correct, best)
