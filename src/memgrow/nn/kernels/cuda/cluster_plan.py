"""How a layer is divided among clusters of blocks (cluster.cuh), by a model of the time that a step takes."""

import functools
from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

from memgrow.nn.kernels.cuda.layer import LSTM
from memgrow.nn.kernels.cuda.nvrtc import SHARED_LIMIT

# Blocks of a cluster, and clusters of a team. How many fit on a GPU depends on how its multiprocessors are grouped.
SHARINGS = ((16, 1), (14, 1), (12, 1), (10, 1), (8, 1), (2, 16))
ROWS = (16, 24, 32)  # of a cluster
THREADS = 256  # of a block
WARPS_K = 4  # warps of a block along the dimension that a product sums over
WARPS_N = 2  # and along its columns
MAX_UNITS = 64  # of a block: more would not fit its registers
MAX_TILES = 5  # of eight columns that a warp accumulates at once
WARPS = 8
FIRST, GATES = 0, 1  # packs of weights, by their number
DEPTHS = (3, 2)  # chunks of weights in flight for a warp, where not all weights fit: more are no faster
FREE = {  # registers of a thread that can hold weights, forward and backward, by rows and whether contents are read
    (16, False): (80, 80),
    (24, False): (80, 80),
    (32, False): (20, 0),
    (16, True): (64, 48),
    (24, True): (40, 0),
    (32, True): (20, 0),
}
FEW, MANY = 256, 4096  # rows: with more than FEW the plan is that for MANY, so that it is compiled once
SEGMENTS = 16  # of the order in which a warp streams weights, at most


class Sizes(NamedTuple):
    """The sizes of a layer."""

    cell: str
    directions: int
    batch: int
    hidden: int
    slots: int
    slot_size: int = 0  # 0: contents are not read; slots are given by what they add to the gates


class Kept(NamedTuple):
    """The part of the packs of weights that is kept on the chip."""

    held: int  # blocks of k of one pack that each warp has in registers
    blocks: tuple[int, ...]  # blocks of k of each pack on the chip, those in registers among them
    depth: int  # of the ring through which the rest streams; 0: there is none
    shared: int  # bytes of shared memory in all


