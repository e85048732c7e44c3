"""Sparse updates: only slots that a domain reads more than earlier ones did move, and counts are all that is kept."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from memgrow.errors import SettingsError
from memgrow.learner import Learner
from memgrow.methods import METHODS, Method, MethodSettings
from memgrow.methods.sparse import (
    SparseUpdates,
    added,
    chosen_slots,
    counted_reads,
    memories_of,
    scores,
    slots_and_head,
)
from memgrow.models import ENCODERS, Encoder, ModelSettings
from memgrow.models.pretrained.settings import PretrainedSettings
from memgrow.nn import Growth, ResidualMemory
from tests.support.breaking import Plug, PulledPlug
from tests.support.tiny_encoder import make_encoder

TIGHT = MethodSettings(sparse_slots=3)


class ResidualEncoder(Encoder):
    """The mean of word vectors that have been through two memories."""

    def __init__(self, settings: ModelSettings, words: int, domain: str | None = None) -> None:
        super().__init__(settings, words, domain)
        self.vectors = nn.Embedding(words, settings.embedding, padding_idx=0)
        sizes = {"key_size": 4, "best": 2, "slots": settings.slots, "domain": domain}
        self.memories = nn.ModuleList(ResidualMemory(settings.embedding, **sizes) for _ in range(2))

    sizes = property(lambda self: [self.settings.embedding])
    vocabulary_size = property(lambda self: self.vectors.num_embeddings)
    word_vectors = property(lambda self: self.vectors)
    banks = property(lambda self: [memory.bank for memory in self.memories])

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        states = self.vectors(words)
        for memory in self.memories:
            states = memory(states)
        inside = torch.arange(words.shape[1]) < lengths.unsqueeze(1)
        return (states * inside.unsqueeze(-1)).sum(1) / lengths.unsqueeze(1)

    def reading(self, words: Tensor, lengths: Tensor) -> list[dict[str, Tensor]]:
        raise NotImplementedError

    def plan(self, growth: Growth, *, slots=0, hidden=0, domain=None, quiet=0.0, words=None) -> None:
        for memory in self.memories:
            memory.plan(growth, slots=slots, domain=domain, quiet=quiet)
        self._plan_words(growth, words)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(ENCODERS, "residual", ResidualEncoder)
    for name, grows in {"sparse": (), "sparse+M": ("slots",)}.items():
        method = Method(name, "for this test", grows, slots_and_head, (SparseUpdates,))
        monkeypatch.setitem(METHODS, name, method)


def make(short, method: str = "sparse", options: MethodSettings = TIGHT, model: ModelSettings | None = None) -> Learner:
    sizes = model or ModelSettings(cell="residual", embedding=6, hidden=6, slots=20, perceptron=8)
    return Learner.create(method, model=sizes, training=replace(short, rate=0.05), options=options, device="cpu")


def moved_rows(before: dict[str, Tensor], learner: Learner) -> dict[str, set[int]]:
    return {
        name: set(
            (p[: len(before[name])] != before[name]).reshape(len(before[name]), -1).any(1).nonzero()[:, 0].tolist()
        )
        for name, p in learner.trained().named_parameters()
        if len(p)
    }


def test_a_slot_scores_for_being_read_more_than_before_and_more_so_the_more_it_is_read():
    new, earlier = torch.tensor([30.0, 30.0, 20.0, 20.0, 0.0]), torch.tensor([10.0, 400.0, 10.0, 290.0, 290.0])
    found = scores(new.double(), earlier.double())
    assert found[0] > found[2] > 0
    assert found[1] < 0
    assert found[3] < found[2]
    assert found[4] == 0
    assert chosen_slots(new, earlier, 5).tolist() == [True, False, True, False, False]
    assert chosen_slots(new, earlier, 1).tolist() == [True, False, False, False, False]


@pytest.mark.parametrize("seed", range(5))
def test_scores_do_not_depend_on_how_much_text_a_domain_has_or_on_the_order_of_slots(seed):
    generator = torch.Generator().manual_seed(seed)
    new, earlier = (torch.rand(30, generator=generator, dtype=torch.double) * 1e6 for _ in range(2))
    expected = scores(new, earlier)
    torch.testing.assert_close(scores(7 * new, earlier), expected)
    torch.testing.assert_close(scores(new, 7 * earlier), expected, rtol=1e-3, atol=1e-6)
    order = torch.randperm(30, generator=generator)
    torch.testing.assert_close(scores(new[order], earlier[order]), expected[order])
    assert not chosen_slots(earlier, earlier, 30).all()


def test_what_was_never_read_does_not_move_and_without_a_past_what_is_read_most_does():
    nothing = torch.zeros(4)
    assert not chosen_slots(nothing, nothing, 4).any()
    assert chosen_slots(torch.tensor([1.0, 9.0, 5.0, 0.0]), nothing, 1).tolist() == [False, True, False, False]


def test_counts_add_up_and_slots_that_joined_since_had_none():
    total = added({"a": torch.tensor([1.0, 2.0])}, {"a": torch.tensor([10.0, 10.0, 5.0]), "b": torch.ones(1)})
    assert total["a"].tolist() == [11, 12, 5]
    assert total["b"].tolist() == [1]


def test_reads_are_counted_at_words_alone_and_whatever_the_batches(stream, short):
    learner = make(short)
    learner.adapt(stream[0])
    model = learner.trained()
    words, lengths = torch.tensor([[3, 4, 5], [6, 0, 0]]), torch.tensor([3, 1])
    with counted_reads(model) as together:
        model.encoder(words, lengths)
    with counted_reads(model) as alone:
        model.encoder(words[:1], lengths[:1])
        model.encoder(words[1:, :1], lengths[1:])
    for name in memories_of(model):
        assert 0 < together[name].sum() <= 4
        torch.testing.assert_close(together[name].float(), alone[name].float())
    with counted_reads(model) as none:
        pass
    model.encoder(words, lengths)
    assert not any(count.any() for count in none.values())


def test_only_chosen_slots_and_the_head_move(stream, short):
    learner = make(short)
    learner.adapt(stream[0])
    before = {name: p.detach().clone() for name, p in learner.trained().named_parameters()}
    learner.adapt(stream[1])
    moved = moved_rows(before, learner)
    for number in range(2):
        rows = moved[f"encoder.memories.{number}.bank.values"]
        assert 1 <= len(rows) <= 3
        assert moved[f"encoder.memories.{number}.bank.keys"] <= rows
    stay = [name for name in moved if "bank" not in name and not name.startswith("heads.")]
    assert stay
    assert not any(moved[name] for name in stay)
    assert all(moved[name] for name in moved if name.startswith("heads."))
    assert learner.history.stages[0].note == {}
    note = learner.history.stages[1].note
    assert note["sparse_slots"] == 3
    assert all(1 <= slots <= 3 for slots in note["slots_moved"])


def test_slots_that_are_new_move_beside_the_chosen_ones(stream, short):
    learner = make(short, "sparse+M", replace(TIGHT, slots=4, quiet=1.0))
    for domain in stream[:2]:
        learner.adapt(domain)
    before = {name: p.detach().clone() for name, p in learner.trained().named_parameters()}
    learner.adapt(stream[2])
    values = learner.trained().get_parameter("encoder.memories.0.bank.values")
    assert values[24:].any(1).sum() >= 2
    assert 1 <= len(moved_rows(before, learner)["encoder.memories.0.bank.values"]) <= 3
    assert len(moved_rows(before, learner)["encoder.memories.0.bank.bias"]) <= 3
    assert [len(count) for count in learner.plugins.tensors().values()] == [28, 28]


def test_counts_are_saved_and_a_run_that_was_broken_off_ends_with_the_same_bits(stream, short, tmp_path, monkeypatch):
    monkeypatch.setattr("memgrow.training.loop.REPORT_EVERY_S", -1.0)
    whole = make(short)
    whole.learn(stream[:2])
    broken = make(short)
    broken.adapt(stream[0], folder=tmp_path / "model")
    broken = Learner.load(tmp_path / "model", device="cpu")
    assert set(broken.plugins.tensors()) == set(memories_of(broken.trained()))
    with pytest.raises(PulledPlug):
        broken.adapt(stream[1], folder=tmp_path / "model", save_every=0, progress=Plug(2))
    broken.adapt(stream[1], folder=tmp_path / "model")
    for (name, ours), theirs in zip(broken.trained().named_parameters(), whole.trained().parameters(), strict=True):
        assert torch.equal(ours, theirs), name
    for name, count in whole.plugins.tensors().items():
        assert torch.equal(broken.plugins.tensors()[name], count)


def test_keys_that_are_fixed_do_not_train(stream, short):
    learner = make(short)
    learner.adapt(stream[0])
    model = learner.trained()
    assert "encoder.memories.0.bank.keys" in slots_and_head(model, model).since
    other = copy.deepcopy(model)
    other.encoder.memories[0].reading = "fixed-keys"
    assert "encoder.memories.0.bank.keys" not in slots_and_head(other, other).since
    assert "encoder.memories.0.bank.values" in slots_and_head(other, other).since


@pytest.mark.parametrize("reading", ["slots", "fixed-keys", "adapter"])
def test_slots_of_a_pretrained_encoder_move_where_they_may_and_nothing_else_of_it(reading, stream, short, tmp_path):
    sizes = PretrainedSettings(
        encoder=str(make_encoder(tmp_path / "encoder")), slots=20, key_size=4, best=2, memory=reading
    )
    learner = make(short, model=sizes)
    learner.adapt(stream[0])
    before = {name: p.detach().clone() for name, p in learner.trained().named_parameters()}
    learner.adapt(stream[1], folder=tmp_path / "model")
    moved = moved_rows(before, learner)
    values = [rows for name, rows in moved.items() if name.endswith("bank.values")]
    assert values
    assert all(1 <= len(rows) <= 3 for rows in values)
    assert not any(rows for name, rows in moved.items() if "bank" not in name and not name.startswith("heads."))
    if reading == "fixed-keys":
        assert not any(rows for name, rows in moved.items() if name.endswith("bank.keys"))
    again = Learner.load(tmp_path / "model", device="cpu")
    assert again.predict(stream[1].test) == learner.predict(stream[1].test)
    assert all(count.any() for count in again.plugins.tensors().values())


def test_counts_that_a_model_on_a_gpu_is_given_back_are_on_the_cpu(monkeypatch):
    theirs, ours = torch.ones(2), torch.ones(2)
    monkeypatch.setattr(theirs, "cpu", lambda: ours, raising=False)
    plugin = SparseUpdates(TIGHT)
    plugin.restore({"encoder.memories.0": theirs})
    assert plugin.counts["encoder.memories.0"] is ours


def test_a_model_without_such_a_memory_is_told_so(stream, short, tiny):
    with pytest.raises(SettingsError, match="this model has none: use a pretrained encoder, and slots from the first"):
        make(short, model=tiny).adapt(stream[0])
    with pytest.raises(SettingsError, match="sparse_slots must be at least 1, not 0"):
        MethodSettings(sparse_slots=0)
