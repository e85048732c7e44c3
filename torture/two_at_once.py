"""Two `memgrow adapt` on one model: the second is told who has it and changes nothing, or waits until it is free.

The first is stopped (SIGSTOP) before one of its file operations while it holds the model, so that the second meets it.
"""

import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from random import Random

from memgrow.cli import learning
from memgrow.data import synthetic_stream, write_jsonl
from torture.budget import Budget, Counts, Report
from torture.cases import FIXED, NO_LOCKS, TINY, USUAL, Place, bits, learnt, leftovers, settings
from torture.children import FORK, spread
from torture.commands import Ended, Running, start
from torture.fail_points import at_operations, kill_before

ROUNDS = 6  # of each kind, in each kind of place, if there is time
TRIES = 5  # to stop the first command
SOON_S = 60.0
PLACES = (USUAL, NO_LOCKS, FIXED)


class MissedError(Exception):
    """The first command ended before it was stopped: how often it keeps its state depends on the time that takes."""


@dataclass(frozen=True)
class Pair:
    """A model that two commands want to teach a domain each, and what it is once they have."""

    place: Place
    data: list[Path]
    model: Path
    after: tuple[dict[str, bytes], ...]  # the first and then the second; the second and then the first
    operations: int  # of a command while it holds the model

    def copy(self, folder: Path) -> Path:
        return shutil.copytree(self.model.parent, folder / "models") / "m"

    def start(self, model: Path, number: int, *more: str, prepare: Callable[[], None] = lambda: None) -> Running:
        """Let a command teach the model the domain of that number."""
        return _start(self.place, self.data[number], model, *more, prepare=prepare)

    def stopped(self, model: Path, chance: Random) -> Running:
        """The first command, stopped while it holds the model."""
        number = chance.randrange(self.operations)
        first = self.start(
            model, 1, prepare=lambda: _once_held(lambda: kill_before(number, model.parent, signal.SIGSTOP))
        )
        if not first.stops():
            raise MissedError
        return first

    def differs(self, model: Path, orders: int = 1) -> str | None:
        """What is wrong with a model that both have taught."""
        if bits(model) not in self.after[:orders]:
            return f"the model with {learnt(model)} domains is not what one command after the other makes"
        return f"{', '.join(left)} is left" if (left := leftovers(model)) else None


def two_at_once(budget: Budget, report: Report) -> Counts:
    """Meetings of two commands, of each kind in each kind of place in turn."""
    counts = Counter[str]()
    kinds = [(kind, place) for kind in MEETINGS for place in PLACES]
    with tempfile.TemporaryDirectory() as folder:
        pairs = {place.name: _pair(Path(folder, str(n)), place) for n, place in enumerate(PLACES)}

        def meet(number: int) -> tuple[str, str | None]:
            kind, place = kinds[number % len(kinds)]
            if budget.over:
                return "", None
            pair, chance = pairs[place.name], budget.random("two at once", number)
            for _ in range(TRIES):
                with tempfile.TemporaryDirectory() as here, suppress(MissedError):
                    wrong = MEETINGS[kind](pair, pair.copy(Path(here)), chance)
                    return kind, f"{kind}, {place.name}: {wrong}" if wrong else None
            return kind, f"{kind}, {place.name}: the first command was never stopped"

        for kind, failure in spread(meet, ROUNDS * len(kinds), budget.workers):
            counts[kind] += bool(kind)
            if failure:
                report.fail(failure)
            report.tell(counts.total(), ROUNDS * len(kinds), "meetings of two commands")
    return {kind: counts[kind] for kind in MEETINGS}


def _pair(folder: Path, place: Place) -> Pair:
    data = write_jsonl(synthetic_stream(domains=3, train=48, validation=24, test=24, seed=3), folder / "data")
    model = folder / "made" / "m"
    model.parent.mkdir()
    operations = FORK.Value("i", 0)
    ends = [_start(place, data[0], model, *settings(*TINY)).ended()]
    after = []
    for order in ((1, 2), (2, 1)):
        copied = shutil.copytree(model.parent, folder / f"after-{order[0]}") / "m"
        for number in order:
            count = partial(_once_held, partial(_count, copied, operations))
            ends.append(_start(place, data[number], copied, prepare=count).ended())
        after.append(bits(copied))
    if wrong := [one.last_line for one in ends if one.code != 0]:
        raise RuntimeError(f"one command after the other: {wrong}")
    return Pair(place, data, model, tuple(after), operations.value)


