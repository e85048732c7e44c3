"""Ten writers and ten readers of one model, and two commands that adapt it: every load succeeds, no save is lost."""

import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from memgrow.locking import hold

from memgrow.data import synthetic_stream
from memgrow.learner import Learner
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings
from torture.budget import Budget, Counts, Report
from torture.cases import FIXED, NO_LOCKS, RENAMED, USUAL, Place, leftovers
from torture.children import FORK, in_child
from torture.two_at_once import two_at_once

WRITERS, READERS, LONGEST_S = 10, 10, 60.0
SHARES = {USUAL: 0.4, NO_LOCKS: 0.1, RENAMED: 0.1, FIXED: 0.1}  # of the time of this part
TWO_AT_ONCE = 0.3
TINY = ModelSettings(embedding=4, hidden=4, slots=2, perceptron=8)
SHORT = TrainingSettings(batch=16, epochs=1)
PATIENCE_S = 300.0  # of a writer, among twenty processes on a busy machine


@dataclass(frozen=True)
class Worked:
    """What one process did."""

    saved: list[str]  # names of the domains
    loads: int
    wrong: list[str]


def run(budget: Budget, report: Report) -> Counts:
    """Crowds in each kind of place, then pairs of commands."""
    counts: Counter[str] = Counter()
    for number, (place, share) in enumerate(SHARES.items()):
        seconds = min(LONGEST_S, share * budget.seconds)
        with tempfile.TemporaryDirectory() as folder:
            saves, loads = _crowd(Path(folder, "models", "m"), place, seconds, report)
        counts.update({"saves by ten writers": saves, "loads by ten readers": loads})
        report.tell(number + 1, len(SHARES), f"crowds; {saves} saves and {loads} loads in {place.name}")
    rest = replace(budget, seconds=TWO_AT_ONCE * budget.seconds, began=time.monotonic())
    return {**counts, **two_at_once(rest, report)}


def _crowd(path: Path, place: Place, seconds: float, report: Report) -> tuple[int, int]:
    """(saves, loads) of processes that do nothing else for so many seconds."""
    path.parent.mkdir(parents=True)
    results: Any = FORK.Queue()

    def within(work: Callable[[], Worked]) -> Callable[[], None]:
        def whole() -> None:
            place.prepare(path)
            results.put(work())
            results.close()
            results.join_thread()

        return whole

    in_child(within(partial(_make, path)))
    first = results.get(timeout=60)
    until = time.monotonic() + seconds
    writers = [within(partial(_write, path, f"writer {n}", until)) for n in range(WRITERS)]
    readers = [within(partial(_read, path, until)) for _ in range(READERS)]
    processes = [FORK.Process(target=work) for work in (*writers, *readers)]
    for process in processes:
        process.start()
    found: list[Worked] = [results.get(timeout=seconds + 2 * PATIENCE_S) for _ in processes]
    for process in processes:
        process.join()
    for one in found:
        for wrong in one.wrong[:3]:
            report.fail(f"{place.name}: {wrong}")
    saved = [name for one in (first, *found) for name in one.saved]
    learnt = [name for stage in Learner.load(path, "cpu").history.stages for name in stage.learned]
    if sorted(saved) != sorted(learnt):
        lost, more = set(saved) - set(learnt), set(learnt) - set(saved)
        report.fail(f"{place.name}: {len(lost)} saves that reported success are lost, {len(more)} did not report")
    if left := leftovers(path):
        report.fail(f"{place.name}: {', '.join(left)} is left")
    return len(saved), sum(one.loads for one in found)


def _write(path: Path, name: str, until: float) -> Worked:
    """Load, note in the history that a domain of a name of its own was learnt, and save, again and again."""
    saved: list[str] = []
    wrong: list[str] = []
    while time.monotonic() < until:
        domain = f"{name}, {len(saved)}"
        try:
            with hold(path, PATIENCE_S):
                learner = Learner.load(path, "cpu")
                last = learner.history.stages[-1]
                learner.history.add(replace(last, learned=(domain,), fingerprint=domain), {domain: 0.5})
                learner.save(path)
            saved.append(domain)
        except Exception as error:
            wrong.append(f"a save failed: {type(error).__name__}: {error}")
    return Worked(saved, 0, wrong)


def _make(path: Path) -> Worked:
    """The first version."""
    (domain,) = synthetic_stream(domains=1, train=16, validation=8, test=8, seed=3)
    Learner.create("F", model=TINY, training=SHORT, device="cpu").adapt(domain, folder=path)
    return Worked([domain.name], 0, [])


def _read(path: Path, until: float) -> Worked:
    """Load again and again: the history never gets shorter."""
    loads, known = 0, 0
    wrong: list[str] = []
    while time.monotonic() < until:
        try:
            stages = len(Learner.load(path, "cpu").history.stages)
            if stages < known:
                wrong.append(f"a load found {stages} domains after {known}")
            loads, known = loads + 1, stages
        except Exception as error:
            wrong.append(f"a load failed: {type(error).__name__}: {error}")
    return Worked([], loads, wrong)
