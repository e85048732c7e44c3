"""Fuzzing that is guided by coverage: `python -m torture.guided FOLDER SECONDS SEED READER ...`.

atheris ends a process itself, so that each reader has one of its own; what it says is in a file `log`.
"""

import os
import sys
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")

import atheris

INSTRUMENTED = (
    *(
        "memgrow.data",
        "memgrow.cli.recipe",
        "memgrow.errors",
        "memgrow.tensor_files",
        "memgrow.errors",
    ),
    *("memgrow.models.hub", "memgrow.storage", "memgrow.data.paths"),
)
with atheris.instrument_imports(include=list(INSTRUMENTED)):
    pass

from torture.targets import TARGETS, attempt  # noqa: E402

LONGEST = 4096  # bytes of an input
HANG_S = 60  # of one input; other processes may hold it up
MEMORY_MB = 4096


def main() -> None:
    """Fuzz each of the readers that are named in a child: what is instrumented is imported once."""
    folder, seconds, seed, *names = sys.argv[1:]
    for number, name in enumerate(names):
        (own := Path(folder, str(number))).mkdir()
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        log = os.open(own / "log", os.O_WRONLY | os.O_CREAT)
        for stream in (1, 2):
            os.dup2(log, stream)
        fuzz(name, own, seconds, seed)


def fuzz(name: str, folder: Path, seconds: str, seed: str) -> None:
    """Fuzz one reader and end the process: with code 77 where an input has raised anything."""
    target = TARGETS[name]
    for one in (place := folder / "place", corpus := folder / "corpus"):
        one.mkdir()
    for number, content in enumerate(target.seeds):
        (corpus / str(number)).write_bytes(content)
    (words := folder / "words").write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
    options = {
        "max_total_time": seconds,
        "seed": seed,
        "max_len": LONGEST,
        "timeout": HANG_S,
        "rss_limit_mb": MEMORY_MB,
        "artifact_prefix": f"{folder}/",
        "print_final_stats": 1,
        **({"dict": words} if target.words else {}),
    }
    atheris.Setup(
        [sys.argv[0], *(f"-{option}={value}" for option, value in options.items()), str(corpus)],
        lambda content: attempt(target, content, place),
    )
    atheris.Fuzz()


def _escaped(word: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word.encode())


if __name__ == "__main__":
    main()
