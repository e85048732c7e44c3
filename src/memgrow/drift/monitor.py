"""A running window over what a model is asked, and what it says of drift. No text is kept, only sums.

Windows follow one another and do not overlap: each has its verdict when it is full, so that at most a share `alpha` of
all windows of known domains raises a false alarm, however often anybody looks.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memgrow.data import Example
from memgrow.data.text import tokenize
from memgrow.data.vocabulary import Vocabulary
from memgrow.drift.random_features import FEATURES, text_features
from memgrow.drift.reference import Reference, Tokenizer, unknown_shares, words_of
from memgrow.drift.two_sample import Verdict, Window, judge
from memgrow.errors import SettingsError, counted, listed

WINDOW = 100  # texts
LEAST = 20  # texts of a window: with fewer, means are not yet spread as the tests take them to be
ALPHA = 0.01
TINY = 1e-12  # smaller probabilities say no more than this
NO_REFERENCE = (
    "this model keeps no summary of its domains, so that drift cannot be told: it was saved by an earlier memgrow or "
    "learnt from too few texts, and will have one from the next domain on that it learns"
)


@dataclass(frozen=True)
class DriftReport:
    """What is to be said now; the verdict is that of the last full window."""

    texts: int  # seen in all
    windows: int  # full ones
    alarms: int  # of these
    due: bool  # whether adapting seems due
    sentence: str
    alpha: float
    window: int  # texts
    verdict: Verdict | None
    unknown_words: float | None  # of the last full window or, before there is one, so far
    confidence: float | None

    def to_json(self) -> dict[str, Any]:
        """With the figures of the verdict beside the rest; None: there is none yet."""
        values = asdict(self)
        verdict = values.pop("verdict")
        shown = {name: verdict[name] if verdict else None for name in ("distance", "p", "mixture", "tests")}
        return {**values, **shown}


class DriftMonitor:
    """Looks at texts and at how sure their answers were; any thread may add some, or ask."""

    def __init__(
        self,
        reference: Reference,
        vocabulary: Vocabulary | None = None,
        learnt: Iterable[str] = (),
        tokenizer: Tokenizer = tokenize,
        window: int = WINDOW,
        alpha: float = ALPHA,
    ) -> None:
        """For a model with this reference and, if it knows words, vocabulary; `learnt` are all of its domains."""
        if window < LEAST:
            raise SettingsError(f"a window of {window} texts is too small for the tests: give {LEAST} or more")
        if not 0 < alpha < 1:
            raise SettingsError(f"alpha is the share of false alarms, between 0 and 1, not {alpha:g}")
        self.window, self.alpha = window, alpha
        self._reference, self._vocabulary, self._tokenizer = reference, vocabulary, tokenizer
        self._missing = [name for name in learnt if name not in reference.domains]
        self._lock = threading.Lock()
        self._sums = np.zeros(FEATURES + 2)  # features, unknown words, confidence
        self._open = self._texts = self._windows = self._alarms = 0
        self._sure = True  # whether all texts of the window came with a confidence
        self._last: Verdict | None = None

    def add(self, examples: Sequence[Example], confidences: Sequence[float] | None = None) -> list[Verdict]:
        """Take note of some texts and of the probabilities of their answers; verdicts on windows that are full now."""
        if not examples or not self._reference.domains:
            with self._lock:
                self._texts += len(examples)
            return []
        rows = self._rows(examples, confidences)
        found = []
        with self._lock:
            while len(rows):
                taken, rows = np.split(rows, [self.window - self._open])
                self._texts += len(taken)
                self._sums += taken.sum(0)
                self._open += len(taken)
                self._sure &= confidences is not None
                if self._open == self.window:
                    found.append(self._close())
        return found

    def finish(self) -> Verdict | None:
        """The verdict on what the last window has, where no more texts are to come; None if that is too little."""
        with self._lock:
            return self._close() if self._open >= LEAST else None

    def report(self) -> DriftReport:
        with self._lock:
            last = self._last
            shown = last or self._means()
            due = last is not None and last.p <= self.alpha
            return DriftReport(
                self._texts,
                self._windows,
                self._alarms,
                due,
                self._sentence(),
                self.alpha,
                self.window,
                last,
                shown.unknown if shown else None,
                shown.confidence if shown else None,
            )

    @property
    def note(self) -> str:
        """Of which domains nothing is known, if there are such."""
        if not self._missing or not self._reference.domains:
            return ""
        return f"texts of {listed(self._missing)} may count as new, as no summary of them is kept"

    # Within, under the lock

    def _rows(self, examples: Sequence[Example], confidences: Sequence[float] | None) -> NDArray[np.float64]:
        words = words_of(examples, self._tokenizer)
        rows = np.zeros((len(examples), FEATURES + 2))
        rows[:, :FEATURES] = text_features(words)
        if self._vocabulary is not None:
            rows[:, FEATURES] = unknown_shares(words, self._vocabulary)
        if confidences is not None:
            rows[:, FEATURES + 1] = confidences
        return rows

    def _means(self) -> Window | None:
        if not self._open:
            return None
        means = self._sums / self._open
        unknown = None if self._vocabulary is None else float(means[FEATURES])
        return Window(self._open, means[:FEATURES], unknown, float(means[FEATURES + 1]) if self._sure else None)

    def _close(self) -> Verdict:
        window = self._means()
        assert window is not None
        # First of all, so that a window which cannot be judged does not stay to be judged again with each text.
        self._sums, self._open, self._sure = np.zeros_like(self._sums), 0, True
        self._last = judge(window, self._reference.domains, not self._missing)
        self._windows += 1
        self._alarms += self._last.p <= self.alpha
        return self._last

    def _sentence(self) -> str:
        if not self._reference.domains:
            return NO_REFERENCE
        if self._last is None:
            return (
                f"{self._open} of the {self.window} texts of the first window have been asked: nothing can be said yet"
            )
        said = in_words(self._last, self.alpha)
        return f"{said}; {self.note}" if self.note else said


def together(verdicts: Sequence[Verdict], alpha: float, texts: int) -> tuple[bool, str]:
    """Whether adapting seems due by all windows of some texts, and the sentence.

    Each window counts for as many as there are (Bonferroni), so that `alpha` holds for all of them together.
    """
    if not verdicts:
        return False, f"{counted(texts, 'text')} are too few to tell whether they are new: give {LEAST} or more"
    worst = min(verdicts, key=lambda one: one.p)
    each = alpha / len(verdicts)
    new = sum(one.p <= each for one in verdicts)
    if not new:
        return False, f"no window of these {counted(texts, 'text')} is unlike what was learnt"
    said = in_words(worst, each)
    if len(verdicts) == 1:
        return True, said
    return True, f"{new:,} of {counted(len(verdicts), 'window')} are new to the model; of the most so: {said}"


def in_words(verdict: Verdict, alpha: float) -> str:
    """What a verdict says, in one sentence."""
    mixture = listed(f"{name} {share:.0%}" for name, share in sorted(verdict.mixture.items(), key=lambda one: -one[1]))
    if not (rejected := verdict.rejected(alpha)):
        return f"the last {counted(verdict.texts, 'text')} look like what was learnt ({mixture})"
    known = [f"{share or 0:.1%}" for share in (verdict.unknown, verdict.usual_unknown)]
    sure = [f"{share or 0:.0%}" for share in (verdict.confidence, verdict.usual_confidence)]
    reasons = {
        "distance": f"they lie {verdict.distance:.1f} times as far from the domains learnt as chance has it",
        "unknown words": f"{known[0]} of their words are unknown ({known[1]} at most before)",
        "confidence": f"their answers are {sure[0]} sure ({sure[1]} at least before)",
    }
    told = " and ".join(reasons[name] for name in rejected)
    chance = f"p = {verdict.p:.1g}" if verdict.p > TINY else f"p below {TINY:g}"
    return f"adapting seems due, by the last {counted(verdict.texts, 'text')}: {told} ({chance})"
