"""Render the figures of all pages from the JSON files under results/, and the reference from the commands.

    python docs/figures.py            print what would change
    python docs/figures.py --write    fill every block <!-- figures: NAME --> ... <!-- end of figures -->

A block is a function of `BLOCKS`. It names the command that its figures come from; docs/check.py checks both.
The pictures are drawn too.
"""

import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, partial
from math import exp
from pathlib import Path
from statistics import fmean, median, quantiles, stdev
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
MARK = re.compile(r"<!-- figures: ([\w-]+) -->\n(.*?)<!-- end of figures -->", flags=re.DOTALL)
DEFAULT_RUNS, OLD_DEFAULT_RUNS = "results/encoders/adapt-memory", "results/encoders/adapt-default"
BAG, BAG_ALL = "bag of words", "bag, all data"

Json = dict[str, Any]


def pages() -> list[Path]:
    """README, docs/, and the pages of results/ and research/."""
    names = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
    folders = ("docs/*.md", "results/*.md", "research/**/*.md")
    return [*(ROOT / name for name in names), *(page for one in folders for page in sorted(ROOT.glob(one)))]


@cache
def read(name: str) -> Any:
    return json.loads((ROOT / f"results/{name}.json").read_text(encoding="utf-8"))


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *sentences: str) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (header, *rows)]
    return "\n".join([lines[0], f"|{'---|' * len(header)}", *lines[1:], *(["", *sentences] if sentences else [])])


def command(found: Json | str) -> str:
    """The command behind some figures; scripts that were removed are of version 0.2."""
    text = found if isinstance(found, str) else found["command"]
    text = text if text.startswith(("python ", "memgrow ", "make ")) else f"python {text}"
    script = re.search(r"benchmarks/\w+\.py", text)
    gone = script and not (ROOT / script[0]).is_file()
    return f"`{text}`" + (" of version 0.2" if gone else "")


def spread(values: Sequence[float] | Json | None, scale: float = 100) -> str:
    """Mean and standard deviation of values, or of a record that has both."""
    if values is None or (isinstance(values, dict) and values["mean"] is None):
        return "-"
    if not isinstance(values, dict) and len(values) == 1:
        return f"{scale * values[0]:.1f}"
    mean, deviation = (values["mean"], values["spread"]) if isinstance(values, dict) else (fmean(values), stdev(values))
    return f"{scale * mean:.1f} ± {scale * deviation:.1f}".replace("-0.0", "0.0")


def signed(value: float, scale: float = 100) -> str:
    return f"{scale * value:+.1f}".replace("-", "−")


def interval(test: Json | None, scale: float = 100) -> str:
    """A difference with its 95% interval, in points."""
    if not test or test.get("low") is None:
        return "-"
    return "{} [{}, {}]".format(*(signed(test[name], scale) for name in ("difference", "low", "high")))


def histories(folder: str = DEFAULT_RUNS) -> list[Json]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted((ROOT / folder).glob("seed-*.json"))]


def ends(runs: Sequence[Json]) -> list[str]:
    """Average accuracy and forgetting of some histories."""
    return [spread([run[name] for run in runs]) for name in ("average", "forgetting")]


# README and docs/

CLAIMED = {  # streams of results/memory/readings.json: what they are, and their title in the picture
    "intents": ("150 intents (CLINC150), 30 new labels per domain", "Intents: 30 new labels per domain"),
    "topics": ("news, products, encyclopedia: new labels per domain", ""),
    "sentiment-1": ("sentiment of films, products, editorials, tweets", "Sentiment: the same two labels"),
    "sentiment-2": ("the same in another order: tweets, editorials, products, films", ""),
    "five-reviews": ("reviews of five kinds of products", ""),
    "genres": ("MultiNLI, five genres, pairs of sentences", ""),
}


NEW_LABELS = ("intents", "topics")


def claimed() -> dict[str, dict[str, float]]:
    """Average accuracy at the end of plain fine-tuning, of the default method and of retraining on everything."""
    found, default = read("memory/readings")["streams"], read("claims")["streams"]
    return {
        stream: {
            "fine-tuning": found[stream]["finetune"]["last"],
            "memgrow": default[stream]["average"],
            "retrained on all": found[stream.replace("-2", "-1")]["multi-task"]["last"],  # which has no order
        }
        for stream in CLAIMED
    }


def readme() -> str:
    rows = [[CLAIMED[stream][0], *(f"{value:.1f}" for value in one.values())] for stream, one in claimed().items()]
    header = ("domains, learned one after another", *next(iter(claimed().values())))
    spread_of = [one["deviation"] for one in read("claims")["streams"].values()]
    about = "Average test accuracy over all domains at the end, %, with all-MiniLM-L6-v2; means of 3 seeds, whose "
    about += (
        f"standard deviation for memgrow is {min(spread_of):.1f} to {max(spread_of):.1f}. The column memgrow is the "
    )
    about += "default method. [More methods and intervals](research/memory/README.md)."
    gains = {stream: round(one["memgrow"], 1) - round(one["fine-tuning"], 1) for stream, one in claimed().items()}
    new, shared = ([gain for stream, gain in gains.items() if (stream in NEW_LABELS) == new] for new in (True, False))
    gained = f"memgrow scores {min(new):.0f} to {max(new):.0f} points higher than fine-tuning where each domain brings "
    gained += (
        f"new labels, and {min(shared):.1f} to {max(shared):.1f} points higher where all domains have the same labels."
    )
    sources = " and ".join(command(read(name)) for name in ("memory/readings", "claims"))
    return table(header, rows, f"{about} From {sources}.\n\n{gained}")


def tutorial(model: str) -> str:
    """The accuracy matrix of a model of the tutorial; of the default, also the accuracy with the domain given."""
    rows = []
    for row in read(f"tutorial/{model}")["history"]["matrix"]:
        scores = [row["scores"].get(domain) for domain in ("tweets", "shop")]
        rows.append([row["learned"][0], *("-" if one is None else f"{100 * one:.1f}" for one in scores)])
    made = f"From `memgrow inspect {model}/ --json`"
    if model == "model":
        given = read("tutorial/evaluate")
        told = [f"{100 * given[domain]['accuracy_for_domain']:.1f}" for domain in ("tweets", "shop")]
        rows.append(["shop, with the domain given", *told])
        made += " and `memgrow evaluate model/ sentiment/tweets.jsonl shop.jsonl --json`"
    return table(("after learning", "tweets, %", "shop, %"), rows, f"Test accuracy, one seed. {made}.")


