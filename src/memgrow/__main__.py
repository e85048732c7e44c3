"""`memgrow` and `python -m memgrow`: the command line."""

import sys

from memgrow.errors import interruption

INTERRUPTED = 130  # exit code


def main() -> None:
    """Run a command; Ctrl-C is heard from here on, before anything that takes its time has been imported."""
    try:
        from memgrow.cli import main as run
    except BaseException as error:
        if interruption(error) is None:
            raise
        sys.stderr.write("memgrow: stopped; what was saved before is unchanged\n")
        sys.exit(INTERRUPTED)
    run()


if __name__ == "__main__":  # a process that this one starts reads the file, too
    main()
