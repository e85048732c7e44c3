"""Dropout on a CPU whose numbers another thread draws, while layers compute.

torch draws the numbers of a mask one after another, and layers wait: on two cores that was a fifth of a step of a small
Transformer. Each number of a mask takes the next 64 bits of the generator, so that they can be drawn before it is known
which mask they are for. The masks, and the generator in the end, are the same to the bit as those of the naive twin,
which is torch's own dropout.
"""

import math
import threading
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from typing import Any, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

BITS = 53  # of a number that is compared with a probability
PIECE = 1 << 15  # numbers that are drawn at a time: with more, comparing them would call for all threads
PIECES = 128  # that are drawn ahead at most


@cache
def draws_alike() -> bool:
    """Whether torch draws here as is supposed above; with the libraries of some processors it does not, and is fast."""
    ours, theirs = (torch.Generator().manual_seed(1) for _ in range(2))
    kept = torch.empty(100).bernoulli_(0.7, generator=theirs).bool()
    return torch.equal(_draw(100, 0.7, ours), kept) and torch.equal(ours.get_state(), theirs.get_state())


def _draw(count: int, keep: float, generator: torch.Generator | None = None) -> Tensor:
    """So many truth values, each true with the probability `keep`."""
    numbers = torch.empty(count, dtype=torch.int64).random_(generator=generator)  # a range of its own takes longer
    return numbers.bitwise_and_((1 << BITS) - 1) < math.ceil(keep * (1 << BITS))


class DropoutAhead(TorchFunctionMode):
    """Within, dropout of this rate, also that of attention, takes numbers that a thread draws.

    `count` is how many it is expected to take; with 0, torch draws. `taken` says how many it took, and is what to
    expect of a like batch; it is 0 if something was not as it has to be, and torch drew after all.
    """

    def __init__(self, rate: float, count: int) -> None:
        super().__init__()
        self.rate, self.count = rate, count
        self._taken, self._fits = 0, True
        self._open = count > 0
        self._pieces: SimpleQueue[Tensor | None] = SimpleQueue()
        self._room = threading.Semaphore(PIECES)
        self._stopped = False
        self._rest = torch.empty(0, dtype=torch.bool)  # drawn and not taken
        self._thread = threading.Thread(target=self._draw_all, name="dropout", daemon=True)

    def __enter__(self) -> Self:
        if self._open:
            self._before = torch.default_generator.get_state()
            self._thread.start()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)  # type: ignore[no-untyped-call]
        self._hand_back()

    @property
    def taken(self) -> int:
        return self._taken if self._fits else 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        ours = _OURS.get(func)
        return func(*args, **kwargs) if ours is None else ours(self, func, *args, **kwargs)

    def dropout(
        self, func: Callable[..., Tensor], x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Tensor:
        if not training or not p:
            return func(x, p=p, training=training, inplace=inplace)
        if p != self.rate or inplace:
            self._give_up()
        self._taken += x.numel()
        return x * self._noise(x) if self._open else func(x, p=p, training=True, inplace=inplace)

    def attention(
        self,
        func: Callable[..., Tensor],
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """What torch computes where there is dropout and no GPU: in float32, with both factors scaled."""
        options = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
        if dropout_p and (dropout_p != self.rate or is_causal or enable_gqa or not _is_added(attn_mask)):
            self._give_up()
        self._taken += query.shape[:-1].numel() * key.shape[-2] if dropout_p else 0
        if not dropout_p or not self._open:
            return func(query, key, value, attn_mask, **options)
        root = math.sqrt(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
        exact = torch.promote_types(query.dtype, torch.float32)
        logits = (query.to(exact) * root) @ (key.to(exact).transpose(-2, -1) * root)
        weights = (logits if attn_mask is None else logits + attn_mask.to(exact)).softmax(-1)
        return ((weights * self._noise(weights)) @ value.to(exact)).to(query.dtype)

    def _noise(self, x: Tensor) -> Tensor:
        """The factors of dropout, in the shape and kind of x."""
        count, found = x.numel(), [self._rest]
        have = len(self._rest)
        while have < count and (piece := self._pieces.get()) is not None:
            self._room.release()
            found.append(piece)
            have += len(piece)
        if have < count:  # more than was expected
            self._pieces.put(None)  # the thread still has nothing to give
            found.append(_draw(count - have, 1 - self.rate))
            self.count += count - have
        kept = torch.cat(found)
        self._rest = kept[count:]
        factor = torch.ones((), dtype=x.dtype).div_(1 - self.rate)
        return kept[:count].view(x.shape).to(x.dtype).mul_(factor)

    def _draw_all(self) -> None:
        left = self.count
        try:
            while left and not self._stopped:
                self._room.acquire()
                self._pieces.put(_draw(min(left, PIECE), 1 - self.rate))
                left -= min(left, PIECE)
        finally:
            self._pieces.put(None)  # nobody waits for a thread that has ended

    def _give_up(self) -> None:
        self._fits = False
        self._hand_back()

    def _hand_back(self) -> None:
        """Leave the generator as if torch had drawn what was taken; from now on it does."""
        if not self._open:
            return
        self._open, self._stopped = False, True
        self._room.release()
        self._thread.join()
        if self._taken != self.count:
            torch.default_generator.set_state(self._before)
            for start in range(0, self._taken, PIECE):
                _draw(min(PIECE, self._taken - start), 1 - self.rate)


def _is_added(mask: Tensor | None) -> bool:
    return mask is None or mask.is_floating_point()


_OURS: dict[Any, Callable[..., Tensor]] = {
    F.dropout: DropoutAhead.dropout,
    cast(Any, F.scaled_dot_product_attention): DropoutAhead.attention,
}