STYLE = """
text { font: 18px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.card { fill: #ffffff; stroke: #d1d9e0 } .title { font-weight: 600 }
.bar0 { fill: #d4803a } .bar1 { fill: #2f6fdf } .bar2 { fill: #9aa4af }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .card { fill: #0d1117; stroke: #3d444d }
  .bar0 { fill: #e0924e } .bar1 { fill: #5b94f5 } .bar2 { fill: #7d8792 }
}
"""


def bars(title: str, groups: dict[str, dict[str, tuple[int, float]]]) -> str:
    """Groups of bars of accuracy (colour, value) as SVG, on a card that suits light and dark pages."""
    drawn, y = [f'<text x="20" y="36">{title}</text>'], 80
    for group, found in groups.items():
        drawn.append(f'<text class="title" x="20" y="{y}">{group}</text>')
        for name, (colour, value) in found.items():
            y, width = y + 32, round(2.7 * value)
            drawn += [
                f'<text x="20" y="{y}">{name}</text>',
                f'<rect class="bar{colour}" x="170" y="{y - 17}" width="{width}" height="22" rx="3"/>',
                f'<text class="title" x="{width + 178}" y="{y}">{value:.1f}%</text>',
            ]
        y += 50
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 520 {y - 30}" width="640" role="img">'
    card = f'<rect class="card" x="0.5" y="0.5" width="519" height="{y - 31}" rx="10"/>'
    return "\n".join([opening, f"<title>{title}</title>", f"<style>{STYLE}</style>", card, *drawn, "</svg>", ""])


def picture() -> str:
    """The picture of the README."""
    shown = {stream: claimed()[stream] for stream, (_, short) in CLAIMED.items() if short}
    groups = {
        CLAIMED[stream][1]: {name: (colour, value) for colour, (name, value) in enumerate(found.items())}
        for stream, found in shown.items()
    }
    return bars("Average accuracy over all domains at the end", groups)


def peers_picture() -> str:
    """memgrow in blue, its peers in orange, and in grey those that keep rows."""
    found = read("peers")
    groups = {}
    for stream, one in found["streams"].items():
        groups[stream.capitalize()] = {
            PEERS[name]: (
                2 if name in found["keeps rows"] else int(name.startswith("memgrow")),
                fmean(run["average"] for run in runs),
            )
            for name, runs in sorted(one["systems"].items(), key=lambda item: -item[1][0]["average"])
        }
    return bars("Average accuracy at the end; grey: keeps rows", groups)


PEERS = {  # names in the picture
    "memgrow": "memgrow",
    "memgrow, ridge": "memgrow ridge",
    "memgrow, no memory": "no memory",
    "adaptive-classifier": "adaptive-class.",
    "SetFit": "SetFit",
    "Trainer": "Trainer",
    "scikit-learn, partial_fit": "sklearn partial",
    "scikit-learn, refit": "sklearn refit",
    "Trainer, all rows": "Trainer, all rows",
}
PICTURES = {ROOT / "docs/forgetting.svg": picture, ROOT / "docs/peers.svg": peers_picture}


def peers() -> str:
    """Accuracy beside what people use instead."""
    return _peers()[0]


def peers_cost() -> str:
    """What they cost, and how they were set."""
    return "\n\n".join(_peers()[1:])


def _peers() -> tuple[str, str, str]:
    found = read("peers")
    streams = found["streams"]
    accuracy, cost = [], []
    measured = [name for name in found["settings"] if any(name in one["systems"] for one in streams.values())]
    for name in measured:
        runs = [one["systems"].get(name, []) for one in streams.values()]
        kept = "yes" if name in found["keeps rows"] else "no"
        ends = [f"{spread([one['average'] for one in some], 1)}{lost(some)}" if some else "-" for some in runs]
        accuracy.append([name, kept, *ends])
        seconds = [f"{fmean(one['seconds']['learning'] for one in some):.0f}" if some else "-" for some in runs]
        disk = [f"{fmean(one['disk MB'] for one in some):,.0f}" if some else "-" for some in runs]
        peak = max(one["peak MB"] for some in runs for one in some)
        speed = f"{fmean(one['texts a second'] for one in runs[0]):,.0f}" if runs[0] else "-"
        cost.append([name, *seconds, f"{peak:,}", " / ".join(disk), speed])
    rows = [[name, found["settings"][name]] for name in measured]
    sizes = [f"{stream.capitalize()}: {one['about']}; {size_of(one['rows'])}" for stream, one in streams.items()]
    about = f"Average test accuracy at the end (points forgotten); one seed. {'. '.join(sizes)}. From {command(found)}."
    first = table(("system", "keeps rows", *(f"{one}, %" for one in streams)), accuracy, about)
    names = ("system", *(f"seconds: {one}" for one in streams), "peak MB", "disk MB", "texts a second, sentiment")
    about = "Processor seconds of learning all domains and texts predicted in a processor second, on one thread; "
    about += "adaptive-classifier and SetFit predict in float32, memgrow and Trainer in bfloat16. "
    second = table(names, cost, f"{about}Megabytes after {', '.join(streams)}.")
    third = table(("system", "settings"), rows, f"From {command(found)}.")
    return first, second, third


def decoder() -> str:
    """Replies of a causal language model that learns films, then Ubuntu."""
    found = read("decoder/summary")

    def shown(pair: Sequence[float], digits: int = 1) -> str:
        return f"{pair[0]:.{digits}f}" + (f" ± {pair[1]:.{digits}f}" if pair[1] else "")

    rows = []
    for name, one in found["rows"].items():
        first, last = one["perplexity_word"][0], one["perplexity_word"][-1]
        rose = one.get("films_perplexity_rises_percent")
        both = [
            " / ".join(f"{one[measure][domain][0]:.{digits}f}" for domain in ("films", "ubuntu"))
            for measure, digits in (("bleu2", 1), ("w2v_sim", 2))
        ]
        text = " → ".join(f"{side[0]:.1f}" for side in one.get("text_before_and_after", ())) or "-"
        perplexities = [shown(first["films"]) if rose else "-", shown(last["films"]), shown(last["ubuntu"])]
        rows.append([name, *perplexities, f"{rose[0]:+.0f}" if rose else "-", *both, text, str(one["seeds"])])
    header = ("method", "films after films", "films at the end", "Ubuntu at the end", "films rose by, %")
    header += ("BLEU-2", "W2V-Sim", "plain text", "seeds")
    about = "Perplexity of a word of the reply, ± standard deviation over seeds; BLEU-2 and W2V-Sim of greedy replies, "
    about += "films / Ubuntu; perplexity of a token of a plain text before and after. `base`: before training; "
    about += f"`rehearsal` and `multi-task` keep rows. From {command(found)}."
    return table(header, rows, about)


