"""The loop of `memgrow.training` for several models at once: one step moves them all, each stops by itself."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from memgrow.data.batches import shuffled
from memgrow.methods import Plugins, Trains
from memgrow.methods.weight_ema import catching_up, follow, mean_of
from memgrow.models import Model
from memgrow.progress import Progress, Step
from memgrow.seeding import derive
from memgrow.training import loop as training
from memgrow.training.lazy_adam import ActiveRows, LazyAdam, defers
from memgrow.training.loop import Outcome, TrainingSettings
from memgrow.training.resume import Position, ResumeFolder
from memgrow.training.stacked.data import DeviceData, epoch_of
from memgrow.training.stacked.graphs import Graphs
from memgrow.training.stacked.model import Stack

if TYPE_CHECKING:
    pass


class Keeper:
    """Saves and restores a stack that holds one model."""

    def __init__(self, model: Model, resume: ResumeFolder) -> None:
        self.model, self.resume = model, resume
        self._moments = torch.optim.Adam(model.parameters())  # never steps: has moments by the model's own parameters

    def restore(self, stepper: "Stepper", best: dict[str, Tensor]) -> Position | None:
        """Put a saved state into the stepper and the best weights; None if there is none."""
        restored = self.resume.restore(self.model, self._moments)
        if restored is None:
            return None
        position, kept = restored
        for name, parameter in self.model.named_parameters():
            stepper.stack.parameters[name].detach()[0].copy_(parameter.detach())
            if name in kept:  # an empty bank leaves no trace in a state
                best[name][0].copy_(kept[name])
            moments = self._moments.state.get(parameter)
            if moments:
                own = {kind: value if value.ndim == 0 else value.unsqueeze(0) for kind, value in moments.items()}
                stepper.optimiser.state[stepper.moving[name]] = own
        stepper.running.copy_(torch.tensor([position.loss, position.correct]))
        stepper.seen = position.seen
        return position

    def due(self) -> bool:
        return self.resume.due()

    def save(self, position: Position, stepper: "Stepper", best: dict[str, Tensor]) -> None:
        if self.resume.folder is None:
            return
        stepper.stack.write(0, self.model)
        for name, parameter in self.model.named_parameters():
            moments = stepper.optimiser.state.get(stepper.moving[name], {}) if name in stepper.moving else {}
            self._moments.state[parameter] = {
                kind: value if value.ndim == 0 else value[0] for kind, value in moments.items()
            }
        whole = {name: best[name][0] if name in best else own for name, own in self.model.state_dict().items()}
        self.resume.save(position, self.model, whole, self._moments)


WORTHWHILE = 0.7  # when no more than this share of a stack still trains, the others leave it


@dataclass(frozen=True)
class Standing:
    """How far one model has come."""

    epoch: int = 0
    best: float = -1.0
    best_epoch: int = 0
    seconds: float = 0.0

    def after(self, accuracy: float, seconds: float) -> "Standing":
        new = replace(self, epoch=self.epoch + 1, seconds=seconds)
        return replace(new, best=accuracy, best_epoch=new.epoch) if accuracy > self.best else new

    def goes_on(self, settings: TrainingSettings, early: int) -> bool:
        """`early`: epochs behind which it counts that there is no better one."""
        return self.epoch < settings.epochs and self.epoch - max(self.best_epoch, early) < settings.patience


def train_together(
    stack: Stack,
    data: DeviceData,
    validation: DeviceData,
    *,
    name: str,
    settings: TrainingSettings,
    trains: Trains,
    plugins: Sequence[Plugins],
    seeds: Sequence[int],
    progress: Progress,
    keeper: Keeper | None = None,
) -> list[Outcome]:
    """Train every model until its own validation accuracy no longer rises; leaves its best weights in the stack.

    A stack of one may have a keeper, so that a run that was killed goes on.
    """
    best = {n: p.detach().clone() for n, p in stack.parameters.items()}
    active = list(range(len(seeds)))  # those that train, in the order in which the stepper holds them
    stepper = Stepper(stack, data, settings, trains, plugins)
    restored = keeper.restore(stepper, best) if keeper else None
    if restored:
        progress.note(f"{name}: goes on in epoch {restored.epoch + 1}, behind batch {restored.batch}")
    position = restored or Position()
    standings = [Standing(position.epoch, position.best, position.best_epoch, position.seconds) for _ in seeds]
    started, glanced = time.monotonic() - position.seconds, 0.0
    early = catching_up(plugins[0].smooth, stepper.batches)
    while going := [k for k in active if standings[k].goes_on(settings, early)]:
        if len(going) <= WORTHWHILE * len(active):
            narrowed = stepper.narrowed([active.index(k) for k in going])
            stepper.close()
            stepper, active = narrowed, going
        epoch = standings[going[0]].epoch
        orders = [shuffled(data.data, settings.batch, derive(seeds[k], "order", epoch), epoch) for k in active]
        batches, best_so_far = epoch_of(orders), max(s.best for s in standings) if epoch else None
        for done in stepper.epoch(batches, position.batch):
            now = time.monotonic()
            if now - glanced > training.REPORT_EVERY_S and done < len(batches):
                glanced = now
                progress.step(Step(name, epoch + 1, settings.epochs, done, len(batches), *stepper.means(), best_so_far))
            if keeper and keeper.due():
                keeper.save(_position(standings[0], now - started, done, stepper), stepper, best)
        position = Position()
        judged = stepper.judged()
        accuracies = correct_of(judged, validation).double().mean(1).tolist()
        for place, k in enumerate(active):
            if k in going:
                standings[k] = standings[k].after(accuracies[place], time.monotonic() - started)
                if standings[k].best_epoch == standings[k].epoch:
                    for n, p in judged.parameters.items():
                        best[n][k].copy_(p[place].detach())
        if keeper:
            keeper.save(_position(standings[0], standings[0].seconds), stepper, best)
        best_so_far, count = max(s.best for s in standings), len(batches)
        progress.step(Step(name, epoch + 1, settings.epochs, count, count, *stepper.means(), best_so_far))
    stepper.close()
    stack.parameters = best
    return [Outcome(s.epoch, s.best_epoch, s.best, s.seconds) for s in standings]


def _position(standing: Standing, seconds: float, batch: int = 0, within: "Stepper | None" = None) -> Position:
    """Where a stack of one stands, as a resume notes it: behind a batch of an epoch, or before an epoch."""
    loss, correct = within.running.tolist() if within else (0.0, 0.0)
    seen = within.seen if within else 0
    return Position(standing.epoch, batch, loss, correct, seen, standing.best, standing.best_epoch, seconds)


class Stepper:
    """Moves a stack batch by batch."""

    def __init__(
        self,
        stack: Stack,
        data: DeviceData,
        settings: TrainingSettings,
        trains: Trains,
        plugins: Sequence[Plugins],
    ) -> None:
        self.stack, self.data, self.settings, self.trains = stack, data, settings, trains
        self.own, self.plugins = plugins, Plugins.stacked(plugins)
        self.batches = -(-len(data.data) // settings.batch)  # of an epoch
        self.device = data.labels.device
        self.moving = {n: stack.parameters[n].requires_grad_() for n in trains.since if stack.parameters[n].numel()}
        self.optimiser = torch.optim.Adam(
            list(self.moving.values()), lr=settings.rate, fused=True, capturable=self.device.type == "cuda"
        )
        deferred = stack.words in self.moving and defers(stack.template, trains, self.plugins)
        self.vectors = LazyAdam(self.moving[stack.words], self.optimiser) if deferred else None
        self.numbers = torch.zeros(len(stack), settings.batch, dtype=torch.long, device=self.device)
        self.running = torch.zeros(2, dtype=torch.double, device=self.device)
        self.seen = 0
        self._run = Graphs(lambda steps: self._step(self.numbers, steps), self.device)

    def epoch(self, batches: Sequence[Tensor], first: int = 0) -> Iterator[int]:
        """Take the batches from the first on one by one; yields how many of all are done."""
        if first == 0:
            self.running.zero_()
            self.seen = 0
        self.stack.training = True
        for done, batch in enumerate(batches[first:], first + 1):
            steps = self.data.steps(batch)
            if batch.shape == self.numbers.shape:
                self.numbers.copy_(batch, non_blocking=True)
                self._run(steps)
            else:  # the last one may be smaller
                self._step(batch.to(self.device), steps)
            self.seen += batch.numel()
            yield done
        self.stack.training = False
        if self.vectors is not None:
            self.vectors.flush()

    def close(self) -> None:
        self._run.close()

    def judged(self) -> Stack:
        """The stack as it is tried and kept: the running means in the weights' place, if there are any."""
        stack = Stack([self.stack.template])
        stack.parameters = {n: mean_of(self.optimiser, p) for n, p in self.stack.parameters.items()}
        return stack

    def means(self) -> tuple[float, float]:
        """Loss and share of right answers in this epoch so far."""
        loss, right = (self.running / max(self.seen, 1)).tolist()
        return loss, right

    def narrowed(self, places: Sequence[int]) -> "Stepper":
        """The same for some of the models alone, the optimiser's state included."""
        stack = Stack([self.stack.template])
        stack.parameters = {n: p.detach()[list(places)].clone() for n, p in self.stack.parameters.items()}
        plugins = [self.own[place] for place in places]
        new = Stepper(stack, self.data, self.settings, self.trains, plugins)
        for name, parameter in new.moving.items():
            state = self.optimiser.state[self.moving[name]]
            new.optimiser.state[parameter] = {
                what: value.clone() if value.ndim == 0 else value[list(places)].clone() for what, value in state.items()
            }
        return new

    def _step(self, numbers: Tensor, steps: int) -> None:
        borrowed = self._borrowed(numbers, steps)
        moving = self.moving if borrowed is None else {**self.moving, self.stack.words: borrowed.vectors}
        parameters = list(moving.values())
        gradients: list[Tensor] = []
        for piece in torch.split(numbers, self.data.rows(numbers.shape[1], steps), dim=1):
            found = torch.autograd.grad(self._loss(piece, numbers, steps, borrowed), parameters, materialize_grads=True)
            gradients = _separate(found) if not gradients else [a + b for a, b in zip(gradients, found, strict=True)]
        if (penalty := self.plugins.weight_loss(self.stack.parameters)) is not None:
            found = torch.autograd.grad(penalty, parameters, materialize_grads=True)
            gradients = [a + b for a, b in zip(gradients, found, strict=True)]
        for name, gradient in zip(moving, gradients, strict=True):
            dim, first = self.trains.since[name]
            if first:
                gradient.narrow(dim + 1, 0, first).zero_()
        _clip(gradients, self.settings.clip)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        with torch.no_grad():
            self.plugins.before_step(self.moving)
            self.optimiser.step()
            if self.vectors is not None and borrowed is not None:
                self.vectors.step(borrowed)
            self.plugins.after_step(self.moving)
            if self.plugins.smooth:
                follow(self.optimiser, self.plugins.smooth, self.batches)
        for parameter in parameters:
            parameter.grad = None

    def _borrowed(self, numbers: Tensor, steps: int) -> ActiveRows | None:
        """The vectors of the words of a batch, where they are moved apart from the other parameters."""
        if self.vectors is None:
            return None
        words = self.data.take(numbers, steps).words  # (T, R, K)
        return self.vectors.borrow(self.stack.numbers(words).permute(2, 0, 1).flatten(1))

    def _loss(self, piece: Tensor, whole: Tensor, steps: int, vectors: ActiveRows | None) -> Tensor:
        """The share of some examples (K, b) in the loss of a batch (K, B).

        It is the sum over models of each one's mean: their gradients do not mix.
        """
        batch = self.data.take(piece, steps)
        logits = self.stack(batch.words, batch.lengths, vectors)  # (K, b, labels)
        loss = F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), reduction="sum")
        right = (logits.detach().argmax(-1) == batch.labels).sum()
        self.running += torch.stack((loss.detach().double(), right.double()))
        loss = loss / whole.shape[1]
        guidance = self.plugins.output_loss(logits, piece)
        return loss if guidance is None else loss + guidance * (piece.shape[1] / whole.shape[1])


