"""`memgrow demo`: methods side by side on made-up domains, without a file."""

import json
from pathlib import Path
from typing import Annotated

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import console, save_picture, say, split_names
from memgrow.experiments.demo import METHODS, run_demo
from memgrow.report.comparison import demo_table
from memgrow.report.learner import MatrixTable
from memgrow.report.plots import draw_matrices
from memgrow.report.progress_bars import TrainingBar
from memgrow.storage import atomic_write


def demo(
    methods: Annotated[str, typer.Option(metavar="A,B,C", help="Which methods to compare.")] = ",".join(METHODS),
    seeds: Annotated[int, typer.Option(metavar="N", help="How many runs of each, with seeds in turn.", min=1)] = 1,
    seed: opt.Seed = 0,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="For the picture and the figures.")] = Path(
        "memgrow-demo"
    ),
    device: opt.Device = "auto",
) -> None:
    """Four made-up domains in turn: fine-tuning beside a memory that grows.

    Example: memgrow demo --seeds 3
    """
    out.mkdir(parents=True, exist_ok=True)  # what cannot be written to is told before anything is learnt
    say("Four domains arrive one after another; cues of one conflict with those of the next.")
    first = seed or 0
    with TrainingBar(console) as bar:
        made = run_demo(split_names(methods) or METHODS, range(first, first + seeds), device, bar)
    matrices = {method: made.comparison.mean_matrix(method) for method in made.comparison.results}
    for method, matrix in matrices.items():
        console.print(MatrixTable(matrix, f"{method}: test accuracy, %"))
    console.print(demo_table(made.comparison, seeds))
    figures = atomic_write(out / "demo.json", json.dumps(made.to_json(), indent=1) + "\n")
    say(f"The figures are in {figures}.")
    runs = "one run" if seeds == 1 else f"mean of {seeds} runs"
    title = f"Four synthetic domains in turn ({runs})"
    forgot = {name: values["forgetting"].mean or 0.0 for name, values in made.comparison.summary.items()}
    save_picture(out / "demo.png", lambda file: draw_matrices(matrices, file, title, forgot))
