"""Check README.md, docs/, results/ and research/ against the code, the results and each other.

    python docs/check.py        (or: make docs-check)

prints a line per check and exits with 1 if one fails. tests/docs runs the examples.
"""

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from figures import BLOCKS, MARK, PICTURES, filled, pages, read  # noqa: E402
from typer.main import get_command  # noqa: E402

from memgrow.cli import app  # noqa: E402
from memgrow.cli.options import setting_types  # noqa: E402
from memgrow.methods import (  # noqa: E402
    RECOMMENDED,
    RECOMMENDED_FOR_ENCODERS,
    RECOMMENDED_FOR_REPLIES,
    find_method,
)
from memgrow.models import PretrainedSettings  # noqa: E402
from memgrow.models.base import RECURRENT_ONLY  # noqa: E402
from memgrow.training.settings import defaults_for  # noqa: E402

FENCE = re.compile(r"^```([\w ]*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
RUN = {"shell", "shell network"}  # languages of blocks with commands: run by tests/docs, or not as they need a network
MOST_PAGES, MOST_WORDS, MOST_LINES = 12, 20_000, 120  # of docs/ without its index; with README.md; of README.md
RECORDS = {"runs", "runs-dialogue"}  # folders of records, from which figures are made

Check = Callable[[], Iterator[str]]
CHECKS: list[Check] = []


def check(function: Check) -> Check:
    CHECKS.append(function)
    return function


def text_of(page: str | Path) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def own_pages() -> list[Path]:
    """README and docs/, without results/ and research/."""
    return [page for page in pages() if "research" not in page.parts and page.parent.name != "results"]


def prose(page: Path) -> str:
    return FENCE.sub("", text_of(page))


# Figures


@check
def figures_are_current() -> Iterator[str]:
    for page in pages():
        text = text_of(page)
        if unknown := [name for name, _ in MARK.findall(text) if name not in BLOCKS]:
            yield f"{name_of(page)}: there are no figures {', '.join(unknown)}"
        elif filled(text) != text:
            yield f"{name_of(page)}: figures are out of date; run python docs/figures.py --write"


@check
def pictures_are_current() -> Iterator[str]:
    for path, draw in PICTURES.items():
        if path.read_text(encoding="utf-8") != draw():
            yield f"{name_of(path)} is out of date; run python docs/figures.py --write"


@check
def pages_are_few_and_short() -> Iterator[str]:
    docs = [page for page in (ROOT / "docs").glob("*.md") if page.name != "README.md"]
    words = sum(len(text_of(page).split()) for page in (ROOT / "README.md", ROOT / "docs/README.md", *docs))
    lines = len(text_of("README.md").splitlines())
    found = {"pages in docs/": (len(docs), MOST_PAGES), "words": (words, MOST_WORDS), "lines": (lines, MOST_LINES)}
    yield from (f"{count:,} {what}, at most {most:,}" for what, (count, most) in found.items() if count > most)


@check
def commands_are_run() -> Iterator[str]:
    """Commands are in blocks that the tests run, or in blocks marked as needing a network."""
    for page in own_pages():
        for language, code in FENCE.findall(text_of(page)):
            if language not in RUN and page.name != "CONTRIBUTING.md" and re.search(r"^(memgrow|pip) ", code, re.M):
                yield f"{name_of(page)}: commands in a block {language!r}: {code.strip()[:60]}"


@check
def blocks_name_their_command() -> Iterator[str]:
    for page in pages():
        for name, block in MARK.findall(text_of(page)):
            if not re.search(r"`(memgrow|python|make) ", block) and name != "paper-legend":
                yield f"{name_of(page)}: the figures {name} name no command"


@check
def measured_numbers_are_in_blocks() -> Iterator[str]:
    """A decimal number of percent or points in a sentence would not be checked against results/."""
    for page in own_pages():
        text = FENCE.sub("", MARK.sub("", text_of(page)))
        for found in re.findall(r"[^\n]*\d\.\d+ ?(?:%|points|percent)[^\n]*", text):
            yield f"{name_of(page)}: a figure outside a block: {found.strip()[:80]}"


@check
def results_name_their_command() -> Iterator[str]:
    cells = [line.split("|")[1] for line in text_of("results/README.md").splitlines() if line.startswith("| `")]
    patterns = [one for cell in cells for name in re.findall(r"`([^`]+)`", cell) for one in _expanded(name)]
    for file in sorted((ROOT / "results").rglob("*.json")):
        path = file.relative_to(ROOT / "results")
        if not RECORDS & {*path.parts} and not any(path.match(pattern) for pattern in patterns):
            yield f"results/README.md does not say which command wrote {path}"


def _expanded(pattern: str) -> list[str]:
    """a/{b,c}.json as both."""
    found = re.search(r"\{(.+)\}", pattern)
    return [pattern.replace(found[0], one) for one in found[1].split(",")] if found else [pattern]


@check
def default_methods_are_those_of_the_protocol() -> Iterator[str]:
    taken = {"bilstm": RECOMMENDED, "encoder": RECOMMENDED_FOR_ENCODERS, "replies": RECOMMENDED_FOR_REPLIES}
    for family, method in taken.items():
        found = read(f"which-method/{family}")
        if find_method(found["candidates"][found["default"]]["method"]).name != method.removesuffix("+memory"):
            yield f"the protocol chose {found['default']} for {family}, but the default is {method}"


# Links, commands, settings


@check
def links_exist() -> Iterator[str]:
    for page in pages():
        for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if re.match(r"[a-z]+:", link):
                continue
            if not target.exists():
                yield f"{name_of(page)}: {link} does not exist"
            elif anchor and anchor not in anchors(target):
                yield f"{name_of(page)}: {link}: no such heading"


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@check
def the_index_lists_every_page() -> Iterator[str]:
    for page in (ROOT / "docs").glob("*.md"):
        if page.name != "README.md" and f"]({page.name})" not in text_of("docs/README.md"):
            yield f"docs/README.md does not list {page.name}"


def documented_commands(page: Path) -> Iterator[list[str]]:
    """The commands in blocks and code spans, as words."""
    text = text_of(page)
    lines = [line for language, code in FENCE.findall(text) if language in (*RUN, "text") for line in code.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    for line in lines:
        for found in re.finditer(r"(?:^|[|;&] *)((?:memgrow|make|python) [^|;&>#]*)", line.strip()):
            try:
                yield shlex.split(found[1].replace("'", ""))
            except ValueError:
                yield found[1].split()


@check
def commands_exist() -> Iterator[str]:
    commands = _commands()
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), flags=re.MULTILINE))
    for page in pages():
        for words in documented_commands(page):
            program, first = words[0], words[1] if len(words) > 1 else ""
            if program == "make" and not {word for word in words[1:] if word.isalpha()} <= targets:
                yield f"{name_of(page)}: there is no {' '.join(words)}"
            elif program == "python" and not _is_module(words):
                yield f"{name_of(page)}: there is no {' '.join(words[:3])}"
            elif program == "memgrow" and not first.startswith(("-", "[")):
                name = " ".join(words[1:3]) if " ".join(words[1:3]) in commands else first
                if name.split()[0] not in commands and name not in commands:
                    yield f"{name_of(page)}: there is no command memgrow {name}"
                    continue
                known = commands.get(name, set())
                for option in (found[0] for word in words if (found := re.match(r"\[?(--[a-z-]+)", word))):
                    if re.match(r"\[?(--[a-z-]+)", option)[1] not in known:
                        yield f"{name_of(page)}: memgrow {name} has no {option}"


