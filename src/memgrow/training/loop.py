"""The training loop: epochs of batches, early stopping on the validation set, progress, and resuming."""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import torch
from torch import Tensor, nn

from memgrow.data.batches import Encoded, collate, shuffled
from memgrow.errors import SettingsError
from memgrow.evaluation.history import Curve
from memgrow.methods import Method, Trainable
from memgrow.methods.base import Weights
from memgrow.models import Model
from memgrow.nn import distributed
from memgrow.nn.device import derive, set_seed
from memgrow.training.progress import Progress, ResumeFolder, Step, TrainState, under
from memgrow.training.settings import TrainingSettings

REPORT_EVERY_S = 0.2  # reading a number back from a GPU makes it wait
MOMENTS = ("exp_avg", "exp_avg_sq")  # of Adam
PERFECT = 1.0  # no later epoch can be better


@dataclass(frozen=True)
class TrainResult:
    epochs: int
    best_epoch: int
    validation: float
    seconds: float
    curve: Curve = field(default_factory=Curve)
    last_weights: Weights = field(default_factory=dict)  # after the last step; the model has those of the best epoch


def train(
    model: Model,
    method: Method,
    data: Encoded,
    *,
    validation: Encoded,
    trainable: Trainable,
    new: Collection[str],
    settings: TrainingSettings,
    seed: int,
    name: str,
    resume: ResumeFolder,
    progress: Progress,
) -> TrainResult:
    """Train until the validation score no longer rises, and leave the best epoch's weights in the model.

    With select="last" all epochs are trained and the last is the best. Parameters named in `new` train at `new_rate`.
    Several processes share each batch, see `nn/distributed.py`.
    """
    parameters = trainable.prepare(model)
    optimizer = make_optimizer(parameters, settings, new)
    batches = -(-len(data) // settings.batch)
    patience, warmup = settings.patience_for(len(validation)), method.warmup_epochs(batches)
    newest = settings.select == "last"
    best = _copy(trainable.state(model))
    running = torch.zeros(3, dtype=torch.double, device=model.device)  # this epoch's loss, correct answers, answers
    state = TrainState()
    if (restored := resume.restore()) is not None:
        state, tensors = restored
        try:
            best = _load(model, trainable, tensors)
            load_optimizer_state(optimizer, parameters, under(tensors, "optimizer"))
        except (LookupError, TypeError, ValueError, RuntimeError) as error:
            raise resume.unusable(error) from error
        running.copy_(torch.tensor([state.loss, state.correct, state.seen], dtype=torch.double))
        progress.note(f"{name}: resuming in epoch {state.epoch + 1} after batch {state.batch}")
    distributed.take_weights_of_first(model)
    rank, processes = distributed.rank(), distributed.process_count()
    started, reported = time.monotonic() - state.seconds, 0.0

    def save(at: TrainState) -> None:
        tensors = {f"model/{key}": tensor for key, tensor in trainable.state(model).items()}
        tensors |= {f"best/{key}": tensor for key, tensor in best.items()}
        tensors |= {f"optimizer/{key}": tensor for key, tensor in optimizer_state(optimizer, parameters).items()}
        resume.save(at, tensors, model.device)

    def report(done: int, validated: float | None = None) -> None:
        total, correct, count = running.tolist()
        if not isfinite(total):
            raise diverged(done)
        known = state.best if state.best >= 0 else None
        figures = total / max(count, 1), correct / max(count, 1), known, validated
        progress.step(Step(name, epoch + 1, settings.max_epochs, done, batches, *figures))

    def diverged(done: int) -> SettingsError:
        resume.clear()  # a resumed run would diverge again
        return SettingsError(
            f"training on {name} diverged in epoch {epoch + 1}, by step {done} of {batches}: the loss or a weight is "
            f"not finite. The model is unchanged; lower the rate, for example --set rate={settings.rate / 10:g}"
        )

    def may_improve() -> bool:
        if newest:
            return state.epoch < settings.max_epochs
        waited = state.epoch - max(state.best_epoch, warmup)
        return state.epoch < settings.max_epochs and state.best < PERFECT and waited < patience

    while may_improve():
        epoch, first = state.epoch, state.batch
        order = shuffled(data, settings.batch, derive(seed, "order", epoch), epoch)
        if first == 0:
            running.zero_()
        model.train()
        for done, indices in enumerate(order[first:], first + 1):
            if rank:  # other dropout than the first process has, and the same again when it resumes
                set_seed(derive(seed, "rank", rank, epoch, done))
            part = indices[rank::processes]
            batch = collate(data, part or indices[:1], model.device)
            scale_rates(optimizer, settings.rate_factor(epoch * batches + done - 1, batches))
            optimizer.zero_grad(set_to_none=True)
            sums = torch.zeros_like(running)
            for piece, share in model.parts(batch):
                output = model.training_step(piece)
                extra = method.loss(model, piece, output.logits)  # not part of the loss that progress shows
                loss = output.loss if extra is None else output.loss + extra
                (loss if share == 1 else share * loss).backward()  # type: ignore[no-untyped-call]
                seen = torch.full_like(output.total, output.seen)
                sums += torch.stack((output.total, output.right.to(output.total), seen))
            running += distributed.average_gradients(parameters.values(), sums * bool(part))
            trainable.mask_gradients(model)
            nn.utils.clip_grad_norm_(parameters.values(), settings.clip)
            optimizer.step()
            method.after_step(model, optimizer, batches)

            now = time.monotonic()
            if not rank and now - reported > REPORT_EVERY_S and done < batches:
                reported = now
                report(done)
            if resume.due():
                total, correct, count = running.tolist()
                if not isfinite(total):
                    raise diverged(done)
                save(replace(state, batch=done, loss=total, correct=correct, seen=int(count), seconds=now - started))

        if not _finite(parameters.values()):
            raise diverged(batches)
        with swapped(model, method.evaluation_weights(model, optimizer)):
            score = distributed.exchange(model.score(validation))[0]
            loss_so_far = float(running[0]) / max(float(running[2]), 1)
            state = state.after_epoch(score, time.monotonic() - started, loss_so_far, newest)
            if state.best_epoch == state.epoch:
                best = _copy(trainable.state(model))
        if resume.due():
            save(state)
        report(batches, score)

    last = _copy(parameters)
    model.load_state_dict({**model.state_dict(), **best})
    return TrainResult(state.epoch, state.best_epoch, state.best, state.seconds, state.curve, last)


@contextmanager
def swapped(model: nn.Module, weights: Weights) -> Iterator[None]:
    """Within, the model has these weights, by name, in place of its own."""
    own = {name: parameter for name, parameter in model.named_parameters() if name in weights}
    before = _copy(own)
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(weights[name])
    try:
        yield
    finally:
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(before[name])


def _load(model: Model, trainable: Trainable, tensors: Weights) -> dict[str, Tensor]:
    """Load a saved training's weights into the model; returns its best weights so far."""
    current, best = under(tensors, "model"), under(tensors, "best")
    for name in trainable.state(model):
        if name not in current or name not in best:
            raise ValueError(f"{name} is missing")
    model.load_state_dict({**model.state_dict(), **current})
    return {name: tensor.to(model.device) for name, tensor in best.items()}


def _copy(weights: Weights) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in weights.items()}