def lost(runs: Sequence[Json]) -> str:
    """The points forgotten, in brackets."""
    values = [run["forgetting"] for run in runs]
    return "" if None in values else f" ({fmean(values):.1f})".replace("-", "−")


def size_of(rows: dict[str, list[int]]) -> str:
    train, test = (max(one[place] for one in rows.values()) for place in (0, 1))
    return f"{train} training and {test} test rows each"


def commands() -> str:
    """The reference of the command line: every command with its options; options of several commands come last."""
    from typer.main import get_command

    from memgrow.cli import app

    shown: list[tuple[str, str, Any]] = []
    for name, one in get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(one, "commands", {})
        if not one.hidden:
            shown += [(one.rich_help_panel, name, one)] if not inner else []
            shown += [(one.rich_help_panel, f"{name} {word}", part) for word, part in inner.items()]
    options = {name: [one for one in found.params if one.param_type_name == "option"] for _, name, found in shown}
    uses = Counter((one.opts[0], one.help) for some in options.values() for one in some)

    def shared_by_several(one: Any) -> bool:
        return uses[one.opts[0], one.help] > (1 if one.rich_help_panel else 2)

    parts: list[str] = []
    for panel, name, found in shown:
        if f"## {panel}" not in parts:
            parts.append(f"## {panel}")
        texts = [" ".join(text.split()) for text in found.help.split("\n\n")]
        own = [one for one in options[name] if not shared_by_several(one)]
        shared = [f"`{one.opts[0]}`" for one in options[name] if one not in own and one.opts[0] != "--help"]
        words = [
            (one.metavar if one.required else f"[{one.metavar}]") + "..." * (one.nargs == -1)
            for one in found.params
            if one.param_type_name == "argument"
        ]
        parts += [f"### {name}", *(text for text in texts if not text.startswith("Example: "))]
        parts.append("`" + " ".join([f"memgrow {name}", *words, "[OPTIONS]"]) + "`")
        parts += [text.replace("Example: ", "Example: `") + "`" for text in texts if text.startswith("Example: ")]
        parts += [option_table(own)] if own else []
        parts += [f"Also: {', '.join(shared)}."] if shared else []
    common = {one.opts[0]: one for some in options.values() for one in some if shared_by_several(one)}
    return "\n\n".join([*parts, "## Options of several commands", option_table(list(common.values()))])


def option_table(options: Sequence[Any]) -> str:
    rows = []
    for one in options:
        names = ", ".join(f"`{name}`" for name in one.opts)
        value = "" if one.is_flag else f" {one.metavar or ''}"
        usual = one.show_default if isinstance(one.show_default, str) else one.default
        default = f" Default: `{usual}`." if usual not in (None, False, ()) and not one.is_flag else ""
        rows.append([names + value.rstrip(), (one.help or "").replace("|", "\\|") + default])
    return table(("option", "meaning"), rows)


def methods() -> str:
    from memgrow.cli.methods import list_methods

    known = list_methods()
    letters = {one["name"]: one["letter"] for one in known["letters"]}
    rows = [
        [f"`{one['name']}`", one["sees"], one["forgets"], one["encoder"], one["about"]]
        for one in known["methods"]
        if one["name"].split("+")[-1] not in letters
    ]
    added = [[f"`{one['name']}`", one["letter"], one["encoder"], one["about"]] for one in known["letters"]]
    bases = table(("method", "sees", "forgets", "encoder", "what it does"), rows)
    return f"{bases}\n\n{table(('addition', 'letter', 'encoder', 'what it does'), added)}\n\nFrom `memgrow methods`."


def sentiment_methods() -> str:
    study = read("encoders/sentiment")["encoders"]["minilm"]["orders"]["1"]
    compared = read("sentiment/compare")
    names = {"F+E": "`finetune+ema` (F+E)", "F+A": "`finetune+average` (F+A)", "F": "`finetune` (F)"}
    names |= {"frozen+M": "`frozen+slots` (frozen+M)", "LoRA": "`lora`"}
    names |= {"ridge": "`ridge` with `projection=0` and `ridge=1000`"}
    names |= {"F+V": "`finetune+vocab` (F+V)", "multi-task": "`multi-task`: retrained on everything"}
    rows = [["MiniLM", "`finetune+ema+memory`: the default, 3 seeds", *ends(histories())]]
    rows += [["MiniLM", names["F+E"], *ends(histories(OLD_DEFAULT_RUNS))]]
    for name in ("F+A", "F", "frozen+M", "LoRA", "ridge", "multi-task"):
        test = study["rows"][name]["test"]
        rows.append(["MiniLM", names[name], spread(test["average"]), spread(test.get("forgetting"))])
    for name in ("F+V", "multi-task"):
        one = compared["methods"][name]
        rows.append(["BiLSTM", names[name], spread(one["average"]), spread(one.get("forgetting"))])
    for name, about in ((BAG, "domain after domain"), (BAG_ALL, "on everything")):
        one = compared["methods"][name]
        rows.append(["bag of words", about, spread(one["average"]), spread(one.get("forgetting"))])
    return table(
        ("model", "method", "average accuracy at the end, %", "forgetting, points"),
        rows,
        f"Test accuracy on {', '.join(study['domains'])}, learned in this order; 5 seeds.",
        "From `memgrow adapt` ([histories](encoders/adapt-memory)), "
        "`python -m research.encoders run --stream sentiment --data data/sentiment --orders 1 --seeds 5` and",
        f"{compare_command(compared)}.",
    )


def compare_command(found: Json) -> str:
    names = ",".join(name for name in found["methods"] if name not in ("F", "multi-task", BAG, BAG_ALL))
    words = f"--methods {names} --seeds {len(found['seeds'])} --out results/sentiment"
    return f"`memgrow compare sentiment {words}` of version 0.2"


def demo_command() -> str:
    found = read("demo/demo")
    return f"`memgrow demo --methods {','.join(found['runs'])} --seeds {found['seeds']} --out results/demo`"


