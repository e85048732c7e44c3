"""The one training loop: epochs, early stopping on the validation set, progress and resuming, for any `Stepper`."""

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite
from typing import Protocol

import torch
from torch import Tensor

from memgrow.data.batches import Encoded, shuffled
from memgrow.errors import SettingsError
from memgrow.methods import OptimiserState, Plugins
from memgrow.progress import Progress, Step
from memgrow.seeding import derive
from memgrow.training.resume import Curve, Position, ResumeFolder
from memgrow.training.settings import TrainingSettings

REPORT_EVERY_S = 0.2  # between two reports: reading a number back from a GPU makes it wait
PERFECT = 1.0  # the highest score there is: no later epoch would be kept in the place of one that has it
NARROW_AT = 0.7  # when no more than this share of the models still trains, the others leave


@dataclass(frozen=True)
class Outcome:
    """The result of a training."""

    epochs: int
    best_epoch: int
    validation: float
    seconds: float
    curve: Curve = field(default_factory=Curve)


class Stepper(Protocol):
    """One model, or several of one shape, that are trained batch by batch. Lists are in the order of the models."""

    device: torch.device
    warm_up: int  # epochs before it counts that validation gets no better
    running: Tensor  # (2): loss and right answers of this epoch so far, summed over all models
    seen: int  # answers in it

    def epoch(self, number: int, orders: Sequence[Sequence[Sequence[int]]], first: int) -> Iterator[int]:
        """Train on each model's batches of an epoch from the first on; yields how many of all are done."""

    def finite(self) -> list[bool]:
        """Whether all weights of each model that train are still finite numbers."""

    def score(self) -> list[float]:
        """The score of each model on the validation set."""

    def keep(self, places: Sequence[int]) -> None:
        """Keep the weights that were just scored of the models in those places, as their best."""

    def narrow(self, places: Sequence[int]) -> None:
        """Go on with the models in those places alone."""

    def optimiser_state(self, place: int, kinds: Collection[str] | None = None) -> OptimiserState:
        """A copy of what the optimiser holds of the model in that place, and of the weights that it moves.

        Of these kinds of tensors, or of all.
        """

    def state(self) -> dict[str, Tensor]:
        """All that a training of one model needs to go on: weights, the best ones, the optimiser's state.

        What is frozen may be left out: the model that goes on has it from its start.
        """

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take up what `state` gave, of this kind of stepper or of another."""

    def finish(self) -> None:
        """Put every model's best weights in place."""


def train(
    stepper: Stepper,
    data: Encoded,
    *,
    name: str,
    settings: TrainingSettings,
    seeds: Sequence[int],
    plugins: Sequence[Plugins],
    resume: ResumeFolder,
    progress: Progress,
    validation: int,
) -> list[Outcome]:
    """Train each model until its own validation score no longer rises, and leave its best epoch's weights in it.

    Each model has a seed and plugins of its own. `validation` is how many examples they are validated on. Only the
    training of a single model is kept to be resumed.
    """
    positions = [Position()] * len(seeds)
    if (restored := resume.restore()) is not None:
        position, tensors = restored
        try:
            stepper.load_state(tensors)
        except (LookupError, TypeError, ValueError, RuntimeError) as error:
            raise resume.unusable(error) from error
        stepper.running.copy_(torch.tensor([position.loss, position.correct], dtype=torch.double))
        stepper.seen, positions = position.seen, [position]
        progress.note(f"{name}: resuming in epoch {position.epoch + 1} after batch {position.batch}")
    active = list(range(len(seeds)))  # the models that the stepper holds
    ended: set[int] = set()
    started, reported = time.monotonic() - positions[0].seconds, 0.0
    batches = -(-len(data) // settings.batch)

    def diverged(epoch: int, done: int) -> SettingsError:
        resume.clear()  # it would end in the same way when it is taken up
        many = "" if len(seeds) == 1 else f" for one of {len(seeds)} models that learn together"
        return SettingsError(
            f"learning {name} failed in epoch {epoch + 1}, by step {done} of {batches}{many}, as a loss or a weight is "
            f"no longer a finite number; what was learnt before is unchanged: choose a rate below {settings.rate:g}, "
            f"such as --set rate={settings.rate / 10:g}"
        )

    def report(epoch: int, done: int, validated: float | None = None) -> None:
        loss, correct = (stepper.running / max(stepper.seen, 1)).tolist()
        if not isfinite(loss) and len(going) == len(active):
            raise diverged(epoch, done)
        best = max(position.best for position in positions)
        known = (loss, correct, best if best >= 0 else None, validated)
        progress.step(Step(name, epoch + 1, settings.most_epochs, done, batches, *known))

    def save(position: Position) -> None:
        resume.save(position, stepper.state(), stepper.device)

    def goes_on(position: Position) -> bool:
        waited = position.epoch - max(position.best_epoch, stepper.warm_up)
        may_rise = position.best < PERFECT and waited < settings.waiting(validation)
        return position.epoch < settings.most_epochs and may_rise

    def end(stopped: Iterable[int]) -> None:
        """Hand over what plugins gathered of models that have stopped; a stack may still carry them along."""
        for k in set(stopped) - ended:
            plugins[k].after_steps(partial(stepper.optimiser_state, active.index(k)))
            ended.add(k)

    while going := [k for k in active if goes_on(positions[k])]:
        end(k for k in active if k not in going)
        if len(going) <= NARROW_AT * len(active):
            stepper.narrow([active.index(k) for k in going])
            active = going
        epoch, first = positions[going[0]].epoch, positions[going[0]].batch
        orders = [shuffled(data, settings.batch, derive(seeds[k], "order", epoch), epoch) for k in active]
        for done in stepper.epoch(epoch, orders, first):
            now = time.monotonic()
            if now - reported > REPORT_EVERY_S and done < batches:
                reported = now
                report(epoch, done)
            if resume.due():
                loss, correct = stepper.running.tolist()
                if not isfinite(loss):
                    raise diverged(epoch, done)
                within = replace(positions[0], batch=done, loss=loss, correct=correct, seen=stepper.seen)
                save(replace(within, seconds=now - started))
        finite = stepper.finite()
        if not all(finite[place] for place, k in enumerate(active) if k in going):
            raise diverged(epoch, batches)
        scores, better = stepper.score(), []
        # Models that train together have but one sum of their losses.
        loss = float(stepper.running[0]) / max(stepper.seen, 1) if len(seeds) == 1 else None
        for place, k in enumerate(active):
            if k in going:
                positions[k] = positions[k].after_epoch(scores[place], time.monotonic() - started, loss)
                if positions[k].best_epoch == positions[k].epoch:
                    better.append(place)
        stepper.keep(better)
        if resume.folder is not None and resume.due_after_epoch(stepper.state()):
            save(positions[0])
        report(epoch, batches, scores[0] if len(seeds) == 1 else None)
    end(active)
    stepper.finish()
    return [Outcome(p.epoch, p.best_epoch, p.best, p.seconds, p.curve) for p in positions]
