"""The stepper of several models of one shape: one step moves them all. On a GPU, steps are recorded and replayed."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from memgrow.methods import OptimiserState, Plugins, Trains
from memgrow.training.graphs import Graphs, separated
from memgrow.training.lazy_adam import ActiveRows
from memgrow.training.optimiser import optimiser_for
from memgrow.training.resume import under
from memgrow.training.settings import TrainingSettings
from memgrow.training.stacked.data import DeviceData, epoch_of
from memgrow.training.stacked.model import Stack


class StackStepper:
    """Trains the models of a stack, each by its own plugins; a state is saved and loaded of a stack of one alone."""

    def __init__(
        self,
        stack: Stack,
        data: DeviceData,
        validation: DeviceData,
        *,
        settings: TrainingSettings,
        trains: Trains,
        plugins: Sequence[Plugins],
    ) -> None:
        self.data, self.validation, self.settings, self.trains = data, validation, settings, trains
        self.device = data.labels.device
        self.batches = -(-len(data.data) // settings.batch)  # of an epoch
        self.warm_up = plugins[0].warm_up_epochs(self.batches)
        self.best = {name: p.detach().clone() for name, p in stack.parameters.items()}  # (models, ...)
        self.whole, self.members = stack, list(range(len(stack)))  # those that train, by their places in `best`
        self._hold(stack, plugins)

    def _hold(self, stack: Stack, plugins: Sequence[Plugins]) -> None:
        """Train this stack from now on."""
        self.stack, self.own, self.plugins = stack, plugins, Plugins.stacked(plugins)
        moving = {n: stack.parameters[n].requires_grad_() for n in self.trains.since if stack.parameters[n].numel()}
        self.optimiser = optimiser_for(
            stack.template,
            self.trains,
            self.plugins,
            self.settings.rate,
            parameters=moving,
            capturable=self.device.type == "cuda",
        )
        self.numbers = torch.zeros(len(stack), self.settings.batch, dtype=torch.long, device=self.device)
        self.running = torch.zeros(2, dtype=torch.double, device=self.device)
        self.seen = 0
        self._run = Graphs(lambda steps: self._step(self.numbers, steps), self.device)

    def epoch(self, number: int, orders: Sequence[Sequence[Sequence[int]]], first: int) -> Iterator[int]:
        batches = epoch_of(orders)
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
        self.optimiser.flush()

    def finite(self) -> list[bool]:
        sums = [parameter.detach().flatten(1).sum(1) for parameter in self.optimiser.parameters.values()]  # (K) each
        found: list[bool] = torch.stack(sums).isfinite().all(0).tolist() if sums else [True] * len(self.stack)
        return found

    def score(self) -> list[float]:
        scores: list[float] = correct_of(self._evaluated(), self.validation).double().mean(1).tolist()
        return scores

    def keep(self, places: Sequence[int]) -> None:
        evaluated = self._evaluated()
        for place in places:
            for name, parameter in evaluated.parameters.items():
                self.best[name][self.members[place]].copy_(parameter[place].detach())

    def narrow(self, places: Sequence[int]) -> None:
        old, run, chosen = self.optimiser, self._run, list(places)
        stack = Stack([self.stack.template])
        stack.parameters = {name: p.detach()[chosen].clone() for name, p in self.stack.parameters.items()}
        self.members = [self.members[place] for place in chosen]
        self._hold(stack, [self.own[place] for place in chosen])
        for name, parameter in self.optimiser.parameters.items():
            self.optimiser.adam.state[parameter] = {
                kind: value.clone() if value.ndim == 0 else value[chosen].clone()
                for kind, value in old.adam.state[old.parameters[name]].items()
            }
        run.close()

    def optimiser_state(self, place: int, kinds: Collection[str] | None = None) -> OptimiserState:
        return self.optimiser.after_last_step(lambda value: (value if value.ndim == 0 else value[place]).clone(), kinds)

    def state(self) -> dict[str, Tensor]:
        model = self.stack.template
        self.stack.write(0, model)
        own = model.state_dict()
        tensors = {f"model/{name}": tensor for name, tensor in own.items()}
        tensors |= {f"best/{name}": self.best[name][0] if name in self.best else own[name] for name in own}
        known = self.optimiser.state().items()
        return tensors | {f"optimiser/{name}": value if value.ndim == 0 else value[0] for name, value in known}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        model, best = self.stack.template, under(tensors, "best")
        self.stack.write(0, model)
        model.load_state_dict({**model.state_dict(), **under(tensors, "model")})
        for name, parameter in model.named_parameters():
            self.stack.parameters[name].detach()[0].copy_(parameter.detach())
            if name in best:  # an empty bank leaves no trace in a state
                self.best[name][0].copy_(best[name])
        known = under(tensors, "optimiser").items()
        self.optimiser.load_state({name: value if value.ndim == 0 else value.unsqueeze(0) for name, value in known})

    def finish(self) -> None:
        self._run.close()
        self.whole.parameters = self.best

    def _evaluated(self) -> Stack:
        """The stack with the weights that are evaluated and kept."""
        stack = Stack([self.stack.template])
        evaluated = self.plugins.evaluated_weights(self.optimiser.adam, self.stack.parameters)
        stack.parameters = {name: parameter.detach() for name, parameter in evaluated.items()}
        return stack

    def _step(self, numbers: Tensor, steps: int) -> None:
        moving = self.optimiser.begin(lambda: self._rows(numbers, steps))
        parameters, rows = list(moving.values()), self.optimiser.rows
        gradients: list[Tensor] = []
        for piece in torch.split(numbers, self.data.rows(numbers.shape[1], steps), dim=1):
            found = torch.autograd.grad(self._loss(piece, numbers, steps, rows), parameters, materialize_grads=True)
            gradients = separated(found) if not gradients else [a + b for a, b in zip(gradients, found, strict=True)]
        if (weight_loss := self.plugins.weight_loss(self.stack.parameters)) is not None:
            found = torch.autograd.grad(weight_loss, parameters, materialize_grads=True)
            gradients = [a + b for a, b in zip(gradients, found, strict=True)]
        for name, gradient in zip(moving, gradients, strict=True):
            dim, first = self.trains.since[name]
            if first:
                gradient.narrow(dim + 1, 0, first).zero_()
        clip_each(gradients, self.settings.clip)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        with torch.no_grad():
            self.plugins.before_step(self.optimiser.parameters)
            self.optimiser.step()
            self.plugins.after_step(self.optimiser.parameters)
            self.plugins.follow_weights(self.optimiser.adam, self.batches)
        for parameter in parameters:
            parameter.grad = None

    def _rows(self, numbers: Tensor, steps: int) -> Tensor:
        """The rows of the word vectors that a batch reads, of each model its own: (K, n)."""
        words = self.data.take(numbers, steps).words  # (T, R, K)
        return self.stack.numbers(words).permute(2, 0, 1).flatten(1)

    def _loss(self, piece: Tensor, whole: Tensor, steps: int, rows: ActiveRows | None) -> Tensor:
        """The share of some examples (K, b) in the loss of a batch (K, B).

        It is the sum over models of each one's mean: their gradients do not mix.
        """
        batch = self.data.take(piece, steps)
        logits = self.stack(batch.words, batch.lengths, rows)  # (K, b, labels)
        loss = F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), reduction="sum")
        right = (logits.detach().argmax(-1) == batch.labels).sum()
        self.running += torch.stack((loss.detach().double(), right.double()))
        loss = loss / whole.shape[1]
        output_loss = self.plugins.output_loss(logits, piece)
        return loss if output_loss is None else loss + output_loss * (piece.shape[1] / whole.shape[1])


def clip_each(gradients: Sequence[Tensor], largest: float) -> None:
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
    """For each model and example (K, examples) whether it is answered rightly, on the CPU."""
    return (logits_together(stack, data).argmax(-1) == data.labels).cpu()