def _start(place: Place, data: Path, model: Path, *more: str, prepare: Callable[[], None] = lambda: None) -> Running:
    def whole() -> None:
        place.prepare(model)
        prepare()

    return start(["adapt", model, data, "--device", "cpu", *more], model.parent.parent / f"said-{data.stem}", whole)


def _once_held(work: Callable[[], None]) -> None:
    """Do something in a command when it has the lock: opening the model is the first thing that it does then."""
    opened = learning.open_or_create

    def held(*arguments: object) -> object:
        work()
        return opened(*arguments)  # type: ignore[arg-type]

    learning.open_or_create = held  # type: ignore[assignment]


def _count(model: Path, operations: "Synchronized[int]") -> None:
    def count(number: int) -> None:
        operations.value = number + 1

    at_operations(count, model.parent)


# Meetings: what went wrong, if anything did


def _refused(pair: Pair, model: Path, chance: Random) -> str | None:
    """The second says who has the model, and changes nothing."""
    first = pair.stopped(model, chance)
    before = _contents(model.parent)
    second = pair.start(model, 2).ended(SOON_S)
    changed = _contents(model.parent) != before
    first.send(signal.SIGCONT)
    ends = [first.ended(SOON_S), pair.start(model, 2).ended(SOON_S)]
    if second.code != 2 or f"m is being changed by process {first.pid} on " not in second.err:
        return f"the second ended with {second.code}: {second.last_line}"
    if changed:
        return "the second changed something"
    return _failed(*ends) or pair.differs(model)


def _waited(pair: Pair, model: Path, chance: Random) -> str | None:
    """The second waits, and goes on from what the first has saved."""
    first = pair.stopped(model, chance)
    second = pair.start(model, 2, "--wait")
    told = second.says(f"being changed by process {first.pid}", SOON_S)
    first.send(signal.SIGCONT)
    ends = [first.ended(SOON_S), second.ended(SOON_S)]
    return _failed(*ends) or pair.differs(model) or (None if told else "the second did not say for whom it waits")


def _freed(pair: Pair, model: Path, chance: Random) -> str | None:
    """A command that was killed blocks nobody."""
    first = pair.stopped(model, chance)
    first.send(signal.SIGKILL)
    first.ended()
    ends = [pair.start(model, number).ended(SOON_S) for number in (1, 2)]
    return _failed(*ends) or pair.differs(model)


def _at_once(pair: Pair, model: Path, chance: Random) -> str | None:
    """Nobody is stopped: both are learnt, or the one that was refused is not."""
    waits = ["--wait"] * chance.randrange(2)
    first = pair.start(model, 1, *waits)
    time.sleep(chance.uniform(0, 0.3))
    second = pair.start(model, 2, *waits)
    ends = [first.ended(SOON_S), second.ended(SOON_S)]
    done = sum(one.code == 0 for one in ends)
    if learnt(model) != 1 + done or (waits and done < 2) or {one.code for one in ends} - {0, 2}:
        return (
            f"{learnt(model)} domains are learnt, and the two ended with {[(one.code, one.last_line) for one in ends]}"
        )
    return pair.differs(model, orders=2) if done == 2 else None


MEETINGS: dict[str, Callable[[Pair, Path, Random], str | None]] = {
    "second commands that were refused": _refused,
    "second commands that waited": _waited,
    "second commands after one that was killed": _freed,
    "pairs of commands started at once": _at_once,
}


def _failed(*ends: Ended) -> str | None:
    wrong = [f"{one.code}: {one.last_line}" for one in ends if one.code != 0]
    return f"commands that had to succeed ended with {'; '.join(wrong)}" if wrong else None


def _contents(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder, byte for byte, and every folder."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