def demo() -> str:
    runs = read("demo/demo")["runs"]
    average = {method: [run["average"] for run in some] for method, some in runs.items()}
    rows = [
        [method, *ends(some), f"{fmean(run['stages'][-1]['parameters'] for run in some):,.0f}"]
        for method, some in runs.items()
    ]
    gains = [
        f"{better} − {worse}: {spread([a - b for a, b in zip(average[better], average[worse], strict=True)])} points"
        for better, worse in (("F+V", "F"), ("F+M+V", "F"), ("F+M+V", "F+V"))
    ]
    header = ("method", "average accuracy at the end, %", "forgetting, points", "parameters")
    return table(header, rows, f"Paired by seed: {'; '.join(gains)}.", f"From {demo_command()}.")


def rehearsal() -> str:
    found = read("rehearsal")
    rows = [
        [method, *(f"{100 * fmean(run[what] for run in runs):.1f}" for what in ("average", "forgetting"))]
        for method, runs in found["runs"].items()
    ]
    made = f"`memgrow demo --methods {','.join(found['runs'])} --json`"
    header = ("method", "average accuracy at the end, %", "forgetting, points")
    return table(header, rows, f"{found['seeds']} seed; others differ by points. From {made}.")


def ridge() -> str:
    found = read("ridge")
    rows = [
        [
            stream,
            variant,
            spread([run["average"] for run in runs], 1),
            " or ".join(f"{one:,.0f}" for one in sorted({run["penalties"][-1] for run in runs})),
            f"{fmean(run['seconds']['processor'] for run in runs):.0f}",
            f"{min(run['seconds']['wall'] for run in runs):.0f}",
        ]
        for stream, variants in found["streams"].items()
        for variant, runs in variants.items()
    ]
    header = (
        "domains",
        "head",
        "average accuracy at the end, %",
        "penalty at the end",
        "processor seconds",
        "least seconds",
    )
    runs = max(len(runs) for variants in found["streams"].values() for runs in variants.values())
    return table(
        header,
        rows,
        "MiniLM; CLINC150 in ten domains, Banking77 in seven, sentiment in four; "
        f"{found['rows of an intent']} rows of an intent; {runs} seeds where the seed has an effect.",
        f"Seconds are for all domains together, after the encoder, with {found['threads']} threads on a machine that "
        f"others used too. From {command(found)}.",
    )


def paired(runs: Sequence[Json], baseline: Sequence[Json], figure: str) -> str:
    """The mean difference of two groups of runs by seed, with its 95% interval."""
    from research.memory.__main__ import T95

    others = {run["seed"]: run[figure] for run in baseline}
    gaps = [run[figure] - others[run["seed"]] for run in runs if run["seed"] in others]
    if len(gaps) not in T95:
        return "-"
    half = T95[len(gaps)] * stdev(gaps) / len(gaps) ** 0.5
    return interval({"difference": fmean(gaps), "low": fmean(gaps) - half, "high": fmean(gaps) + half}, 1)


def family(stream: str, about: str) -> str:
    """All methods on a stream, by the seeds that all of them have."""
    found = read(f"family/{stream}")
    methods = list(dict.fromkeys(run["method"] for run in found["runs"]))
    whole = [{run["seed"] for run in found["runs"] if run["method"] == method} for method in methods]
    seeds = set.intersection(*whole)
    by_method = {
        method: [run for run in found["runs"] if run["method"] == method and run["seed"] in seeds] for method in methods
    }
    rows = [
        [
            f"`{method}`",
            spread([run["average"] for run in runs], 1),
            "-" if runs[0]["forgetting"] is None else spread([run["forgetting"] for run in runs], 1),
            "-" if method == methods[0] else paired(runs, by_method[methods[0]], "average"),
        ]
        for method, runs in sorted(by_method.items(), key=lambda one: -fmean(run["average"] for run in one[1]))
    ]
    against = f"against {methods[0]}, points [95% interval]"
    header = ("method", "average accuracy at the end, %", "forgetting, points", against)
    return table(header, rows, f"{about} {len(seeds)} seeds. From {command(found)}.")


def released(studies: dict[str, str]) -> str:
    """Fiction, then government: the released code's settings, or frozen slots, on the seeds that all rows have."""
    found = read("paper/released")
    rows: dict[tuple[str, str, str], list[Json]] = {}
    for run in found["runs"]:
        if run["study"] in studies:
            rows.setdefault((run["study"], run["method"], run["selection"]), []).append(run)
    seeds = set.intersection(*({run["seed"] for run in runs} for runs in rows.values()))
    shown = []
    for (study, method, selection), runs in rows.items():
        runs = [{**run, "lost": run["source before"] - run["source"]} for run in runs if run["seed"] in seeds]
        figures = [spread([run[name] for run in runs], 1) for name in ("source before", "source", "lost", "target")]
        letters = "+".join(
            {"vocab": "V", "slots": "M", "frozen": "frozen"}.get(part, "F") for part in method.split("+")
        )
        shown.append([studies[study], letters, selection, *figures])
    header = (
        "setting",
        "method",
        "selected on",
        "S before",
        "S",
        "S lost",
        "T",
    )
    return table(header, shown, f"Test accuracy, %; {len(seeds)} seeds. From {command(found)}.")


def paper_hours() -> str:
    hours = {}
    for name in ("runs", "runs-dialogue"):
        with gzip.open(ROOT / f"results/paper/{name}/records.jsonl.gz", "rt", encoding="utf-8") as lines:
            hours[name] = sum(json.loads(line)["stage"]["seconds"] for line in lines) / 3600
    return (
        f"The recorded trainings took {hours['runs']:.0f} hours for Tables 1 to 4 and the studies, and "
        f"{hours['runs-dialogue']:.0f} for Tables 5 and 6, on one H200. From `python -m research.paper all`."
    )


def sentiment() -> str:
    found = read("sentiment/compare")
    rows = [
        [name, spread(one["average"]), spread(one.get("forgetting")), interval(one["against"].get("F"))]
        for name, one in found["methods"].items()
    ]
    header = ("method", "average accuracy at the end, %", "forgetting, points", "against F, points [95% interval]")
    domains = ", ".join(found["domains"])
    return table(header, rows, f"{domains}; {len(found['seeds'])} seeds. From {compare_command(found)}.")


