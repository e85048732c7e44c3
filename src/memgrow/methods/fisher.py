"""The diagonal of the Fisher information: the mean over examples of the squared gradient of each one's log-likelihood.

Squaring comes before the mean. The gradient of a batch, squared, is another and much smaller thing.
"""

import torch
from torch import Tensor

from memgrow.batches import Encoded, collate
from memgrow.models import Model


def fisher_diagonal(model: Model, data: Encoded, variant: str, device: torch.device) -> dict[str, Tensor]:
    """One non-negative number for each parameter that trains, named as the model names it.

    exact: the expectation over the model's own answers; sampled: one answer drawn from them for each example;
    empirical: the given labels. Replies, of which there is no end, are always those given.
    """
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad and p.numel()}
    total = {name: torch.zeros_like(p) for name, p in parameters.items()}
    model.eval()
    for index in range(len(data)):
        for likelihood, weight in model.likelihoods(collate(data, [index], device), variant):
            gradients = torch.autograd.grad(
                likelihood, list(parameters.values()), retain_graph=True, materialize_grads=True
            )
            for name, gradient in zip(parameters, gradients, strict=True):
                total[name].addcmul_(gradient, gradient, value=weight)
    return {name: value / max(len(data), 1) for name, value in total.items()}
