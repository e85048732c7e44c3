"""A learner alone may be trained as a stack of one: it learns the same, and nothing of the plain loop is lost."""

import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from memgrow import stage_training
from memgrow.data import Domain, synthetic_stream
from memgrow.data.batches import Encoded
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings
from memgrow.training.stacked import together
from memgrow.training.stacked.data import DeviceData
from memgrow.training.stacked.together import PLAIN, STACKED, choose_loop, padded
from tests.support.breaking import FIRST, LAST, Plug, PulledPlug, keep_epoch
from tests.support.waiting import count_waiting, with_rare_words

MODEL = ModelSettings(embedding=6, hidden=5, slots=4, perceptron=7)
CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture(autouse=True)
def every_step_reports(monkeypatch):
    monkeypatch.setattr("memgrow.training.loop.REPORT_EVERY_S", -1.0)


@pytest.fixture(scope="module")
def stream():
    return [
        Domain(domain.name, domain.train[:70], domain.validation[:20], domain.test[:30])
        for domain in synthetic_stream(seed=0)[:2]
    ]


def make(method: str = "F+M+V", model: ModelSettings = MODEL) -> Learner:
    training = TrainingSettings(rate=3e-3, epochs=3, batch=16)
    return Learner.create(method, model=model, training=training, options=MethodSettings(fisher_examples=5))


def weights(learner: Learner) -> dict[str, torch.Tensor]:
    return learner.trained().state_dict() | {f"past {n}": t for n, t in learner.plugins.tensors().items()}


def assert_kept(which: str, *learners: Learner) -> None:
    for learner in learners:
        assert {stage.best_epoch for stage in learner.history.stages} == {3 if which == LAST else 1}


@pytest.mark.slow
@pytest.mark.parametrize("method", ["F+M+V", "frozen+M", "EWC+M+V", "F+V+A+D"])
def test_both_loops_teach_the_same(method, stream):
    learners = {}
    for name in (PLAIN, STACKED):
        learners[name] = make(method)
        for domain in stream:
            learners[name].adapt(domain, watch=stream, loop=name)
    plain, stacked = learners[PLAIN], learners[STACKED]
    for name, tensor in weights(plain).items():
        torch.testing.assert_close(weights(stacked)[name], tensor, rtol=2e-2, atol=2e-3, msg=lambda t, n=name: n + t)
    stages = [[replace(stage, seconds=0) for stage in one.history.stages] for one in (plain, stacked)]
    assert stages[0] == stages[1]
    assert plain.history.matrix == stacked.history.matrix


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "large", "kept"),
    [
        *((method, 1, LAST) for method in ("F+M+V", "EWC", "F+V+A+E")),  # words wait
        ("F+M+V", 2000, LAST),  # they do not
        ("EWC", 1, FIRST),  # the first epoch is the best
    ],
)
def test_a_stack_of_one_broken_off_again_and_again_ends_with_the_same_bits(
    method, large, kept, stream, tmp_path, monkeypatch
):
    keep_epoch(kept, monkeypatch)
    monkeypatch.setattr("memgrow.training.optimiser.LARGE", large)
    waiting, stream = count_waiting(monkeypatch), [with_rare_words(domain) for domain in stream]
    model = replace(MODEL, dropout=0.2)
    whole = make(method, model)
    for domain in stream:
        whole.adapt(domain, loop=STACKED)
    rng, broken = random.Random(5), 0
    for domain in stream:
        while True:
            learner = make(method, model) if domain is stream[0] else Learner.load(tmp_path / "model")
            try:
                plug = Plug(rng.randrange(1, 6))
                learner.adapt(domain, folder=tmp_path / "model", save_every=0, progress=plug, loop=STACKED)
                break
            except PulledPlug:
                broken += 1
    assert broken >= 2
    assert any(waiting) is (large == 1 and method in ("F+M+V", "frozen+M", "F+V+A+E"))
    assert_kept(kept, whole, learner)
    found = weights(learner)
    assert all(torch.equal(found[name], tensor) for name, tensor in weights(whole).items())
    assert not (tmp_path / "model.adapting").exists()