def bag_of_words() -> str:
    every = read("bag-of-words")
    rows = [
        [stream, name, spread(row["average"]), spread(row.get("forgetting")), f"{row['seconds']['mean']:.1f}"]
        for stream, one in every.items()
        for name, row in one["rows"].items()
    ]
    network = read("sentiment/compare")["methods"]["F+V"]["average"]["mean"]
    encoder = fmean(run["average"] for run in histories())
    return table(
        ("stream", "baseline", "average accuracy at the end, %", "forgetting, points", "seconds"),
        rows,
        f"On sentiment a BiLSTM ends at {100 * network:.1f}% and MiniLM at {100 * encoder:.1f}%: a bag of words is "
        "enough where single words decide the label, and not for pairs (genres of MultiNLI).",
        f"{len(every['sentiment']['seeds'])} seeds. From {command('benchmarks/which_method.py references')}; "
        "`memgrow compare` has the same rows.",
    )


def encoders_command() -> str:
    about = {
        DEFAULT_RUNS: ("the default", "one core, heavily"),
        OLD_DEFAULT_RUNS: ("`--method F+E`", "one core"),
        "results/encoders/adapt-cpu": ("`--method F+A`", "two cores"),
        "results/encoders/adapt-h200": ("`--method F+A`", "an H200"),
    }
    rows = []
    for folder, (options, machine) in about.items():
        runs = histories(folder)
        minutes = [sum(stage["seconds"] for stage in run["stages"]) / 60 for run in runs]
        rows.append([options, *ends(runs), str(len(runs)), f"{median(minutes):.1f} ({machine}, shared)"])
    header = ("options", "average accuracy at the end, %", "forgetting, points", "seeds", "median minutes")
    made = "`memgrow adapt model/ films.jsonl products.jsonl editorials.jsonl tweets.jsonl --encoder minilm --seed N`"
    return table(header, rows, f"From {made}.")


def encoders_answer() -> str:
    """frozen+M against each rival."""
    one = read("encoders/sentiment")["encoders"]["minilm"]["orders"]["all"]
    rows = []
    for question, found in one["differences"].items():
        first, _, rival = question.partition(" - ")
        if first == "frozen+M" or question == "F+M - F":
            cells = [interval(found["test"][what]) for what in ("average", "forgetting")]
            rows.append([f"{first} against {rival}", *cells, f"{one['rows'][rival]['trained']:,}"])
    return table(
        ("comparison", "average accuracy, points [95% interval]", "forgetting, points", "parameters the rival trains"),
        rows,
        "Sentiment with MiniLM, test, means of three orders, 5 seeds, paired; controls are in the study.",
        "From `python -m research.encoders figures`.",
    )


def encoders_short() -> str:
    orders = read("encoders/sentiment")["encoders"]["minilm"]["orders"]
    names = ("multi-task", "F+E", "F+A", "F", "LoRA+A", "LoRA", "frozen+M", "head only", "ridge")
    rows = [
        [
            name,
            *(spread(orders[order]["rows"][name]["test"]["average"]) for order in ("1", "2", "3")),
            spread(orders["1"]["rows"][name]["test"].get("forgetting")),
        ]
        for name in names
        if all(name in orders[order]["rows"] for order in ("1", "2", "3"))
    ]
    lists = "; ".join(f"order {order}: {', '.join(orders[order]['domains'])}" for order in ("1", "2", "3"))
    header = ("method", "order 1, %", "order 2, %", "order 3, %", "forgetting in order 1, points")
    settings = "Here F+E has `smooth` 0.999, and ridge is that of 0.2, without random features."
    sentence = f"MiniLM, average test accuracy at the end, 5 seeds; {lists}. {settings}"
    return table(header, rows, sentence, "From `python -m research.encoders figures`.")


def few_rows() -> str:
    found = read("few-rows")
    rows = []
    for size in ("50", "100", "300"):
        old, new = (found["choose"][size][name] for name in ("today", found["chosen"]))
        cells = [f"{100 * one['score']:.1f}" for one in (old, new)]
        rows.append([size, *cells, interval(new["score against today"])])
    header = ("rows", "five epochs, 50 steps of warm-up, %", "the rule, %", "gain, points [95% interval]")
    sentence = f"Four domains of sentiment, each learned by a new model with F, MiniLM, {old['seeds']} seeds, paired."
    return table(header, rows, sentence, f"From {command(found)}.")


def first_model() -> str:
    """Processor seconds of a first model, and where they go."""
    found, parts = read("first_model/seconds"), read("first_model/profile")
    rows = []
    for name, runs in found["runs"].items():
        best = min(runs, key=lambda one: one["processor"])
        rows.append([name, f"{best['processor']:.0f}", f"{best['written MB']:,}", f"{best['peak MB']:,}"])
    seconds = parts["seconds"]
    shares = [f"{part} {100 * one / seconds['all']:.0f}%" for part, one in seconds.items() if part != "all"]
    header = ("domain", "processor seconds", "MB written", "peak MB")
    about = f"`memgrow adapt` on {found['rows']} rows, one thread. Of the processor time, beside other programs: "
    return table(
        header,
        rows,
        f"{about}{', '.join(shares)}; a profile exaggerates imports.",
        f"From {command(found)} and {command(parts)}.",
    )


def protocol() -> str:
    """The candidates of each family on the streams for choosing."""
    names = {"bilstm": "BiLSTM", "encoder": "encoder", "replies": "replies"}
    rows = []
    for family, name in names.items():
        found = read(f"which-method/{family}")
        choice = found["choice"]
        for candidate in found["candidates"]:
            if candidate in choice["against"]:
                outcome = interval(choice["against"][candidate])
            elif candidate in choice["out"]:
                outcome = f"out: clearly below on {choice['out'][candidate]}"
            else:
                continue
            rows.append([name, candidate, found["baseline"], outcome])
    return table(
        ("model", "candidate", "baseline", "mean difference from the baseline [95% interval]"),
        rows,
        "Average test accuracy at the end, in points (for replies log-likelihood per word, in hundredths of a nat), "
        "over the streams for choosing; 10 seeds.",
        "From `python -m research.which_method figures`.",
    )


def five_genres() -> str:
    rows = []
    for row in sorted(read("paper/recommended")["sheets"][0]["rows"], key=lambda row: -row["validation"]["mean"]):
        end, lost = row["cells"]["average"], row["forgetting"]
        against = interval(end.get("tests", {}).get("multi-task"), 1)
        cells = [f"{row['validation']['mean']:.1f}", spread(end, 1), spread(lost, 1).replace("-", "−", 1)]
        rows.append([row["name"], cells[0], cells[1], "-" if lost["mean"] is None else cells[2], against])
    header = ("method", "validation, %", "test, %", "forgetting, points", "against multi-task [95% interval]")
    made = command(read("paper/recommended"))
    return table(header, rows, f"Average over five genres at the end, 10 seeds. From {made}.")