def _finite(parameters: Collection[Tensor]) -> bool:
    sums = [parameter.detach().sum() for parameter in parameters]
    return not sums or bool(torch.stack(sums).isfinite().all())


# The optimizer: Adam over parameters by name


def make_optimizer(
    parameters: Mapping[str, nn.Parameter], settings: TrainingSettings, new: Collection[str]
) -> torch.optim.Adam:
    """Adam; parameters named in `new` train at `settings.new_rate` if it is set."""
    groups: dict[float, dict[str, Any]] = {}
    for name, parameter in parameters.items():
        rate = settings.new_rate if settings.new_rate is not None and name in new else settings.rate
        groups.setdefault(rate, {"params": [], "lr": rate, "full_rate": rate})["params"].append(parameter)
    return torch.optim.Adam(groups.values() or [{"params": []}], fused=True)


def scale_rates(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set every learning rate to `factor` times its full value."""
    for group in optimizer.param_groups:
        group["lr"] = group["full_rate"] * factor


def optimizer_state(optimizer: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """The optimizer's state, with what methods have put into it, as "kind/parameter"."""
    return {
        f"{kind}/{name}": tensor
        for name, parameter in parameters.items()
        for kind, tensor in optimizer.state.get(parameter, {}).items()
    }


def load_optimizer_state(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, nn.Parameter], state: Mapping[str, Tensor]
) -> None:
    for key, tensor in state.items():
        kind, name = key.split("/", 1)
        if name not in parameters:
            continue
        if kind in MOMENTS and tensor.shape != parameters[name].shape:
            raise ValueError(f"{key} has another shape than {name}")
        optimizer.state[parameters[name]][kind] = tensor.to(parameters[name].device)
