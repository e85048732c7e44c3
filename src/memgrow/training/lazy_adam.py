"""Adam for a table of which a batch needs few rows: a row is moved when it is needed, not in each step.

Plain Adam also moves rows that have no gradient, as their moments die away. Where a row was last given a gradient in
step s, which left the moments m and v, step t = s + k moves it by

    rate * f(t) * q^k * m / (sqrt(v) + eps * r)
    f(t) = sqrt(1 - b2^t) / (1 - b1^t),   q = b1 / sqrt(b2),   r = sqrt((1 - b2^t) / b2^k)

Here all steps that a row has missed are made up for at once: two moves, with a size and an r each, stand for them all.
Weighted by f(t) q^k, the two values of r have the mean, spread and skewness of all of them (Gaussian quadrature), and
sums over any stretch of steps come from a table. So the result is plain Adam's up to rounding where sqrt(v) is far
above eps. Where it is not, a row that waits from the first step of a training on may end 0.017 of the rate away, one
that waits from the tenth on about 0.001, and later ones less and less. Rounding comes on top, here as in plain Adam:
in float32, with weights of about 1 and a rate of 1e-3, the two are a hundredth of the rate apart after 3,000 steps.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

LAST = "last"  # in the optimiser's state: the step that each row has been brought up to
POWERS = 4  # of r, from 0 on, whose sums are kept
SAME = 1e-10  # relative variance below which values of r are taken to be the same: what is less is rounding
PIECE = 4096  # rows that are brought up to date at a time: what is in between stays in a cache


@dataclass(frozen=True)
class ActiveRows:
    """The rows that a batch needs, up to date. Their gradient goes to `vectors`, where each row has it but once."""

    numbers: Tensor  # (N): which rows, with repeats
    places: Tensor  # (rows): at which of the N a row comes first
    vectors: Tensor  # (..., n, E), in all N
    mean: Tensor  # (N, E): Adam's moments
    square: Tensor  # (N, E)

    def __call__(self, numbers: Tensor) -> Tensor:
        """The vectors (..., E) of rows that are among these."""
        return F.embedding(self.places[numbers], self.vectors.flatten(0, -2))

    def stretch(self, start: int, stop: int) -> Tensor:
        """The vectors of rows that follow each other, all of them among these; not of a stack, and on a CPU."""
        first = int(self.places[start])
        return self.vectors[first : first + stop - start]


class LazyAdam:
    """Moves a table (..., rows, E) that the optimiser holds, at one rate from first to last, in the optimiser's place.

    What it has to remember is in the optimiser's state. Nothing waits for the device, and shapes depend on the batch's
    alone. The table itself is out of date until `flush`.
    """

    def __init__(self, table: Tensor, optimiser: torch.optim.Adam) -> None:
        self.table, self.optimiser = table, optimiser
        group = next(one for one in optimiser.param_groups if any(own is table for own in one["params"]))
        self._rate, self._eps, (self._b1, self._b2) = group["lr"], group["eps"], group["betas"]
        self._tails = _tails(self._b1, self._b2).to(table.device)
        self._places = torch.zeros(table.shape[:-1].numel(), dtype=torch.long, device=table.device)

    @torch.no_grad()
    def activate(self, numbers: Tensor) -> ActiveRows:
        """The rows of those numbers; all rows, where that is less. Of a stack, each one's own numbers (K, n)."""
        numbers = numbers.flatten()
        if self.table.device.type == "cpu" and self.table.ndim == 2:
            numbers = torch.unique(numbers)  # elsewhere this would wait for the device
        if len(numbers) >= len(self._places):
            numbers = torch.arange(len(self._places), device=numbers.device)
        order = torch.arange(len(numbers), device=numbers.device)
        # The first of the repeats, and not whichever is written last: so that a GPU gives the same bits again.
        self._places.scatter_reduce_(0, numbers, order, "amin", include_self=False)
        vectors, mean, square = self._caught_up(numbers)
        shaped = vectors.view(*self.table.shape[:-2], -1, self.table.shape[-1])
        return ActiveRows(numbers, self._places, shaped.requires_grad_(), mean, square)

    @torch.no_grad()
    def step(self, active: ActiveRows) -> None:
        """One step of Adam for rows that were active in a batch, whose gradient is there."""
        assert active.vectors.grad is not None
        gradient, step = active.vectors.grad.flatten(0, -2), self._state["step"].add_(1)
        own = gradient.index_select(0, self._places[active.numbers])  # so that repeats write the same
        mean = active.mean.lerp_(own, 1 - self._b1)
        square = active.square.mul_(self._b2).addcmul_(own, own, value=1 - self._b2)
        corrected = (1 - self._b2 ** step.double()).sqrt()
        move = self._rate * corrected / (1 - self._b1 ** step.double()), self._eps * corrected
        rows = _moved(active.vectors.detach().flatten(0, -2), mean, square, move)
        self._write(active.numbers, rows, mean, square)

    @torch.no_grad()
    def flush(self) -> None:
        """Bring all rows up to date."""
        moved = torch.arange(len(self._places), device=self._places.device)
        if moved.device.type == "cpu":  # what has had no gradient does not move; elsewhere this would wait
            moved = self._state[LAST].view(-1).nonzero().squeeze(1)
        for numbers in torch.split(moved, PIECE):
            self._write(numbers, *self._caught_up(numbers))

    @property
    def _state(self) -> dict[str, Tensor]:
        """The optimiser's state of the table. Where it has been plain Adam so far, every row is up to date."""
        state: dict[str, Tensor] = self.optimiser.state[self.table]
        if not state:
            state["step"] = torch.zeros((), device=self.table.device)
            state |= {moment: torch.zeros_like(self.table) for moment in ("exp_avg", "exp_avg_sq")}
        if LAST not in state:
            state["step"] = state["step"].long().to(self.table.device)
            state[LAST] = state["step"].expand(self.table.shape[:-1]).clone()
        return state

    def _caught_up(self, numbers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rows and their moments (N, E) as they are after the last step."""
        now, (table, mean, square, last) = self._state["step"], self._flat()
        known = last.index_select(0, numbers)
        missed = (now - known).double()
        total, *moments = (
            before - ratio**missed * after
            for ratio, before, after in zip(
                _ratios(self._b1, self._b2), self._tails_at(known), self._tails_at(now.view(1)), strict=True
            )
        )  # (N) each
        pair = _two_for_all(*(torch.where(missed > 0, moment / total, 1.0) for moment in moments))
        moves = [((self._rate * total * share).unsqueeze(1), (self._eps * r).unsqueeze(1)) for share, r in pair]
        m, v = mean.index_select(0, numbers), square.index_select(0, numbers)
        rows = _moved(table.index_select(0, numbers), m, v, *moves)
        return rows, m.mul_((self._b1**missed).unsqueeze(1)), v.mul_((self._b2**missed).unsqueeze(1))

    def _tails_at(self, steps: Tensor) -> Tensor:
        return self._tails.index_select(1, steps.clamp(max=self._tails.shape[1] - 1))  # (POWERS, steps)

    def _write(self, numbers: Tensor, *values: Tensor) -> None:
        """Put rows and moments in place, and note that they are up to date."""
        now, (*places, last) = self._state["step"], self._flat()
        for place, value in zip(places, values, strict=True):
            place.index_copy_(0, numbers, value)
        last.index_copy_(0, numbers, now.expand(len(numbers)))

    def _flat(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The table and its moments as (rows, E), and the step that each row has been brought up to."""
        state, size = self._state, self.table.shape[-1]
        wide = (self.table.detach(), state["exp_avg"], state["exp_avg_sq"])
        table, mean, square = (tensor.view(-1, size) for tensor in wide)
        return table, mean, square, state[LAST].view(-1)


def _moved(rows: Tensor, mean: Tensor, square: Tensor, *moves: tuple[Tensor, Tensor]) -> Tensor:
    """rows - size * mean / (sqrt(square) + floor) for each size and floor, in the place of `rows`."""
    root = square.sqrt()
    for size, floor in moves:
        rows.addcdiv_(mean * -size.to(rows), root + floor.to(rows))
    return rows


def _two_for_all(first: Tensor, second: Tensor, third: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Two values, each with its share of the weight, whose first three moments are these."""
    variance = torch.maximum(second - first**2, SAME * first**2)
    lean = (third - 3 * first * second + 2 * first**3) / (2 * variance)
    reach = (variance + lean**2).sqrt()
    tilt = lean / (2 * reach)
    return [(0.5 - tilt, first + lean + reach), (0.5 + tilt, first + lean - reach)]


def _ratios(b1: float, b2: float) -> list[float]:
    return [b1 / b2 ** ((power + 1) / 2) for power in range(POWERS)]


@lru_cache(maxsize=1)
def _tails(b1: float, b2: float) -> Tensor:
    """For each step s, the sum over all later steps t of f(t) q^k r^power, (POWERS, steps).

    A stretch of steps is the difference of two. Behind the last step of the table, 1 - b2^t is 1 to the last digit.
    """
    steps = math.ceil(math.log(1e-17) / math.log(max(b1, b2)))
    t = torch.arange(1, steps + 1, dtype=torch.double)
    tails = []
    for power, ratio in enumerate(_ratios(b1, b2)):
        total = ratio / (1 - ratio)
        sums = [total]
        for factor in reversed(((1 - b2**t) ** ((power + 1) / 2) / (1 - b1**t)).tolist()):
            total = ratio * (factor + total)
            sums.append(total)
        tails.append(sums[::-1])
    return torch.tensor(tails, dtype=torch.double)