def privacy() -> str:
    found, keys = read("privacy"), read("memory/keys")
    names = {
        "drift": "`drift.json`: mean features",
        "label": "key of an encoder's domain (`+memory`)",
        "private": "the same with `keys=private`",
        "counts": "key of a BiLSTM's domain (`+memory`)",
        "vocabulary": "`vocabulary.json`, `min_documents=2`",
        "vocabulary_5": "`vocabulary.json`, `min_documents=5`",
        "calibration": "`calibration.json`, among as many validation texts",
    }
    sizes = ("30", "100", "300", "1000")
    rows = []
    for name, about in names.items():
        one = found["statistics"].get(name, {})
        attacked = keys["attack"]["films"].get(name) or (keys["calibration"] if name == "calibration" else one["auc"])
        best = [f"{max(attacked[size].values()):.2f}" if size in attacked else "-" for size in sizes]
        rows.append([about, *best, str(one.get("words_found", {}).get("stored", "-"))])
    watched = "; ".join(
        f"of a domain with {size} texts `memgrow drift` notices {100 * one['noise']:.0f}% of windows of other domains, "
        f"without noise {100 * one['none']:.0f}%"
        for size, one in found["drift_noticed"].items()
    )
    return table(
        ("statistic", *(f"{size} texts" for size in sizes), f"words found, of {found['secret_words']}"),
        rows,
        f"The best of several attacks, mean of {found['draws']} draws of texts about films; the attacker has "
        f"3,000 other texts and knows how much noise there is. -: not stored, or not measured.",
        f"Words of a text that a domain has {found['copies']} times, found by a beam search over "
        f"{found['candidates']:,} words; by the encoder, over 300 words that include them, in a label of 5 texts.",
        f"Noise and drift: {watched}.",
        f"Calibration among 10 validation texts: {keys['calibration']['10']['likelihood ratio']:.2f}.",
        f"From {command(found)}; keys of an encoder and calibration from {command(keys)}.",
    )


def privacy_keys() -> str:
    found = read("memory/keys")
    attacks, same, new = (
        found["attack"]["films"],
        found["route"]["same labels"]["sentiment"],
        found["route"]["new labels"],
    )
    sizes, many = ("30", "100", "300"), "bank, 15 labels"
    rows = [
        [
            f"`{name}`",
            *(f"{max(attacks[name][size].values()):.2f}" for size in sizes),
            *(f"{same[name][size]:.1f}" for size in sizes),
            *(f"{new[many][name][rows]:.1f}" for rows in ("7", "30")),
        ]
        for name in attacks
    ]
    header = (
        "key",
        *(f"AUC, {size} texts" for size in sizes),
        *(f"routed, %, {size} texts" for size in sizes),
        *(f"new labels, routed, %, {rows} texts each" for rows in ("7", "30")),
    )
    about = "AUC on films; routing among the four domains of sentiment, and of banking77 in five domains of 15 labels."
    return table(header, rows, f"{about} From {command(found)}.")


def privacy_labels() -> str:
    found = read("memory/keys")["route"]["new labels"]
    shown = ("label", "private", "first private")
    rows = [[stream, *(f"{one[name]['30']:.1f}" for name in shown)] for stream, one in found.items()]
    about = "Texts that find their domain, %, by keys of 30 texts a label; five domains, all of other labels."
    return table(("stream", *(f"`{name}`" for name in shown)), rows, f"{about} From {command(read('memory/keys'))}.")


def privacy_ends() -> str:
    found = read("memory/keys")["ends"]
    shown = ("private", "private, words 32", "noisy labels, words 32")
    rows = []
    for run, one in found.items():
        stream, texts, seed = run.rsplit(".", 2)
        gaps = [f"{one[name][1]:+.1f} [{one[name][2]:+.1f}, {one[name][3]:+.1f}]" for name in shown]
        rows.append([stream, texts, seed, f"{one['newest']:.1f}", f"{one['label'][0]:.1f}", *gaps])
    header = ("stream", "texts", "seed", "newest", "`label`", *(f"`{name}` less `label`" for name in shown))
    about = "Average accuracy at the end, %, of the default by the keys; intervals over test texts."
    return table(header, rows, f"{about} From {command(read('memory/keys'))}.")


def readings() -> str:
    found = read("memory/readings")
    names = ("last", "conflict", "mean", "routed", "half", "told")

    def row(stream: str, methods: dict[str, Any]) -> list[str]:
        own = methods["finetune+ema"]
        ceiling = methods.get("multi-task", {}).get("last")
        gap = own["minus last"]["conflict"]
        low, high = gap["low"], gap["high"]
        interval = "-" if low is None else f"{gap['mean']:+.1f} [{low:+.1f}, {high:+.1f}]"
        return [stream, *(f"{own[name]:.1f}" for name in names), f"{ceiling:.1f}" if ceiling else "", interval]

    rows = [row(stream, methods) for stream, methods in found["streams"].items() if "finetune+ema" in methods]
    header = ("stream", *names, "multi-task", "conflict less last")
    about = "`finetune+ema` on MiniLM, average accuracy at the end, %, 3 seeds; `told`: the domain is given."
    return table(header, rows, f"{about} From {command(found)}.")


def sure() -> str:
    """What the mean for unsure texts gives, at the limit that the rule chose."""
    found = read("memory/sure")
    limit, rows = str(found["chosen"]), []
    for stream, one in found["streams"].items():
        gap = one["less newest"]
        bounds = "-" if gap["low"] is None else f"{gap['mean']:+.1f} [{gap['low']:+.1f}, {gap['high']:+.1f}]"
        shown = [one[name] for name in ("last", "conflict", limit, "mean", "told")]
        alone = f"{100 * one['alone'][limit]:.0f}"
        rows.append([stream, str(len(one["seeds"])), *(f"{value:.1f}" for value in shown), alone, bounds])
    header = ("stream", "seeds", "newest", "conflict", f"mean below {limit}", "mean", "told", "sure, %")
    gap, ceiling = found["less multi-task"], found["multi-task"]["accuracy"]
    about = f"Average accuracy at the end, %; *sure*: texts that the newest weights answer alone. The {limit} rule on "
    about += f"sentiment, {found['sentiment']['runs']} runs: {found['sentiment']['accuracy']:.1f}; multi-task "
    about += f"in the third round {ceiling:.1f}, difference {gap['mean']:+.1f} [{gap['low']:+.1f}, {gap['high']:+.1f}]."
    return table((*header, "less newest"), rows, f"{about} From {command(found)}.")


