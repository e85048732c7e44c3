"""The Fisher diagonals of several models at once; see `memgrow.methods.fisher` for what they are."""

from collections.abc import Callable, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from memgrow.models import Classifier, Model
from memgrow.nn import MemoryRecurrent
from memgrow.training.lazy_adam import WORDS
from memgrow.training.stacked.data import Staged
from memgrow.training.stacked.graphs import Graphs
from memgrow.training.stacked.recurrence import Slots, Weights, recur, turned


def obstacle(models: Sequence[Model]) -> str | None:
    """Why these models cannot be stacked, if so."""
    first = models[0]
    if not isinstance(first, Classifier):
        return "only classifiers are stacked"
    if first.settings.cell != "lstm" or first.settings.layers != 1:
        return "only models of one LSTM layer are stacked"
    if any(_form(model) != _form(first) for model in models[1:]):
        return "the models are not of one shape"
    return None


def _form(model: Model) -> dict[str, object]:
    return {**model.shape(), "parameters": {name: tuple(p.shape) for name, p in model.named_parameters()}}


class Stack:
    """K models side by side. `parameters` are named as in one model, each (K, ...)."""

    def __init__(self, models: Sequence[Model]) -> None:
        self.template = cast(Classifier, models[0])  # for what all have in common; its numbers are not read
        named = [dict(model.named_parameters()) for model in models]
        self.parameters = {name: torch.stack([m[name].detach() for m in named]) for name in named[0]}
        self.training = False

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))

    @torch.no_grad()
    def write(self, number: int, model: Model) -> None:
        """Give a model the weights of one of the stack."""
        for name, parameter in model.named_parameters():
            parameter.copy_(self.parameters[name][number])

    def __call__(self, words: Tensor, lengths: Tensor, vectors: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """Logits (K, B, labels) of word indices (T, R, K) of texts of those lengths (R, K).

        `vectors` gives those of the `numbers` of words, where they are not to be read from the parameters.
        """
        encoder, settings = self.template.encoder, self.template.settings
        steps = torch.arange(len(words), device=words.device).view(-1, 1, 1)
        inside = steps < lengths  # (T, R, K)
        mirror = torch.where(inside, lengths - 1 - steps, steps)
        seen = F.dropout((vectors or self._embed)(self.numbers(words)), settings.dropout, self.training)  # (T, R, K, F)
        pooled = []
        for number, column in enumerate(encoder.columns):
            output = self._walk(f"encoder.columns.{number}.", column, seen, mirror)  # (T, R, directions, K, H)
            pooled.append(self._pool(output, inside, lengths))
            if number + 1 < len(encoder.columns):
                first, *backward = output.unbind(2)
                seen = torch.cat((seen, first, *(turned(way, mirror) for way in backward)), dim=-1)
        features = self.template.features(torch.cat(pooled, dim=-1)).transpose(0, 1)  # (K, B, copies * S)
        head = f"heads.{len(encoder.columns) - 1}."
        inner = F.dropout(self._linear(head + "0.", features).relu(), settings.dropout, self.training)
        return self._linear(head + "3.", inner)

    def numbers(self, words: Tensor) -> Tensor:
        """Of each word (..., K), its row in the vectors of all models, one behind another."""
        models, count, _ = self.parameters[WORDS].shape
        return words + torch.arange(models, device=words.device) * count

    def _embed(self, numbers: Tensor) -> Tensor:
        return F.embedding(numbers, self.parameters[WORDS].flatten(0, 1))

    def _walk(self, prefix: str, column: MemoryRecurrent, seen: Tensor, mirror: Tensor) -> Tensor:
        """What each direction of a column yields: (T, R, directions, K, H), the backward one in its own order."""
        size, suffixes = seen.shape[-1], ("_l0", "_l0_reverse")[: column.num_directions]

        def each(kind: str) -> list[Tensor]:
            return [self.parameters[prefix + kind + suffix] for suffix in suffixes]

        reading = each("weight_ih")  # (K, 4H, F + M)
        biases = [a + b for a, b in zip(each("bias_ih"), each("bias_hh"), strict=True)]
        weights = Weights(
            torch.stack([weight[..., :size] for weight in reading]), torch.stack(biases), torch.cat(each("weight_hh"))
        )
        memory = None
        if column.slots:
            banks = [f"{prefix}banks.{number}." for number in range(len(suffixes))]
            through = [
                torch.bmm(self.parameters[bank + "values"], weight[..., size:].transpose(1, 2))
                for bank, weight in zip(banks, reading, strict=True)
            ]
            quiet = [
                own.logit_bias(self.parameters[bank + "bias"]) for own, bank in zip(column.banks, banks, strict=True)
            ]
            known = [bias for bias in quiet if bias is not None]
            keys = torch.cat([self.parameters[bank + "keys"] for bank in banks])
            memory = Slots(keys, torch.cat(through), torch.cat(known) if known else None)
        return recur(seen, mirror, weights, memory).view(*seen.shape[:2], len(suffixes), len(self), -1)

    def _pool(self, output: Tensor, inside: Tensor, lengths: Tensor) -> Tensor:
        """(R, K, directions * H): the mean of a text's states, or each direction's last."""
        if self.template.settings.pooling == "mean":
            vectors = (output * inside.unsqueeze(2).unsqueeze(-1)).sum(0) / lengths.unsqueeze(1).unsqueeze(-1)
        else:
            last = (lengths - 1).unsqueeze(1).unsqueeze(-1).expand(output.shape[1:]).unsqueeze(0)
            vectors = output.gather(0, last).squeeze(0)
        return vectors.transpose(1, 2).flatten(2)

    def _linear(self, prefix: str, x: Tensor) -> Tensor:
        weight, bias = self.parameters[prefix + "weight"], self.parameters[prefix + "bias"]
        return torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))


def fisher_together(
    stack: Stack, data: Staged, examples: Sequence[Sequence[int]], variant: str
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
    ordered = torch.tensor([sorted(chosen, key=data.data.work) for chosen in examples])  # alike in length at each place
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
