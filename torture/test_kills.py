"""A command killed at any moment loses nothing: the model is the old one or the new one, and it goes on from there."""

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from memgrow import Learner
from torture.children import NOT_BEGUN, Child, count_operations, memgrow, run, signal_before
from torture.models import Kind, files_of, learn, state

KINDS = (
    "BiLSTM, F+M+V",
    "encoder, F+E",
    "BiLSTM, EWC, no versions",
    "BiLSTM, rehearsal",
    "replies, F+M+V",
    "encoder, LoRA, all versions",
    "encoder, frozen+M",
)
SIGNALS = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
CHAINS, LONGEST = 3, 8  # of each kind; kills in one of them

Count = Callable[[str, int], None]


def save(model: Path) -> Callable[[], None]:
    return lambda: Learner.load(model, device="cpu").save(model, keep_versions=2)


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("what", ["new model", "second domain", "undo", "save"])
def test_killed_before_every_file_operation(
    kind: str, what: str, kinds: dict[str, Kind], tmp_path: Path, count: Count
) -> None:
    one = kinds[kind]
    before = tmp_path / "before"
    before.mkdir()
    if what != "new model":
        one.make(before / "m", domains=1 if what == "second domain" else 2)

    def work(model: Path) -> Callable[[], None]:
        if what == "undo":
            return memgrow("undo", model, "--quiet")
        if what == "save":
            return save(model)
        data = one.data[:1] if what == "new model" else one.data[1:2]
        return memgrow("adapt", model, *data, *(one.options if what == "new model" else ()), "--quiet")

    def copy(name: str) -> Path:
        return Path(shutil.copytree(before, tmp_path / name)) / "m"

    whole = copy("whole")
    operations = count_operations(work(whole), whole.parent)
    assert operations > 3
    old, new = state(before / "m"), state(whole)
    for number in range(operations):
        model = copy(str(number))
        killed = run(work(model), signal_before(number, model.parent))
        assert killed.code == -signal.SIGKILL, f"before operation {number}: {killed.output}"
        found = state(model)
        assert found in (old, new), f"before operation {number}"
        if found:
            verified = run(memgrow("inspect", model, "--verify"))
            assert verified.code == 0, f"before operation {number}: {verified.output}"
        if found == old or what != "undo":
            again = run(work(model))
            assert again.code == 0, f"before operation {number}: {again.output}"
        assert state(model) == new, f"before operation {number}"
        shutil.rmtree(model.parent)
    count("kills before a file operation", operations)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chain", range(CHAINS))
def test_killed_again_and_again_it_ends_with_the_same_bits(
    kind: str, chain: int, kinds: dict[str, Kind], tmp_path: Path, rng: Random, count: Count
) -> None:
    """Odd chains are commands; even ones go on in Python and keep the state of training after each step."""
    one = kinds[kind]
    whole, model = tmp_path / "whole" / "m", tmp_path / "killed" / "m"
    for folder in (whole, model):
        folder.parent.mkdir()
        one.make(folder, domains=1)

    def work(folder: Path) -> Callable[[], None]:
        if chain % 2:
            return memgrow("adapt", folder, *one.data, "--quiet")
        return lambda: learn(folder, one)

    operations = count_operations(work(whole), whole.parent)
    expected, files = state(whole), files_of(whole)
    known = 1
    for _ in range(LONGEST):
        by = rng.choice(list(SIGNALS)) if chain % 2 else signal.SIGKILL
        if rng.random() < 0.5:
            child = Child(work(model), signal_before(rng.randrange(operations), model.parent, by))
        else:
            child = Child(work(model))
            child.alive(rng.uniform(0, 0.4))
            child.send(by)
        ended = child.ended()
        if ended.code == 0:
            break
        if ended.code == NOT_BEGUN:
            continue
        assert ended.code == SIGNALS[by] or (ended.code == -by and not ended.output), ended.output
        assert ended.output.count("\n") <= 1, ended.output
        count(f"kills by {by.name}", 1)
        stages = len(Learner.load(model, device="cpu").history.stages)
        assert stages >= known
        known = stages
    ended = run(work(model))
    assert ended.code == 0, ended.output
    assert state(model) == expected
    assert files_of(model) == files