def tiers() -> str:
    found = read("memory/tiers")
    low, high, _ = found["rules"]["chosen"]
    rows = []
    for name, one in found["streams"].items():
        rules = [one[rule] for rule in ("conflict", "chosen", "with mean", "always")]
        gap = one["chosen"]
        bounds = "" if gap["low"] is None else f" [{signed(gap['low'], 1)}, {signed(gap['high'], 1)}]"
        figures = [one["last"], *(rule["accuracy"] for rule in rules), one["told"], one["multi-task"]]
        texts = ["" if value is None else f"{value:.1f}" for value in figures]
        rows.append([name, str(one["runs"]), *texts, f"{signed(gap['gain'], 1)}{bounds}"])
    header = ("stream", "runs", "newest", "at 0.5", f"at {low:g}", "with mean", "always", "told", "multi-task")
    about = f"Average accuracy at the end, %. Chosen: {low:g}, {'no mean' if high <= low else f'mean below {high:g}'}."
    return table((*header, f"{low:g} less newest"), rows, f"{about} From {command(found)}.")


def memory_cost() -> str:
    found = read("many-domains")
    rows = []
    for way, costs in found["ways"].items():
        for cost, values in costs.items():
            if cost in costs["100 domains / 1 domain"] and not cost.startswith("first"):
                scale, digits, unit = (1e-6, 1, "MB") if cost == "written" else (1, 2, "s")
                figures = [f"{scale * value:.{digits}f}" for value in values.values()]
                ratio = f"{costs['100 domains / 1 domain'][cost]:.1f}"
                rows.append([way, f"{cost}, {unit}", *figures, ratio])
    read_most = max(one["100"] for costs in found["ways"].values() for one in costs["read"].values())
    about = f"MiniLM, {found['texts']} texts in a batch; of 100 domains a mixed batch read {read_most}. "
    about += f"Processor time of one thread, matrix products in {'bfloat16' if found['bfloat16'] else 'float32'}."
    header = ("method", "cost", "1 domain", "10", "100", "100 / 1")
    return table(header, rows, f"{about} From {command(found)}.")


def cpu_prediction() -> str:
    found, key = read("cpu-prediction"), "times as fast as sentence-transformers"
    rows = []
    for way in found["64 texts"]:
        figures = [
            f"{found[size][way][what]:.{digits}f}"
            for size in ("64 texts", "1 text")
            for what, digits in (("milliseconds", 0 if size == "64 texts" else 1), (key, 2))
        ]
        right = found["accuracy"].get(way)
        rows.append([way, *figures, "" if right is None else f"{100 * right:.1f}"])
    header = ("way", "64 texts, ms", "times as fast", "1 text, ms", "times as fast", "accuracy, %")
    about = f"MiniLM, threads: {found['threads']}, processor time; times as fast as sentence-transformers; accuracy on "
    return table(header, rows, f"{about}{found['tested']} test rows of one domain. From {command(found)}.")


def default_settings() -> str:
    found = read("defaults")
    names = (
        "old default",
        "last epoch",
        "default",
        "default, domain memory",
        "default, all rows",
        "last epoch, all rows",
        "plain",
        "multi-task",
    )
    rows = []
    for stream, variants in found["streams"].items():
        for name in (name for name in names if name in variants):
            one = variants[name]
            gap = one.get("minus plain")
            mean = "" if not gap else f"{gap[0]:+.1f}" + ("" if gap[1] is None else f" [{gap[1]:+.1f}, {gap[2]:+.1f}]")
            rows.append([stream, name, f"{one['average']:.1f}", mean, str(one["seeds"])])
    header = ("stream, rows a domain", "settings", "average accuracy at the end, %", "less plain", "seeds")
    return table(header, rows, f"MiniLM, four domains each. From {command(found)}.")


def torture() -> str:
    rows = [
        [
            name,
            "; ".join(f"{what} {n}" if isinstance(n, str) else f"{what}: {n:,}" for what, n in part["counts"].items()),
            str(len(part["failures"])),
        ]
        for name, part in read("torture/counts")["parts"].items()
    ]
    return table(("part", "counts", "failures"), rows, "From `make torture`.")


def serving() -> str:
    found = read("serving")
    names = {"batched": "batched", "one_by_one": "one forward pass per request"}
    fields = {"per_second": 0, "median_ms": 0, "p99_ms": 0, "cpu_ms_per_request": 2}
    rows = [
        [names[name], *(f"{median(one[field] for one in rounds):,.{digits}f}" for field, digits in fields.items())]
        for name, rounds in found["rounds"].items()
    ]
    during = found["publication"]
    header = (
        "serving",
        "requests per second",
        "median, ms",
        "99th percentile, ms",
        "CPU of the server, ms per request",
    )
    return table(
        header,
        rows,
        f"{found['connections']} connections over loopback, each with one request at a time; the demo's model; "
        f"{found['machine']['cores']} cores shared with the clients; medians of {len(found['ratios'])} rounds.",
        f"While a domain was uploaded, learned and published, {during['requests']:,} requests were answered and "
        f"{during['not_answered_with_200']} were lost.",
        f"From {command(found.get('command', 'benchmarks/serving.py --out results/serving.json'))}.",
    )


def drift() -> str:
    found, rows = read("drift"), []
    for stream, one in found["streams"].items():
        parts = [round_["false alarms"]["one domain"] for round_ in one["rounds"]]
        share = sum(part["alarms"] for part in parts) / sum(part["windows"] for part in parts)
        for round_ in one["rounds"]:
            cells = []
            for new in round_["noticing"].values():
                missed = new["runs"] - new["noticed"]
                middle = f"{quantiles(new['texts'], n=4)[1]:,.0f}" if len(new["texts"]) > 1 else "-"
                cells.append(middle + (f" ({missed} of {new['runs']} missed)" if missed else ""))
            rows.append([stream, f"{share:.1%}", round_["left out"], *cells])
    shares = [f"{float(share):.0%} new" for share in found["streams"]["demo"]["rounds"][0]["noticing"]]
    header = ("stream", "windows of a known domain with an alarm", "new domain", *shares)
    sentence = (
        f"Windows of {found['window']} texts, alpha {found['alpha']:g}. "
        "The last columns: median number of new texts until the alarm, if so many of all texts are new."
    )
    return table(header, rows, sentence, f"From {command(found)}.")


