"""How the work of a layer is shared out among clusters of blocks (cluster.cuh)."""

import functools
from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

from memgrow.nn.kernels.cuda.layer import LSTM
from memgrow.nn.kernels.cuda.nvrtc import SHARED_LIMIT

# Blocks of a cluster, and clusters that share out a layer. How many find room depends on how processors are grouped.
SHARINGS = ((16, 1), (14, 1), (12, 1), (10, 1), (8, 1), (2, 16))
ROWS = (16, 24, 32)  # that a cluster works on
THREADS = 256  # of a block
PARTS = 4  # that a product's sums come in
WAYS = 2  # in which the warps share out columns
MAX_UNITS = 64  # of a block: more would not fit its registers
MAX_TILES = 5  # of eight columns that a warp has at once
WARPS = 8
FIRST, GATES = 0, 1  # packs of weights, by their places
DEPTHS = (3, 2)  # chunks of weights that are on their way to a warp, where not all of them fit: more come no faster
FREE = {  # registers of a thread that can hold weights, forward and backward, by rows and whether contents are read
    (16, False): (80, 80),
    (24, False): (80, 80),
    (32, False): (20, 0),
    (16, True): (64, 48),
    (24, True): (40, 0),
    (32, True): (20, 0),
}
FEW, MANY = 256, 4096  # rows: where there are more than a few, the way is that of many, so that it is compiled once
SEGMENTS = 16  # of the plan in which a warp uses them, at most


class Sizes(NamedTuple):
    """The sizes of a layer."""

    cell: str
    directions: int
    batch: int
    hidden: int
    slots: int
    slot_size: int = 0  # 0: slots are known by what they add to the gates, and there are no contents


class Kept(NamedTuple):
    """What of the packs of weights is kept on the chip."""

    held: int  # blocks that each warp has in registers, of one pack
    blocks: tuple[int, ...]  # of each pack, with those
    depth: int  # of the ring for the rest; 0: there is none
    shared: int  # bytes of shared memory in all


