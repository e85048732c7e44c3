"""Builds the site from the pages as they stand in the repository, into build/site.

    python docs/site/build.py        (or: make docs, which checks the pages first)

The pages are plain Markdown that reads well where it lies. So they are copied to build/site-source under the site's
names, with their links brought along, and Sphinx (MyST, pydata-sphinx-theme) makes HTML of the copies. The sections of
docs/README.md are the sections of the site. Warnings are errors, and so is a page that would fetch anything from
elsewhere when it is looked at.
"""

import importlib
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE, SITE = ROOT / "build/site-source", ROOT / "build/site"
FENCE = re.compile(r"(^```.*?^```$)", flags=re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
SPREAD = re.compile(r"(?<=\d) ± (?=\d)")
FILES = (".png", ".ipynb")  # that come along with the pages which link to them
OUTSIDE = {  # pages that do not lie in docs/, by their names on the site
    "README.md": "index",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "SECURITY.md": "security",
}
INDEX = "docs/README.md"
API = {  # module: what it is for
    "memgrow": "what most programs need",
    "memgrow.data": "examples, domains, streams, and files of them",
    "memgrow.nn": "the layers, their banks and how they grow",
    "memgrow.methods": "the table of methods, and what a new one is made of",
    "memgrow.models": "encoders and the models around them",
    "memgrow.evaluation.metrics": "metrics of labels and replies",
    "memgrow.evaluation.history": "what was learnt when, and what came of it",
    "memgrow.evaluation.drift": "whether texts are still like those that were learnt",
    "memgrow.storage.versions": "earlier versions of a model in its folder",
    "memgrow.sklearn": "a classifier of scikit-learn",
    "memgrow.errors": "what can go wrong, as sentences",
}
EXPORTED = {  # of modules without `__all__`
    "memgrow.evaluation.history": ["History", "Stage"],
    "memgrow.storage.versions": ["SavedVersion", "Undone", "list_versions", "undo"],
    "memgrow.sklearn": ["MemgrowClassifier"],
    "memgrow.errors": ["DataError", "ModelError", "SettingsError", "MissingExtraError", "MemgrowError"],
}
MADE_OF_PARTS = {"Learner"}  # classes whose base classes are no more than a part of their source
FROM_ELSEWHERE = re.compile(
    r'''<(?:script|img|iframe|source|video)[^>]*\ssrc="(?:https?:)?//[^"]*"'''
    r'''|<link[^>]*rel="(?:stylesheet|preload|preconnect)"[^>]*href="(?:https?:)?//[^"]*"'''
    r"""|@import[^;]*//[^;]*;|url\(["']?(?:https?:)?//[^)]*\)"""
)


def site_names() -> dict[Path, str]:
    """Each page of the repository by the name that it has on the site."""
    names = {ROOT / page: name for page, name in OUTSIDE.items()}
    return names | {page: page.stem for page in sorted((ROOT / "docs").glob("*.md")) if page != ROOT / INDEX}


def sections() -> dict[str, str]:
    """The sections of the index, each with its text."""
    text = (ROOT / INDEX).read_text(encoding="utf-8")
    found = re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, flags=re.DOTALL | re.MULTILINE)
    return dict(found)


def brought_along(text: str, page: Path, names: dict[Path, str]) -> str:
    """The text with its links as they are on the site; a link to what the site does not have keeps its words alone.

    No line ends between a mean and its spread.
    """

    def moved(part: str) -> str:
        if FENCE.fullmatch(part):
            return part
        return SPREAD.sub("\u00a0±\u00a0", LINK.sub(lambda link: _moved(link, page, names), part))

    return "".join(moved(part) for part in FENCE.split(text))


def _moved(link: re.Match[str], page: Path, names: dict[Path, str]) -> str:
    mark, words, target = link.groups()
    path, _, anchor = target.partition("#")
    if re.match(r"[a-z]+:", target) or not path:
        return link[0]
    words = brought_along(words, page, names)
    file = (page.parent / path).resolve()
    if file in names:
        words = title_of(file) if words == file.name else words
        place = f"{names[file]}.md"
    elif file == ROOT / INDEX:
        place = "index.md"
    elif file.suffix in FILES:
        place = f"_files/{file.relative_to(ROOT)}"
        (SOURCE / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, SOURCE / place)
    else:
        return words
    return f"{mark}[{words}]({place}{'#' if anchor else ''}{anchor})"


def title_of(page: Path) -> str:
    """The heading of a page, by which the site speaks of it where the repository speaks of the file."""
    found = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return found[1] if found else page.stem


def toctree(names: list[str]) -> str:
    return "\n".join(["", "```{toctree}", ":hidden:", *names, "```", ""])


def write(name: str, text: str) -> None:
    place = SOURCE / f"{name}.md"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")


