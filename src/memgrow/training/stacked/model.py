"""Several classifiers of one shape as one: their weights stacked, their forward pass, their Fisher diagonals."""

from collections.abc import Callable, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memgrow.models import Classifier, Model, RecurrentEncoder
from memgrow.nn import MemoryRecurrent
from memgrow.training.graphs import Graphs
from memgrow.training.stacked.data import DeviceData
from memgrow.training.stacked.recurrence import Slots, Weights, recur, turned


def obstacle(models: Sequence[Model]) -> str | None:
    """Why these models cannot be stacked, if so."""
    first = models[0]
    if not isinstance(first, Classifier):
        return "only classifiers are stacked"
    if not isinstance(first.encoder, RecurrentEncoder) or first.settings.cell != "lstm" or first.settings.layers != 1:
        return "only models of one LSTM layer are stacked"
    if first.settings.domains_read:
        return "which domains' slots a text reads is decided text by text"
    if any(_form(model) != _form(first) for model in models[1:]):
        return "the models are not of one shape"
    return None


def _form(model: Model) -> dict[str, object]:
    return {**model.shape(), "parameters": {name: tuple(p.shape) for name, p in model.named_parameters()}}


class Stack:
    """K models side by side. `parameters` are named as in one model, each (K, ...)."""

    def __init__(self, models: Sequence[Model]) -> None:
        self.template = cast(Classifier, models[0])  # for what all have in common; its numbers are not read
        self.encoder = cast(RecurrentEncoder, self.template.encoder)
        self._names = {id(parameter): name for name, parameter in self.template.named_parameters()}
        self.words = self._names[id(self.encoder.word_vectors.weight)]  # the name of the word vectors
        named = [dict(model.named_parameters()) for model in models]
        self.parameters = {name: torch.stack([m[name].detach() for m in named]) for name in named[0]}
        self.training = False

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))

    @property
    def columns(self) -> Sequence[MemoryRecurrent]:
        """The columns of the template."""
        return self.encoder.columns

    def of(self, parameter: Tensor) -> Tensor:
        """The weights (K, ...) of all models of the stack for one of the template's parameters."""
        return self.parameters[self._names[id(parameter)]]

    @torch.no_grad()
    def write(self, number: int, model: Model) -> None:
        """Give a model the weights of one of the stack."""
        for name, parameter in model.named_parameters():
            parameter.copy_(self.parameters[name][number])

    def __call__(self, words: Tensor, lengths: Tensor, vectors: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Logits (K, B, labels) of word indices (T, R, K) of texts of those lengths (R, K).

        `vectors` gives those of the `numbers` of words, where they are not to be read from the parameters.
        """
        steps = torch.arange(len(words), device=words.device).view(-1, 1, 1)
        inside = steps < lengths  # (T, R, K)
        mirror = torch.where(inside, lengths - 1 - steps, steps)
        embedded = (vectors or self._embed)(self.numbers(words))  # (T, R, K, F)
        seen = F.dropout(embedded, self.encoder.dropout.p, self.training)
        pooled = []
        for column in self.columns:
            output = self._states(column, seen, mirror)  # (T, R, directions, K, H)
            pooled.append(self._pool(output, inside, lengths))
            if column is not self.encoder.newest:
                first, *backward = output.unbind(2)
                seen = torch.cat((seen, first, *(turned(part, mirror) for part in backward)), dim=-1)
        features = self.template.features(torch.cat(pooled, dim=-1)).transpose(0, 1)  # (K, B, copies * S)
        return self._answer(features)

    def numbers(self, words: Tensor) -> Tensor:
        """The row of each word (..., K) in the vectors of all models, one after another."""
        models, count, _ = self.parameters[self.words].shape
        return words + torch.arange(models, device=words.device) * count

    def _embed(self, numbers: Tensor) -> Tensor:
        return F.embedding(numbers, self.parameters[self.words].flatten(0, 1))

    def _states(self, column: MemoryRecurrent, seen: Tensor, mirror: Tensor) -> Tensor:
        """The outputs of each direction of a column: (T, R, directions, K, H), the backward one in its own order."""
        size, directions = seen.shape[-1], [column.weights(0, direction) for direction in range(column.num_directions)]
        reading = [self.of(direction.ih) for direction in directions]  # (K, 4H, F + M)
        biases = [
            self.of(cast(Tensor, direction.bias_ih)) + self.of(cast(Tensor, direction.bias_hh))
            for direction in directions
        ]
        weights = Weights(
            torch.stack([weight[..., :size] for weight in reading]),
            torch.stack(biases),
            torch.cat([self.of(direction.hh) for direction in directions]),
        )
        memory = None
        if column.slots:
            through = [
                torch.bmm(self.of(bank.values), weight[..., size:].transpose(1, 2))
                for bank, weight in zip(column.banks, reading, strict=True)
            ]
            quiet = [bank.logit_bias(self.of(bank.bias)) for bank in column.banks]
            known = [bias for bias in quiet if bias is not None]
            keys = torch.cat([self.of(bank.keys) for bank in column.banks])
            memory = Slots(keys, torch.cat(through), torch.cat(known) if known else None)
        return recur(seen, mirror, weights, memory).view(*seen.shape[:2], len(directions), len(self), -1)

    def _pool(self, output: Tensor, inside: Tensor, lengths: Tensor) -> Tensor:
        """(R, K, directions * H): the mean of a text's states, or each direction's last."""
        if self.template.settings.pooling == "mean":
            vectors = (output * inside.unsqueeze(2).unsqueeze(-1)).sum(0) / lengths.unsqueeze(1).unsqueeze(-1)
        else:
            last = (lengths - 1).unsqueeze(1).unsqueeze(-1).expand(output.shape[1:]).unsqueeze(0)
            vectors = output.gather(0, last).squeeze(0)
        return vectors.transpose(1, 2).flatten(2)

    def _answer(self, x: Tensor) -> Tensor:
        """The logits (K, B, labels) that the newest head makes of features (K, B, S)."""
        for layer in self.template.heads[-1]:
            if isinstance(layer, nn.Linear):
                x = torch.baddbmm(self.of(layer.bias).unsqueeze(1), x, self.of(layer.weight).transpose(1, 2))
            elif isinstance(layer, nn.Dropout):
                x = F.dropout(x, layer.p, self.training)
            else:
                x = layer(x)
        return x


def fisher_together(
    stack: Stack, data: DeviceData, examples: Sequence[Sequence[int]], variant: str
) -> list[dict[str, Tensor]]:
    """For each model the diagonal over its own examples (equally many for each), by the parameters' names."""
    device = data.labels.device
    moving = {name: p.detach().requires_grad_() for name, p in stack.parameters.items() if p.numel()}
    stack.parameters = {**stack.parameters, **moving}
    total = {name: torch.zeros_like(p) for name, p in moving.items()}
    numbers = torch.zeros(len(stack), 1, dtype=torch.long, device=device)

    def step(steps: int) -> None:
        batch = data.take(numbers, steps)
        scores = torch.log_softmax(stack(batch.words, batch.lengths)[:, 0], dim=-1)  # (K, labels)
        for score, weight in _weighed(scores, batch.labels[:, 0], variant):
            found = torch.autograd.grad(score.sum(), list(moving.values()), retain_graph=True, materialize_grads=True)
            for sums, gradient in zip(total.values(), found, strict=True):
                shaped = weight.view(-1, *(1,) * (gradient.ndim - 1))
                sums.addcmul_(gradient.square(), shaped)

    run = Graphs(step, device)
    # Sorted, the examples of all models are alike in length at each place.
    ordered = torch.tensor([sorted(chosen, key=data.data.length) for chosen in examples])
    for together in ordered.t():
        numbers.copy_(together.unsqueeze(1))
        run(data.steps(together))
    run.close()
    count = max(ordered.shape[1], 1)
    return [{name: value[k] / count for name, value in total.items()} for k in range(len(stack))]


def _weighed(scores: Tensor, labels: Tensor, variant: str) -> list[tuple[Tensor, Tensor]]:
    """The log-likelihoods (K) whose gradients count, each with its weight (K)."""
    chances = scores.detach().exp()
    if variant == "exact":
        return list(zip(scores.unbind(-1), chances.unbind(-1), strict=True))
    answer = labels if variant == "empirical" else torch.multinomial(chances, 1).squeeze(-1)
    return [(scores.gather(-1, answer.unsqueeze(-1)).squeeze(-1), torch.ones_like(chances[:, 0]))]
