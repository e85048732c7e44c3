"""How the work of a layer is shared out among clusters of blocks (cluster.cu)."""

from collections.abc import Mapping
from typing import NamedTuple

from memgrow.nn.kernels.nvrtc import SHARED_LIMIT

SIZES = (16, 14, 12, 10, 8)  # blocks of a cluster: how many find room depends on how a GPU's processors are grouped
ROWS = 16  # that a cluster works on
THREADS = 256  # of a block
PARTS = 4  # that a product's sums come in
WAYS = 2  # in which the warps share out columns
MAX_UNITS = 64  # of a block: more would not fit its registers
MAX_TILES = 5  # of eight columns that a warp has at once
WARPS = 8
DEPTHS = (3, 2)  # chunks of weights that are on their way to a warp, where not all of them fit
SEGMENTS = 16  # of the plan in which a warp uses them, at most


class Kept(NamedTuple):
    """What of the two packs of weights is kept on the chip."""

    first: int  # blocks
    second: int
    depth: int  # of the ring for the rest; 0: there is none
    shared: int  # bytes of shared memory in all


class Clusters(NamedTuple):
    """How the work of a layer is shared out."""

    size: int  # blocks of a cluster
    directions: int
    batch: int
    units: int  # of one block
    own: int  # slots of one block

    @classmethod
    def of(cls, size: int, directions: int, batch: int, hidden: int, slots: int) -> "Clusters | None":
        """None where a layer is too large for a cluster."""
        new = cls(size, directions, batch, _share(hidden, size, 2), _share(slots, size, 8))
        fits = all(new.kept(forward) for forward in (True, False))
        return new if fits and new.units <= MAX_UNITS and new.segments <= SEGMENTS else None

    @property
    def hidden(self) -> int:
        return self.size * self.units

    @property
    def slots(self) -> int:
        return self.size * self.own

    @property
    def needed(self) -> int:
        return self.directions * -(-self.batch // ROWS)

    @property
    def tiles_h(self) -> int:
        return -(-self.units // 8)

    @property
    def tiles_b(self) -> int:
        return self.tiles_h + self.own // 8

    def defines(self, cell: str) -> dict[str, int]:
        tiles = {"NT_U": self.units // 2, "NT_S": self.own // 8, "NT_B": self.tiles_b, "NT_H": self.tiles_h}
        return {
            "LSTM": int(cell == "lstm"),
            "CLUSTER": self.size,
            "UNITS": self.units,
            **{name: _at_once(count) for name, count in tiles.items()},
            "NT_MOST": self.at_once,
        }

    @property
    def at_once(self) -> int:
        """Tiles of one warp at once, at most."""
        return max(map(_at_once, (self.units // 2, self.own // 8, self.tiles_b, self.tiles_h)))

    @property
    def segments(self) -> int:
        """Of the longer plan."""
        forward = _passes(self.own // 8) + 2 * _passes(self.units // 2)
        return max(forward, _passes(self.tiles_b) + _passes(self.tiles_h))

    def packs(self, forward: bool) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of the two packs of weights: blocks of 32 that are summed over, and tiles of eight columns."""
        kh, kn, kg = (-(-count // 32) for count in (self.hidden, self.slots, 4 * self.hidden))
        if forward:
            return (kh, self.own // 8), (kh + kn, self.units // 2)
        return (kg, self.tiles_b), (kn, self.tiles_h)

    def fixed(self, forward: bool) -> int:
        """Bytes of shared memory that one block needs beside weights; in the order of the source."""
        n = 2 * ROWS * _stride(self.slots)
        if forward:
            parts = [4 * ROWS * _stride(self.hidden), n, 2 * ROWS * max(self.units, self.own), 8 * self.size * ROWS]
            parts += [4 * self.size * ROWS, 4 * ROWS, 4 * ROWS, 16, 4 * ROWS * self.own]
        else:
            parts = [2 * ROWS * _stride(4 * self.hidden), n, 2 * ROWS * self.own]
            parts += [4 * self.size * ROWS, 4 * ROWS, 16, 4 * ROWS * self.own]
        return sum(-(-size // 16) * 16 for size in parts) + 32 * PARTS * ROWS * (WAYS * self.at_once + 1)

    def ring(self, depth: int) -> int:
        """Bytes for weights that are on their way, the marks of their arrival and the plans."""
        return WARPS * (depth * (512 * self.at_once + 8) + 32 * SEGMENTS)

    def kept(self, forward: bool) -> "Kept | None":
        """What of the weights lies in shared memory; the rest streams in from L2 in every step. None: no room."""
        fixed, packs = self.fixed(forward), self.packs(forward)
        whole = fixed + sum(512 * blocks * tiles for blocks, tiles in packs)
        if whole <= SHARED_LIMIT:
            return Kept(packs[0][0], packs[1][0], 0, whole)
        for depth in DEPTHS:
            size, found = fixed + self.ring(depth), []
            if size > SHARED_LIMIT:
                continue
            for blocks, tiles in packs:
                found.append(min(blocks, (SHARED_LIMIT - size) // (512 * tiles)) if tiles else 0)
                size += 512 * tiles * found[-1]
            return Kept(found[0], found[1], depth, size)
        return None


def best(layer: tuple[int, int, int, int], room: Mapping[int, int]) -> Clusters | None:
    """The sharing of a layer (directions, batch, hidden units, slots) that takes least time.

    `room` is how many clusters of each size run at the same time.
    """
    found = [Clusters.of(size, *layer) for size in SIZES if room.get(size)]
    return min((one for one in found if one), key=lambda c: _time(c, room[c.size]), default=None)


def _time(c: Clusters, room: int) -> float:
    """Cycles of a step there and back, roughly: the exchange, weights that are kept, weights that stream in."""
    cycles = 0.0
    for forward in (True, False):
        kept, packs = c.kept(forward), c.packs(forward)
        assert kept is not None
        size = sum(512 * blocks * tiles for blocks, tiles in packs)
        near = 512 * (kept.first * packs[0][1] + kept.second * packs[1][1])
        cycles += 2500 + near / 100 + (size - near) / 45
    return cycles * -(-c.needed // room)


def _share(count: int, size: int, multiple: int) -> int:
    return -(-count // (size * multiple)) * multiple


def _at_once(tiles: int) -> int:
    """Tiles of one warp at once, so that the warps have equally many."""
    return max(1, -(-tiles // (WAYS * _passes(tiles))))


def _passes(tiles: int) -> int:
    """How often the warps go through what is summed over, with some of the tiles each time."""
    return max(1, -(-tiles // (WAYS * MAX_TILES)))


def _stride(width: int) -> int:
    """Halves from one row to the next."""
    return -(-width // 64) * 64 + 32
