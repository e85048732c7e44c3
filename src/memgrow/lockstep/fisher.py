"""The Fisher diagonals of several models at once; see `memgrow.methods.fisher` for what they are."""

from collections.abc import Sequence

import torch
from torch import Tensor

from memgrow.lockstep.graphs import Graphs
from memgrow.lockstep.stack import Stack
from memgrow.lockstep.staged import Staged


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
