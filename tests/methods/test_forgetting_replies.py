"""A model of the smallest size learns two help desks, and loses of the first what its method lets it lose.

The second desk brings a fifth of the first one's pairs and is learnt at a lower rate, as one does with little data.
There F+M+V is less in doubt about the first desk's replies than F, and that is owed to its words: F+V does as well.
With as many pairs as the first desk has, both lose all that the two desks answer differently, and F+M+V is not the
one that is less in doubt.
"""

import copy
from dataclasses import dataclass, replace
from statistics import fmean

import pytest

from memgrow.data import Domain, Stream, synthetic_dialogue
from memgrow.evaluation.replies import ReplyFigures, evaluate_replies
from memgrow.learner import Learner
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings

SEEDS, FEW = range(1), 200
MODEL = ModelSettings(cell="gru", embedding=32, hidden=64, slots=32, bidirectional=False)
TRAINING = TrainingSettings(rate=5e-3, epochs=20, patience=5)
GENTLE = TrainingSettings(rate=1e-3, epochs=20)

pytestmark = [pytest.mark.slow, pytest.mark.extras]


@dataclass(frozen=True)
class Trained:
    """A learner that knows the first desk, and both desks."""

    learner: Learner
    desks: Stream

    def then(self, method: str, domain: Domain, training: TrainingSettings) -> Learner:
        after = copy.deepcopy(self.learner)
        after.use(method)
        after.training = training
        after.adapt(domain)
        return after


@pytest.fixture(scope="module")
def trained() -> list[Trained]:
    made = []
    for seed in SEEDS:
        desks = synthetic_dialogue(test=80, seed=seed)
        learner = Learner.create("F", model=MODEL, training=TRAINING, seed=seed, device="cpu")
        learner.adapt(desks[0])
        made.append(Trained(learner, desks))
    return made


@pytest.fixture(scope="module")
def gently(trained) -> dict[str, list[tuple[ReplyFigures, ReplyFigures]]]:
    """By method and seed, how both desks are answered at the end."""
    found = {}
    for method in ("F", "F+M+V"):
        ends = []
        for one in trained:
            first, second = one.desks
            after = one.then(method, replace(second, train=second.train[:FEW]), GENTLE)
            ends.append((evaluate_replies(after, first), evaluate_replies(after, second)))
        found[method] = ends
    return found


def test_both_desks_are_learnt_to_be_answered(trained):
    assert fmean(evaluate_replies(one.learner, one.desks[0]).bleu2 for one in trained) > 85
    second = trained[0].desks[1]
    assert evaluate_replies(trained[0].then("F+M+V", second, TRAINING), second).bleu2 > 85


def test_fine_tuning_forgets_the_first_desk(trained, gently):
    for one, (first, _) in zip(trained, gently["F"], strict=True):
        assert first.bleu2 < evaluate_replies(one.learner, one.desks[0]).bleu2 - 10


def test_with_new_words_less_of_the_first_desk_is_forgotten_and_more_of_the_second_learnt(gently):
    doubt = {method: fmean(first.perplexity for first, _ in ends) for method, ends in gently.items()}
    assert doubt["F+M+V"] < doubt["F"]
    said = {method: fmean(second.bleu2 for _, second in ends) for method, ends in gently.items()}
    assert said["F+M+V"] > said["F"]
