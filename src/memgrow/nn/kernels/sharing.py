"""How the work of a layer is shared out among the blocks of a GPU (the two walks of grid.cu)."""

from typing import NamedTuple

from memgrow.nn.kernels.nvrtc import SHARED_LIMIT

CHUNK = 32  # rows that a block works on together; as in the source
WARPS = (12, 8)  # of a block: more hide more of the time that memory takes, fewer leave more room for weights
MAX_TILES = 8  # of gates in one block: more would not fit its registers


class Shape(NamedTuple):
    """How the work of a layer is shared out among blocks."""

    directions: int
    batch: int
    hidden: int  # padded
    slots: int  # padded
    groups: int  # of one direction
    blocks: int  # of one group
    chunks: int  # of one group
    tiles_u: int  # gates of one block, in eights
    tiles_s: int  # slots of one block, in eights

    @property
    def tiles_h(self) -> int:
        """Units of one block, in eights."""
        return -(-2 * self.tiles_u // 8)

    @classmethod
    def of(cls, directions: int, batch: int, hidden: int, slots: int, processors: int) -> "Shape | None":
        """The widest sharing that fits, or None where hidden units are too many for the number of processors."""
        hidden, slots, chunks = _padded(hidden), _padded(slots), -(-batch // CHUNK)
        for groups in (2, 1):
            if groups > chunks:
                continue
            blocks = min(processors // (directions * groups), max(hidden // 2, slots // 8))
            if blocks and (tiles_u := -(-hidden // (2 * blocks))) <= MAX_TILES:
                tiles_s = -(-slots // (8 * blocks))
                return cls(directions, batch, hidden, slots, groups, blocks, -(-chunks // groups), tiles_u, tiles_s)
        return None

    def plan(self, cell: str, exact: bool, forward: bool) -> "Plan":
        """How one of the two walks is compiled and started: with its weights on the chip if they fit."""
        tiles = self.tiles_h + self.tiles_s
        tiles_s, tiles_b = max(1, min(self.tiles_s, 4)), -(-tiles // -(-tiles // 6))
        widest = max(tiles_s, self.tiles_u) if forward else max(tiles_b, self.tiles_h)
        k_units, k_slots = self.hidden // 16, self.slots // 16
        weights = 128 * (
            k_units * self.tiles_s + (k_units + k_slots) * self.tiles_u
            if forward
            else 4 * k_units * tiles + k_slots * self.tiles_h
        )
        defines = {
            "LSTM": int(cell == "lstm"),
            "EXACT": int(exact),
            "ONE": int(self.chunks == 1),
            "TILES_U": self.tiles_u,
            "TILES_S": tiles_s,
            "TILES_B": tiles_b,
        }
        room = CHUNK * (2 + 8 * self.tiles_s + 4 * self.chunks * self.tiles_u)
        for warps in WARPS:
            size = 4 * (room + weights + warps * CHUNK * 8 * widest)
            if size <= SHARED_LIMIT:
                return Plan({**defines, "WARPS": warps}, size, True)
        return Plan({**defines, "WARPS": WARPS[0]}, 4 * (room + WARPS[0] * CHUNK * 8 * widest), False)


class Plan(NamedTuple):
    defines: dict[str, int]
    shared: int  # bytes
    weights_in_shared: bool


def _padded(size: int) -> int:
    return -(-size // 16) * 16
