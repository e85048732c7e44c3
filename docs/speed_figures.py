"""The figures of docs/speed.md, taken from results/; docs/figures.py puts them there."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from result_commands import as_typed

from research.common.tables import Table

ROOT = Path(__file__).resolve().parents[1]

LOOP = "plain loop, memgrow's batches"

Results = dict[str, Any]


def speed(_: Results) -> str:
    """Milliseconds of one layer, forward and backward, variant by variant and machine by machine."""
    files = ("recurrence-h200-tf32", "recurrence-h200", "recurrence-cpu")
    lines = []
    for file in files:
        found = json.loads((ROOT / f"results/{file}.json").read_text(encoding="utf-8"))
        variants = list(next(iter(found["milliseconds"].values())))
        precision = "TF32" if "tf32" in found["command"] else "float32"
        lines += [
            f"{found['machine']}, {precision}, torch {found['torch']} (`{as_typed(found)}`), milliseconds:",
            "",
            _table(
                ("size", *variants),
                [[size, *(f"{t[variant]:.2f}" for variant in variants)] for size, t in found["milliseconds"].items()],
            ),
            "",
        ]
    return "\n".join(lines[:-1])


def eager_layer(_: Results) -> str:
    """What a layer takes that is called by itself, beside torch's own and the same work in a graph."""
    found = json.loads((ROOT / "results/eager-layer-h200.json").read_text(encoding="utf-8"))
    if not found["check"]["same bits"]:
        return "Replayed calls gave other bits: these figures cannot stand."
    ratios = found["times of torch's"]
    variants = list(ratios["forward"])
    rows = [
        [name, *(f"{own[v]['best']:.2f} ({ratios[name][v]:.2f})" for v in variants)]
        for name, own in found["milliseconds"].items()
    ]
    return (
        f"{_table(('milliseconds (times of torch)', *variants), rows)}\n\n"
        f"{found['machine']}, TF32, torch {found['torch']} (`{as_typed(found)}`): the best of seven rounds, in which "
        "the variants take turns. Replayed calls gave the bits of those that were not recorded."
    )


def curves(_: Results) -> str:
    """How the time of one layer grows with each of its sizes, and what a step costs."""
    found = json.loads((ROOT / "results/recurrence-h200-tf32.json").read_text(encoding="utf-8"))
    points = {
        name: {int(size): times["cuda, graph"] for size, times in curve.items()}
        for name, curve in found["curves"].items()
    }
    rows = [[name, ", ".join(f"{n:,}: {t:.2f}" for n, t in curve.items())] for name, curve in points.items()]
    (few, short), *_, (many, long) = points["steps"].items()
    each = (long - short) / (many - few)
    outside = short - few * each
    cost = f"A step forward and backward takes {1000 * each:.0f} microseconds, all outside steps {outside:.2f} ms."
    return f"{_table(('size', 'milliseconds'), rows)}\n\n{cost}"


def training(_: Results) -> str:
    """Pairs a second of the whole pair classifier against what people write by hand."""
    found = json.loads((ROOT / "results/training-cpu.json").read_text(encoding="utf-8"))
    variants = found["pairs_per_second"]["training"]
    parts = ("training", "prediction")
    rates, ratios = found["pairs_per_second"], found["ratio_to_by_hand"]
    rows = [
        [variant, *(f"{rates[p][variant]:.0f} ({ratios[p][variant]:.2f} times by hand)" for p in parts)]
        for variant in variants
    ]
    shares = {variant: f"{share:.0%}" for variant, share in found["share_of_large_product"].items()}
    lengths, rate = " and ".join(map(str, found["mean_lengths"])), found["large_product_gflops"]
    return (
        f"{_table(('pairs a second', *parts), rows)}\n\n"
        f"{found['machine']}; mean lengths {lengths} words. memgrow reaches {shares['memgrow']} of the rate "
        f"of a large matrix product ({rate:.0f} GFLOP/s), the plain loop {shares[LOOP]} on the same batches and "
        f"{shares['by hand']} by hand."
    )