def gather() -> None:
    """Write the pages as Sphinx is to read them."""
    names = site_names()
    for page, name in names.items():
        text = brought_along(page.read_text(encoding="utf-8"), page, names)
        write(name, f"# memgrow\n\n{text}" if name == "index" else text)
    tops = []
    for title, text in sections().items():
        linked = [(ROOT / "docs" / path).resolve() for _, _, path in LINK.findall(text)]
        body = brought_along(text, ROOT / INDEX, names)
        tops.append(title.lower().replace(" ", "-"))
        write(tops[-1], f"# {title}\n{body}{toctree([names[page] for page in linked if page in names])}")
    write_api()
    index = SOURCE / "index.md"
    index.write_text(index.read_text(encoding="utf-8") + toctree([*tops, "api"]), encoding="utf-8")


def write_api() -> None:
    """A page for each module, made of its docstrings. What several of them export stands on the first one's page."""
    rows = [f"| [`{module}`](api/{module}.md) | {purpose} |" for module, purpose in API.items()]
    text = ["# API", "", "What can be imported, from its docstrings. [From Python](python.md) shows it at work.", ""]
    text += ["| module | what it is for |", "|---|---|", *rows, toctree([f"api/{module}" for module in API])]
    write("api", "\n".join(text))
    shown: dict[int, str] = {}
    for module in API:
        write(f"api/{module}", "\n".join(api_page(module, shown)))


def api_page(name: str, shown: dict[int, str]) -> Iterator[str]:
    module = importlib.import_module(name)
    yield f"# {name}\n\n{API[name][0].upper()}{API[name][1:]}.\n"
    elsewhere = []
    for member in EXPORTED.get(name) or [one for one in module.__all__ if not one.startswith("__")]:
        value = getattr(module, member)
        if shown.setdefault(id(value), name) != name:
            elsewhere.append(f"[`{member}`]({shown[id(value)]}.md)")
            continue
        yield f"## {member}\n\n```{{eval-rst}}"
        if inspect.isclass(value):
            yield f".. autoclass:: {name}.{member}"
            if member in MADE_OF_PARTS:
                yield ""
                yield from (f"   .. {kind}:: {name}.{member}.{one}" for one, kind in members_by_part(value))
                yield "```\n"
                continue
            yield "   :members:"
            if value.__base__ is not object:
                yield "   :show-inheritance:"
            left_out = [*getattr(value, "__dataclass_fields__", ()), *getattr(value, "_fields", ()), *put_there(value)]
            yield f"   :exclude-members: {', '.join(left_out)}\n"
        elif inspect.isfunction(value):
            yield f".. autofunction:: {name}.{member}"
        else:
            yield f".. autodata:: {name}.{member}\n   :no-value:"
        yield "```\n"
    if elsewhere:
        yield f"Also here: {', '.join(elsewhere)}."


def members_by_part(value: type) -> Iterator[tuple[str, str]]:
    """The members of a class and of the parts that it is made of, each with its directive, in the order of the source.

    Sphinx itself would put those of the parts last, by the alphabet.
    """
    parts = [part for part in value.__mro__ if part.__module__.partition(".")[0] == "memgrow"]
    names = [name for part in parts for name in vars(part) if not name.startswith("_")]
    for name in dict.fromkeys(names):
        if inspect.getdoc(one := getattr(value, name)):
            yield name, "autoproperty" if isinstance(one, property) else "automethod"


def put_there(value: type) -> list[str]:
    """Methods that another library put into a class, as scikit-learn does: theirs to document, in their own markup."""
    functions = {name: getattr(value, name) for name in vars(value) if not name.startswith("_")}
    theirs = {name for name, one in functions.items() if inspect.isfunction(one)}
    return sorted(name for name in theirs if functions[name].__module__.partition(".")[0] != "memgrow")


def fetched_from_elsewhere() -> Iterator[str]:
    for file in sorted(SITE.rglob("*")):
        if file.suffix in (".html", ".css"):
            for found in FROM_ELSEWHERE.findall(file.read_text(encoding="utf-8")):
                yield f"{file.relative_to(SITE)} would fetch {found}"


def main() -> int:
    for folder in (SOURCE, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    gather()
    sphinx = [sys.executable, "-m", "sphinx", "--quiet", "--fresh-env", "--fail-on-warning", "--keep-going"]
    done = subprocess.run([*sphinx, "--conf-dir", str(ROOT / "docs/site"), str(SOURCE), str(SITE)])
    (SITE / "_static/webpack-macros.html").unlink(missing_ok=True)  # the theme's own, and no page
    wrong = list(fetched_from_elsewhere())
    pages = len(list(SITE.rglob("*.html")))
    print("\n".join(wrong) or f"{pages} pages in {SITE.relative_to(ROOT)}: open index.html there")
    return done.returncode or int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
