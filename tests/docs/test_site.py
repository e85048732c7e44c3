"""The site is made of the pages as they stand: links are brought along, docstrings become reStructuredText."""

import importlib.util
import json
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]


def module_of(path: str):
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def build(tmp_path, monkeypatch):
    """The builder of a repository that has a README, two pages and a picture."""
    module = module_of("docs/site/build.py")
    (tmp_path / "docs").mkdir()
    for name, text in {"README.md": "![seen](docs/a.png)", "docs/one.md": "# The first\n", "docs/a.png": ""}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "SOURCE", tmp_path / "source")
    monkeypatch.setattr(module, "OUTSIDE", {"README.md": "index"})
    return module


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("[one](docs/one.md#a-part)", "[one](one.md#a-part)"),
        ("[one.md](docs/one.md)", "[The first](one.md)"),
        ("[here](#below) [far](https://example.org)", "[here](#below) [far](https://example.org)"),
        ("[![a](docs/a.png)](docs/one.md)", "[![a](_files/docs/a.png)](one.md)"),
        ("under the [licence](LICENSE)", "under the licence"),
        ("```\n[code](docs/one.md) 1 ± 2\n```", "```\n[code](docs/one.md) 1 ± 2\n```"),
        ("| 62.9 ± 0.6 | mean ± deviation |", "| 62.9\u00a0±\u00a00.6 | mean ± deviation |"),
    ],
)
def test_links_lead_to_the_same_pages_on_the_site(build, link, expected):
    assert build.brought_along(link, build.ROOT / "README.md", build.site_names()) == expected


def test_pictures_come_along(build):
    build.brought_along("![seen](docs/a.png)", build.ROOT / "README.md", build.site_names())
    assert (build.SOURCE / "_files/docs/a.png").is_file()


@pytest.mark.parametrize(
    ("html", "told"),
    [
        ('<script src="https://cdn.example/a.js"></script>', True),
        ('<link rel="stylesheet" href="//cdn.example/a.css">', True),
        ("@font-face { src: url(https://cdn.example/a.woff2) }", True),
        (
            '<a href="https://example.org">for people</a><script src="_static/a.js"></script>',
            False,
        ),
    ],
)
def test_what_a_page_would_fetch_from_elsewhere_is_told(build, monkeypatch, tmp_path, html, told):
    monkeypatch.setattr(build, "SITE", tmp_path)
    (tmp_path / "page.html").write_text(html)
    assert bool(list(build.fetched_from_elsewhere())) == told


def test_sections_of_the_index_are_sections_of_the_site(build):
    (build.ROOT / "docs/README.md").write_text("# Docs\n\n## Start\n\n[one.md](one.md)\n\n## Use it\n\nnothing\n")
    assert list(build.sections()) == ["Start", "Use it"]


@dataclass
class Sizes:
    """Of `things*`."""

    hidden: int = 3  # units, if any
    # of the bank
    slots: int = 4
    plain: int = 5


def test_docstrings_keep_their_words_and_fields_have_their_comments():
    docstrings = module_of("docs/site/docstrings.py")
    lines = ["Of `things*`, *args and a trailing_ word."]
    docstrings.as_restructured_text(None, "class", "Sizes", Sizes, None, lines)
    assert lines[0] == r"Of ``things*``, \*args and a trailing\_ word."
    assert lines[2:] == ["* ``hidden``: units, if any", "* ``slots``: of the bank"]


@dataclass
class Made:
    rows: list[int] = field(default_factory=list)
    hidden: int = field(default=2, init=False)
    counts: Counter[str] = field(default_factory=Counter)


def test_signatures_show_what_a_field_starts_with():
    docstrings = module_of("docs/site/docstrings.py")
    shown, _ = docstrings.without_addresses(None, "class", "Made", Made, None, str(signature(Made)), None)
    assert "rows: list[int] = []" in shown
    assert "= Counter()" in shown
    assert "factory" not in shown


def test_what_learns_stands_before_what_answers_on_the_page_of_a_learner():
    page = "\n".join(module_of("docs/site/build.py").api_page("memgrow", {}))
    members = re.findall(r"   \.\. auto(?:method|property):: memgrow\.Learner\.(\w+)", page)
    places = [members.index(name) for name in ("create", "load", "adapt", "learn", "evaluate", "predict")]
    assert places == sorted(places)


def test_methods_that_another_library_puts_into_a_class_are_left_to_it():
    build = module_of("docs/site/build.py")
    page = "\n".join(build.api_page("memgrow.sklearn", {}))
    assert "set_fit_request" in page.partition(":exclude-members:")[2]
    assert build.put_there(Sizes) == []


def test_a_notebook_has_the_page_in_its_cells():
    notebook = module_of("docs/notebook.py").notebook(
        "# One\n\n```shell\nls\n```\nthen\n```text\nout\n```\n```python\n1\n```\n"
    )
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    assert cells[:2] == [("markdown", "# One"), ("code", "%%bash\nls")]
    assert cells[2:4] == [("markdown", "then\n```text\nout\n```"), ("code", "1")]
    assert json.dumps(notebook)


def test_the_kernel_of_the_notebook_is_found_from_another_folder(monkeypatch, tmp_path):
    asked = {}

    class Client:
        def __init__(self, _, **options):
            asked.update(options)

        def execute(self):
            pass

    def write(_, path):
        path.write_text("{}", encoding="utf-8")

    monkeypatch.setitem(sys.modules, "nbformat", SimpleNamespace(reads=lambda text, as_version: text, write=write))
    monkeypatch.setitem(sys.modules, "nbclient", SimpleNamespace(NotebookClient=Client))
    monkeypatch.setitem(sys.modules, "traitlets.config", SimpleNamespace(Config=dict))
    monkeypatch.setenv("PATH", os.environ["PATH"])
    module_of("docs/notebook.py").run(tmp_path / "book.ipynb")
    assert Path(asked["config"]["KernelManager"]["ip"]).is_absolute()