class Clusters(NamedTuple):
    """A plan: how a layer is divided among clusters and their blocks."""

    size: int  # blocks of a cluster
    team: int  # clusters that work on the same rows
    rows: int  # sequences of a cluster or team
    cell: str
    directions: int
    batch: int
    units: int  # of one block
    own: int  # slots of one block
    dims: int  # of the content that is read, of one block; 0: blocks exchange attention to slots, and not contents

    @classmethod
    def of(cls, size: int, team: int, rows: int, contents: bool, layer: Sizes) -> "Clusters | None":
        """The plan with these sizes; None if the layer is too large for it, or has no slots where it needs some."""
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
        """Tiles of a block's own gates that h, or what is read, contributes to."""
        return self.tiles_u if LSTM[self.cell] else 3 * self.tiles_h

    @property
    def content(self) -> int:
        return self.members * self.dims

    def blocks(self) -> dict[str, int]:
        """The defines that describe a block, whatever rows there are."""
        sizes = {"CLUSTER": self.size, "TEAM": self.team, "UNITS": self.units, "DIMS": self.dims}
        return {"LSTM": LSTM[self.cell], **sizes}

    def defines(self) -> dict[str, int]:
        """The defines of the forward and the backward kernel."""
        at_once = {name: _at_once(*tiles) for name, tiles in self._tiles.items()}
        sizes = {"ROWS": self.rows, "SLOTS": int(self.own > 0)}
        forward, backward = (one.held if one else 0 for one in map(self.kept, (True, False)))
        gates = self.holding(forward=True) == GATES
        held = {"HELD_U": forward if gates else 0, "HELD_S": 0 if gates else forward, "HELD_B": backward}
        most = {"MOST_U": self.at_once(forward=True), "MOST_B": self.at_once(forward=False)}
        return {**self.blocks(), **sizes, **at_once, **most, **held}

    @property
    def _tiles(self) -> dict[str, tuple[int, int]]:
        """The tiles of each product, and the number of warps that divide them."""
        contents, units = self.packs(forward=True)[3][1], self.packs(forward=False)[1][1]
        back = self.tiles_h + self.tiles_r if LSTM[self.cell] else max(self.tiles_h, self.tiles_r)
        own = {"NT_U": self.tiles_u, "NT_S": self.own // 8, "NT_B": back, "NT_P": contents, "NT_H": units}
        whole = ("NT_P", "NT_H") if self.dims else ()  # products of which each warp computes whole tiles
        return {name: (count, WARPS if name in whole else WARPS_N) for name, count in own.items()}

    def at_once(self, forward: bool) -> int:
        """The most tiles that a warp accumulates at once, in any product of a pass."""
        names = ("NT_U", "NT_S", "NT_P") if forward else ("NT_B", "NT_H", *(("NT_S",) if self.dims else ()))
        return max(_at_once(*self._tiles[name]) for name in names)

    @property
    def segments(self) -> int:
        """Segments of the stream of weights, forward or backward, whichever has more."""
        passes = {name: _passes(*tiles) for name, tiles in self._tiles.items()}
        forward = passes["NT_S"] + passes["NT_P"] + 2 * passes["NT_U"]  # gates: from h, and from what is read
        return max(forward, 2 * passes["NT_B"] + passes["NT_S"] + passes["NT_H"])

    def packs(self, forward: bool) -> tuple[tuple[int, int], ...]:
        """The size of each pack of weights: blocks of 32 of k, and tiles of eight columns."""
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
        """Bytes that a block sends in each of its two all-gathers: rows of halves, then a few numbers for each row."""
        own = _row_stride(self.own // 8) + (4 if forward else 2) if self.own else 0
        first = self.units if forward else _row_stride(self.tiles_u)
        return 2 * self.rows * first, 2 * self.rows * (self.dims or own)

    def mailbox(self, forward: bool) -> int:
        """Bytes of global memory where a block writes them: twice, by turns."""
        return 2 * sum(self.pieces(forward))

    def fixed(self, forward: bool) -> int:
        """Bytes of shared memory that a block needs beside weights, in the order in which the source takes them."""
        rows, own, c = self.rows, self.own, self.content
        hidden_rows, own_rows, content_rows = (2 * rows * _padded_stride(width) for width in (self.hidden, own, c))
        if forward:
            parts = [32, hidden_rows, 4 * self.members * rows, 4 * rows, 4 * rows, 4 * rows * own]
            parts += [] if own else [self.members * self.pieces(forward)[0]]  # without slots, states have two buffers
            contents = [content_rows, own_rows, 2 * rows * c, 8 * self.members * rows]
        else:
            parts = [32, 4 * rows, 4 * rows * own]
            contents = [own_rows, content_rows, 2 * rows * self.hidden, 4 * self.members * rows]
        parts += [*(self.members * piece for piece in self.pieces(forward)), *(contents if self.dims else ())]
        return sum(-(-size // 16) * 16 for size in parts) + 32 * WARPS_K * rows * (WARPS_N * self.at_once(forward) + 1)

    def ring(self, depth: int, forward: bool) -> int:
        """Bytes of the ring of streamed weights, with its mbarriers and the plans of its order."""
        return WARPS * (depth * (512 * self.at_once(forward) + 8) + 32 * SEGMENTS) if depth else 0

    def holding(self, forward: bool) -> int:
        """The pack of which blocks can be held in registers: backward the first, forward that of gates or of keys."""
        return GATES if forward and (_passes(*self._tiles["NT_U"]) == 1 or not self.own) else FIRST

    def most_held(self, forward: bool) -> int:
        """Blocks of that pack that each warp can hold: none where it takes several passes over them."""
        number = self.holding(forward)
        name = "NT_B" if not forward else "NT_U" if number == GATES else "NT_S"
        tiles, (blocks, _) = self._tiles[name], self.packs(forward)[number]
        free_forward, free_backward = FREE[self.rows, self.dims > 0]
        free = free_forward if forward else free_backward if self.rows * self.units <= 2 * THREADS else 0
        return min(-(-blocks // WARPS_K), free // (4 * _at_once(*tiles))) if _passes(*tiles) == 1 else 0

    def kept(self, forward: bool) -> "Kept | None":
        """The weights on the chip, the rest streaming from L2 in every step, as is fastest; None if nothing fits."""
        return _kept(self, forward)

    def beside(self, held: int, depth: int, forward: bool) -> Kept:
        """The weights that fit on the chip with `held` blocks in registers and beside a ring of that depth."""
        size, found = self.fixed(forward) + self.ring(depth, forward), []
        for number, (blocks, tiles) in enumerate(self.packs(forward)):
            first = min(blocks, WARPS_K * held) if number == self.holding(forward) else 0
            near = min(blocks - first, max(0, SHARED_LIMIT - size) // (512 * tiles or 1))
            found.append(first + near)
            size += 512 * tiles * near
        return Kept(held, tuple(found), depth, size)

    def streams(self, kept: Kept, forward: bool) -> int:
        """Tiles that are streamed in every step."""
        packs = zip(kept.blocks, self.packs(forward), strict=True)
        return sum((blocks - near) * tiles for near, (blocks, tiles) in packs)

    def cycles(self, kept: Kept, forward: bool) -> float:
        """Cycles of a step, roughly, as measured on an H200: the exchange, the products and the streamed weights."""
        tiles, items = sum(blocks * wide for blocks, wide in self.packs(forward)), self.rows * self.units
        exchange = 2300 + 6 * items if forward else 2600 + 11 * items
        exchange += 3000 * bool(self.slots) + 2500 * bool(self.dims) + 9000 * (self.team > 1)
        product = 10 + 5 * -(-self.rows // 16)
        stream = 30 if kept.depth == 2 else 27  # L2 gives a block 19 bytes a cycle, if it is asked early enough
        return exchange + product * tiles + stream * self.streams(kept, forward)


@functools.lru_cache(maxsize=4096)  # a training asks for the same ones in every step
def _kept(c: Clusters, forward: bool) -> Kept | None:
    most = c.most_held(forward)
    choices = [*((held, 0) for held in range(most + 1)), *((most, depth) for depth in DEPTHS)]
    found = [c.beside(held, depth, forward) for held, depth in choices]
    able = [kept for kept in found if kept.shared <= SHARED_LIMIT and (kept.depth or not c.streams(kept, forward))]
    return min(able, key=lambda kept: c.cycles(kept, forward), default=None)  # of equals the first: it holds least


def best(layer: Sizes, room: Mapping[int, int]) -> Clusters | None:
    """The plan of a layer that takes least time. `room` is how many clusters of each size run at the same time."""
    alike = layer._replace(batch=layer.batch if layer.batch <= FEW else MANY)
    choices = product((sharing for sharing in SHARINGS if room.get(sharing[0])), ROWS, (False, True))
    found = [Clusters.of(size, team, rows, contents, alike) for (size, team), rows, contents in choices]
    able = [one for one in found if one and (one.team == 1 or one.needed <= room[one.size])]  # a team runs as a whole
    chosen = min(able, key=lambda c: _time(c, room[c.size]), default=None)
    return chosen._replace(batch=layer.batch) if chosen else None


def _time(c: Clusters, room: int) -> float:
    """Cycles of a step forward and backward, times ceil(needed / room) rounds."""
    passes = [(c.kept(forward), forward) for forward in (True, False)]
    return sum(c.cycles(kept, forward) for kept, forward in passes if kept) * -(-c.needed // room)


def _share(count: int, size: int, multiple: int) -> int:
    """Each block's share of `count`, rounded up to a multiple."""
    return -(-count // (size * multiple)) * multiple


def _at_once(tiles: int, warps: int) -> int:
    """Tiles that a warp accumulates at once: the warps have equally many in each pass."""
    return max(1, -(-tiles // (warps * _passes(tiles, warps))))


def _passes(tiles: int, warps: int) -> int:
    """Passes over k in which the warps compute all tiles: ceil(tiles / (warps * MAX_TILES))."""
    return max(1, -(-tiles // (warps * MAX_TILES)))


def _row_stride(chunks: int) -> int:
    """Halves from one row of a piece to the next: 32 * ceil(chunks / 4)."""
    return -(-chunks // 4) * 32


def _padded_stride(width: int) -> int:
    """Halves from one row to the next: 64 * ceil(width / 64) + 32, so that rows begin in different banks."""
    return -(-width // 64) * 64 + 32
