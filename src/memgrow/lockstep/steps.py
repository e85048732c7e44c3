"""What takes the steps of a stack, there and back."""

from typing import NamedTuple, Protocol

from torch import Tensor


class Inner(NamedTuple):
    """What each of D directions reads its own state with; without slots, the rest is None."""

    hh: Tensor  # (D, 4H, H)
    keys: Tensor | None  # (D, N, H)
    through: Tensor | None  # (D, N, 4H): the values times the weights that read them
    bias: Tensor | None  # (D, N)


class Back(NamedTuple):
    d_gates: Tensor  # (T, R, D, 4H)
    d_logits: Tensor | None  # (T, R, D, N)
    attention: Tensor | None  # (T, R, D, N), as it was on the way there


class Steps(Protocol):
    """Takes all steps from inputs to the gates, and keeps what the way back needs."""

    def forward(self, x: Tensor, inner: Inner, wanted: bool) -> Tensor:
        """States (T, R, D, H) from x (T, R, D, 4H); `wanted` says whether there will be a way back."""

    def backward(self, d_output: Tensor, inner: Inner) -> Back: ...
