"""Tiny models and data, and what tells two saved models apart."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from typer.testing import CliRunner

from memgrow import Learner, synthetic_stream
from memgrow.cli import app
from memgrow.data import load_stream, write_jsonl
from memgrow.storage.versions import list_versions
from tests.support.tiny_encoder import make_encoder
from torture.children import memgrow, run

SHORT = ("epochs=2", "batch=16", "patience=9")
TINY = ("hidden=5", "embedding=6", "model.slots=4", "perceptron=8", *SHORT)
REPLIES = ("embedding=8", "hidden=8", "model.slots=4", "cell=gru", "bidirectional=false", *SHORT)


@dataclass(frozen=True)
class Kind:
    """A kind of model: three files of data, and the options of a new one."""

    data: tuple[Path, ...]
    options: tuple[str, ...]

    def make(self, folder: Path, domains: int) -> Path:
        """A model that has learned the first domains."""
        ended = run(memgrow("adapt", folder, *self.data[:domains], *self.options, "--quiet"))
        assert ended.code == 0, ended.output
        return folder


def make_kinds(folder: Path) -> dict[str, Kind]:
    pairs = tuple(write_jsonl(synthetic_stream(domains=3, train=40, validation=16, test=16, seed=3), folder / "pairs"))
    talks = tuple(write_talk(folder / "talks", name) for name in ("station", "kitchen", "harbour"))
    encoder = ("--encoder", str(make_encoder(folder / "encoder")), *settings(*SHORT))
    slots = settings("options.slots=4", "memory_layers=1,2")
    made = {
        "BiLSTM, F+M+V": Kind(pairs, ("--method", "F+M+V", *settings(*TINY))),
        "encoder, F+E": Kind(pairs, encoder),
        "BiLSTM, EWC, no versions": Kind(
            pairs, ("--encoder", "lstm", "--method", "EWC", "--keep-versions", "0", *settings(*TINY))
        ),
        "BiLSTM, rehearsal": Kind(pairs, ("--encoder", "lstm", "--method", "rehearsal", *settings(*TINY))),
        "replies, F+M+V": Kind(talks, ("--method", "F+M+V", *settings(*REPLIES))),
        "encoder, LoRA, all versions": Kind(pairs, (*encoder, "--method", "LoRA", "--keep-versions", "5")),
        "encoder, frozen+M": Kind(pairs, (*encoder, "--method", "frozen+M", *slots)),
    }
    warm_up(folder, made)
    return made


def warm_up(folder: Path, kinds: dict[str, Kind]) -> None:
    """Run commands in this process, so that its forks have imported what they need."""
    for name in ("BiLSTM, F+M+V", "encoder, F+E"):
        one, model = kinds[name], folder / f"warm-up-{name[:4]}"
        for words in (("adapt", model, *one.data[:2], *one.options), ("undo", model), ("inspect", model, "--verify")):
            result = CliRunner().invoke(app, list(map(str, words)))
            assert result.exit_code == 0, result.output


def settings(*values: str) -> tuple[str, ...]:
    return tuple(word for value in values for word in ("--set", value))


def write_talk(folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    rows = [{"message": f"where is {name} {n}", "response": f"on track {n % 7} of the {name}"} for n in range(40)]
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def state(folder: Path, versions: bool = True) -> str:
    """A digest of all that a saved model holds, but for times; empty where there is no model."""
    if not folder.exists() or not (folder / "manifest.json").exists():
        return ""
    learner = Learner.load(folder, device="cpu")
    stages = [asdict(stage) for stage in learner.history.stages]
    for stage in stages:
        del stage["seconds"], stage["date"]
    numbers = [version.number for version in list_versions(folder)] if versions else []
    scores = [(row.learned, row.scores) for row in learner.history.matrix.rows]
    known: list[Any] = [learner.method.name, learner.task, learner.labels, learner.vocabulary.words, stages, scores]
    digest = hashlib.sha256(repr([*known, numbers, learner.calibration, learner.training]).encode(errors="replace"))
    for name, tensor in sorted(learner.trained().state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes())  # also bfloat16
    return digest.hexdigest()


def files_of(folder: Path) -> list[str]:
    """Names beside a model, and within it, as far as they do not depend on chance."""
    beside = [path.name for path in folder.parent.iterdir()]
    within = [path.name.split("-")[0] for path in folder.rglob("*")] if folder.is_dir() else []
    return sorted(beside) + sorted(within)


def learn(model: Path, kind: Kind, save_every: float = 0.0) -> None:
    """What `memgrow adapt` with all files does, but the state of training is kept after each step."""
    stream = load_stream(kind.data).stream
    Learner.load(model, device="cpu").learn(stream, folder=model, save_every=save_every)
