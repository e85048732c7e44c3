"""The page in a real browser, against a real service."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memgrow.data import Domain, Example, Stream
from memgrow.learner import Learner
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings
from tests.support.browser import SIZES, Look, Page, open_browser, served

pytestmark = pytest.mark.extras
HOSTILE = ("<img src=x onerror=\"document.title='owned'\">", "</textarea><script>document.title='owned'</script>")
TRAINING_MS = 120_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as found:
        yield found


@pytest.fixture
def look(browser: Any) -> Iterator[Look]:
    """Open an address in a new tab, which is closed at the end."""
    with ExitStack() as stack:

        def start(address: str, *options: str) -> Page:
            page = Page(browser, address, *options)
            stack.callback(page.context.close)
            return page

        yield start


@pytest.mark.parametrize("size", SIZES)
def test_ask_teach_publish_and_go_back(folder: Path, look: Look, stream: Stream, size: str) -> None:
    rows = [{"premise": one.text, "hypothesis": one.pair, "label": one.label} for one in stream[2].train]
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    with served(folder) as address:
        page = look(address, size, "dark" if size == "phone" else "light")
        page.ask("the soup was cold", "there was a soup")
        assert page.text("#answer .bars th") == page.wait("#answer .verdict strong").inner_text()
        assert page.find("#answer .bars tr").count() == 3
        assert page.find("#answer .word").count() == 8
        assert page.find(".heat tbody tr").count() == 2
        assert page.find(".heat .axis").all_inner_texts() == ["tested on", "after learning"]
        page.wait("#drift")

        page.choose("bad.exe", b"MZ", "kept")
        page.wait("#upload-result.bad", "must end in")
        assert page.find("#domain").input_value() == "kept"
        page.choose("third.jsonl", content, "a third one")
        page.wait(".job[data-state=ready]", patience=TRAINING_MS)
        assert "a third one (new)" in page.find(".job .compare th").all_inner_texts()
        page.find(".job button").filter(has_text="Publish").click()
        page.wait("#about", "Version 3")
        assert page.find(".heat tbody tr").count() == 3

        page.find(".versions button").first.click()
        page.wait(".versions button", "sure?").click()  # the second press
        page.wait("#about", "Version 2")
        page.check(refused=True)
    page.ask("the soup was cold", "there was a soup")
    page.wait("#answer .bad", "cannot be reached")


def test_hostile_names_are_shown_as_text(
    look: Look, tiny: ModelSettings, short: TrainingSettings, tmp_path: Path
) -> None:
    examples = tuple(Example(f"a {word} thing", None, HOSTILE[word == "bad"]) for word in ("good", "bad") * 6)
    learner = Learner.create("finetune", model=replace(tiny, slots=0), training=short, device="cpu")
    for name in (HOSTILE[0], "constructor", "y" * 200):
        learner.adapt(Domain(name, *[(*examples, Example(name, None, HOSTILE[0]))] * 3), folder=tmp_path / "model")
    with served(tmp_path / "model") as address:
        page = look(address, "phone")
        page.ask("<script>document.title='owned'</script> & <b>good</b>")
        assert page.wait("#answer .verdict strong").inner_text() in HOSTILE
        page.wait("#answer .note", "no slots")
        assert any(HOSTILE[0] in text for text in page.find(".heat th").all_text_contents())
        assert page.find("img, main script, main b").count() == 0
        assert page.tab.title() == "model – memgrow"
        page.check()
