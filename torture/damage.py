"""Damaged model folders: each mutation is refused with a sentence, in bounded time and memory, and runs nothing.

A folder is loaded, verified and, if it loads, asked. One whose checksums differ must be refused, unless it is still the
same model; one whose checksums were put right may be another model, but then a working one.
"""

import hashlib
import importlib
import json
import math
import random
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from torture.budget import Budget, Counts, Report
from torture.confined import Outcome, confined
from torture.mutations import MANIFEST, Damage, mutate

LEAST = 2_000  # mutations
ENCODER = "encoder-folder"
EARLIER = "its version after stage"  # in the words of verify
LONGEST = 700  # characters of a sentence, the name of the folder among them
FIXTURES = Path(__file__).parents[1] / "tests" / "fixtures" / "model-0.1.0"


def run(budget: Budget, report: Report, least: int = LEAST) -> Counts:
    """Damage models until the time is up, and at least so often; the counts of what came of it."""
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        subjects = make_subjects(Path(place) / "models")
        whole = {subject: known(subject) for subject in subjects[:-1]} | {subjects[-1]: ""}
        tried_encoder(subjects[-1])
        number, slowest = 0, 0.0
        while number < least or not budget.over:
            subject = subjects[number % len(subjects)]
            one = damaged(subject, whole[subject], Path(place) / "damaged", budget.random("damage", number))
            found[one.kind] += 1
            slowest = max(slowest, one.seconds)
            if one.fault is not None:
                report.fail(f"mutation {number} of {subject.name}: {one.fault}")
            number += 1
            report.tell(number, max(least, number), "mutations")
    return {
        "mutations": number,
        "of them refused with a sentence": found["refused"],
        "that changed nothing": found["unchanged"],
        "with checksums that fit, or none, that are another working model": found["another"],
        "seconds of the slowest": round(slowest, 1),
    }


@dataclass(frozen=True)
class Tried:
    """What came of a mutation, what is wrong with that, if anything is, and how long it took."""

    kind: str
    fault: str | None
    seconds: float


def damaged(subject: Path, whole: str, place: Path, rng: random.Random) -> Tried:
    """Damage a copy of a model, and try to load it."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(subject, place)
    damage = mutate(place, rng)
    if subject.name == ENCODER:  # which has no checksums
        damage = replace(damage, refit=True)
    outcome = confined(partial(tried_encoder if subject.name == ENCODER else tried, place))
    kind, fault = judged(damage, outcome, whole)
    if Path("pickle-has-run").exists():
        fault = "a pickle was run"
    told = None if fault is None else f"{damage.what}{' (refit)' if damage.refit else ''}: {fault}"
    return Tried(kind, told, outcome.seconds)


def judged(damage: Damage, outcome: Outcome, whole: str) -> tuple[str, str | None]:
    """What came of a mutation, and what is wrong with that, if anything is."""
    if outcome.fault is not None:
        return "broken", outcome.fault
    if outcome.events:
        return "broken", f"it did {outcome.events[:3]}"
    told = outcome.value
    if told["error"] is not None:
        return "refused", _refusal_fault(damage, told)
    if told["code"] != 0 and "/" in (damage.file or ""):  # an earlier version, which nobody has asked for
        named = (damage.file or "").rpartition("/")[2] in told["output"] and told["model"] == whole
        return "refused", None if named else f"verify says of an earlier version: {told['output']}"
    if told["code"] != 0 and damage.file == MANIFEST and EARLIER in told["output"] and told["model"] == whole:
        return "refused", None  # the manifest is wrong of an earlier version alone, and the model is as it was
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
    # A manifest that was changed names another file, which is then not what it says.
    if not damage.refit and damage.file not in (None, "manifest.json") and damage.file not in told["output"]:
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


def tried_encoder(place: Path) -> dict[str, Any]:
    """Let a new model begin from the folder of an encoder, in a child."""
    from memgrow.data import Domain, Example
    from memgrow.errors import MemgrowError
    from memgrow.learner import Learner
    from memgrow.methods import MethodSettings
    from memgrow.training.settings import TrainingSettings

    told: dict[str, Any] = {"error": None, "model": None, "answers": None, "code": 0, "output": ""}
    examples = tuple(Example(text, None, label) for text in TEXTS for label in ("good", "bad"))
    training = TrainingSettings(batch=8, epochs=1)
    try:
        learner = Learner.create("F+M", encoder=place, training=training, options=MethodSettings(slots=2), device="cpu")
        learner.adapt(Domain("a", examples, examples[:2], examples[:2]))
        stage = learner.history.stages.pop()  # its seconds and dates are others each time
        told |= {"model": digest(learner) if stage else "", "answers": wrong_answers(learner)}
    except MemgrowError as error:
        told |= {"error": str(error), "code": 2, "output": str(error)}
    return told


def digest(learner: Any) -> str:
    """Tells two learners apart by all that they hold."""
    setup, learnt = learner.setup, learner.learnt
    found = hashlib.sha256()
    settings = (setup.method.name, setup.model, setup.training, setup.options, setup.seed)
    parts = [*settings, learnt.task, learnt.labels, learnt.vocabulary.words, learnt.history.to_json()]
    parts += [learnt.plugins.kept_examples(), learnt.calibration, learnt.reference, list(learnt.parts), setup.vectors]
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
    right = all(map(math.isfinite, chain(*chances))) and all(abs(sum(row) - 1) < 1e-3 for row in chances)
    return None if right else f"its probabilities are {chances}"


def known(subject: Path) -> str:
    """The digest of a whole model; loading it here also imports all that its copies need."""
    told = tried(subject)
    assert told["error"] is None, told
    assert told["answers"] is None, told
    assert told["code"] == 0, told
    return str(told["model"])


def make_subjects(place: Path) -> list[Path]:
    """A small classifier, a responder, a model with a pretrained encoder, one with earlier versions and rows of
    its data within, and two that memgrow 0.1.0 saved; the last is the folder that an encoder came in.
    """

    make_encoder = importlib.import_module("tests.support.tiny_encoder").make_encoder
    from memgrow.data import synthetic_dialogue, synthetic_stream
    from memgrow.learner import Learner
    from memgrow.methods import MethodSettings
    from memgrow.models import ModelSettings
    from memgrow.training.settings import TrainingSettings

    stream = synthetic_stream(domains=2, train=32, validation=8, test=8, seed=3)  # enough texts to tell drift by
    dialogue = synthetic_dialogue(domains=2, train=24, validation=8, test=6)
    model = ModelSettings(embedding=6, hidden=5, slots=4, perceptron=8)
    given: dict[str, Any] = {"training": TrainingSettings(rate=0.01, batch=8, epochs=1), "device": "cpu"}
    options = MethodSettings(slots=3, fisher_examples=4)
    encoder: Path = make_encoder(place / ENCODER)
    versions = Learner.create("rehearsal+M+V", model=model, options=MethodSettings(slots=3, rehearse=4), **given)
    for domain in stream:
        versions.adapt(domain, folder=place / "with-versions")
    for name, learner, data in (
        ("classifier", Learner.create("EWC+M+V", model=model, options=options, **given), stream),
        ("responder", Learner.create("F+M+V", model=model, **given), dialogue),
        ("with-encoder", Learner.create("F+M", encoder=encoder, options=options, **given), stream),
    ):
        learner.learn(data)
        learner.save(place / name)
    old = [Path(shutil.copytree(FIXTURES / name, place / f"{name}-0.1.0")) for name in ("classifier", "responder")]
    names = ("classifier", "responder", "with-encoder", "with-versions")
    return [*(place / name for name in names), *old, encoder]
