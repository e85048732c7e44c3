"""Every way of the recurrence gives what the plain loop gives: outputs, last states and all gradients."""

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from memgrow.errors import SettingsError
from memgrow.nn import MemoryGRU, MemoryLSTM, MemoryRNN

LENGTHS = {
    "one row of one word": [1],
    "one row": [7],
    "all of one word": [1, 1, 1],
    "ragged": [5, 1, 9, 9, 3, 2],
    "many": [1 + (7 * n) % 13 for n in range(70)],
}
# input, hidden, slots, slot size: odd ones, tiny ones, the smallest, and thousands of slots
SIZES = {"odd": (5, 7, 11, 3), "smallest": (1, 1, 1, 1), "no memory": (6, 9, 0, None), "thousands": (3, 8, 3001, 4)}


def results(layer, sequences):
    """What a layer gives on sequences and what flows back into everything that went in."""
    inputs = [sequence.clone().requires_grad_() for sequence in sequences]
    output, states = layer(pack_sequence(inputs, enforce_sorted=False))
    states = states if isinstance(states, tuple) else (states,)
    (output.data.sin().sum() + sum((state * state).sum() for state in states)).backward()
    found = {"output": output.data, "dx": torch.cat([x.grad for x in inputs])}
    found |= {f"state {number}": state for number, state in enumerate(states)}
    return found | {name: p.grad for name, p in layer.named_parameters() if p.numel()}


def distance(a, b):
    return ((a.double() - b.double()).norm() / b.double().norm().clamp_min(1e-12)).item()


def twins(kind, sizes, backend, quiet, dtype=torch.float32, **settings):
    torch.manual_seed(0)
    inputs, hidden, slots, slot_size = sizes
    layers = []
    for name in (backend, "naive"):
        layer = kind(inputs, hidden, slots, slot_size, backend=name, **settings)
        if quiet and slots:
            layer.grow(slots=3, quiet=2.0)
        layers.append(layer)
    layers[0].load_state_dict(layers[1].state_dict())
    return layers[0].to(dtype), layers[1].double()


