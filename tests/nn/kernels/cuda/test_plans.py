"""How the kernels share out a layer among blocks: arithmetic, so that no GPU is needed."""

from itertools import product

import pytest

from memgrow.nn.kernels.cuda.cluster_plan import FIRST, MAX_TILES, WARPS_K, Clusters, Sizes, best
from memgrow.nn.kernels.cuda.grid import CHUNK, Shape
from memgrow.nn.kernels.cuda.grid import MAX_TILES as MAX_GRID_TILES
from memgrow.nn.kernels.cuda.nvrtc import SHARED_LIMIT


def test_the_grid_has_a_place_for_every_unit_slot_and_row():
    for layer in product([1, 2], [1, 31, 64, 300], [1, 7, 300, 512, 1024], [0, 1, 500, 2500, 8192]):
        check_grid(*layer)


def check_grid(directions, batch, hidden, slots):
    shape = Shape.of(directions, batch, hidden, slots, processors=132)
    assert shape is not None
    assert shape.directions * shape.groups * shape.blocks <= 132, "all blocks must run at the same time"
    assert shape.blocks * 2 * shape.tiles_u >= shape.hidden >= hidden
    assert shape.blocks * 8 * shape.tiles_s >= shape.slots >= slots
    assert shape.groups * shape.chunks * CHUNK >= batch
    assert shape.tiles_u <= MAX_GRID_TILES
    for forward in (True, False):
        assert shape.plan("lstm", True, forward).shared <= SHARED_LIMIT


def test_hidden_units_that_no_sharing_can_place_are_refused():
    assert Shape.of(2, 64, 4096, 500, processors=132) is None


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_cluster_has_a_place_for_every_unit_slot_and_row(cell):
    sharings = [(8, 1), (10, 1), (12, 1), (14, 1), (16, 1), (2, 16)]
    sizes = product(sharings, [16, 24, 32], [0, 5, 300], [1, 7, 300, 512], [0, 1, 500, 2500])
    placed = sum(check_cluster(*sharing, *rest, cell) for sharing, *rest in sizes)
    assert placed > 400, "few are too large"


def check_cluster(size, team, rows, slot_size, hidden, slots, cell) -> bool:
    """Whether a cluster of that size takes the layer; if so, that it has a place for everything."""
    contents = slot_size > 0
    shared = Clusters.of(size, team, rows, contents, Sizes(cell, 2, 70, hidden, slots, slot_size))
    if (contents and not slots) or (team > 1 and (contents or not slots)):
        assert shared is None
        return False
    if shared is None and (slots == 2500 or (rows > 16 and hidden >= 300)):
        return False  # too large for a cluster of that size: others take it, or the grid
    assert shared is not None
    assert shared.hidden >= hidden
    assert shared.slots >= slots
    assert shared.content >= slot_size
    assert shared.units % 2 == shared.dims % 2 == shared.own % 8 == 0, "pushes go in words of two halves and of eight"
    assert shared.needed * shared.rows >= 2 * 70 * team
    assert all(1 <= shared.defines()[name] <= MAX_TILES for name in ("NT_U", "NT_S", "NT_B", "NT_P", "NT_H"))
    for forward in (True, False):
        kept, packs = shared.kept(forward), shared.packs(forward)
        assert kept.shared <= SHARED_LIMIT
        bytes_near = kept.shared - shared.fixed(forward) - shared.ring(kept.depth, forward)
        in_shared = [count * tiles for count, (_, tiles) in zip(kept.blocks, packs, strict=True)]
        number = shared.holding(forward)
        in_shared[number] -= min(packs[number][0], WARPS_K * kept.held) * packs[number][1]
        assert bytes_near == 512 * sum(in_shared), "what is held in registers needs no room"
        for count, (blocks, _) in zip(kept.blocks, packs, strict=True):
            assert 0 <= count <= blocks
        whole = kept.blocks == tuple(blocks for blocks, tiles in packs)
        assert whole == (kept.depth == 0), "what does not fit streams in"
    return True


def test_registers_hold_as_many_weights_as_it_takes_to_do_without_a_stream():
    roomy, tight = (Clusters.of(16, 1, 24, False, Sizes("lstm", 2, 64, 300, slots)) for slots in (100, 500))
    for forward in (True, False):
        assert roomy.kept(forward).held == roomy.kept(forward).depth == 0, "shared memory is enough"
        kept = tight.kept(forward)
        assert kept.held > 0
        assert kept.depth == tight.streams(kept, forward) == 0
        assert tight.streams(tight.beside(kept.held - 1, 0, forward), forward) > 0, "fewer would not do"
    large = Clusters.of(16, 1, 16, False, Sizes("gru", 1, 64, 1024, 1024))
    assert large.holding(True) == FIRST, "several passes need the gates in turn, and keys are held instead"
    assert large.most_held(True) > 0


def test_the_clusters_are_as_large_as_their_number_allows():
    grouped = {16: 7, 14: 7, 12: 7, 10: 7, 8: 15}  # as on an H200, one of whose groups has few processors
    assert best(Sizes("lstm", 2, 48, 300, 500, 300), grouped).size == 16
    assert best(Sizes("lstm", 2, 112, 300, 500, 300), {16: 3, 8: 15}).size == 8, "four rounds would take longer"
    assert best(Sizes("gru", 1, 64, 1024, 1024, 1024), grouped).size == 16, (
        "smaller ones would have too many units in a block"
    )
    wide = Sizes("gru", 1, 64, 1024, 1024, 1024)
    assert best(wide, grouped | {2: 66})[:2] == (2, 16), "a team keeps more of a wide layer on the chip"
    assert best(wide._replace(batch=65), grouped | {2: 66}).team == 1, (
        "a team that does not find room would wait for ever"
    )
    assert best(Sizes("lstm", 2, 64, 300, 500, 300), grouped | {2: 66}).team == 1, "what fits is faster in a cluster"
    assert best(Sizes("lstm", 2, 113, 300, 500, 300), grouped).rows == 24, "with 16 there would be three rounds"
    large = {best(Sizes("lstm", 2, batch, 300, 500, 300), grouped)[:3] for batch in range(300, 5000, 70)}
    assert len(large) <= 2, "kernels are not compiled anew for each size of a batch"
    assert best(Sizes("lstm", 2, 64, 300, 100_000, 300), grouped) is None
    assert best(Sizes("lstm", 2, 64, 300, 500, 300), {16: 0, 14: 0}) is None
