"""Damaged model folders: each mutation is refused with a sentence, in bounded time and memory, and runs nothing.

A folder is loaded, verified and, if it loads, asked. One whose checksums differ must be refused, unless it is still the
same model; one whose checksums were put right may be another model, but then a working one.
"""

import hashlib
import json
import math
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from torture.confined import Outcome, confined
from torture.mutations import Damage, mutate

LEAST = 2_000  # mutations
LONGEST = 700  # characters of a sentence, the name of the folder among them
FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures" / "model-0.1.0"


def run(budget: float, report: Callable[[str], None], least: int = LEAST, seed: int = 0) -> dict[str, int]:
    """Damage models until the budget of seconds is used up, and at least so often; the counts of what came of it."""
    torch.set_num_threads(1)
    counts: Counter[str] = Counter()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        subjects = make_subjects(Path(place) / "models")
        whole = {subject: known(subject) for subject in subjects}
        number = 0
        while number < least or time.monotonic() - began < budget:
            subject = subjects[number % len(subjects)]
            kind, fault = one(subject, whole[subject], Path(place) / "damaged", random.Random(f"{seed} {number}"))
            counts[kind] += 1
            if fault is not None:
                counts["faults"] += 1
                report(f"mutation {number} of {subject.name}: {fault}")
            number += 1
            if number % 500 == 0:
                report(f"{number:,} mutations: {dict(counts)}")
    return {"mutations": number, "faults": 0, **counts}


def one(subject: Path, whole: str, place: Path, rng: random.Random) -> tuple[str, str | None]:
    """Damage a copy of a model: what came of it, and what is wrong with that, if anything is."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(subject, place)
    damage = mutate(place, rng)
    outcome = confined(lambda: tried(place))
    kind, fault = judged(damage, outcome, whole)
    if (Path.cwd() / "pickle-has-run").exists():
        fault = "a pickle was run"
    return kind, None if fault is None else f"{damage.what}{' (refit)' if damage.refit else ''}: {fault}"


def judged(damage: Damage, outcome: Outcome, whole: str) -> tuple[str, str | None]:
    """What came of a mutation, and what is wrong with that, if anything is."""
    if outcome.fault is not None:
        return "broken", outcome.fault
    if outcome.events:
        return "broken", f"it did {outcome.events[:3]}"
    told = outcome.value
    if told["error"] is not None:
        return "refused", _refusal_fault(damage, told)
    if told["code"] != 0:
        return "refused", f"it loads, and verify says {told['output']}"
    if told["model"] == whole:
        return "unchanged", None
    if not damage.refit:
        return "another", "it loads as if nothing were wrong"
    return "another", told["answers"]


def _refusal_fault(damage: Damage, told: dict[str, Any]) -> str | None:
    sentence = told["error"]
    if told["code"] not in (1, 2) or not told["output"].strip():
        return f"it is refused ({sentence}), and verify ends with {told['code']} {told['output']}"
    if len(sentence) > LONGEST or "\n" in sentence or len(sentence.split()) < 5:
        return f"{len(sentence)} characters are no sentence: {sentence[:300]!r}"
    if not damage.refit and damage.file is not None and damage.file not in told["output"]:
        return f"verify does not name {damage.file}: {told['output']}"
    return None


def tried(place: Path) -> dict[str, Any]:
    """Load a folder, verify it and ask it, in a child."""
    from typer.testing import CliRunner

    from memgrow.cli import app
    from memgrow.errors import MemgrowError
    from memgrow.learner import Learner

    told: dict[str, Any] = {"error": None, "model": None, "answers": None}
    try:
        learner = Learner.load(place, device="cpu")
        told["model"] = digest(learner)
        told["answers"] = wrong_answers(learner)
    except MemgrowError as error:
        told["error"] = str(error)
    result = CliRunner().invoke(app, ["verify", str(place)], prog_name="memgrow", catch_exceptions=False)
    return {**told, "code": result.exit_code, "output": result.output}


def digest(learner: Any) -> str:
    """Tells two learners apart by all that they hold."""
    setup, learnt = learner.setup, learner.learnt
    found = hashlib.sha256()
    settings = (setup.method.name, setup.model, setup.training, setup.options, setup.seed)
    parts = [*settings, learnt.task, learnt.labels, learnt.vocabulary.words, learnt.history.to_json()]
    if setup.encoder is not None:
        files = setup.encoder
        parts += [json.loads(files.config), json.loads(files.tokenizer), files.name, files.sha256, files.licences]
    found.update(repr([*parts, learnt.model.shape()]).encode(errors="surrogatepass"))
    for tensors in (learnt.model.state_dict(), learnt.plugins.tensors()):
        for name, tensor in sorted(tensors.items()):
            found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            found.update(tensor.detach().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


TEXTS = ("the soup is fine", "\u00e9\u0301 \U0001f469\u200d \u202e 3,000", "a" * 500, "word " * 50)


def wrong_answers(learner: Any) -> str | None:
    """What is wrong with the answers of a model that loads, if anything is: they are numbers, and some label's."""
    if learner.task == "reply":
        scores = [answer.score for answer in learner.reply(TEXTS)]
        return None if all(map(math.isfinite, scores)) else f"its replies have the scores {scores}"
    texts = [(text, text) if learner.task == "pair" else text for text in TEXTS]
    chances = [list(answer.probabilities.values()) for answer in learner.predict(texts)]
    right = all(math.isfinite(one) for row in chances for one in row) and all(abs(sum(row) - 1) < 1e-3 for row in chances)
    return None if right else f"its probabilities are {chances}"


def known(subject: Path) -> str:
    """The digest of a whole model; loading it here also imports all that its copies need."""
    told = tried(subject)
    assert told["error"] is None, told
    assert told["answers"] is None, told
    assert told["code"] == 0, told
    return str(told["model"])


def make_subjects(place: Path) -> list[Path]:
    """Small models: a classifier, a responder, one with a pretrained encoder, and two that memgrow 0.1.0 saved."""
    from memgrow.data import synthetic_stream
    from memgrow.data.synthetic_dialogue import synthetic_dialogue
    from memgrow.learner import Learner
    from memgrow.methods import MethodSettings
    from memgrow.models import ModelSettings
    from memgrow.training.loop import TrainingSettings
    from tests.support.tiny_encoder import make_encoder

    stream = synthetic_stream(domains=2, train=24, validation=8, test=8, seed=3)
    dialogue = synthetic_dialogue(domains=2, train=24, validation=8, test=6)
    model = ModelSettings(embedding=6, hidden=5, slots=4, perceptron=8)
    given: dict[str, Any] = {"training": TrainingSettings(rate=0.01, batch=8, epochs=1), "device": "cpu"}
    options = MethodSettings(slots=3, fisher_examples=4)
    encoder = make_encoder(place / "tiny")
    for name, learner, data in (
        ("classifier", Learner.create("EWC+M+V", model=model, options=options, **given), stream),
        ("responder", Learner.create("F+M+V", model=model, **given), dialogue),
        ("with-encoder", Learner.create("F+M", encoder=encoder, options=options, **given), stream),
    ):
        learner.learn(data)
        learner.save(place / name)
    old = [Path(shutil.copytree(FIXTURES / name, place / f"{name}-0.1.0")) for name in ("classifier", "responder")]
    return [place / "classifier", place / "responder", place / "with-encoder", *old]