@pytest.mark.parametrize("loops", [(PLAIN, STACKED), (STACKED, PLAIN)], ids=" then ".join)
@pytest.mark.parametrize(("method", "number"), [("F+M+V", 0), ("frozen+M", 1)])
def test_either_loop_goes_on_where_the_other_was_broken_off(method, number, loops, stream, tmp_path, monkeypatch):
    before, after = loops
    keep_epoch(LAST, monkeypatch)
    broken, learner, whole = (make(method) for _ in range(3))
    *earlier, domain = stream[: number + 1]
    for one in (broken, learner, whole):
        for known in earlier:
            one.adapt(known, loop=PLAIN)
    with pytest.raises(PulledPlug):
        broken.adapt(domain, folder=tmp_path / "model", save_every=0, progress=Plug(7), loop=before)
    ear = Plug()
    learner.adapt(domain, folder=tmp_path / "model", progress=ear, loop=after)
    assert ear.notes[-1] == f"{domain.name}: resuming in epoch 2 after batch 2"
    whole.adapt(domain, loop=after)
    assert_kept(LAST, whole, learner)
    for name, tensor in weights(whole).items():
        torch.testing.assert_close(weights(learner)[name], tensor, rtol=1e-3, atol=2e-3)


@pytest.mark.parametrize("loop", [PLAIN, STACKED])
def test_either_loop_reports_within_its_epochs(stream, loop):
    ear = Plug()
    make().adapt(stream[0], progress=ear, loop=loop)
    first = [step for step in ear.steps if step.epoch == 1]
    assert [step.batch for step in first] == [1, 2, 3, 4, 5]
    assert all(step.batches == 5 and 0 <= step.accuracy <= 1 and step.loss > 0 for step in ear.steps)
    assert [step.validation is None for step in first] == [True] * 4 + [False]


def test_a_stack_of_one_that_fails_leaves_the_learner_as_it_was(stream, tmp_path):
    learner = make()
    learner.adapt(stream[0], folder=tmp_path / "model", loop=STACKED)
    before = {name: tensor.clone() for name, tensor in weights(learner).items()}
    with pytest.raises(PulledPlug):
        learner.adapt(stream[1], folder=tmp_path / "model", save_every=0, progress=Plug(3), loop=STACKED)
    for one in (learner, Learner.load(tmp_path / "model")):
        assert one.history.domains == (stream[0].name,)
        assert all(torch.equal(weights(one)[name], tensor) for name, tensor in before.items())


def test_a_stack_is_taken_where_it_is_possible_and_pays(stream):
    learner = make()
    learner.adapt(stream[0])
    model = learner.trained()
    assert choose_loop(model, GPU).name == STACKED
    assert choose_loop(model, CPU).name == PLAIN
    model.encoder.settings = replace(model.settings, cell="gru")
    assert choose_loop(model, GPU) == (PLAIN, "only models of one LSTM layer are stacked")
    assert choose_loop(model, CPU, asked=STACKED).name == PLAIN, "what cannot be stacked is not, whatever is asked for"


def long_and_short(long: int, short: int = 3) -> Encoded:
    """Pairs of short texts, and one that has a long one."""
    texts = [([2] * short, [3])] * 99 + [([2], [3] * long)]
    return Encoded(texts, [0] * len(texts))


@given(st.lists(st.integers(1, 300), min_size=1, max_size=6), st.booleans())
def test_padded_counts_what_a_stack_puts_on_the_device(lengths, paired):
    texts = [([2] * length, [3])[: 1 + paired] for length in lengths]
    data = Encoded(texts, [0] * len(texts))
    assert padded(data) == DeviceData(data, CPU).words.numel()
    assert padded(Encoded((), ())) == 0


def test_where_texts_would_take_too_much_memory_side_by_side_the_plain_loop_is_taken(stream, monkeypatch):
    learner = make()
    learner.adapt(stream[0])
    model, few = learner.trained(), long_and_short(4)
    monkeypatch.setattr(together, "ROOM", 100 * 2 * 64 + padded(few))
    assert choose_loop(model, GPU, long_and_short(64), few).name == STACKED
    for parts in ([long_and_short(65)], [few, long_and_short(64), few]):
        loop = choose_loop(model, GPU, *parts)
        assert loop.name == PLAIN
        assert "memory" in loop.reason
        assert choose_loop(model, CPU, *parts) == choose_loop(model, CPU)
    assert choose_loop(model, GPU, long_and_short(65), asked=STACKED).name == STACKED


def test_a_learner_tells_what_it_will_train_and_validate_on(stream, monkeypatch):
    asked = []
    monkeypatch.setattr(
        stage_training, "choose_loop", lambda *given, **more: asked.append(given) or choose_loop(*given, **more)
    )
    make().adapt(stream[0])
    ((_, device, *parts),) = asked
    assert device == CPU
    assert [len(part) for part in parts] == [len(stream[0].train), len(stream[0].validation)]


def test_on_the_cpu_a_learner_takes_the_plain_loop(stream, monkeypatch):
    monkeypatch.setattr(stage_training, "learn_together", lambda *_, **__: pytest.fail("it was stacked"))
    make().adapt(stream[0])
