"""How the work of a layer is shared out among clusters of blocks (cluster.cu)."""

from collections.abc import Mapping
from typing import NamedTuple

from memgrow.nn.kernels.nvrtc import SHARED_LIMIT

SIZES = (16, 14, 12, 10, 8)  # blocks of a cluster: how many find room depends on how a GPU's processors are grouped
ROWS = (16, 24, 32)  # that a cluster works on
THREADS = 256  # of a block
PARTS = 4  # that a product's sums come in
WAYS = 2  # in which the warps share out columns
MAX_UNITS = 64  # of a block: more would not fit its registers
MAX_TILES = 5  # of eight columns that a warp has at once
WARPS = 8
DEPTHS = (8, 6, 5, 4, 3, 2)  # chunks of weights that are on their way to a warp, where not all of them fit
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
    rows: int  # that it works on
    directions: int
    batch: int
    units: int  # of one block
    own: int  # slots of one block

    @classmethod
    def of(cls, size: int, rows: int, directions: int, batch: int, hidden: int, slots: int) -> "Clusters | None":
        """None where a layer is too large for a cluster."""
        new = cls(size, rows, directions, batch, _share(hidden, size, 2), _share(slots, size, 8))
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
        return self.directions * -(-self.batch // self.rows)

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
            "ROWS": self.rows,
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
        rows, n = self.rows, 2 * self.rows * _stride(self.slots)
        if forward:
            parts = [4 * rows * _stride(self.hidden), n, 2 * rows * max(self.units, self.own), 8 * self.size * rows]
            parts += [4 * self.size * rows, 4 * rows, 4 * rows, 16, 4 * rows * self.own]
        else:
            parts = [2 * rows * _stride(4 * self.hidden), n, 2 * rows * self.own]
            parts += [4 * self.size * rows, 4 * rows, 16, 4 * rows * self.own]
        return sum(-(-size // 16) * 16 for size in parts) + 32 * PARTS * rows * (WAYS * self.at_once + 1)

    def ring(self, depth: int) -> int:
        """Bytes for weights that are on their way, the marks of their arrival and the plans."""
        return WARPS * (depth * (512 * self.at_once + 8) + 32 * SEGMENTS)

    def kept(self, forward: bool) -> "Kept | None":
        """What of the weights lies in shared memory; the rest streams in from L2 in every step. None: no room."""
        fixed, packs = self.fixed(forward), self.packs(forward)
        whole = fixed + sum(512 * blocks * tiles for blocks, tiles in packs)
        if whole <= SHARED_LIMIT:
            return Kept(packs[0][0], packs[1][0], 0, whole)
        found = [self._beside(depth, forward) for depth in DEPTHS if fixed + self.ring(depth) <= SHARED_LIMIT]
        return min(found, key=lambda kept: self.cycles(kept, forward), default=None)

    def _beside(self, depth: int, forward: bool) -> Kept:
        """What can be kept beside a ring of that depth."""
        size, found = self.fixed(forward) + self.ring(depth), []
        for blocks, tiles in self.packs(forward):
            found.append(min(blocks, (SHARED_LIMIT - size) // (512 * tiles)) if tiles else 0)
            size += 512 * tiles * found[-1]
        return Kept(found[0], found[1], depth, size)

    def cycles(self, kept: Kept, forward: bool) -> float:
        """Of a step, roughly, as measured on an H200: the exchange, the products, and weights that stream in."""
        (first, wide), (second, narrow) = self.packs(forward)
        tiles = first * wide + second * narrow
        streams = tiles - kept.first * wide - kept.second * narrow
        exchange, product = 9000 + 3000 * bool(self.slots), 2.5 * -(-self.rows // 16)
        chunk = WARPS * self.at_once  # tiles that come in at once: the deeper the ring, the less they are waited for
        return exchange + product * tiles + (streams / chunk * (450 + 1440 / kept.depth) if streams else 0.0)


def best(layer: tuple[int, int, int, int], room: Mapping[int, int]) -> Clusters | None:
    """The sharing of a layer (directions, batch, hidden units, slots) that takes least time.

    `room` is how many clusters of each size run at the same time.
    """
    found = [Clusters.of(size, rows, *layer) for size in SIZES if room.get(size) for rows in ROWS]
    return min((one for one in found if one), key=lambda c: _time(c, room[c.size]), default=None)


def _time(c: Clusters, room: int) -> float:
    """Cycles of a step there and back, in as many rounds as it takes."""
    ways = [(c.kept(forward), forward) for forward in (True, False)]
    return sum(c.cycles(kept, forward) for kept, forward in ways if kept) * -(-c.needed // room)


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
