"""Trainings by two processes or by one: `python -m tests.support.together ENCODER FOLDER CASE...`."""

import os
import socket
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memgrow import Learner, MethodSettings, ModelSettings, TrainingSettings, synthetic_stream
from memgrow.data import Domain, Example, Stream
from memgrow.models import PretrainedSettings
from memgrow.nn import distributed

ROOT = Path(__file__).resolve().parents[2]
RECURRENT = ModelSettings(embedding=8, hidden=8, slots=4, perceptron=8)
SHORT = TrainingSettings(rate=0.01, batch=16, epochs=2)
GENTLE = replace(SHORT, rate=3e-4)  # Adam enlarges the rounding of gradients that are almost zero


@dataclass(frozen=True)
class Case:
    method: str
    encoder: bool = False
    replies: bool = False
    training: TrainingSettings = SHORT
    strength: float = 1000.0
    dropout: float = 0.0


CASES = {
    "ema": Case("finetune+ema", encoder=True, training=GENTLE),
    "lora": Case("lora+memory", encoder=True, training=GENTLE),
    "ewc": Case("ewc", strength=100.0),
    "slots": Case("finetune+slots+vocab+distill"),
    "replies": Case("finetune+vocab", replies=True),
    "long": Case("finetune+ema", training=replace(SHORT, epochs=4, select="last"), dropout=0.2),
}


def learn(name: str, encoder: Path, folder: Path, **arguments: Any) -> Learner:
    """Learn two domains of 49 rows: the last batch has a single one, which leaves the second process without any."""
    case = CASES[name]
    stream = synthetic_stream(domains=2, train=49, validation=16, test=16, seed=3)
    model: ModelSettings = replace(RECURRENT, dropout=case.dropout)
    if case.encoder:
        model = PretrainedSettings(encoder=str(encoder), dropout=0.0, precision="float32")
    if case.replies:
        model = replace(model, bidirectional=False)
        stream = Stream(map(_replying, stream))
    task = "reply" if case.replies else None
    if (folder / "manifest.json").exists():
        learner = Learner.load(folder, "cpu")
    else:
        options = MethodSettings(strength=case.strength)
        learner = Learner.create(
            case.method, model=model, task=task, training=case.training, options=options, device="cpu"
        )
    learner.learn(stream, folder=folder, **arguments)
    return learner


def _replying(domain: Domain) -> Domain:
    parts = {
        part: [Example(one.text, reply=one.pair) for one in getattr(domain, part)]
        for part in ("train", "validation", "test")
    }
    return Domain(domain.name, **parts)


class Told:
    def step(self, step: Any) -> None:
        print(step.domain, step.epoch, step.batch, flush=True)

    def note(self, sentence: str) -> None:
        print(sentence, flush=True)


def start_two(*command: str) -> list[subprocess.Popen[str]]:
    """Start a command twice, as torchrun does; {rank} in a word is the number of the process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    processes = []
    for rank in ("0", "1"):
        numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        env = {**os.environ, **numbers, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        words = [sys.executable, *(word.replace("{rank}", rank) for word in command)]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        processes.append(subprocess.Popen(words, cwd=ROOT, env=env, **pipes))
    return processes


if __name__ == "__main__":
    import torch

    torch.set_num_threads(1)
    distributed.join("cpu")
    encoder, folder, *names = sys.argv[1:]
    for name in names:
        learn(name, Path(encoder), Path(folder, name), save_every=0, progress=Told())
