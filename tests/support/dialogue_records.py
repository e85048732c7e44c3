"""Records of replies that no model has made, and dialogues made by rule under the names of the paper's corpora."""

import math
from dataclasses import replace

import numpy as np

from memgrow.data import Stream, synthetic_dialogue
from memgrow.experiments.grid import Failure, Outcome
from memgrow.experiments.paper.protocol import DIALOGUES as PAIR
from memgrow.experiments.reply_records import ReplyRecord, ReplyScores, Sample
from memgrow.experiments.run import Record
from memgrow.history import Stage
from memgrow.methods import Grew
from memgrow.metrics.replies import BleuCounts

EXAMPLES, WORDS = 200, 5


def said(share, similarity=None, examples=EXAMPLES):
    """Replies of five words; of that share all words are right, and of the others none: BLEU-2 is 100 * share."""
    right = np.arange(examples) < round(share * examples)
    counts = BleuCounts(
        np.outer(right, [WORDS, WORDS - 1]), np.tile([WORDS, WORDS - 1], (examples, 1)), np.full(examples, WORDS)
    )
    cosines = None if similarity is None else np.full(examples, similarity)
    return ReplyScores(counts, (0.25, 0.5), cosines, (Sample(0, "abc", "so it is"),))


def record(stage, share, perplexity, similarity=0.5):
    tokens = np.full(EXAMPLES, WORDS + 1)
    replies = {
        part: {
            name: ReplyRecord(
                tokens * math.log(perplexity(stage, name, part)),
                tokens,
                said(share(stage, name), similarity) if part == "test" else None,
            )
            for name in PAIR
        }
        for part in ("validation", "test")
    }
    done = Stage(stage.learns, stage.method, Grew(), 1000 * len(stage.learns), 77, 3, 2, 0.5, 1.5, "")
    return Record("key", done, dict.fromkeys(PAIR, ()), dict.fromkeys(PAIR, ()), replies=replies)


class Runner:
    """Stands in for the grid."""

    def __init__(self, share=lambda run, name: 0.5, perplexity=lambda run, name, part: 20.0, fails=lambda run: False):
        self.share, self.perplexity, self.fails = share, perplexity, fails
        self.asked = []

    def __call__(self, data, runs):
        self.asked.append(list(runs))
        good = {
            run: tuple(record(stage, self.share, self.perplexity) for stage in run.stages())
            for run in runs
            if not self.fails(run)
        }
        return Outcome(good, tuple(Failure(run, 0, "the lamp went out") for run in runs if self.fails(run)))


def small_pair(train=40, held_out=12):
    made = synthetic_dialogue(2, train=train, validation=held_out, test=held_out)
    return Stream(replace(domain, name=name) for domain, name in zip(made, PAIR, strict=True))


def write_vectors(path, stream):
    """A vector of four numbers for every word of the test parts."""
    words = sorted({word for domain in stream for e in domain.test for word in f"{e.text} {e.reply}".split()})
    rng = np.random.default_rng(0)
    path.write_text("".join(f"{word} {' '.join(f'{x:.3f}' for x in rng.normal(size=4))}\n" for word in words))
    return path
