"""Texts that read the slots of their nearest domains alone: against scoring all, row by row, and with gradients."""

import copy

import pytest
import torch

from memgrow.models import ModelSettings, RecurrentEncoder, recurrent_encoder
from memgrow.nn import READINGS, MemoryBank, ResidualMemory, recurrent, residual_memory
from memgrow.nn.bank import RowSlots
from memgrow.nn.growth import Growth
from memgrow.nn.routing import DomainRouter, choose_naively, grouped, routed


def router_of(segments: int, width: int = 6) -> DomainRouter:
    router, growth = DomainRouter(width), Growth()
    router.plan(growth, segments)
    growth.commit()
    for number in range(segments):
        router.fit(number, torch.randn(9, width) * torch.rand(width) + 2 * torch.randn(width))
    return router


def memory_of(segments: int, width: int = 8, reading: str = "slots", more: int = 1) -> ResidualMemory:
    memory = ResidualMemory(width, key_size=4, best=3, reading=reading)
    for number in range(segments):
        memory.grow(2 + more * number, f"d{number}", quiet=float(number % 2))
    torch.nn.init.normal_(memory.bank.values)
    return memory


def test_the_nearest_segments_are_chosen_among_those_that_are_read():
    torch.manual_seed(0)
    router, texts = router_of(7), torch.randn(40, 6) * 3
    for among in (range(7), [5, 1, 3]):
        chosen = router.choose(texts, among, 2)
        assert chosen.tolist() == [choose_naively(router, text, among, 2) for text in texts]
    assert {number for number, _ in grouped(chosen[:, 0])[1]} <= {1, 3, 5}


def test_a_segment_that_joins_changes_nothing_of_what_is_known_of_the_others():
    router = router_of(3)
    before, growth = router.means.clone(), Growth()
    router.plan(growth)
    growth.commit()
    assert torch.equal(router.means[:3], before)
    assert len(router.variances) == 4


@pytest.mark.parametrize("copied", [0, 1 << 18], ids=["in groups", "by a batched product"])
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("more", [0, 3], ids=["of one size", "of several sizes"])
@pytest.mark.parametrize("routes", [[[2, 0], [1, 2], [2, 1], [0, 1]], [[1], [1], [1], [1]]], ids=["mixed", "one"])
def test_a_routed_memory_reads_as_each_row_does_by_itself(routes, more, reading, copied, monkeypatch):
    monkeypatch.setattr(residual_memory, "COPIED", copied)
    torch.manual_seed(1)
    memory, states = memory_of(3, reading=reading, more=more).double(), torch.randn(4, 5, 8, dtype=torch.double)
    memory.query.weight.requires_grad_(reading != "adapter")
    twin = copy.deepcopy(memory)
    given, twins = (states.clone().requires_grad_() for _ in range(2))
    with routed(torch.tensor(routes)):
        found = memory(given)
        shares = memory.weights(given)
    rows = []
    for row, numbers in zip(twins, routes, strict=True):
        twin.read_only(numbers)
        rows.append(twin(row))
    wanted = torch.stack(rows)
    torch.testing.assert_close(found, wanted)
    weight = torch.randn_like(states)
    (found * weight).sum().backward()
    (wanted * weight).sum().backward()
    torch.testing.assert_close(given.grad, twins.grad)
    for name, parameter in memory.named_parameters():
        torch.testing.assert_close(parameter.grad, dict(twin.named_parameters())[name].grad)
    with routed(torch.tensor(routes)), memory.without("d1"), torch.no_grad():
        found = memory(states)
    with twin.without("d1"), torch.no_grad():
        for row, states_of_row, numbers in zip(found, states, routes, strict=True):
            twin.read_only(numbers)
            torch.testing.assert_close(row, twin(states_of_row))
    for row, numbers in zip(shares, routes, strict=True) if reading != "adapter" else ():  # a unit may be off
        read = {number for number in range(3) if row[..., slice_of(memory, number)].any()}
        assert read == set(numbers)


def slice_of(memory: ResidualMemory, number: int) -> slice:
    return slice(memory.bank.segments[number].start, memory.bank.segments[number].stop)


def encoder_of(domains_read: int, segments: int, cell: str = "lstm", quiet: float = 1.0) -> RecurrentEncoder:
    settings = ModelSettings(cell=cell, embedding=6, hidden=5, slots=4, domains_read=domains_read)
    encoder = RecurrentEncoder(settings, words=30, domain="d0")
    for number in range(1, segments):
        growth = Growth()
        encoder.plan(growth, slots=3, domain=f"d{number}", quiet=quiet * (number % 2))
        growth.commit()
    if encoder.router is not None:
        for number in range(segments):
            encoder.router.fit(number, 0.4 * torch.randn(9, 6) + 0.2 * torch.randn(6))
    return encoder


