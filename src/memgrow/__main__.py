"""`memgrow` and `python -m memgrow`: the command line."""

import os
import sys

from memgrow.errors import interruption

INTERRUPTED = 130  # exit code
SPINS = "1000"  # turns of the loop in which they wait, some microseconds; libgomp's own are 300,000
SAID = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")  # variables by which somebody says how threads wait


def main() -> None:
    """Run a command; Ctrl-C is heard from here on, before anything that takes its time has been imported."""
    let_waiting_threads_sleep()
    try:
        from memgrow.cli import main as run
    except BaseException as error:
        if interruption(error) is None:
            raise
        sys.stderr.write("memgrow: stopped; what was saved before is unchanged\n")
        sys.exit(INTERRUPTED)
    run()


def let_waiting_threads_sleep() -> None:
    """Let threads that wait for each other give up their cores soon, unless somebody has said how they are to wait.

    Where another process wants a core, they would keep it from the very thread that they wait for: an encoder is then
    three times as slow. OpenMP reads this as torch is imported, so it has to be said before.
    """
    if not any(name in os.environ for name in SAID):
        os.environ["GOMP_SPINCOUNT"] = SPINS


if __name__ == "__main__":  # a process that this one starts reads the file, too
    main()
