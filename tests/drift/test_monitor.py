"""The running window: known texts pass, new ones are told, and nothing of any text is kept."""

import gc
import json
import threading
from collections import Counter
from itertools import chain

import numpy as np
import pytest

from memgrow.data import Example, synthetic_stream
from memgrow.data.text import tokenize
from memgrow.data.vocabulary import Vocabulary
from memgrow.drift import DriftMonitor, Reference, summarise, together
from memgrow.errors import SettingsError


@pytest.fixture(scope="module")
def stream():
    return synthetic_stream(domains=3, train=300, validation=60, test=200)


@pytest.fixture(scope="module")
def vocabulary(stream) -> Vocabulary:
    texts = chain.from_iterable(one.texts for domain in stream[:2] for one in domain.train)
    return Vocabulary().extended_by(Counter(chain.from_iterable(map(tokenize, texts))))


@pytest.fixture(scope="module")
def reference(stream, vocabulary) -> Reference:
    parts = [(domain, [0.9] * 30 + [0.7] * 30) for domain in stream[:2]]
    return Reference(
        {
            domain.name: summarise(domain.train, domain.validation, tokenize, vocabulary, sure, 1)
            for domain, sure in parts
        }
    )


@pytest.fixture
def monitor(reference, vocabulary) -> DriftMonitor:
    return DriftMonitor(reference, vocabulary, reference.domains, window=50)


def test_known_domains_pass_and_a_new_one_is_told_in_one_sentence(monitor, stream):
    assert "50 texts of the first window" in monitor.report().sentence
    known = [example for pair in zip(stream[0].test, stream[1].test, strict=True) for example in pair]
    assert all(verdict.p > 0.01 for verdict in monitor.add(known, [0.8] * len(known)))
    report = monitor.report()
    assert (report.texts, report.windows, report.due) == (400, 8, False)
    assert report.sentence.startswith("the last 50 texts look like what was learnt (")
    assert report.verdict.mixture == pytest.approx({"kitchen": 0.5, "harbour": 0.5}, abs=0.15)
    monitor.add(stream[2].test[:50], [0.5] * 50)
    report = monitor.report()
    assert report.due
    assert report.verdict.rejected(0.01) == ["distance", "unknown words", "confidence"]
    assert report.sentence.startswith("adapting seems due, by the last 50 texts: they lie ")
    told = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert {"texts", "due", "sentence", "unknown_words", "distance", "p", "confidence"} <= told.keys()
    monitor.add(known[:50])
    assert not monitor.report().due, "the next window is one of known texts"


def test_how_texts_are_handed_over_makes_no_difference(reference, vocabulary, stream):
    examples = [*stream[0].test[:70], *stream[2].test[:80]]
    sure = list(np.linspace(0.5, 1, 150))
    found = []
    for sizes in ([150], [1] * 150, [37, 13, 100], [0, 149, 1]):
        monitor, verdicts, start = DriftMonitor(reference, vocabulary, window=50), [], 0
        for size in sizes:
            verdicts += monitor.add(examples[start : start + size], sure[start : start + size])
            start += size
        found.append([verdict.p for verdict in verdicts])
    assert len(found[0]) == 3
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=1e-6)


def test_a_window_that_cannot_be_judged_is_given_up_and_the_next_one_begins(monitor, stream, monkeypatch):
    def stumble(*given):
        raise ValueError("no verdict")

    with monkeypatch.context() as patch:
        patch.setattr("memgrow.drift.monitor.judge", stumble)
        with pytest.raises(ValueError, match="no verdict"):
            monitor.add(stream[2].test[:60])
    assert (monitor.report().texts, monitor.report().windows) == (50, 0), "ten were not looked at any more"
    known = [example for pair in zip(stream[0].test[:25], stream[1].test[:25], strict=True) for example in pair]
    (verdict,) = monitor.add(known)
    assert verdict.texts == 50
    assert verdict.p > 0.01, "nothing of the window that was given up is in the next"
    assert (monitor.report().texts, monitor.report().windows) == (100, 1)


def test_threads_lose_no_text(monitor, stream):
    def ask() -> None:
        for example in stream[0].test[:60]:
            monitor.add([example], [0.8])
            monitor.report()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (monitor.report().texts, monitor.report().windows) == (240, 4)


def test_no_text_and_no_word_is_kept(monitor):
    text = "zebrafish " * 3 + "quokka"
    example = Example(text, text)
    monitor.add([example] * 70, [0.5] * 70)
    held = gc.get_referrers(text)
    assert all(one is example or not isinstance(one, DriftMonitor) for one in held)
    state = repr({name: value for name, value in vars(monitor).items() if name not in ("_reference", "_vocabulary")})
    assert "quokka" not in state
    assert sum(np.size(value) for value in vars(monitor).values() if isinstance(value, np.ndarray)) < 200


def test_without_a_summary_there_is_a_sentence_and_with_part_of_one_a_warning(reference, stream):
    empty = DriftMonitor(Reference(), None, ["kitchen"])
    empty.add(stream[0].test)
    report = empty.report()
    assert (report.texts, report.due, report.verdict) == (200, False, None)
    assert "no summary of its domains" in report.sentence
    partly = DriftMonitor(reference, None, ["kitchen", "harbour", "old"], window=50)
    partly.add(stream[0].test)
    assert "texts of old may count as new" in partly.report().sentence
    assert partly.report().unknown_words is None


@pytest.mark.parametrize("options", [{"window": 5}, {"alpha": 0.0}, {"alpha": 1.0}, {"alpha": float("nan")}])
def test_windows_and_levels_that_make_no_sense_are_refused(reference, options):
    with pytest.raises(SettingsError):
        DriftMonitor(reference, **options)


def test_many_windows_share_alpha(monitor, stream):
    assert together([], 0.01, 7) == (False, "7 texts are too few to tell whether they are new: give 20 or more")
    known = monitor.add(stream[0].test)
    assert not together(known, 0.01, 200)[0]
    due, sentence = together([*known, *monitor.add(stream[2].test[:50])], 0.01, 250)
    assert due
    assert sentence.startswith("1 of 5 windows are new to the model; of the most so: adapting seems due")


def test_few_texts_have_no_summary_and_very_many_are_looked_at_in_part(stream, monkeypatch):
    train, validation = stream[0].train, stream[0].validation
    assert summarise(train[:29], validation, tokenize, None, [], 1) is None
    monkeypatch.setattr("memgrow.drift.reference.MOST", 40)
    some = summarise(train, validation, tokenize, None, [], 1)
    assert some.texts == 40
    assert some.unknown is None
    assert some.confidence is None
