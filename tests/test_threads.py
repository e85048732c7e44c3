"""One learner that several threads ask, while another saves it or lets it learn: nobody sees what is another's."""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch

from memgrow.data import Stream, synthetic_stream
from memgrow.errors import ModelError
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import PretrainedSettings
from memgrow.training.defaults import FINE_TUNING
from tests.support.new_labels import with_label
from tests.support.tiny_encoder import make_encoder

FAST = replace(FINE_TUNING, epochs=2, batch=16, warm_up=2, rate=1e-3)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return make_encoder(tmp_path_factory.mktemp("encoders") / "tiny")


@pytest.fixture(scope="module")
def stream() -> Stream:
    return synthetic_stream(domains=3, train=32, validation=16, test=12, seed=3)


def make(encoder, method: str, **model) -> Learner:
    settings, options = (
        PretrainedSettings(encoder=str(encoder), **model),
        MethodSettings(slots=6, keep="auto", smooth="auto"),
    )
    return Learner.create(method, model=settings, training=FAST, options=options, device="cpu")


def bits(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in learner.trained().state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@contextmanager
def asked_meanwhile(learner: Learner, texts):
    """Within, another thread asks it again and again."""
    enough, begun = threading.Event(), threading.Event()

    def ask() -> int:
        count = 0
        while not enough.is_set():
            learner.predict(texts)
            count += 1
            begun.set()
        return count

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask)
        try:
            assert begun.wait(60)
            yield
        finally:
            enough.set()
        assert asking.result() > 0


@pytest.mark.parametrize("method", ["F+E", "frozen+M"])
def test_a_learner_that_is_asked_in_bfloat16_is_saved_and_learns_as_one_that_is_not(encoder, stream, method, tmp_path):
    asked, left_alone = (make(encoder, method, precision="bfloat16", dropout=0.0) for _ in range(2))
    for learner in (asked, left_alone):
        learner.adapt(stream[0])
    texts = stream[0].test
    with asked.trained().encoder.prepared(), asked_meanwhile(asked, texts):  # at no moment is nobody reading
        asked.save(tmp_path / "model")
        before = Learner.load(tmp_path / "model", "cpu")
        asked.adapt(stream[1])
    assert same(bits(before), bits(left_alone))
    left_alone.adapt(stream[1])
    assert {tensor.dtype for tensor in bits(asked).values() if tensor.is_floating_point()} == {torch.float32}
    assert same(bits(asked), bits(left_alone))


def test_what_is_saved_while_a_domain_is_told_is_the_whole_learner(encoder, stream, tmp_path):
    learner = make(encoder, "frozen+M")
    learner.adapt(stream[0])
    learner.adapt(with_label(stream[1]))
    with learner.answering_for(stream.names[0]):
        assert len(learner.labels) == 3
        learner.save(tmp_path / "model")
    again = Learner.load(tmp_path / "model", "cpu")
    assert again.labels == learner.labels
    assert len(again.labels) == 4
    assert same(bits(again), bits(learner))


def test_nothing_is_learnt_while_a_domain_is_told(encoder, stream):
    learner = make(encoder, "frozen+M")
    learner.adapt(stream[0])
    with learner.answering_for(stream.names[0]), pytest.raises(ModelError, match="within answering_for"):
        learner.adapt(stream[1])
    with learner.answering_for(stream.names[0]), pytest.raises(ModelError, match="within answering_for"):
        learner.learn(stream)
    assert learner.history.domains == stream.names[:1]


def test_each_thread_tells_a_domain_of_its_own_and_another_tells_none(encoder, stream):
    learner = make(encoder, "frozen+M")
    learner.adapt(stream[0])
    learner.adapt(with_label(stream[1]))
    texts = stream[0].test
    domains = [*stream.names[:2], None]
    alone = {domain: learner.predict(texts, for_domain=domain) for domain in domains}
    assert alone[domains[0]] != alone[domains[1]]

    def ask(domain):
        return all(learner.predict(texts, for_domain=domain) == alone[domain] for _ in range(20))

    before = bits(learner)
    with ThreadPoolExecutor(3) as pool:
        assert all(pool.map(ask, domains))
    assert learner.predict(texts) == alone[None]
    assert same(bits(learner), before)


def test_a_domain_may_be_told_while_another_is(encoder, stream):
    learner = make(encoder, "frozen+M")
    learner.adapt(stream[0])
    learner.adapt(with_label(stream[1]))
    first, second, texts = *stream.names[:2], stream[0].test
    alone = learner.predict(texts, for_domain=second)
    with learner.answering_for(first):
        outer = learner.predict(texts)
        assert learner.predict(texts, for_domain=second) == alone
        assert learner.predict(texts) == outer


def test_what_is_kept_ready_for_a_domain_goes_by_the_weights_of_now_and_ends_with_the_model(encoder, stream):
    learner = make(encoder, "frozen+M")
    learner.adapt(stream[0])
    texts, name = stream[0].test, stream.names[0]
    before = learner.predict(texts, for_domain=name)
    with learner.answering_for(name):
        first = learner.trained()
    with learner.answering_for(name):
        assert learner.trained() is first
    with torch.no_grad():
        for parameter in learner.trained().encoder.parameters():
            parameter.mul_(1.5)
    assert learner.predict(texts, for_domain=name) != before
    kept = weakref.ref(first)
    learner.adapt(stream[1])
    del first
    gc.collect()
    assert kept() is None