def _is_module(words: list[str]) -> bool:
    """Whether `python FILE` or `python -m MODULE` exists; scripts of version 0.2 are named as such by their block."""
    if len(words) < 2 or words[1] == "...":
        return True
    if words[1] == "-m":
        path = ROOT / words[2].replace(".", "/")
        return (path / "__main__.py").is_file() or path.with_suffix(".py").is_file()
    return (ROOT / words[1]).is_file() or words[1] in text_of("results/README.md")


def _commands() -> dict[str, set[str]]:
    """The options of each command."""
    found: dict[str, set[str]] = {}
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        if not command.hidden:
            found[name] = {option for one in command.params for option in one.opts}
            for part, inner in getattr(command, "commands", {}).items():
                found[f"{name} {part}"] = {option for one in inner.params for option in one.opts}
    return found


@check
def every_setting_is_listed_with_its_defaults() -> Iterator[str]:
    pattern = r"^\| `(\w+\.\w+)` \| `?([^`|]+)`? \| `?([^`|]+)`? \|"
    rows = re.findall(pattern, text_of("docs/commands.md"), flags=re.MULTILINE)
    usual = (defaults_for("minilm"), defaults_for(None))  # of the default encoder, of a recurrent network
    expected = [
        (f"{section}.{name}", *(_default(getattr(defaults, section), name) for defaults in usual))
        for section, types in setting_types().items()
        for name in types
    ]
    yield from (f"docs/commands.md lacks {' | '.join(row)}" for row in expected if row not in rows)
    yield from (f"docs/commands.md has {' | '.join(row)}, which is not so" for row in rows if row not in expected)


def _default(settings: object, name: str) -> str:
    recurrent = RECURRENT_ONLY if isinstance(settings, PretrainedSettings) else ()
    if not hasattr(settings, name) or name in recurrent:
        return "–"
    value = getattr(settings, name)
    return value if isinstance(value, str) else json.dumps(value)


def main() -> int:
    wrong = 0
    for one in CHECKS:
        sentences = list(one())
        wrong += len(sentences)
        print("wrong" if sentences else "ok   ", one.__name__.replace("_", " "))
        for sentence in sentences:
            print("        ", sentence)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
