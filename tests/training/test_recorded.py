"""Steps that can be recorded train as plain ones do. On a CPU nothing is recorded, and the rest is the same."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from memgrow.learner import Learner
from memgrow.methods import METHODS, Method, MethodSettings
from memgrow.methods.plugin import Plugin
from memgrow.models.pretrained.settings import PretrainedSettings
from memgrow.training import recorded
from memgrow.training.plain_stepper import PlainStepper
from memgrow.training.recorded import RecordedStepper, padded_to
from memgrow.training.settings import TrainingSettings
from memgrow.training.stacked.together import PLAIN, RECORDED, STACKED, choose_loop
from tests.support.breaking import LAST, Plug, PulledPlug, keep_epoch
from tests.support.new_labels import with_label
from tests.support.tiny_encoder import make_encoder

TRAINING = TrainingSettings(rate=1e-3, new_rate=1e-2, batch=20, epochs=2, warm_up=2, schedule="linear")
BOUNDED = replace(TRAINING, warm_up=50)  # more steps than there are: the warm-up ends after a third of them
LEARNT_BY_STEPS = ("F", "F+M", "frozen+M", "F+M+Q+L", "F+M+E", "F+D", "EWC+M", "sparse", "LoRA", "LoRA+A")


def known(methods: Sequence[str]) -> list[str]:
    return [method for method in methods if method.split("+")[0] in METHODS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def exact(monkeypatch):
    """Lengths are not rounded, so that both steppers see the same shapes."""
    monkeypatch.setattr(recorded, "GRAINS", ((1 << 20, 1),))


def make(folder: Path, method: str = "F", training: TrainingSettings = TRAINING, **model) -> Learner:
    slots = 4 if method == "sparse" else 0
    settings = PretrainedSettings(encoder=str(folder), slots=slots, **model)
    options = MethodSettings(slots=4, fisher_examples=4, strength=50.0)
    return Learner.create(method, model=settings, training=training, options=options, device="cpu")


def weights(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: tensor.detach() for name, tensor in learner.trained().state_dict().items()}


@pytest.mark.parametrize("method", known(LEARNT_BY_STEPS))
def test_where_shapes_are_the_same_so_are_the_bits(method, folder, stream, exact):
    ours, theirs = make(folder, method), make(folder, method)
    for domain in (stream[0], with_label(stream[1])):
        ours.adapt(domain, loop=RECORDED)
        theirs.adapt(domain, loop=PLAIN)
    for (name, a), b in zip(weights(ours).items(), weights(theirs).values(), strict=True):
        assert torch.equal(a, b), name
    assert ours.history.stages[1].validation == theirs.history.stages[1].validation


def test_a_warm_up_that_is_bounded_is_the_same_for_both(folder, stream, exact):
    ours, theirs = make(folder, training=BOUNDED), make(folder, training=BOUNDED)
    ours.adapt(stream[0], loop=RECORDED)
    theirs.adapt(stream[0], loop=PLAIN)
    for (name, a), b in zip(weights(ours).items(), weights(theirs).values(), strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize(
    ("family", "pairs"), [("bert", "one"), ("bert", "two"), ("distilbert", "two"), ("roberta", "one")]
)
def test_padding_changes_nothing_but_the_rounding(family, pairs, stream, tmp_path):
    folder = make_encoder(tmp_path / family, family)
    domains = [replace(domain, train=tuple(map(doubled, domain.train))) for domain in stream[:2]]
    domains = [replace(domain, validation=domain.train, test=domain.train) for domain in domains]
    learners = [make(folder, "F+M", replace(TRAINING, new_rate=1e-3), dropout=0.0, pairs=pairs) for _ in range(2)]
    for learner, loop in zip(learners, (RECORDED, PLAIN), strict=True):
        for domain in domains:
            learner.adapt(domain, loop=loop)
    for (name, a), b in zip(weights(learners[0]).items(), weights(learners[1]).values(), strict=True):
        # Where a gradient is next to nothing, rounding turns its sign: then Adam moves the other way.
        assert (a - b).norm() <= 1e-3 * b.norm() + 2e-4 * b.numel() ** 0.5, name


def doubled(example):
    return replace(example, pair=" ".join(reversed(example.text.split())))


def test_lengths_are_rounded_up_but_not_beyond_what_the_encoder_reads():
    lengths = range(1, 513)
    assert all(padded_to(length, 512) >= length for length in lengths)
    assert len({padded_to(length, 512) for length in lengths}) <= 15
    assert [padded_to(length, 50) for length in (1, 16, 17, 49, 50)] == [16, 16, 32, 50, 50]


def test_a_text_as_long_as_the_encoder_reads_is_trained_on(folder, stream):
    domain = stream[0]
    long = tuple(replace(example, text=" ".join([example.text] * 20)) for example in domain.train)
    learner = make(folder)
    learner.adapt(replace(domain, train=long), loop=RECORDED)
    assert max(map(learner.encode(long).length, range(len(long)))) == learner.trained().encoder.longest


@pytest.mark.parametrize("training", [TRAINING, BOUNDED], ids=["short warm-up", "bounded warm-up"])
def test_a_killed_run_ends_with_the_same_bits(training, folder, stream, tmp_path, monkeypatch):
    keep_epoch(LAST, monkeypatch)
    monkeypatch.setattr("memgrow.training.loop.REPORT_EVERY_S", -1.0)
    whole = make(folder, "F+M", training)
    whole.adapt(stream[0], loop=RECORDED)
    for reports in (1, 2):
        with pytest.raises(PulledPlug):
            make(folder, "F+M", training).adapt(
                stream[0], folder=tmp_path / "model", save_every=0, progress=Plug(reports), loop=RECORDED
            )
    resumed = make(folder, "F+M", training)
    resumed.adapt(stream[0], folder=tmp_path / "model", loop=RECORDED)
    for (name, a), b in zip(weights(whole).items(), weights(resumed).values(), strict=True):
        assert torch.equal(a, b), name


class Counting(Plugin):
    """Counts its steps in Python, which a recorded step would not ask."""

    def __init__(self, settings: MethodSettings) -> None:
        super().__init__(settings)
        self.steps = 0

    def after_step(self, parameters) -> None:
        self.steps += 1


def test_a_plugin_that_cannot_be_replayed_has_the_plain_steps(folder, stream, monkeypatch):
    monkeypatch.setitem(METHODS, "counting", Method("counting", "counts", remembers=(Counting,)))
    monkeypatch.setattr(RecordedStepper, "learn", lambda *_: pytest.fail("it was recorded"))
    learner = make(folder, "counting")
    learner.adapt(stream[0], loop=RECORDED)
    assert learner.plugins.parts[0].steps == 6
    assert learner.plugins.recording_obstacle() == "Counting does not say that its steps can be replayed"
    for method in METHODS.values():
        if method.name != "counting":
            assert method.plugins(MethodSettings()).recording_obstacle() is None, method.name


def test_the_loop_of_an_encoder_is_recorded_on_a_gpu(folder, stream, tmp_path, tiny, short):
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    learner = make(folder)
    learner.adapt(stream[0])
    model = learner.trained()
    assert choose_loop(model, gpu, training=TRAINING).name == RECORDED
    assert choose_loop(model, gpu, training=TRAINING, asked=PLAIN).name == PLAIN
    assert choose_loop(model, cpu, training=TRAINING).name == PLAIN
    assert choose_loop(model, cpu, training=TRAINING, asked=RECORDED).name == RECORDED
    other = make(make_encoder(tmp_path / "modernbert", "modernbert"))
    other.adapt(stream[0], loop=RECORDED)
    assert choose_loop(other.trained(), gpu) == (PLAIN, recorded.recording_obstacle(other.trained()))
    recurrent = Learner.create("F", model=tiny, training=short, device="cpu")
    recurrent.adapt(stream[0])
    assert choose_loop(recurrent.trained(), gpu).name == STACKED


def test_a_whole_batch_needs_no_mask(folder, stream):
    learner = make(folder)
    learner.adapt(stream[0])
    model = learner.trained().eval()
    words, lengths = torch.randint(5, 60, (3, 8)), torch.tensor([8, 8, 8])
    padded = torch.cat((words, torch.zeros(3, 4, dtype=torch.long)), dim=1)
    with torch.no_grad():
        torch.testing.assert_close(model(words, lengths), model(padded, lengths))


def test_what_is_frozen_has_neither_gradient_nor_state(folder, stream):
    learner = make(folder, "frozen+M")
    held = []
    finish = PlainStepper.finish
    try:
        PlainStepper.finish = lambda self: held.append(self) or finish(self)
        for domain in stream[:2]:
            learner.adapt(domain, loop=RECORDED)
    finally:
        PlainStepper.finish = finish
    stepper = held[1]
    assert {"encoder.backbone.embeddings.word_embeddings.weight"}.isdisjoint(stepper.trains.since)
    assert set(stepper.optimiser.parameters) == set(stepper.trains.since)
    assert all(p.grad is None for p in stepper.model.parameters())


class ReadBack(TorchDispatchMode):
    """Notes what a GPU would have to be waited for, and what depends on numbers that a recorded step cannot look at."""

    WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "equal", "is_nonzero", "item")
    BROUGHT = ("lift_fresh",)  # a tensor of Python's numbers

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        masked = name == "index" and any(index is not None and index.dtype == torch.bool for index in args[1])
        if masked or name in self.WAITING + self.BROUGHT:
            self.found.append(name)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("family", "method"),
    [*(("bert", method) for method in known(LEARNT_BY_STEPS)), ("distilbert", "F+M"), ("roberta", "F+M")],
)
def test_a_step_reads_nothing_back(method, family, stream, tmp_path, monkeypatch):
    """On a CPU, where lengths are at hand, an encoder looks whether it needs a mask: that is once in a step."""
    found, step = [], RecordedStepper._step

    def watched(self, numbers, length):
        with ReadBack() as mode:
            step(self, numbers, length)
        if self.optimiser.adam.state and len(found) > 1:  # Adam looks at its own settings when it begins
            assert mode.found == ["_local_scalar_dense"], mode.found
        found.append(mode.found)

    monkeypatch.setattr(RecordedStepper, "_step", watched)
    learner = make(make_encoder(tmp_path, family), method, replace(TRAINING, epochs=1))
    for domain in stream[:2]:
        learner.adapt(domain, loop=RECORDED)
    assert len(found) == 6
