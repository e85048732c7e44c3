"""The diagonal of the Fisher information: the mean over examples of the squared gradient of each one's log-likelihood.

Squaring comes before the mean. The gradient of a batch, squared, is another and much smaller thing.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from memgrow.batches import Encoded, collate
from memgrow.models import Classifier

Weighing = Callable[[Tensor, int], list[tuple[int, float]]]
"""From an example's probabilities and its label to the labels whose gradients count, each with its weight."""


def _exact(probabilities: Tensor, label: int) -> list[tuple[int, float]]:
    return list(enumerate(probabilities.tolist()))


def _sampled(probabilities: Tensor, label: int) -> list[tuple[int, float]]:
    return [(int(torch.multinomial(probabilities.cpu(), 1)), 1.0)]


def _empirical(probabilities: Tensor, label: int) -> list[tuple[int, float]]:
    return [(label, 1.0)]


VARIANTS: dict[str, Weighing] = {"exact": _exact, "sampled": _sampled, "empirical": _empirical}


def fisher_diagonal(model: Classifier, data: Encoded, variant: str, device: torch.device) -> dict[str, Tensor]:
    """One non-negative number for each parameter that trains, named as the model names it.

    exact: the expectation over the model's own answers; sampled: one answer drawn from them for each example;
    empirical: the given labels.
    """
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad and p.numel()}
    total = {name: torch.zeros_like(p) for name, p in parameters.items()}
    model.eval()
    for index in range(len(data)):
        batch = collate(data, [index], device)
        scores = torch.log_softmax(model(batch.words, batch.lengths)[0], dim=-1)  # (labels)
        for label, weight in VARIANTS[variant](scores.detach().exp(), int(batch.labels)):
            gradients = torch.autograd.grad(
                scores[label], list(parameters.values()), retain_graph=True, materialize_grads=True
            )
            for name, gradient in zip(parameters, gradients, strict=True):
                total[name].addcmul_(gradient, gradient, value=weight)
    return {name: value / max(len(data), 1) for name, value in total.items()}
