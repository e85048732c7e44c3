"""The page in a real browser, against a real service."""

import csv
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from memgrow.data import Domain, Example, Stream
from memgrow.learner import Learner
from memgrow.models import ModelSettings
from memgrow.serve.jobs import Job
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
        page.wait("#answer .version", "version 3")  # asked again
        page.wait("#changed", "Version 3")

        page.find(".versions button").first.click()
        page.wait(".versions button", "a third one").click()  # the second press
        page.wait("#about", "Version 2")
        page.wait("#answer .version", "version 2")
        page.check(refused=True)
    page.ask("the soup was cold", "there was a soup")
    page.wait("#answer .bad", "cannot be reached")


def csv_of(stream: Stream, columns: tuple[str, str, str], prefix: str = "") -> bytes:
    rows = [(one.text, one.pair or "", f"{prefix}{one.label}") for one in stream[2].train]
    file = StringIO(newline="")
    csv.writer(file, delimiter=";").writerows([columns, *rows])
    return file.getvalue().encode()


def test_columns_are_chosen_and_foreign_labels_confirmed(folder: Path, look: Look, stream: Stream) -> None:
    with served(folder) as address:
        page = look(address, "phone")
        page.choose("other.csv", csv_of(stream, ("one", "other", "stars"), "topic "))
        page.wait("#columns.asks")
        assert page.find("#columns select:invalid").count() == 3
        for role, column in (("text", "one"), ("pair", "other"), ("label", "stars")):
            page.find(f"#columns-{role}").select_option(column)
        page.find("#upload").click()
        page.wait("#upload-result.bad", "shares no label")
        assert "--" not in page.text("#upload-result")
        page.find("#upload").filter(has_text="with these labels").click()
        page.wait(".job", "other")
        page.check(refused=True)


def test_a_file_is_answered_as_csv(folder: Path, look: Look, stream: Stream, tmp_path: Path) -> None:
    content = (
        csv_of(stream, ("premise", "hypothesis", "label"))
        + b'"a ""quoted"" soup;\nof two lines";"it is a soup";neutral\r\n'
    )
    with served(folder, "--read-only") as address:
        page = look(address)
        page.find(".batch summary").click()
        page.find("#batch-file").set_input_files({"name": "in.csv", "mimeType": "text/csv", "buffer": content})
        page.find("#batch-ask").click()
        link = page.wait("#batch-result a")
        with page.tab.expect_download() as download:
            link.click()
        download.value.save_as(tmp_path / "out.csv")
        assert page.find("#examples button").count() > 3  # with texts of the file
        page.check()
    rows = list(csv.DictReader((tmp_path / "out.csv").open(newline="", encoding="utf-8")))
    assert len(rows) == len(stream[2].train) + 1
    assert rows[-1]["premise"] == 'a "quoted" soup;\nof two lines'
    assert {row["version"] for row in rows} == {"2"}
    assert {row["predicted"] for row in rows} <= set(Learner.load(folder, "cpu").labels or ())
    assert all(0 < float(row["probability"]) <= 1 for row in rows)


def test_a_costly_training_is_published_by_a_second_press(folder: Path, look: Look) -> None:
    job = Job(
        domain="new",
        suffix=".csv",
        publish=False,
        state="ready",
        before={"a": 0.9, "b": 0.8},
        after={"a": 0.67, "b": 0.8, "new": 0.5},
    )
    asked: list[str] = []

    def publish(route: Any) -> None:
        asked.append(route.request.url)
        route.fulfill(json={})

    with served(folder) as address:
        page = look(address)
        found = {"jobs": [job.model_dump()], "read_only": False, "notable_points": 2}
        page.tab.route("**/jobs", lambda route: route.fulfill(json=found))
        page.tab.route("**/publish", publish)
        page.tab.reload()
        button = page.wait(".job button", "Publish")
        button.click()
        page.wait(".job button", "a loses 23.0 points")
        assert not asked
        page.find(".job button").first.click()
        page.tab.wait_for_timeout(500)
        assert len(asked) == 1
        page.check()


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
