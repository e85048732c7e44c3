"""Several learners that differ in their seed alone, trained side by side: many seeds for little more than one.

With `stack_single` one learner by itself is a stack as well, as the recorded studies have it; without, it is trained as
by `Learner.adapt`, to the bit. The two round differently, and that may be another epoch in which training stops.
"""

from collections.abc import Sequence
from pathlib import Path

from memgrow.adaptation import Adaptation
from memgrow.data import Domain
from memgrow.history import Stage
from memgrow.learner import Learner
from memgrow.methods import Plugins
from memgrow.progress import NoProgress, Progress
from memgrow.seeding import derive
from memgrow.stage_data import domains_of_stage, validate
from memgrow.stage_training import learn_stage, learn_together, one_after_another
from memgrow.training.resume import ResumeFolder
from memgrow.training.stacked.model import obstacle
from memgrow.training.stacked.together import StackedDomain, correct, stacking_obstacle


def adapt_together(
    learners: Sequence[Learner],
    domain: Domain,
    *,
    earlier: Sequence[Domain] = (),
    vectors: str | Path | None = None,
    progress: Progress | None = None,
    stack_single: bool = True,
    describe: bool = True,
) -> list[Stage]:
    """Let all learners learn a domain: as one stack, or one after another where they cannot be stacked.

    All of them learn it or, after an error, none. Without `describe` they take no note of how sure their answers may
    be, nor of what the domain's texts are like, which takes time and which studies do not ask for.
    """
    progress, nowhere = progress or NoProgress(), ResumeFolder(None, 0, {}, 0.0)
    adaptations: list[Adaptation] = []
    for learner in learners:
        first = adaptations[0] if adaptations else None
        if first is not None and (learner.task, learner.labels) == (learners[0].task, learners[0].labels):
            stage = first.stage
        else:
            domains = domains_of_stage(learner.method, learner.history, domain, earlier)
            stage = validate(domains, learner.task, learner.labels)
        adaptations.append(
            Adaptation.begin(learner.setup, learner.learnt, learner.device, stage, (), vectors, progress, first)
        )
    if any(one.data is not adaptations[0].data for one in adaptations):
        reason: str | None = "their vocabularies or labels differ"
    elif len(adaptations) > 1 and any(one.training is not one.data for one in adaptations):
        reason = "each keeps rows of its own"
    else:
        reason = stacking_obstacle([one.model for one in adaptations], learners[0].training)
    if reason is None and _stacked(learners, stack_single):
        learnt = learn_together(adaptations, progress, nowhere)
    else:
        if reason is not None and len(learners) > 1:
            progress.note(one_after_another(domain.name, reason))
        learnt = [learn_stage(one, progress, nowhere) for one in adaptations]
    described = [
        one.described(known) if describe else known for one, (known, _) in zip(adaptations, learnt, strict=True)
    ]
    for learner, known in zip(learners, described, strict=True):
        learner.take(known)
    return [record for _, record in learnt]


def note_together(learners: Sequence[Learner], domain: Domain, stack_single: bool = True) -> None:
    """Let learners' plugins look at their first domain after the event, as they would have when it was learnt."""
    models = [learner.trained() for learner in learners]
    data, device = learners[0].encode(domain.train), learners[0].device
    seeds = [derive(learner.seed, "stage", 0) for learner in learners]
    if obstacle(models) is None and _stacked(learners, stack_single):
        stacked = StackedDomain(models, data, seeds, device)
        Plugins.after_domain_together([learner.plugins for learner in learners], stacked)
        return
    for learner, model, seed in zip(learners, models, seeds, strict=True):
        learner.plugins.after_domain(model, data, device, seed)


def keep_examples_again(learners: Sequence[Learner], domains: Sequence[Domain]) -> None:
    """Let learners by a method that keeps rows have those of the domains so far, as they chose them: by their seeds."""
    for learner in learners:
        for number, domain in enumerate(domains if learner.plugins.keeps_examples else ()):
            learner.plugins.keep_examples(domain.name, domain.train, derive(learner.seed, "stage", number))


def correct_together(
    learners: Sequence[Learner], domain: Domain, split: str = "test", stack_single: bool = True
) -> list[list[bool]]:
    """For each learner and example of one part of a domain, whether it is answered rightly."""
    models = [learner.trained() for learner in learners]
    examples = getattr(domain, split)
    first = learners[0]
    same = all((learner.vocabulary, learner.labels) == (first.vocabulary, first.labels) for learner in learners)
    if not same or obstacle(models) is not None or not examples or not _stacked(learners, stack_single):
        return [learner.correct(domain, split) for learner in learners]
    return correct(models, first.encode(examples, strange=True), first.device)


def _stacked(learners: Sequence[Learner], stack_single: bool) -> bool:
    return stack_single or len(learners) > 1
