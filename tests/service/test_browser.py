"""The page in a real browser, against a real service: asking, looking, and what strangers try."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from shutil import copytree
from urllib.request import urlopen

import pytest

from memgrow.data import Domain, Example, Stream, synthetic_stream
from memgrow.data.synthetic_dialogue import synthetic_dialogue
from memgrow.learner import Learner
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings
from tests.support.browser import SIZES, Look, served

pytestmark = pytest.mark.extras
HOSTILE = ("<img src=x onerror=\"document.title='owned'\">", "</textarea><script>document.title='owned'</script>")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_a_pair_gets_a_label_probabilities_and_coloured_words(
    reader: str, look: Look, stream: Stream, size: str, scheme: str
) -> None:
    page = look(reader, size, scheme)
    page.ask("the soup was cold", "there was a soup")
    label = page.wait("#answer .verdict strong").inner_text()
    assert page.text("#answer .bars th") == label
    assert page.find("#answer .bars tr").count() == 3
    assert page.find("#answer .word").count() == 8
    legend = page.find("#answer .legend li").all_inner_texts()
    assert [" ".join(one.split()[1:2]) for one in legend] == list(stream.names[:2])
    colours = page.tab.evaluate(
        "[...document.querySelectorAll('.strip span')].map(e => getComputedStyle(e).backgroundColor)"
    )
    assert len(set(colours)) >= 2, "each domain has a colour of its own"
    dark = page.tab.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert dark == (scheme == "dark")
    page.check()


@pytest.mark.parametrize("size", SIZES)
def test_the_matrix_and_the_curves_are_drawn_with_named_axes(
    reader: str, look: Look, stream: Stream, size: str
) -> None:
    page = look(reader, size)
    page.wait(".heat")
    assert page.find(".heat tbody tr").count() == 2
    assert page.find(".heat td.learnt").count() == 2
    assert page.find(".heat .axis").all_inner_texts() == ["tested on", "after learning"]
    assert page.find("svg.curves .axis").all_text_contents() == ["after learning (stage)", "accuracy, %"]
    (around,) = page.boxes("svg.curves")
    outside = [
        box["text"]
        for box in page.boxes("svg.curves text, svg.curves .mark")
        if box["left"] < around["left"] or box["right"] > around["right"] or box["bottom"] > around["bottom"]
    ]
    assert outside == []
    page.check()


@pytest.mark.parametrize("size", SIZES)
def test_the_interface_is_told_in_one_column_that_fits(reader: str, look: Look, size: str) -> None:
    page = look(reader, size)
    page.find("footer a").filter(has_text="Interface").click()
    page.wait("h2", "POST /explain")
    assert len({box["left"] for box in page.boxes("main > h2")}) == 1
    page.check()


def test_drift_is_told_in_one_sentence(reader: str, look: Look) -> None:
    page = look(reader)
    with urlopen(f"{reader}drift", timeout=15) as answer:
        told = json.loads(answer.read())["sentence"]
    assert page.wait("#drift").inner_text().lower() == f"{told.lower()}."
    page.check()


def test_everything_can_be_reached_and_done_by_keyboard(reader: str, look: Look) -> None:
    page = look(reader)
    reached = []
    for _ in range(30):
        page.tab.keyboard.press("Tab")
        at, outline = page.tab.evaluate(
            "[document.activeElement.id || document.activeElement.name || document.activeElement.className,"
            " getComputedStyle(document.activeElement).outlineStyle]"
        )
        reached.append(at)
        assert outline != "none" or not at, at
        if at == "token":
            break
    wanted = ["input-premise", "input-hypothesis", "ask", "file", "domain", "publish", "upload", "token"]
    assert [name for name in reached if name in wanted] == wanted
    page.tab.keyboard.press("Enter")  # nothing is sent, and nothing is lost
    assert page.tab.url == reader
    page.check()


def test_hostile_labels_names_and_words_are_shown_and_never_obeyed(
    look: Look, tiny: ModelSettings, short: TrainingSettings, tmp_path: Path
) -> None:
    examples = tuple(Example(f"a {word} thing", None, HOSTILE[word == "bad"]) for word in ("good", "bad") * 6)
    learner = Learner.create("F+M+V", model=tiny, training=short, device="cpu")
    for name in (HOSTILE[0], "constructor", "y" * 200):
        learner.adapt(Domain(name, *[(*examples, Example(name, None, HOSTILE[0]))] * 3), folder=tmp_path / "model")
    with served(tmp_path / "model") as address:
        for size in SIZES:
            page = look(address, size)
            page.ask("<script>document.title='owned'</script> & <b>good</b>")
            assert page.wait("#answer .verdict strong").inner_text() in HOSTILE
            assert sorted(page.find("#answer .bars th").all_inner_texts()) == sorted(HOSTILE)
            assert any(HOSTILE[0] in text for text in page.find(".heat th").all_text_contents())
            assert page.find(".heat td.untested").count() == 3 + 3, "a name that every object has is no figure"
            assert page.find("img").count() == 0
            assert page.find("main script, main b").count() == 0
            assert page.tab.title() == "model – memgrow"
            page.check()


def test_a_model_without_slots_says_so(
    look: Look, stream: Stream, tiny: ModelSettings, short: TrainingSettings, tmp_path: Path
) -> None:
    learner = Learner.create("F", model=replace(tiny, slots=0), training=short, device="cpu")
    learner.adapt(stream[0], folder=tmp_path / "model")
    with served(tmp_path / "model") as address:
        page = look(address)
        page.ask("the soup was cold", "there was a soup")
        page.wait("#answer .note", "no slots")
        assert page.find("#answer .word").count() == 0
        assert "none to go back to" in page.text("#versions")
        page.check()


def test_a_responder_replies_to_a_message(look: Look, short: TrainingSettings, tmp_path: Path) -> None:
    model = ModelSettings(cell="gru", embedding=6, hidden=5, slots=4, bidirectional=False)
    learner = Learner.create("F+M+V", model=model, training=short, device="cpu")
    learner.adapt(synthetic_dialogue(domains=2, train=16, validation=4, test=4)[0], folder=tmp_path / "model")
    with served(tmp_path / "model") as address:
        page = look(address, "phone")
        page.ask("where is the garden")
        page.wait("#answer .verdict", "Reply:")
        assert page.find("#answer .word").count() >= 4
        assert "100 / perplexity" in page.find("svg.curves .axis").all_text_contents()
        page.check()


def test_many_domains_and_long_histories_stay_within_the_window(
    look: Look, tiny: ModelSettings, short: TrainingSettings, tmp_path: Path
) -> None:
    learner = Learner.create("F+M+V", model=tiny, training=replace(short, epochs=1), device="cpu")
    made = {f"place number {seed}": synthetic_stream(1, train=8, validation=4, test=4, seed=seed) for seed in range(14)}
    learner.learn([replace(domain, name=name) for name, (domain,) in made.items()], folder=tmp_path / "model")
    with served(tmp_path / "model") as address:
        for size in SIZES:
            page = look(address, size)
            page.wait(".heat")
            assert page.find(".heat tbody tr").count() == 14
            ends = sorted(box["y"] for box in page.boxes("svg.curves .end"))
            assert all(below - above >= 10 for above, below in pairwise(ends)), "numbers cover none"
            page.check()


def test_a_service_that_is_gone_is_told_in_a_sentence(learnt_two: Path, look: Look, tmp_path: Path) -> None:
    with served(Path(copytree(learnt_two, tmp_path / "model"))) as address:
        page = look(address)
    page.ask("the soup was cold", "there was a soup")
    page.wait("#answer .bad", "cannot be reached")
    page.wait("#problem", "cannot be reached")