def adaptation(_: Results) -> str:
    """Seconds of a whole two-domain adaptation, of one learner and of several side by side."""
    path = ROOT / "results/adaptation-h200.json"
    if not path.exists():
        return "Not measured yet."
    found = json.loads(path.read_text(encoding="utf-8"))
    rows = []
    for mode, one in found["modes"].items():
        learners = one["learners"]
        training = sum(seconds for part, seconds in one["parts"].items() if part.endswith(": training"))
        epochs = " and ".join(f"{fmean(learner['epochs'][stage] for learner in learners):.3g}" for stage in range(2))
        tests = ", ".join(
            f"{100 * fmean(learner['test'][name] for learner in learners):.1f}" for name in learners[0]["test"]
        )
        rows.append([f"{len(learners)}, {mode}", f"{one['seconds']:.1f}", f"{training:.1f}", epochs, tests])
    machine = f"{found['machine']}, {found['precision']}, torch {found['torch']} (`{as_typed(found)}`)"
    header = ("learners", "seconds", "of these training", "epochs", "test accuracy: fiction, government, %")
    return f"{_table(header, rows)}\n\n{machine}. Epochs and accuracies are means over learners."


def adapting_encoder(_: Results) -> str:
    """Seconds of learning the four domains of sentiment on a CPU, and what the bar had said of it."""
    found = json.loads((ROOT / "results/encoders/speed/cpu-adapt.json").read_text(encoding="utf-8"))
    rows = [
        [
            method,
            f"{one['seconds']:.0f}",
            ", ".join(f"{seconds:.0f}" for seconds in one["stages"]),
            f"{min(one['expected_at_a_tenth']):.2f} to {max(one['expected_at_a_tenth']):.2f}",
            f"{100 * one['average']:.1f}",
            f"{one['peak_mib']:,.0f}",
        ]
        for method, one in found["adapt"].items()
    ]
    told = "time that the bar told after a tenth, of what it took"
    header = ("method", "seconds", "of each domain", told, "average at the end, %", "peak memory, MiB")
    machine = f"MiniLM, {found['machine']}, {found['precision']}, torch {found['torch'].partition('+')[0]}"
    return f"{_table(header, rows)}\n\n{machine}, one run; from `{as_typed(found)}`."


def replies(_: Results) -> str:
    """Training of the model that replies, against the same model on the plain loop, and the parts of a step."""
    found = json.loads((ROOT / "results/replies-h200.json").read_text(encoding="utf-8"))
    epoch, times, rates, parts = (
        found[name] for name in ("epoch", "times_plain_loop", "examples_per_second", "milliseconds_of_parts")
    )
    pace = f"seconds of an epoch of {epoch['pairs']:,} pairs"
    lines = [
        _table(
            ("recurrence", "pairs a second", "times the plain loop", pace),
            [
                [variant, f"{rates[variant]:,.0f}", f"{times[variant]:.1f}", f"{epoch['seconds'][variant]:.1f}"]
                for variant in times
            ],
        ),
        "",
        _table(
            ("milliseconds of a step's parts", *parts),
            [[part, *(f"{parts[variant][part]:.2f}" for variant in parts)] for part in next(iter(parts.values()))],
        ),
    ]
    machine = f"{found['machine']}, {found['precision']}, torch {found['torch']} (`{as_typed(found)}`)"
    lengths = " and ".join(map(str, found["mean_lengths"]))
    sizes = f"{found['words']:,} words, batches of {found['batch']}, {found['steps']} of them timed"
    return "\n".join([*lines, "", f"{machine}; {sizes}; messages and replies of {lengths} words on the mean."])


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return Table(None, header, rows).to_markdown()


SPEED: dict[str, Callable[[Results], str]] = {
    "speed": speed,
    "eager-layer": eager_layer,
    "curves": curves,
    "training": training,
    "adaptation": adaptation,
    "encoders-speed-adapt": adapting_encoder,
    "replies": replies,
}
