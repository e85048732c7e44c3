"""`memgrow adapt` killed at random moments and fail points, and started again until it is done: the same bits."""

import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.sharedctypes import Synchronized
from operator import itemgetter
from pathlib import Path
from random import Random

from memgrow.checkpoint import find_faults
from memgrow.locking import Holder
from memgrow.manifest import Manifest

from torture.budget import Budget, Counts, Report, tail
from torture.cases import USUAL, Case, bits, learnt, leftovers, make_cases, unnamed_versions
from torture.children import FORK, spread
from torture.commands import NOT_BEGUN, Ended, Running, start, start_truly
from torture.fail_points import at_operations, kill_before

AT_LEAST = 200  # kills, also where they take up to three times as long as there is time
CHAINS = 400  # models at most, each made by a command that is killed several times
TRUE_EVERY = 8  # chains: one of so many is of true commands
LONGEST = {False: 20, True: 3}  # kills in a chain of forks, and of true commands, which take seconds to start
KILLED, TERMINATED, INTERRUPTED = "by SIGKILL", "by SIGTERM", "by Ctrl-C"
SIGNALS = {KILLED: signal.SIGKILL, TERMINATED: signal.SIGTERM, INTERRUPTED: signal.SIGINT}
CODES = {KILLED: -9, TERMINATED: 143, INTERRUPTED: 130}
SENTENCE = "memgrow: stopped; what was saved before is unchanged; the same command again goes on from there\n"
FAIL_POINT, TRUE = "before a file operation", "of true commands"
HALF, UNFINISHED = "in the middle of a save", "that left an unfinished training"
HANGS_S = 300.0


@dataclass(frozen=True)
class Unbroken:
    """A model that nobody broke off, and what it took."""

    bits: dict[str, bytes]
    seconds: float
    operations: int


@dataclass
class Chain:
    """The kills of one model, from nothing to its end."""

    kills: Counter[str] = field(default_factory=Counter)  # by what was special about them
    failures: list[str] = field(default_factory=list)


def run(budget: Budget, report: Report) -> Counts:
    """Chains of kills in all cases in turn, for as long as there is time."""
    kills: Counter[str] = Counter()
    chains, so_far = 0, FORK.Value("i", 0)
    with tempfile.TemporaryDirectory() as folder:
        cases = make_cases(Path(folder))
        found = spread(lambda n: (n, _unbroken(cases[n], Path(folder, str(n), "m"))), len(cases), budget.workers)
        unbroken = [one for _, one in sorted(found, key=itemgetter(0))]

        def work(number: int) -> Chain:
            longer = budget if so_far.value >= AT_LEAST else replace(budget, seconds=3 * budget.seconds)
            chain = _chain(cases, unbroken, longer, number)
            with so_far.get_lock():
                so_far.value += _total(chain.kills)
            return chain

        for chain in spread(work, CHAINS, budget.workers):
            chains += bool(chain.kills)
            kills += chain.kills
            for failure in chain.failures:
                report.fail(failure)
            report.tell(chains, CHAINS, f"runs, {_total(kills)} kills")
    return {
        "runs that were killed and resumed": chains,
        "kinds of models and places": len(unbroken),
        "kills": _total(kills),
        **{f"kills {by}": kills[by] for by in (*SIGNALS, FAIL_POINT, TRUE, HALF, UNFINISHED)},
    }


def _total(kills: Counter[str]) -> int:
    return sum(kills[by] for by in SIGNALS)


def _unbroken(case: Case, model: Path) -> Unbroken:
    """The model that all others of the case must be equal to."""
    operations = FORK.Value("i", 0)
    model.parent.mkdir()
    began = time.monotonic()
    ended = start(case.command(model), Path(f"{model.parent}-said"), partial(_count, case, model, operations)).ended()
    if ended.code != 0:
        raise RuntimeError(f"{case.name} in {case.place.name} ended with {ended.code}: {ended.last_line}")
    return Unbroken(bits(model), time.monotonic() - began, operations.value)


def _count(case: Case, model: Path, operations: "Synchronized[int]") -> None:
    case.place.prepare(model)

    def count(number: int) -> None:
        operations.value = number + 1

    at_operations(count, model.parent)


