"""Full disks, read-only folders, files of others: a sentence, and the same bits once it is mended."""

import errno
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from torture.budget import Budget, Counts, Report, tail
from torture.cases import USUAL, Case, bits, learnt, leftovers, make_cases
from torture.children import FORK, spread
from torture.commands import Ended, start
from torture.fail_points import MAKING, at_operations, fill_before
from torture.mounts import can_mount, mount_alone, mount_tmpfs, remount_tmpfs, unmount
from torture.permissions import permissions

CASES = 3  # kinds of models, of those that are killed
CHAINS = 48  # models that are made on a disk that is full again and again
LONGEST = 8  # full disks in a chain
PAGES, NODES, ENOUGH = 16, 6, "size=256m,nr_inodes=10000"  # by which a disk grows, at most
PAGE = os.sysconf("SC_PAGE_SIZE")
ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
FULL, FAILING = "on a small tmpfs", "whose writes failed"


@dataclass
class Chain:
    """The commands by which one model came about."""

    kind: str
    failed: int = 0
    wrong: list[str] = field(default_factory=list)

    def note(self, ended: Ended, model: Path, known: int) -> int:
        """Check what a command that found no room has left; how many domains are learnt."""
        self.failed += 1
        if not ended.refused:
            self.wrong.append(f"ended with {ended.code}, and said {tail(ended.err, 2000)!r}")
        if strange := {path.name for path in model.parent.iterdir()} - {model.name, f"{model.name}.adapting"}:
            self.wrong.append(f"left {', '.join(sorted(strange))}")
        if (now := learnt(model)) < known:
            self.wrong.append(f"{known} domains had been learnt, and {now} are left")
        return now

    def end(self, ended: Ended, model: Path, expected: dict[str, bytes]) -> None:
        """Check what the command made that found room."""
        if ended.code != 0:
            self.wrong.append(f"with room it ended with {ended.code}: {ended.last_line}")
        elif bits(model) != expected or leftovers(model):
            self.wrong.append(f"the model is not what it is with room, or {leftovers(model)} is left")


def run(budget: Budget, report: Report) -> Counts:
    """Full disks of either kind, and then every kind of missing permission."""
    failed: Counter[str] = Counter()
    mounts = can_mount()
    with tempfile.TemporaryDirectory() as folder:
        cases = [case for case in make_cases(Path(folder)) if case.place is USUAL][:CASES]
        unbroken = [_unbroken(case, Path(folder, str(n), "m")) for n, case in enumerate(cases)]

        def work(number: int) -> Chain:
            which, chance = number % CASES, budget.random("disks", number)
            chain = Chain(FULL if mounts and number % 2 == 0 else FAILING)
            if not budget.over:
                with tempfile.TemporaryDirectory() as place:
                    MAKERS[chain.kind](chain, cases[which], Path(place), *unbroken[which], chance)
            chain.wrong = [f"{cases[which].name}, {chain.kind}: {wrong}" for wrong in chain.wrong]
            return chain

        done = 0
        for chain in spread(work, CHAINS, budget.workers):
            done += bool(chain.failed)
            failed[chain.kind] += chain.failed
            for wrong in chain.wrong:
                report.fail(wrong)
            report.tell(done, CHAINS, f"models, {failed.total()} full disks")
    by = "a small tmpfs, and failing calls" if mounts else "failing calls alone: nothing can be mounted here"
    return {
        "models made on full disks": done,
        "runs that found no room": failed.total(),
        **{f"runs {kind}": failed[kind] for kind in (FULL, FAILING)},
        "full by": by,
        **permissions(report),
    }


def _unbroken(case: Case, model: Path) -> tuple[dict[str, bytes], int]:
    """The model as it is where there is room, and how many operations need some."""
    making = FORK.Value("i", 0)
    model.parent.mkdir()

    def count(number: int) -> None:
        making.value = number + 1

    ended = start(
        case.command(model), model.parent.with_suffix(".said"), lambda: at_operations(count, model.parent, MAKING, True)
    ).ended()
    if ended.code != 0:
        raise RuntimeError(f"{case.name} ended with {ended.code}: {ended.last_line}")
    return bits(model), making.value


def _with_failing_writes(
    chain: Chain, case: Case, folder: Path, expected: dict[str, bytes], operations: int, chance: Random
) -> None:
    """From some operation on, every one that needs room fails; another one in each command."""
    model, known = folder / "disk" / "m", 0
    model.parent.mkdir()
    for last in (*(False,) * LONGEST, True):
        number, error = chance.randrange(operations), chance.choice(ERRORS)
        fill = partial(fill_before, number, model.parent, error)
        ended = start(case.command(model), folder / "said", (lambda: None) if last else fill).ended()
        if last or ended.code == 0:
            chain.end(ended, model, expected)
            break
        known = chain.note(ended, model, known)


def _on_tmpfs(
    chain: Chain, case: Case, folder: Path, expected: dict[str, bytes], operations: int, chance: Random
) -> None:
    """A disk that grows a little after each command."""
    model, known = folder / "disk" / "m", 0
    model.parent.mkdir()
    mount_alone()
    pages, nodes = chance.randrange(1, PAGES), chance.randrange(2, NODES)
    mount_tmpfs(model.parent, f"size={pages * PAGE},nr_inodes={nodes}")
    try:
        for last in (*(False,) * LONGEST, True):
            # Either may be what is wanting.
            limits = f"size={pages * PAGE},nr_inodes={nodes}" if nodes < 60 else f"size={pages * PAGE},nr_inodes=10000"
            remount_tmpfs(model.parent, ENOUGH if last else limits)
            ended = start(case.command(model), folder / "said").ended()
            if last or ended.code == 0:
                chain.end(ended, model, expected)
                break
            known = chain.note(ended, model, known)
            pages, nodes = pages + chance.randrange(PAGES), nodes + chance.randrange(NODES)
    finally:
        unmount(model.parent)


MAKERS: dict[str, Callable[[Chain, Case, Path, dict[str, bytes], int, Random], None]] = {
    FULL: _on_tmpfs,
    FAILING: _with_failing_writes,
}