class Clusters(NamedTuple):
    """How the work of a layer is shared out."""

    size: int  # blocks of a cluster
    team: int  # clusters that share out the layer
    rows: int  # that they work on
    cell: str
    directions: int
    batch: int
    units: int  # of one block
    own: int  # slots of one block
    dims: int  # of the content that is read, of one block; 0: blocks exchange attention to slots, and not contents

    @classmethod
    def of(cls, size: int, team: int, rows: int, contents: bool, layer: Sizes) -> "Clusters | None":
        """None where a layer is too large for a team, or has not what it needs."""
        counts = ((layer.hidden, 2), (layer.slots, 8), (layer.slot_size, 2))
        units, own, dims = (_share(count, size * team, multiple) for count, multiple in counts)
        if (contents and not (own and dims)) or (team > 1 and (contents or not own)):
            return None
        new = cls(size, team, rows, layer.cell, layer.directions, layer.batch, units, own, dims if contents else 0)
        fits = all(new.kept(forward) for forward in (True, False))
        return new if fits and max(units, new.dims) <= MAX_UNITS and new.segments <= SEGMENTS else None

    @property
    def members(self) -> int:
        """Blocks that work on the same rows."""
        return self.size * self.team

    @property
    def hidden(self) -> int:
        return self.members * self.units

    @property
    def slots(self) -> int:
        return self.members * self.own

    @property
    def needed(self) -> int:
        """How many clusters run the layer: team * directions * ceil(batch / rows)."""
        return self.team * self.directions * -(-self.batch // self.rows)

    @property
    def tiles_h(self) -> int:
        return -(-self.units // 8)

    @property
    def tiles_r(self) -> int:
        """Tiles of eight columns that a block's own slots, or its share of the content, take."""
        return -(-self.dims // 8) if self.dims else self.own // 8

    @property
    def tiles_u(self) -> int:
        """Tiles of a block's own gates: an LSTM's stand unit by unit, a GRU's gate by gate."""
        return self.units // 2 if LSTM[self.cell] else 4 * self.tiles_h

    @property
    def tiles_one(self) -> int:
        """Of the gates that h, or what is read, has to do with."""
        return self.tiles_u if LSTM[self.cell] else 3 * self.tiles_h

    @property
    def content(self) -> int:
        return self.members * self.dims

    def blocks(self) -> dict[str, int]:
        """What is known of a block when kernels are compiled, whatever rows there are."""
        sizes = {"CLUSTER": self.size, "TEAM": self.team, "UNITS": self.units, "DIMS": self.dims}
        return {"LSTM": LSTM[self.cell], **sizes}

    def defines(self) -> dict[str, int]:
        """And what is known for the walks."""
        at_once = {name: _at_once(count, ways) for name, (count, ways) in self._tiles.items()}
        sizes = {"ROWS": self.rows, "SLOTS": int(self.own > 0)}
        there, back = (one.held if one else 0 for one in map(self.kept, (True, False)))
        gates = self.holding(forward=True) == GATES
        held = {"HELD_U": there if gates else 0, "HELD_S": 0 if gates else there, "HELD_B": back}
        most = {"MOST_U": self.at_once(forward=True), "MOST_B": self.at_once(forward=False)}
        return {**self.blocks(), **sizes, **at_once, **most, **held}

    @property
    def _tiles(self) -> dict[str, tuple[int, int]]:
        """Of each product: its tiles, and in how many ways the warps share them out."""
        contents, units = self.packs(forward=True)[3][1], self.packs(forward=False)[1][1]
        back = self.tiles_h + self.tiles_r if LSTM[self.cell] else max(self.tiles_h, self.tiles_r)
        own = {"NT_U": self.tiles_u, "NT_S": self.own // 8, "NT_B": back, "NT_P": contents, "NT_H": units}
        alone = ("NT_P", "NT_H") if self.dims else ()  # each warp has tiles to itself
        return {name: (count, WARPS if name in alone else WAYS) for name, count in own.items()}

    def at_once(self, forward: bool) -> int:
        """Tiles of one warp at once, at most."""
        names = ("NT_U", "NT_S", "NT_P") if forward else ("NT_B", "NT_H", *(("NT_S",) if self.dims else ()))
        return max(_at_once(*self._tiles[name]) for name in names)

    @property
    def segments(self) -> int:
        """How many segments the longer of the two plans has."""
        passes = {name: _passes(*tiles) for name, tiles in self._tiles.items()}
        there = passes["NT_S"] + passes["NT_P"] + 2 * passes["NT_U"]  # gates: from h, and from what is read
        return max(there, 2 * passes["NT_B"] + passes["NT_S"] + passes["NT_H"])

    def packs(self, forward: bool) -> tuple[tuple[int, int], ...]:
        """Of the packs of weights: blocks of 32 that are summed over, and tiles of eight columns."""
        kh, ks, kc, k_own = (-(-count // 32) for count in (self.hidden, self.slots, self.content, self.own))
        if forward:
            read, values = (kc, (k_own, -(-self.content // 8))) if self.dims else (ks, (0, 0))
            return (kh, self.own // 8), (kh, self.tiles_one), (read, self.tiles_one if read else 0), values
        keys = (k_own, -(-self.hidden // 8)) if self.dims else (ks, self.tiles_h if ks else 0)
        values = (kc, self.own // 8) if self.dims else (0, 0)
        k_slopes = -(-self.members * self.tiles_one // 4)
        if LSTM[self.cell]:
            return (k_slopes, self.tiles_h + self.tiles_r), keys, values, (0, 0)
        return (k_slopes, self.tiles_h), keys, values, (k_slopes if self.tiles_r else 0, self.tiles_r)

    def pieces(self, forward: bool) -> tuple[int, ...]:
        """Bytes of what a block sends to all: rows of halves, and some numbers behind them."""
        own = _apart(self.own // 8) + (4 if forward else 2) if self.own else 0
        first = self.units if forward else _apart(self.tiles_u)
        return 2 * self.rows * first, 2 * self.rows * (self.dims or own)

    def post(self, forward: bool) -> int:
        """Bytes of memory that a block has for that: twice, by turns."""
        return 2 * sum(self.pieces(forward))

    def fixed(self, forward: bool) -> int:
        """Bytes of shared memory that one block needs beside weights, as much as the source takes."""
        rows, own, c = self.rows, self.own, self.content
        if forward:
            parts = [32, 2 * rows * _stride(self.hidden), 4 * self.members * rows, 4 * rows, 4 * rows, 4 * rows * own]
            parts += [] if own else [self.members * self.pieces(forward)[0]]  # without slots, it arrives in two places
            contents = [2 * rows * _stride(c), 2 * rows * _stride(own), 2 * rows * c, 8 * self.members * rows]
        else:
            parts = [32, 4 * rows, 4 * rows * own]
            contents = [2 * rows * _stride(own), 2 * rows * _stride(c), 2 * rows * self.hidden, 4 * self.members * rows]
        parts += [*(self.members * piece for piece in self.pieces(forward)), *(contents if self.dims else ())]
        return sum(-(-size // 16) * 16 for size in parts) + 32 * PARTS * rows * (WAYS * self.at_once(forward) + 1)

    def ring(self, depth: int, forward: bool) -> int:
        """Bytes for weights that are on their way, the marks of their arrival and the plans."""
        return WARPS * (depth * (512 * self.at_once(forward) + 8) + 32 * SEGMENTS) if depth else 0

    def holding(self, forward: bool) -> int:
        """The pack of which blocks can be held in registers: backward the first one, else that of gates or of keys."""
        return GATES if forward and (_passes(*self._tiles["NT_U"]) == 1 or not self.own) else FIRST

    def most_held(self, forward: bool) -> int:
        """Blocks of it that each warp can have there: none where it goes through them more than once."""
        number = self.holding(forward)
        name = "NT_B" if not forward else "NT_U" if number == GATES else "NT_S"
        tiles, (blocks, _) = self._tiles[name], self.packs(forward)[number]
        there, back = FREE[self.rows, self.dims > 0]
        free = there if forward else back if self.rows * self.units <= 2 * THREADS else 0
        return min(-(-blocks // PARTS), free // (4 * _at_once(*tiles))) if _passes(*tiles) == 1 else 0

    def kept(self, forward: bool) -> "Kept | None":
        """What of the weights is on the chip; the rest streams in from L2 in every step. None: no room."""
        return _kept(self, forward)

    def beside(self, held: int, depth: int, forward: bool) -> Kept:
        """What can be kept with this many blocks in registers and beside a ring of that depth."""
        size, found = self.fixed(forward) + self.ring(depth, forward), []
        for number, (blocks, tiles) in enumerate(self.packs(forward)):
            first = min(blocks, PARTS * held) if number == self.holding(forward) else 0
            near = min(blocks - first, max(0, SHARED_LIMIT - size) // (512 * tiles or 1))
            found.append(first + near)
            size += 512 * tiles * near
        return Kept(held, tuple(found), depth, size)

    def streams(self, kept: Kept, forward: bool) -> int:
        """Tiles that come in anew in every step."""
        packs = zip(kept.blocks, self.packs(forward), strict=True)
        return sum((blocks - near) * tiles for near, (blocks, tiles) in packs)

    def cycles(self, kept: Kept, forward: bool) -> float:
        """Of a step, roughly, as measured on an H200: the exchange, the products, and weights that stream in."""
        tiles, items = sum(blocks * wide for blocks, wide in self.packs(forward)), self.rows * self.units
        exchange = 2300 + 6 * items if forward else 2600 + 11 * items
        exchange += 3000 * bool(self.slots) + 2500 * bool(self.dims) + 9000 * (self.team > 1)
        product = 10 + 5 * -(-self.rows // 16)
        stream = 30 if kept.depth == 2 else 27  # L2 gives a block 19 bytes a cycle, if it is asked early enough
        return exchange + product * tiles + stream * self.streams(kept, forward)


@functools.lru_cache(maxsize=4096)  # a training asks for the same ones in every step
def _kept(c: Clusters, forward: bool) -> Kept | None:
    most = c.most_held(forward)
    ways = [*((held, 0) for held in range(most + 1)), *((most, depth) for depth in DEPTHS)]
    found = [c.beside(*way, forward) for way in ways]
    able = [kept for kept in found if kept.shared <= SHARED_LIMIT and (kept.depth or not c.streams(kept, forward))]
    return min(able, key=lambda kept: c.cycles(kept, forward), default=None)  # of equal ones, that which holds least


def best(layer: Sizes, room: Mapping[int, int]) -> Clusters | None:
    """The sharing of a layer that takes least time. `room` is how many clusters of each size run at the same time."""
    alike = layer._replace(batch=layer.batch if layer.batch <= FEW else MANY)
    ways = product((sharing for sharing in SHARINGS if room.get(sharing[0])), ROWS, (False, True))
    found = [Clusters.of(size, team, rows, contents, alike) for (size, team), rows, contents in ways]
    able = [one for one in found if one and (one.team == 1 or one.needed <= room[one.size])]  # a team runs as a whole
    chosen = min(able, key=lambda c: _time(c, room[c.size]), default=None)
    return chosen._replace(batch=layer.batch) if chosen else None


def _time(c: Clusters, room: int) -> float:
    """Cycles of a step forward and backward, times ceil(needed / room) rounds."""
    ways = [(c.kept(forward), forward) for forward in (True, False)]
    return sum(c.cycles(kept, forward) for kept, forward in ways if kept) * -(-c.needed // room)


def _share(count: int, size: int, multiple: int) -> int:
    return -(-count // (size * multiple)) * multiple


def _at_once(tiles: int, ways: int) -> int:
    """Tiles of one warp at once, so that the warps have equally many."""
    return max(1, -(-tiles // (ways * _passes(tiles, ways))))


def _passes(tiles: int, ways: int) -> int:
    """How often the warps go through what is summed over, with some of the tiles each time."""
    return max(1, -(-tiles // (ways * MAX_TILES)))


def _apart(chunks: int) -> int:
    """Halves from one row of a piece to the next: 32 * ceil(chunks / 4)."""
    return -(-chunks // 4) * 32


def _stride(width: int) -> int:
    """Halves from one row to the next: 64 * ceil(width / 64) + 32, so that rows begin in different banks."""
    return -(-width // 64) * 64 + 32