def _chain(cases: list[Case], unbroken: list[Unbroken], budget: Budget, number: int) -> Chain:
    """Start a command, kill it, start it again, until it is done."""
    chain = Chain()
    if budget.over:
        return chain
    chance = budget.random("kills", number)
    truly = number % TRUE_EVERY == TRUE_EVERY - 1
    usual = [n for n, one in enumerate(cases) if one.place is USUAL]
    which = usual[number // TRUE_EVERY % len(usual)] if truly else number % len(cases)
    case, whole = cases[which], unbroken[which]
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "models", "m")
        model.parent.mkdir()
        try:
            ended = _break_often(case, whole, model, Path(folder, "said"), chance, budget, truly, chain)
            if ended.code != 0:
                chain.failures.append(f"ended with {ended.code}: {ended.last_line}")
            elif wrong := _differs(model, whole.bits):
                chain.failures.append(wrong)
        except Exception as error:
            chain.failures.append(f"{type(error).__name__}: {error}")
    what = f"chain {number}, {case.name}, {case.place.name}, {_total(chain.kills)} kills"
    chain.failures = [f"{what}: {failure}" for failure in chain.failures]
    return chain


def _break_often(
    case: Case, whole: Unbroken, model: Path, said: Path, chance: Random, budget: Budget, truly: bool, chain: Chain
) -> Ended:
    """How the last of the commands ended, which nobody broke off."""
    known = 0
    while True:
        breaks = _total(chain.kills) < LONGEST[truly] and not budget.over
        by, fail_point = chance.choices(list(SIGNALS), (6, 1, 1))[0], None
        if breaks and by == KILLED and not truly and chance.random() < 0.5:
            fail_point = chance.randrange(whole.operations)
        if truly:
            running = start_truly(case.command(model), said)
        else:
            running = start(case.command(model), said, partial(_prepare, case, model, fail_point))
        if not breaks or (fail_point is None and _outlasts(running, model, whole.seconds, chance, truly)):
            return running.ended(HANGS_S)
        if fail_point is None:
            running.send(SIGNALS[by])
        ended = running.ended(HANGS_S)
        if ended.code == 0:
            return ended
        if ended.code == NOT_BEGUN or (ended.code == -signal.SIGTERM and not ended.err + ended.out):
            continue  # it had no time to hear of it
        if ended.code != CODES[by] or (by != KILLED and ended.err != SENTENCE):
            chain.failures.append(f"{by}: ended with {ended.code}, and said {tail(ended.err, 2000)!r}")
        chain.kills.update(_special(model, by, fail_point is not None, truly))
        if (now := learnt(model)) < known:
            chain.failures.append(f"{by}: {known} domains had been learnt, and {now} are left")
        known = now


def _prepare(case: Case, model: Path, fail_point: int | None) -> None:
    case.place.prepare(model)
    if fail_point is not None:
        kill_before(fail_point, model.parent)


def _outlasts(running: Running, model: Path, seconds: float, chance: Random, truly: bool) -> bool:
    """Whether a command ended before its random moment came."""
    if truly:  # of a true one, most of the time is that of imports
        lock = model.with_name(f".{model.name}.lock")
        while running.code() is None and ((holder := Holder.read(lock)) is None or holder.pid != running.pid):
            time.sleep(0.01)
    return running.wait(chance.uniform(0, seconds))


def _special(model: Path, by: str, fail_point: bool, truly: bool) -> list[str]:
    """What is to be counted of a kill."""
    names = [path.name for folder in (model.parent, model) if folder.exists() for path in folder.iterdir()]
    half = any(name.endswith(".writing") for name in names) or bool(unnamed_versions(model))
    unfinished = any(name.endswith("adapting") for name in names)
    marks = {FAIL_POINT: fail_point, TRUE: truly, HALF: half, UNFINISHED: unfinished}
    return [by, *(name for name, is_so in marks.items() if is_so)]


def _differs(model: Path, expected: dict[str, bytes]) -> str | None:
    """What is wrong with a model that was made in pieces."""
    for number in (None, *Manifest.of(model).earlier):
        if faults := find_faults(model, number):
            return f"{'the model' if number is None else f'its version {number}'} cannot be loaded: {faults[0]}"
    found = bits(model)
    if other := sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name)):
        return f"{', '.join(other)} is not what it is without kills"
    if left := leftovers(model):
        return f"{', '.join(left)} is left"
    return None
