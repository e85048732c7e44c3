"""Theorem 1 in numbers: what new slots and new hidden units do to states.

python -m research.theorem
python -m research.theorem --model model/ --data books_test.jsonl
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from memgrow import Learner, Stream
from memgrow.data import load_for_evaluation
from memgrow.errors import MemgrowError, SettingsError
from research.common.files import atomic_write, pack_json, say
from research.common.tables import to_page
from research.theorem.plot import draw_theorem
from research.theorem.report import DRAWS, EXAMPLES, SAMPLES, theorem_report
from research.theorem.tables import theorem_tables


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        "python -m research.theorem", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--model", type=Path, help="a trained model to measure as well")
    made.add_argument("--data", type=Path, action="append", metavar="FILE", help="with --model: texts to measure on")
    made.add_argument("--samples", type=int, default=SAMPLES, help="draws for each choice of sizes")
    made.add_argument("--draws", type=int, default=DRAWS, help="with --model: draws of what is new")
    made.add_argument("--slots", type=int, help="with --model: how many are added; else as many as a domain adds")
    made.add_argument("--limit", type=int, default=EXAMPLES, help="with --model: at most so many examples of a domain")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--out", type=Path, default=Path("memgrow-theorem"), help="for the picture and the figures")
    made.add_argument("--device", default="auto")
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    given = parser().parse_args(arguments)
    try:
        if (given.model is None) != (not given.data):
            raise SettingsError("a model is measured on texts: give both --model and --data, or neither")
        learners = {} if given.model is None else {given.model.name: Learner.load(given.model, given.device)}
        stream = load_for_evaluation(given.data).stream if given.data else Stream(())
        report = theorem_report(
            learners,
            stream,
            samples=given.samples,
            slots=given.slots,
            draws=given.draws,
            examples=given.limit,
            seed=given.seed,
        )
        say(to_page(theorem_tables(report)) + "\n")
        say(f"The figures are in {atomic_write(given.out / 'theorem.json', pack_json(report.to_json()))}.")
        draw_theorem(report, given.out / "theorem.png")
    except MemgrowError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