@pytest.mark.parametrize("operations", [-1_000_000, 150_000], ids=["in groups", "by batched products"])
@pytest.mark.parametrize("domains_read", [1, 2])
def test_a_routed_recurrent_network_reads_as_each_text_does_with_its_segments_alone(
    domains_read, operations, monkeypatch
):
    monkeypatch.setattr(recurrent_encoder, "OPERATIONS", operations)
    torch.manual_seed(2)
    encoder = encoder_of(domains_read, 4)
    words, lengths = torch.randint(2, 30, (12, 7)), torch.randint(1, 8, (12,))
    found = encoder(words, lengths)
    gradient = torch.autograd.grad(found.square().sum(), list(encoder.newest.parameters()))
    vectors, wanted = encoder.embedding(words), []
    routes = set()
    for row, length in zip(vectors, lengths.tolist(), strict=True):
        chosen = choose_naively(encoder.router, row[:length].mean(0), range(4), domains_read)
        routes.add(tuple(sorted(chosen)))
        output, _ = encoder.newest(row[:length].unsqueeze(1), segments=sorted(chosen))
        wanted.append(output.mean(0).squeeze(0))
    assert len(routes) > 1, "or nothing was tried"
    torch.testing.assert_close(found, torch.stack(wanted))
    twin = torch.autograd.grad(torch.stack(wanted).square().sum(), list(encoder.newest.parameters()))
    for one, other in zip(gradient, twin, strict=True):
        torch.testing.assert_close(one, other)
    shares = encoder.reading(words, lengths)[0]
    total = sum(shares.values())
    torch.testing.assert_close(total, (torch.arange(total.shape[1]) < lengths.unsqueeze(1)).float())
    assert all(sum(bool(share[row].any()) for share in shares.values()) == domains_read for row in range(12))


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize("backend", ["auto", "naive"])
@pytest.mark.parametrize("quiet", [0.0, 1.0])
def test_without_gradients_each_text_reads_its_stretch_of_slots_as_it_does_a_copy(cell, backend, quiet, monkeypatch):
    torch.manual_seed(5)
    encoder = encoder_of(1, 4, cell, quiet)
    encoder.newest.backend = backend
    words, lengths = torch.randint(2, 30, (12, 7)), torch.randint(1, 8, (12,))
    asked, by_stretch = [], MemoryBank.memory_by_stretch
    monkeypatch.setattr(MemoryBank, "memory_by_stretch", lambda *given: (asked.append(1), by_stretch(*given))[1])
    with torch.no_grad():
        copied = encoder(words, lengths)
        assert not asked, "small slots are copied"
        monkeypatch.setattr(recurrent, "LARGE_SEGMENT", 1)
        torch.testing.assert_close(encoder(words, lengths), copied)
    assert len(asked) == 2
    torch.testing.assert_close(encoder(words, lengths).detach(), copied)
    assert len(asked) == 2, "gradients need the copies"


@pytest.mark.parametrize(("sizes", "in_blocks"), [((3, 3, 3), True), ((4, 3, 3), False)])
def test_slots_are_copied_in_blocks_where_segments_are_of_one_size_and_are_the_same(sizes, in_blocks):
    bank = MemoryBank(5, 6, sizes[0], "d0")
    for number, size in enumerate(sizes[1:], 1):
        bank.grow(size, f"d{number}", quiet=1.0)
    slots = bank.slots_of(torch.tensor([[1, 2], [2, 1], [1, 2]]))
    assert (slots.size is not None) is in_blocks
    found, wanted = bank.memory_by_row(slots), bank.memory_by_row(RowSlots(slots.indices, slots.there))
    for one, other in zip(found[:3], wanted[:3], strict=True):
        assert torch.equal(one, other)
        weight, own = torch.randn_like(one), tuple(bank.parameters())
        both = [torch.autograd.grad((each * weight).sum(), own, allow_unused=True) for each in (one, other)]
        for ours, theirs in zip(*both, strict=True):
            assert (ours is None and theirs is None) or torch.equal(ours, theirs)


def test_where_all_domains_are_read_nothing_is_routed():
    torch.manual_seed(3)
    encoder = encoder_of(3, 3)
    words, lengths = torch.randint(2, 30, (4, 7)), torch.tensor([7, 3, 5, 1])
    found, encoder.router = encoder(words, lengths), None
    assert torch.equal(found, encoder(words, lengths))
