"""Slots that nobody reads go, the others keep their bits and their owners, and what it costs is measured."""

import copy
from dataclasses import replace

import pytest
import torch

from memgrow import versions
from memgrow.data import Stream, synthetic_stream
from memgrow.training.defaults import FINE_TUNING
from memgrow.errors import DataError
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import ModelSettings, PretrainedSettings
from memgrow.nn import MemoryBank
from memgrow.nn.growth import Growth
from memgrow.pruning import plan_pruning
from memgrow.training.settings import TrainingSettings
from tests.support.tiny_encoder import make_encoder

FAST = replace(FINE_TUNING, epochs=1, batch=16, warm_up=0)


@pytest.fixture(scope="module")
def stream() -> Stream:
    return synthetic_stream(domains=2, train=24, validation=8, test=12, seed=3)


@pytest.fixture(scope="module")
def learner(stream, tmp_path_factory) -> Learner:
    """A tiny Transformer of which a text reads one slot of each domain at most. Not to be changed."""
    encoder = make_encoder(tmp_path_factory.mktemp("encoders") / "tiny")
    settings = PretrainedSettings(encoder=str(encoder), slots=160, best=1)
    learner = Learner.create(
        "frozen+M", model=settings, training=FAST, options=MethodSettings(slots=160, quiet=1.0), device="cpu"
    )
    learner.learn(stream)
    return learner


def test_rows_that_are_left_keep_their_bits_their_owner_and_the_optimisers_state():
    bank = MemoryBank(4, 3)
    for number, quiet in enumerate((0.0, 2.0, 1.0)):
        bank.grow(3, f"d{number}", quiet)
    optimiser = torch.optim.Adam(bank.parameters())
    bank.attend(torch.randn(5, 4))[0].sum().backward()
    optimiser.step()
    before = {name: p.detach().clone() for name, p in bank.named_parameters()}
    moments = {name: optimiser.state[p]["exp_avg"].clone() for name, p in bank.named_parameters()}
    growth = Growth(optimiser)
    rows = bank.plan_pruning(growth, [torch.tensor([0, 2]), torch.tensor([1]), torch.tensor([0, 1, 2])])
    growth.commit()
    assert rows["keys"].tolist() == [0, 2, 4, 6, 7, 8]
    assert rows["bias"].tolist() == [1, 3, 4, 5]
    assert [(s.domain, s.start, s.stop, s.quiet) for s in bank.segments] == [
        ("d0", 0, 2, False),
        ("d1", 2, 3, True),
        ("d2", 3, 6, True),
    ]
    for name, parameter in bank.named_parameters():
        assert torch.equal(parameter, before[name][rows[name]])
        assert torch.equal(optimiser.state[parameter]["exp_avg"], moments[name][rows[name]])


def test_slots_that_are_never_read_go_and_answers_stay(learner, stream, tmp_path):
    found = plan_pruning(learner, stream)
    assert found.slots > 0
    assert found.bytes_left < found.bytes
    for one in found.domains.values():
        assert 0 < one.slots_left < one.slots
        assert (one.accuracy, one.changed) == (one.accuracy_left, 0.0)
    texts = [example for domain in stream for example in domain.test]
    before = {told: learner.predict(texts, told) for told in (None, *stream.names)}
    learner.save(tmp_path / "m")
    pruned = Learner.load(tmp_path / "m", "cpu")
    pruned.take(plan_pruning(pruned, stream).learnt)
    pruned.save(tmp_path / "m")
    loaded = Learner.load(tmp_path / "m", "cpu")
    assert loaded.history.stages[-1].method == "prune"
    for told, answers in before.items():
        for one, other in zip(answers, loaded.predict(texts, told), strict=True):
            assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
    loaded.adapt(replace(stream[0], name="another"))
    versions.undo(tmp_path / "m")
    assert Learner.load(tmp_path / "m", "cpu").predict(texts) == before[None]


def test_slots_of_a_domain_without_texts_at_hand_are_left_alone(learner, stream):
    found = plan_pruning(learner, stream[:1]).learnt
    assert found.model is not None
    (own, other), (_, was) = found.model.banks[0].segments, learner.trained().banks[0].segments
    assert own.stop < 160
    assert (other.domain, other.stop - other.start) == (was.domain, was.stop - was.start)
    with pytest.raises(DataError, match="no slots of nowhere"):
        plan_pruning(learner, [replace(stream[0], name="nowhere")])


def test_a_recurrent_network_is_pruned_by_share_and_goes_on_with_what_its_method_remembers(stream, tmp_path):
    sizes = ModelSettings(embedding=6, hidden=5, slots=8, perceptron=8)
    training, options = TrainingSettings(epochs=1, rate=0.05), MethodSettings(slots=6, quiet=1.0, fisher_examples=8)
    learner = Learner.create("EWC+M", model=sizes, training=training, options=options, device="cpu")
    learner.learn(stream)
    assert plan_pruning(learner, stream).slots == 0, "a softmax reads them all"
    before = copy.deepcopy(learner.trained().state_dict())
    found = plan_pruning(learner, stream, below=0.13)
    assert found.slots > 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in learner.trained().state_dict().items())
    learner.take(found.learnt)
    learner.save(tmp_path / "m")
    loaded = Learner.load(tmp_path / "m", "cpu")
    loaded.adapt(replace(stream[0], name="another"))
    assert loaded.evaluate(stream).keys() == set(stream.names)
