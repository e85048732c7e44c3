"""What trains on a pretrained encoder: rows that are new, and the head; keys that are fixed never do."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from memgrow.methods.trains import new_names

from memgrow.learner import Learner
from memgrow.methods import METHODS, MethodSettings
from memgrow.models import PretrainedSettings
from tests.support.tiny_encoder import HIDDEN, make_encoder

KEY, SLOTS = 4, 6
MEMORIES = [f"encoder.memories.{number}." for number in range(1)]  # two layers have one place between them


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoder"))


def create(encoder: Path, short, method: str = "frozen+M", memory: str = "slots", **changes) -> Learner:
    return Learner.create(
        method,
        model=PretrainedSettings(encoder=str(encoder), key_size=KEY, best=2, memory=memory),
        training=replace(short, new_rate=0.02, **changes),
        options=MethodSettings(slots=SLOTS),
        device="cpu",
    )


def weights(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in learner.trained().state_dict().items()}


def test_frozen_with_new_slots_trains_their_rows_and_the_head_alone(encoder, short, stream):
    learner = create(encoder, short)
    learner.learn(stream[:2])
    old = learner.trained()
    before = weights(learner)
    learner.adapt(stream[2])
    new, after = learner.trained(), weights(learner)
    trains = METHODS["frozen+M"].trains(old, new).since
    rows = {"query.weight": KEY, "bank.keys": SLOTS, "bank.values": SLOTS}
    grown = {memory + name: (0, count) for memory in MEMORIES for name, count in rows.items()}
    assert trains == {**grown, "heads.0.0.weight": (0, 0), "heads.0.0.bias": (0, 0)}
    for name, tensor in after.items():
        kept = tensor[: len(before[name])]
        assert torch.equal(kept, before[name]) == (not name.startswith("heads.")), name
    for memory in MEMORIES:
        assert after[memory + "bank.values"][SLOTS:].any(1).all(), "values start at zero, and all are read by some text"
    assert set(grown) <= new_names(old, new)
    assert learner.history.stages[-1].trained == sum(
        (KEY * HIDDEN, SLOTS * KEY, SLOTS * HIDDEN, *(p.numel() for p in new.head_parameters()))
    )


@pytest.mark.parametrize("method", ["F+M", "frozen+M", "EWC+M", "LoRA+M"])
def test_fixed_keys_stay_where_they_were_drawn(method, encoder, short, stream):
    """However long a training is: the keys of a shorter one and of a longer one are those that growth drew."""
    drawn = []
    for epochs in (1, 3):
        learner = create(encoder, short, method, "fixed-keys", epochs=epochs, patience=3)
        learner.learn(stream[:2])
        drawn.append([weights(learner)[memory + "bank.keys"] for memory in MEMORIES])
        for keys in drawn[-1]:
            torch.testing.assert_close(keys.norm(dim=-1), torch.ones(SLOTS))
        assert not any("keys" in name for name in learner.method.trains(learner.trained(), learner.trained()).since)
    for short_training, long_training in zip(*drawn, strict=True):
        assert torch.equal(short_training, long_training)


def test_only_the_head_trains_where_all_else_is_frozen(encoder, short, stream):
    learner = create(encoder, short, "frozen")
    learner.adapt(stream[0])
    before = weights(learner)
    learner.adapt(stream[1])
    for name, tensor in weights(learner).items():
        assert torch.equal(tensor, before[name]) == (not name.startswith("heads.")), name