def speed() -> str:
    parts = []
    for name in ("recurrence-h200-tf32", "recurrence-cpu"):
        found = read(name)
        variants = list(next(iter(found["milliseconds"].values())))
        rows = [[size, *(f"{t[one]:.2f}" for one in variants)] for size, t in found["milliseconds"].items()]
        parts += [f"{found['machine']}, milliseconds, from {command(found)}:", table(("size", *variants), rows)]
    return "\n\n".join(parts)


# research/


def false_positives() -> str:
    found = read("paper/false-positives")
    rows = [
        (
            f"simulated, {one['examples']:,} test examples, {one['subsets']} subsets"
            + (f", seeds spread by {100 * one['seed_spread']:g} point" if one["seed_spread"] else ""),
            one,
        )
        for one in found["simulated"]
    ]
    between = found["between_seeds"]
    for genre, one in between["genres"].items():
        rows.append((f"{one['pairs']} pairs of seeds of {between['method']}, on {genre}", one))
    shown = []
    for name, one in rows:
        shares = {rate["level"]: rate["either"] for rate in one["rates"]}
        shown.append([name, f"{shares[0.05]:.0%}", f"{shares[0.01]:.0%}", f"{one['mcnemar']:.0%}"])
    header = ("equal methods", "p < 0.05 (promised: 10%)", "p < 0.01 (promised: 2%)", "McNemar, 0.05")
    return table(header, shown, f"From {command(found)}.")


def reply_lengths() -> str:
    """What the brevity penalty does to BLEU-2 in Table 5."""
    from research.common.replies import unpack
    from research.paper.dialogue import LETTERS

    with gzip.open(ROOT / "results/paper/runs-dialogue/records.jsonl.gz", "rt", encoding="utf-8") as records:
        tried = json.loads(next(records))["replies"]["test"]
    own = {letter: fmean(unpack(tried[domain]["said"]["references"])) for letter, domain in LETTERS.items()}
    shown = []
    for row in read("paper/table5")["sheets"][0]["rows"]:
        cells = []
        for letter in LETTERS:
            words, scores = (row["cells"][f"{what}_{letter}"] for what in ("length", "bleu2"))
            factors = [exp(min(0.0, 1 - own[letter] / count)) for count in words["values"]]
            bare = [score / factor for score, factor in zip(scores["values"], factors, strict=True)]
            cells += [f"{words['mean']:.1f}", f"{fmean(factors):.2f}", f"{fmean(bare):.1f}"]
        shown.append([row["name"], *cells])
    names = [f"{what} {letter}" for letter in LETTERS for what in ("words", "factor", "BLEU-2 without it")]
    means = " and ".join(f"{mean:.1f} words on {letter}" for letter, mean in own.items())
    sentence = f"Means over seeds. The corpora's own replies to the test messages have {means}."
    return table(("row", *names), shown, sentence, f"From {command(read('paper/table5'))}.")


def study(name: str) -> str:
    """A table of research/, by its own modules."""
    from research.encoders.report import slots_taken_away, study_page
    from research.paper.page import block
    from research.which_method.report import choice_page

    kind, _, what = name.partition("-")
    if kind == "paper":
        return block(what, ROOT / "results/paper", ROOT / "research/paper/tables.md")
    if kind == "protocol":
        return f"{choice_page(read(f'which-method/{what}'))}\n\nFrom `python -m research.which_method figures`."
    if what != "slots":
        return f"{study_page(read(f'encoders/{what}'))}\n\nFrom `python -m research.encoders figures`."
    found = {stream: slots_taken_away(read(f"encoders/{stream}")) for stream in STREAMS}
    parts = [f"{stream}:\n\n{one.to_markdown()}" for stream, one in found.items() if one.rows]
    return "\n\n".join([*parts, "From `python -m research.encoders figures`."])


STREAMS = ("sentiment", "reviews", "multinli")
STUDIES = [f"paper-table{number}" for number in range(1, 7)]
STUDIES += [f"paper-{name}" for name in ("legend", "recommended", "slots", "rates", "conditions", "tuning", "theorem")]
STUDIES += [f"study-{name}" for name in (*STREAMS, "slots")]
STUDIES += [f"protocol-{family}" for family in ("bilstm", "encoder", "replies")]
NAMED = (
    readme,
    peers,
    peers_cost,
    decoder,
    commands,
    methods,
    sentiment_methods,
    demo,
    rehearsal,
    sentiment,
    bag_of_words,
    encoders_command,
    encoders_answer,
    encoders_short,
    few_rows,
    first_model,
    protocol,
    five_genres,
    torture,
    serving,
    drift,
    speed,
    privacy,
    privacy_keys,
    privacy_labels,
    privacy_ends,
    readings,
    memory_cost,
    cpu_prediction,
    sure,
    tiers,
    default_settings,
    false_positives,
    reply_lengths,
    ridge,
    paper_hours,
)
BLOCKS: dict[str, Callable[[], str]] = {one.__name__.replace("_", "-"): one for one in NAMED}
BLOCKS |= {name: partial(study, name) for name in STUDIES}
BLOCKS |= {
    "tutorial-plain": partial(tutorial, "plain"),
    "tutorial-default": partial(tutorial, "model"),
    "family-demo": partial(family, "demo", "Four made-up domains that contradict each other, a small BiLSTM;"),
    "family-sentiment": partial(family, "sentiment", "400 rows of each of films, products, editorials, tweets;"),
    "released": partial(released, {"twice": "softmax twice", "once": "softmax once"}),
    "frozen-slots": partial(released, {"frozen": "the paper's"}),
}


def filled(text: str) -> str:
    """A page with its blocks as they should be. A block whose file is missing stays as it is."""

    def fill(found: re.Match[str]) -> str:
        try:
            return f"<!-- figures: {found[1]} -->\n{BLOCKS[found[1]]()}\n<!-- end of figures -->"
        except FileNotFoundError as error:
            print(f"{found[1]}: {error.filename} is missing", file=sys.stderr)
            return found[0]

    return MARK.sub(fill, text)


def main() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (new := filled(text)) != text:
            print(page.relative_to(ROOT))
            if "--write" in sys.argv[1:]:
                page.write_text(new, encoding="utf-8")
    for path, draw in PICTURES.items():
        if not path.is_file() or path.read_text(encoding="utf-8") != draw():
            print(path.relative_to(ROOT))
            if "--write" in sys.argv[1:]:
                path.write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