def _separate(gradients: Sequence[Tensor]) -> list[Tensor]:
    """The same, each laid out like its parameter, as the fused optimiser expects, and none sharing another's memory."""
    taken: set[int] = set()
    new = []
    for gradient in gradients:
        whole = gradient.contiguous()
        new.append(whole.clone() if whole.data_ptr() in taken else whole)
        taken.add(whole.data_ptr())
    return new


def _clip(gradients: Sequence[Tensor], largest: float) -> None:
    """Scale each model's gradient down to this norm where it is above."""
    norms = torch.stack([torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients])  # (parameters, K)
    shares = (largest / (torch.linalg.vector_norm(norms, dim=0) + 1e-6)).clamp(max=1)
    for number, share in enumerate(shares.unbind()):  # model by model: one pass at full width, unlike a broadcast
        torch._foreach_mul_([gradient[number] for gradient in gradients], share)


@torch.no_grad()
def logits_together(stack: Stack, data: DeviceData) -> Tensor:
    """Logits (K, examples, labels) in the order of the data."""
    answers = data.labels.new_empty(len(stack), len(data.data), stack.template.labels, dtype=torch.float32)
    for indices, numbers, steps in data.in_batches(len(stack)):
        batch = data.take(numbers, steps)
        answers[:, indices] = stack(batch.words, batch.lengths)
    return answers


def correct_of(stack: Stack, data: DeviceData) -> Tensor:
    """Which examples (K, examples) each model answers rightly, on the CPU."""
    return (logits_together(stack, data).argmax(-1) == data.labels).cpu()
