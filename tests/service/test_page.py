"""The page without a browser: what it loads is there, and nothing in it could run what a stranger wrote."""

import re
from html.parser import HTMLParser
from pathlib import Path

from memgrow.service.app import PAGE
from tests.service.conftest import Serve

FORBIDDEN = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "localStorage",
             "sessionStorage", "document.cookie")  # fmt: skip


class Elements(HTMLParser):
    """The elements of a page, each with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def scripts() -> list[Path]:
    return sorted(PAGE.glob("*.js"))


def test_all_that_the_page_loads_is_served_as_what_it_is(serve: Serve) -> None:
    client = serve().client
    elements = Elements(client.get("/").text).found
    named = [of["href"] for tag, of in elements if tag == "link"] + [
        of["src"] for tag, of in elements if tag == "script"
    ]
    imported = [name for script in scripts() for name in re.findall(r'from "\./(.+?)"', script.read_text())]
    for path in {*(f"/{name}" for name in named), *(f"/page/{name}" for name in imported)}:
        answer = client.get(path)
        assert answer.status_code == 200, path
        assert "html" not in answer.headers["content-type"], path
    assert {f"/page/{script.name}" for script in scripts()} == {
        *(f"/{name}" for name in named if str(name).endswith(".js")),
        *(f"/page/{name}" for name in imported),
    }, "a script that nothing loads"


def test_the_page_has_no_script_or_style_of_its_own_and_every_field_a_label() -> None:
    elements = Elements((PAGE / "index.html").read_text()).found
    assert not [of for tag, of in elements if tag == "script" and "src" not in of]
    assert not [
        tag for tag, of in elements if tag == "style" or "style" in of or any(key.startswith("on") for key in of)
    ]
    labelled = {of["for"] for tag, of in elements if tag == "label" and "for" in of}
    fields = {of["id"] for tag, of in elements if tag in ("input", "textarea") and of.get("type") != "radio"}
    assert fields == labelled


def test_scripts_insert_text_as_text_and_keep_nothing() -> None:
    for script in scripts():
        assert not [word for word in FORBIDDEN if word in script.read_text()], script.name
