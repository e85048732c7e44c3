"""A plugin that gathers something step by step has it whole: in a stack, after a killed run, beside other plugins."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from memgrow.learner import Learner
from memgrow.lockstep import adapt_together
from memgrow.methods import METHODS, Method, MethodSettings, Plugin
from memgrow.methods.ewc import ElasticWeights
from memgrow.methods.plugin import old_part
from memgrow.training import loop
from tests.support.breaking import Plug, PulledPlug

MOVED, LAST = "moved", "last"


class Movement(Plugin):
    """Weights that moved far while a domain was learnt are pulled back to where it left them."""

    def __init__(self, settings: MethodSettings) -> None:
        super().__init__(settings)
        self.gathered: dict[str, torch.Tensor] = {}  # of the present domain
        self.moved: dict[str, torch.Tensor] = {}
        self.centre: dict[str, torch.Tensor] = {}

    def weight_loss(self, parameters):
        if not self.moved:
            return None
        terms = [
            (moved * (old_part(parameters[name], moved.shape) - self.centre[name]) ** 2).sum()
            for name, moved in self.moved.items()
        ]
        return torch.stack(terms).sum()

    @torch.no_grad()
    def follow_weights(self, optimiser, batches):
        for parameter, state in optimiser.state.items():
            now = parameter.detach()
            if MOVED not in state:
                state[MOVED], state[LAST] = torch.zeros_like(now), now.clone()
            state[MOVED].add_((now - state[LAST]).abs())
            state[LAST].copy_(now)

    def after_steps(self, state):
        self.gathered = {name: kinds[MOVED] for name, kinds in state.items() if MOVED in kinds}

    def after_domain(self, model, data, device):
        self.moved, self.gathered = self.gathered, {}
        self.centre = {name: p.detach().clone() for name, p in model.named_parameters() if name in self.moved}
        return {"moved": float(sum(moved.sum() for moved in self.moved.values()))}

    def tensors(self):
        parts = {"moved": self.moved, "centre": self.centre}
        return {f"{part}/{name}": tensor for part, named in parts.items() for name, tensor in named.items()}

    def restore(self, tensors):
        for key, tensor in tensors.items():
            part, name = key.split("/", 1)
            getattr(self, part)[name] = tensor

    def stacked(self, others):
        new = Movement(self.settings)
        for part in ("moved", "centre"):
            for name in getattr(self, part):
                getattr(new, part)[name] = torch.stack([getattr(other, part)[name] for other in others])
        return new


@pytest.fixture(autouse=True, scope="module")
def methods() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, kinds in {"movement": (Movement,), "both": (ElasticWeights, Movement)}.items():
            patch.setitem(METHODS, name, Method(name, "for this test", remembers=kinds))
        yield


def make(method: str, tiny, training, seed: int = 0) -> Learner:
    options = MethodSettings(fisher_examples=5)
    return Learner.create(method, model=tiny, training=training, options=options, seed=seed, device="cpu")


def test_what_is_gathered_is_each_models_own_until_its_own_last_step(stream, tiny, short) -> None:
    eager = replace(short, epochs=8, patience=1, rate=0.05)
    together, alone = ([make("movement", tiny, eager, seed) for seed in (0, 1, 2, 3, 4)] for _ in range(2))
    for domain in stream[:2]:
        adapt_together(together, domain)
        for learner in alone:
            learner.adapt(domain)
    epochs = {stage.epochs for learner in alone for stage in learner.history.stages}
    assert len(epochs) > 1  # so that some go on while others have stopped
    for ours, theirs in zip(together, alone, strict=True):
        for a, b in zip(ours.history.stages, theirs.history.stages, strict=True):
            assert a.epochs == b.epochs
            assert a.note["moved"] == pytest.approx(b.note["moved"], rel=1e-3)


@pytest.fixture(scope="module")
def unbroken(stream, tiny, short, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Learner]:
    """The model of the first domain, and the learner that has gone on to the second."""
    folder, whole = tmp_path_factory.mktemp("first") / "model", make("movement", tiny, short)
    whole.adapt(stream[0], folder=folder)
    whole.adapt(stream[1])
    return folder, whole


@pytest.mark.slow
@pytest.mark.parametrize("reports", range(9))
def test_a_run_that_is_killed_anywhere_gathers_what_an_unbroken_one_does(
    reports: int, stream, unbroken: tuple[Path, Learner], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the last of the reports the training has ended, and only the saving is missing."""
    monkeypatch.setattr(loop, "REPORT_EVERY_S", 0.0)
    first, whole = unbroken
    shutil.copytree(first, tmp_path / "model")
    for left in (reports, None):
        learner = Learner.load(tmp_path / "model")
        try:
            progress = Plug() if left is None else Plug(left)
            learner.adapt(stream[1], watch=stream[:2], folder=tmp_path / "model", save_every=0, progress=progress)
            break
        except PulledPlug:
            continue
    assert learner.history.stages[1].note == whole.history.stages[1].note
    for (name, p), (_, q) in zip(learner.model.named_parameters(), whole.model.named_parameters(), strict=True):
        assert torch.equal(p, q), name


def test_two_plugins_that_remember_are_saved_and_loaded_apart(stream, tiny, short, tmp_path: Path) -> None:
    learner = make("both", tiny, short)
    learner.adapt(stream[0], folder=tmp_path / "model")
    loaded = Learner.load(tmp_path / "model", device="cpu")
    for ours, theirs in zip(loaded.plugins.parts, learner.plugins.parts, strict=True):
        assert ours.tensors().keys() == theirs.tensors().keys() != set()
        for name, tensor in theirs.tensors().items():
            assert torch.equal(ours.tensors()[name], tensor), name
