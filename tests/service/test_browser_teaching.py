"""The page in a real browser, against a real service: teaching it, publishing, going back, and who may."""

import json
from pathlib import Path
from shutil import copytree

import pytest

from memgrow.data import Domain, Stream
from tests.support.browser import SIZES, Look, served

pytestmark = pytest.mark.extras
WHILE = 120_000  # milliseconds for a training
HOSTILE = "<img src=x onerror=alert(1)>"


def as_file(domain: Domain) -> bytes:
    """Examples of a domain as JSON lines."""
    rows = [{"premise": one.text, "hypothesis": one.pair, "label": one.label} for one in domain.train]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.mark.parametrize("size", SIZES)
def test_a_domain_is_uploaded_watched_compared_published_and_taken_back(
    learnt_two: Path, look: Look, stream: Stream, tmp_path: Path, size: str
) -> None:
    with served(Path(copytree(learnt_two, tmp_path / "model"))) as address:
        page = look(address, size)
        page.choose("third.jsonl", as_file(stream[2]), "a third one")
        page.wait(".job progress")
        page.wait(".job .epoch")
        page.wait(".job[data-state=ready]", patience=WHILE)
        assert "a third one (new)" in page.find(".job .compare th").all_inner_texts()
        page.wait(".job", "No earlier domain was tested again")
        page.check()
        assert page.find(".heat tbody tr").count() == 2, "what is served has not changed"
        page.find(".job button").filter(has_text="Publish").click()
        page.wait(".job[data-state=published]")
        page.wait("#about", "Version 3")
        assert page.find(".heat tbody tr").count() == 3
        page.ask("the soup was cold", "there was a soup")
        page.wait("#answer .legend", "a third one")
        page.check()

        page.wait(".versions", "a third one")
        page.find(".versions button").first.click()
        page.wait("#about", "Version 3")
        page.wait(".versions button", "sure?").click()  # the second press
        page.wait("#about", "Version 2")
        page.wait("#version-result", "Version 2 is served now.")
        assert page.find(".heat tbody tr").count() == 2
        page.check()

        page.choose("other.jsonl", as_file(stream[2]), publish=True)  # once more, under the name of its file
        page.wait(".job[data-state=published] .domain-name", "other", patience=WHILE)
        page.wait("#about", "Version 3")
        page.check()


def test_what_is_discarded_is_never_served(learnt_two: Path, look: Look, stream: Stream, tmp_path: Path) -> None:
    with served(Path(copytree(learnt_two, tmp_path / "model"))) as address:
        page = look(address)
        page.choose("third.jsonl", as_file(stream[2]))
        page.wait(".job[data-state=ready]", patience=WHILE)
        page.find(".job button").filter(has_text="Discard").click()
        page.wait(".job[data-state=discarded]")
        assert page.find(".job button").count() == 0
        assert "Version 2" in page.text("#about")
        page.check()


def test_a_bad_file_is_told_in_a_sentence_and_can_be_mended(reader: str, look: Look) -> None:
    page = look(reader, "phone")
    for name, content, domain, sentence in (
        ("bad.jsonl", b'{"premise": "a", "hypothesis": "b", "label": "c"\n', "", "JSON"),
        ("bad.csv", b"\xff\xfe\x00", "", "UTF-8"),
        ("bad.exe", b"MZ", "", "must end in"),
        ("good.jsonl", b'{"premise": "a", "hypothesis": "b", "label": "c"}\n', HOSTILE, "name of a domain"),
    ):
        page.choose(name, content, domain)
        told = page.wait("#upload-result.bad", sentence).inner_text()
        assert told.endswith(".")
        assert page.find("#domain").input_value() == domain, "what was typed stays"
    page.check(refused=True)
    assert page.find(".job").count() == 0


def test_the_model_changes_only_for_who_knows_the_token(learnt_two: Path, look: Look, tmp_path: Path) -> None:
    with served(Path(copytree(learnt_two, tmp_path / "model")), "--token", "right-and-secret") as address:
        page = look(address)
        go_back = page.find(".versions button").first
        for typed, sentence in (("", "Enter the token"), ("wrong", "does not know"), ("wröng", "does not know")):
            page.find("#token").fill(typed)
            go_back.click()
            go_back.click()
            page.wait("#token-result.bad", sentence)
            assert page.tab.evaluate("document.activeElement.id") == "token"
        assert "Version 2" in page.text("#about")
        page.check(refused=True)
        page.find("#token").fill("right-and-secret")
        go_back.click()
        go_back.click()
        page.wait("#about", "Version 1")
        kept = page.tab.evaluate("[localStorage.length, sessionStorage.length, document.cookie, location.href]")
        assert kept == [0, 0, "", address]
        page.tab.reload()
        assert page.find("#token").input_value() == ""


def test_a_service_that_only_reads_offers_no_change(learnt_two: Path, look: Look, tmp_path: Path) -> None:
    with served(Path(copytree(learnt_two, tmp_path / "model")), "--read-only") as address:
        page = look(address)
        page.wait(".when-read-only", "only answers")
        page.wait(".versions")
        assert not any(button.is_visible() for button in page.find("#teach button, .versions button").all())
        page.check()