@pytest.mark.parametrize("kind", [MemoryLSTM, MemoryGRU], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_the_stepped_way_equals_the_plain_loop(kind, sizes, lengths):
    fast, plain = twins(kind, sizes, "stepped", quiet=True, num_layers=2, bidirectional=True)
    sequences = [torch.randn(length, sizes[0]) for length in lengths]
    ours, theirs = results(fast, sequences), results(plain, [s.double() for s in sequences])
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        # With a single slot attention is constant: what flows back into its key is rounding on both sides.
        if value.norm() > 1e-8:
            assert distance(ours[name], value) < 1e-5, name


@pytest.mark.parametrize("kind", [MemoryLSTM, MemoryGRU], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("bias", [True, False])
def test_the_stepped_way_takes_initial_states_and_gives_gradients_to_them(kind, bias):
    fast, plain = twins(kind, (4, 6, 5, 3), "stepped", quiet=False, bias=bias, bidirectional=True)
    x = torch.randn(5, 3, 4)
    found = []
    for layer, dtype in ((fast, torch.float32), (plain, torch.double)):
        torch.manual_seed(1)
        first = [torch.randn(2, 3, 6).to(dtype).requires_grad_() for _ in range(2 if kind is MemoryLSTM else 1)]
        out, _ = layer(x.to(dtype), tuple(first) if len(first) > 1 else first[0])
        out.sin().sum().backward()
        found.append([out, *(state.grad for state in first)])
    for ours, theirs in zip(*found, strict=True):
        assert distance(ours, theirs) < 1e-5


@pytest.mark.parametrize("kind", [MemoryLSTM, MemoryGRU], ids=lambda kind: kind.__name__)
def test_fresh_memory_is_never_read_before_it_is_written(kind):
    fast, plain = twins(kind, (5, 7, 11, 3), "stepped", quiet=True, bidirectional=True)
    sequences = [torch.randn(length, 5) for length in LENGTHS["ragged"]]
    torch.use_deterministic_algorithms(True)  # torch then fills all fresh memory with NaN
    try:
        assert torch.empty(3).isnan().all()
        ours = results(fast, sequences)
    finally:
        torch.use_deterministic_algorithms(False)
    theirs = results(plain, [s.double() for s in sequences])
    for name, value in theirs.items():
        assert distance(ours[name], value) < 1e-5, name


@pytest.mark.parametrize("kind", [MemoryLSTM, MemoryGRU], ids=lambda kind: kind.__name__)
def test_the_stepped_way_repeats_to_the_bit_with_and_without_gradients(kind):
    layer, _ = twins(kind, (5, 7, 11, 3), "stepped", quiet=False, bidirectional=True)
    batch = pack_sequence([torch.randn(n, 5) for n in LENGTHS["ragged"]], enforce_sorted=False)
    first = layer(batch)[0].data
    with torch.no_grad():
        assert torch.equal(layer(batch)[0].data, first)
    assert torch.equal(layer(batch)[0].data, first)


def test_weights_that_do_not_train_get_no_gradient():
    layer = MemoryLSTM(3, 4, slots=5)
    for name, parameter in layer.named_parameters():
        parameter.requires_grad_("banks" in name)
    layer(torch.randn(4, 2, 3))[0].sum().backward()
    assert layer.weight_ih_l0.grad is None
    assert layer.banks[0].keys.grad.abs().sum() > 0


def test_the_way_is_chosen_by_cell_and_device_and_can_be_asked_for():
    x = torch.randn(4, 2, 3)
    assert MemoryLSTM(3, 4, slots=2).backend_for(x)[0] == "stepped"
    assert MemoryGRU(3, 4, slots=2).backend_for(x)[0] == "stepped"
    assert MemoryRNN(3, 4, slots=2).backend_for(x) == ("naive", "rnn_tanh has no fast backend")
    assert MemoryLSTM(3, 4, slots=2, backend="naive").backend_for(x) == ("naive", "asked for")
    with pytest.raises(SettingsError, match="no backend 'warp'; there are auto, naive, stepped, cuda"):
        MemoryLSTM(3, 4, backend="warp")


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("batch", [1, 31, 64, 300])
@pytest.mark.parametrize("hidden", [1, 7, 300, 512, 1024])
@pytest.mark.parametrize("slots", [0, 1, 500, 2500, 8192])
def test_the_kernels_work_is_shared_out_so_that_every_unit_slot_and_row_has_its_place(directions, batch, hidden, slots):
    from memgrow.nn.kernels.cuda.grid import CHUNK, MAX_TILES, Shape
    from memgrow.nn.kernels.cuda.nvrtc import SHARED_LIMIT

    shape = Shape.of(directions, batch, hidden, slots, processors=132)
    assert shape is not None
    assert shape.directions * shape.groups * shape.blocks <= 132, "all blocks must run at the same time"
    assert shape.blocks * 2 * shape.tiles_u >= shape.hidden >= hidden
    assert shape.blocks * 8 * shape.tiles_s >= shape.slots >= slots
    assert shape.groups * shape.chunks * CHUNK >= batch
    assert shape.tiles_u <= MAX_TILES
    for forward in (True, False):
        assert shape.plan("lstm", True, forward).shared <= SHARED_LIMIT


def test_hidden_units_that_no_sharing_can_place_are_refused():
    from memgrow.nn.kernels.cuda.grid import Shape

    assert Shape.of(2, 64, 4096, 500, processors=132) is None


@pytest.mark.parametrize(("size", "team"), [(8, 1), (10, 1), (12, 1), (14, 1), (16, 1), (2, 16)])
@pytest.mark.parametrize("rows", [16, 24, 32])
@pytest.mark.parametrize("slot_size", [0, 5, 300])
@pytest.mark.parametrize("hidden", [1, 7, 300, 512])
@pytest.mark.parametrize("slots", [0, 1, 500, 2500])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_cluster_has_a_place_for_every_unit_slot_and_row(size, team, rows, slot_size, hidden, slots, cell):
    from memgrow.nn.kernels.cuda.cluster_plan import MAX_TILES, PARTS, Clusters, Sizes
    from memgrow.nn.kernels.cuda.nvrtc import SHARED_LIMIT

    contents = slot_size > 0
    shared = Clusters.of(size, team, rows, contents, Sizes(cell, 2, 70, hidden, slots, slot_size))
    if (contents and not slots) or (team > 1 and (contents or not slots)):
        assert shared is None
        return
    if shared is None and (slots == 2500 or (rows > 16 and hidden >= 300)):
        pytest.skip("too large for a cluster of that size: others take it, or the grid")
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
        in_shared[number] -= min(packs[number][0], PARTS * kept.held) * packs[number][1]
        assert bytes_near == 512 * sum(in_shared), "what is held in registers needs no room"
        for count, (blocks, _) in zip(kept.blocks, packs, strict=True):
            assert 0 <= count <= blocks
        whole = kept.blocks == tuple(blocks for blocks, tiles in packs)
        assert whole == (kept.depth == 0), "what does not fit streams in"


def test_registers_hold_as_many_weights_as_it_takes_to_do_without_a_stream():
    from memgrow.nn.kernels.cuda.cluster_plan import FIRST, Clusters, Sizes

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
    from memgrow.nn.kernels.cuda.cluster_plan import Sizes, best

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


@pytest.mark.parametrize("backend", ["naive", "auto"])
@pytest.mark.parametrize("kind", [MemoryLSTM, MemoryGRU, MemoryRNN], ids=lambda kind: kind.__name__)
def test_autocast_works_and_stays_near_full_precision(kind, backend):
    torch.manual_seed(0)
    layer = kind(6, 5, slots=4, bidirectional=True, backend=backend)
    x = torch.randn(7, 3, 6)
    expected, _ = layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = layer(x.bfloat16())
        output.float().sum().backward()
    assert distance(output, expected) < 2e-2
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters() if p.numel())


def test_a_backend_that_cannot_run_a_layer_says_so():
    x = torch.randn(4, 2, 3)
    with pytest.raises(SettingsError, match="stepped cannot run this layer: it knows lstm and gru, not rnn_tanh"):
        MemoryRNN(3, 4, backend="stepped")(x)
    with pytest.raises(SettingsError, match="cuda cannot run this layer: the input is not on a GPU"):
        MemoryLSTM(3, 4, backend="cuda")(x)
