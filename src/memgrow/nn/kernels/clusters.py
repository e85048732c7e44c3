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
MAX_TILES = 6  # of eight columns that a warp has at once


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
        largest = max(new.fixed(forward) for forward in (True, False))
        return None if new.units > MAX_UNITS or largest > SHARED_LIMIT else new

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
        }

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
            widest = max(_width(self.own // 8), _width(self.units // 2))
        else:
            parts = [2 * ROWS * _stride(4 * self.hidden), n, 2 * ROWS * max(4 * self.units, self.own)]
            parts += [4 * self.size * ROWS, 4 * ROWS, 16, 4 * ROWS * self.own, 4 * ROWS * self.own]
            widest = max(_width(self.tiles_b), _width(self.tiles_h))
        return sum(-(-size // 16) * 16 for size in parts) + 4 * PARTS * ROWS * widest

    def fitting(self, forward: bool) -> tuple[int, int]:
        """How many blocks of each pack lie in shared memory; the others are read from L2 in every step."""
        room, found = SHARED_LIMIT - self.fixed(forward), []
        for blocks, tiles in self.packs(forward):
            fit = min(blocks, room // (512 * tiles)) if tiles else 0
            room -= 512 * tiles * fit
            found.append(fit)
        return found[0], found[1]

    def shared(self, forward: bool) -> int:
        """Bytes of shared memory for one block."""
        kept = zip(self.fitting(forward), self.packs(forward), strict=True)
        return self.fixed(forward) + sum(512 * tiles * fit for fit, (_, tiles) in kept)


def best(layer: tuple[int, int, int, int], room: Mapping[int, int]) -> Clusters | None:
    """The sharing of a layer (directions, batch, hidden units, slots) that takes least time.

    `room` is how many clusters of each size run at the same time.
    """
    found = [Clusters.of(size, *layer) for size in SIZES if room.get(size)]
    return min((one for one in found if one), key=lambda c: _time(c, room[c.size]), default=None)


def _time(clusters: Clusters, room: int) -> float:
    """Of a step: half of what a single cluster of 16 needs is taken to be exchange, half work that its blocks share."""
    return -(-clusters.needed // room) * (1 + 16 / clusters.size)


def _share(count: int, size: int, multiple: int) -> int:
    return -(-count // (size * multiple)) * multiple


def _at_once(tiles: int) -> int:
    """Tiles of one warp at once, so that the warps have equally many."""
    passes = max(1, -(-tiles // (WAYS * MAX_TILES)))
    return max(1, -(-tiles // (WAYS * passes)))


def _stride(width: int) -> int:
    """Halves from one row to the next."""
    return -(-width // 64) * 64 + 32


def _width(tiles: int) -> int:
    return 8 * (tiles | 1)
