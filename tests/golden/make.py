"""Made the models of this folder, with memgrow 0.2 (commit 5fa0c83), format 2. Kept to show how; do not run it again.

    PYTHONPATH=<source of 0.2> python -m tests.golden.make models
    PYTHONPATH=<source of 0.2> python -m tests.golden.make answers

Models made by later code would prove nothing. `0.1.0-*` and `format-2-*` are older: memgrow 0.1.0 (format 1) and the
first version with format 2 saved them. The answers of all were written by 0.2. `format-3-*` and their answers are of
commit 285d3878, before each entry of a domain memory became a file (`read_entries="always"`).
"""

import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from memgrow import Domain, Example, Learner, MethodSettings, ModelSettings, Stream, TrainingSettings
from memgrow.data import synthetic_stream
from memgrow.models import PretrainedSettings

MODELS = Path(__file__).parent / "models"
RECURRENT = ModelSettings(embedding=6, hidden=5, slots=3, perceptron=6)
ENCODER = PretrainedSettings(encoder="tiny", slots=3, key_size=4, best=2, precision="float32")
TRAINING = TrainingSettings(rate=0.03, batch=8, epochs=10, patience=10)
OPTIONS = MethodSettings(slots=2, rehearse=6, fisher_examples=6, rank=2, ridge=0.1)

# Name: method, settings, whether it labels pairs.
MADE = {
    "text": ("F+V", RECURRENT, False),
    "text-two-versions": ("F+V", RECURRENT, False),
    "pair": ("F+M+V", RECURRENT, True),
    "gru-ewc": ("EWC", ModelSettings(cell="gru", embedding=6, hidden=5, slots=0, perceptron=6), False),
    "progressive": ("Progressive", RECURRENT, False),
    "rehearsal": ("rehearsal", RECURRENT, False),
    "encoder": ("F+E", ENCODER, False),
    "encoder-pair-frozen-slots": ("frozen+M", ENCODER, True),
    "encoder-ridge": ("ridge", ENCODER, False),
    "encoder-lora": ("LoRA", ENCODER, False),
}


def texts() -> Stream:
    """Two domains of good and bad things."""
    words = {"good": ("fine", "lovely", "superb", "neat"), "bad": ("awful", "dull", "broken", "poor")}
    things = {
        "kitchen": ("pan", "kettle", "oven", "stove", "spoon"),
        "harbour": ("boat", "anchor", "rope", "mast", "sail"),
    }
    domains = []
    for name, nouns in things.items():
        rows = [
            Example(f"a {w} {n} , {n} of the {name}", label=label)
            for n in nouns
            for label in words
            for w in words[label]
        ]
        domains.append(Domain(name, train=tuple(rows[:32]), validation=tuple(rows[::5]), test=tuple(rows[32:])))
    return Stream(domains)


def pairs() -> Stream:
    return synthetic_stream(domains=2, train=60, validation=16, test=8, seed=11)


def make_models() -> None:
    from tests.support.tiny_encoder import make_encoder

    with tempfile.TemporaryDirectory() as folder:
        make_encoder(Path(folder, "tiny"))
        os.chdir(folder)  # the model keeps the name "tiny", without a path
        for name, (method, model, paired) in MADE.items():
            training = replace(TRAINING, epochs=30, patience=30) if paired else TRAINING
            learner = Learner.create(method, model=model, training=training, options=OPTIONS, seed=4, device="cpu")
            learner.learn(
                pairs() if paired else texts(), folder=MODELS / name, keep_versions=int(name == "text-two-versions")
            )


def write_answers() -> None:
    from memgrow.models import transformer as encoder

    encoder.multiplies_bfloat16 = lambda kind: False  # one of them leaves the precision to the processor
    for folder in sorted(path for path in MODELS.iterdir() if path.is_dir()):
        learner = Learner.load(folder, device="cpu")
        written = {"method": learner.method.name, "task": learner.task, **answers(learner)}
        if folder.name == "text-two-versions":
            written["first"] = answers(Learner.load(folder, device="cpu", version=1))
        (MODELS / f"{folder.name}.json").write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


def answers(learner: Learner) -> dict[str, Any]:
    if learner.task == "reply":
        from research.common.dialogues import synthetic_dialogue

        stream = synthetic_dialogue(domains=2, train=40, validation=8, test=6)
        messages = [row.text for domain in stream for row in domain.test]
        replies = learner.reply(messages, max_words=8)
        return {
            "domains": {domain.name: [[row.text, row.reply] for row in domain.test] for domain in stream},
            "scores": learner.evaluate(stream),
            "messages": messages,
            "replies": [{"text": reply.text, "score": reply.score} for reply in replies],
        }
    stream = pairs() if learner.task == "pair" else texts()
    asked = [list(row.texts) for domain in stream for row in domain.test]
    found = learner.predict([tuple(one) for one in asked])
    return {
        "texts": asked,
        "labels": [one.label for one in found],
        "probabilities": [{label: round(p, 7) for label, p in one.probabilities.items()} for one in found],
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"models": make_models, "answers": write_answers}[sys.argv[1]]()
