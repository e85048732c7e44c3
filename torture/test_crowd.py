"""Many processes at one model: every load succeeds, and every adaptation that reported success is in the history."""

import json
import shutil
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

from memgrow import Learner
from torture.children import Child, count_operations, memgrow, run, signal_before
from torture.models import Kind, state

WRITERS, READERS, DOMAINS, CROWD_S = 10, 10, 3, 40.0
Count = Callable[[str, int], None]


def test_ten_writers_and_ten_readers(kinds: dict[str, Kind], tmp_path: Path, count: Count) -> None:
    """Each writer adapts the model to domains with names of its own; one that is refused tries again."""
    one = kinds["BiLSTM, F+M+V"]
    model = one.make(tmp_path / "models" / "m", domains=1)
    results = tmp_path / "results"
    results.mkdir()
    until = time.monotonic() + CROWD_S

    def write(number: int) -> None:
        learned: list[str] = []
        refused = 0
        while len(learned) < DOMAINS and time.monotonic() < until:
            name = f"writer-{number}-{len(learned)}"
            data = tmp_path / f"{name}.jsonl"
            data.write_text(one.data[1].read_text().replace("the ", f"{name} "))
            options = ["--set", "epochs=1", "--keep-versions", str(number % 3), *(["--wait"] if number % 2 else [])]
            ended = run(memgrow("adapt", model, data, *options, "--quiet"))
            assert ended.code == 0 or (ended.refused and not number % 2), ended
            learned += [name] if ended.code == 0 else []
            refused += ended.code == 2
            time.sleep(0.05)
        (results / f"writer-{number}").write_text(json.dumps([learned, refused]))

    def read(number: int) -> None:
        loads, known = 0, 0
        while time.monotonic() < until and not all((results / f"writer-{n}").exists() for n in range(WRITERS)):
            stages = len(Learner.load(model, device="cpu").history.stages)
            assert stages >= known
            loads, known = loads + 1, stages
        (results / f"reader-{number}").write_text(str(loads))

    children = [Child(partial(write, n)) for n in range(WRITERS)] + [Child(partial(read, n)) for n in range(READERS)]
    for ended in [child.ended() for child in children]:
        assert ended.code == 0, ended.output
    written = [json.loads((results / f"writer-{n}").read_text()) for n in range(WRITERS)]
    expected = sorted(name for learned, _ in written for name in learned)
    _, *found = Learner.load(model, device="cpu").history.domains
    assert sorted(found) == expected
    assert run(memgrow("inspect", model, "--verify")).code == 0
    count("adaptations by ten writers", len(expected))
    count("of them refused at first", sum(refused for _, refused in written))
    count("loads by ten readers", sum(int((results / f"reader-{n}").read_text()) for n in range(READERS)))


@pytest.mark.parametrize("meeting", ["refused", "waits", "killed"])
@pytest.mark.parametrize("number", range(3))
def test_a_second_command_meets_one_that_is_at_work(
    meeting: str, number: int, kinds: dict[str, Kind], tmp_path: Path, rng: Random, count: Count
) -> None:
    """The first is stopped (SIGSTOP) before some file operation: the second is refused or waits, until it is killed."""
    one = kinds["BiLSTM, F+M+V"]
    before = one.make(tmp_path / "before" / "m", domains=1).parent
    model = shutil.copytree(before, tmp_path / "models") / "m"
    both = shutil.copytree(before, tmp_path / "both") / "m"
    operations = count_operations(memgrow("adapt", both, one.data[1], "--quiet"), both.parent)
    assert run(memgrow("adapt", both, one.data[2], "--quiet")).code == 0
    stop = signal_before(rng.randrange(operations // 4, operations * 3 // 4), model.parent, signal.SIGSTOP)
    first = Child(memgrow("adapt", model, one.data[1], "--quiet"), stop)
    assert first.stops()
    second = Child(memgrow("adapt", model, one.data[2], "--quiet", *(["--wait"] if meeting == "waits" else [])))
    if meeting == "waits":
        assert second.alive(1.0)
    else:
        assert second.ended(60).refused
    first.send(signal.SIGKILL if meeting == "killed" else signal.SIGCONT)
    code = first.ended().code
    assert code == (-signal.SIGKILL if meeting == "killed" else 0)
    if meeting == "waits":
        ended = second.ended()
        assert ended.code == 0, ended
    for data in one.data[1:] if meeting == "killed" else one.data[2:]:
        ended = run(memgrow("adapt", model, data, "--quiet"))
        assert ended.code == 0, ended
    assert state(model) == state(both)
    count("second commands", 1)
