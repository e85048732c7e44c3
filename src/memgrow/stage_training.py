"""How a stage that has begun is learnt: by which loop, by itself or as one of a stack, or without any training."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from statistics import fmean

from torch import Tensor

from memgrow.adaptation import Adaptation
from memgrow.history import Stage
from memgrow.learnt import Learnt
from memgrow.methods import Plugins
from memgrow.models import Classifier
from memgrow.progress import Progress, Step
from memgrow.seeding import seeded
from memgrow.training.data_parallel import DataParallel, ParallelStepper
from memgrow.training.evaluation import tally_each
from memgrow.training.loop import Outcome, train
from memgrow.training.plain_stepper import PlainStepper
from memgrow.training.recorded import RecordedStepper
from memgrow.training.resume import ResumeFolder
from memgrow.training.stacked.together import RECORDED, STACKED, StackedDomain, choose_loop, correct


def learn_stage(
    adaptation: Adaptation,
    progress: Progress,
    resume: ResumeFolder,
    loop: str | None = None,
    group: DataParallel | None = None,
) -> tuple[Learnt, Stage]:
    """Learn a stage by the loop that is asked for, or else by the faster; with a group, by all its processes."""
    if adaptation.setup.method.closed_form:
        return _solve(adaptation, progress, resume, group)
    parts = (adaptation.training, adaptation.validation)
    chosen = choose_loop(adaptation.model, adaptation.device, *parts, training=adaptation.setup.training, asked=loop)
    if chosen.name == STACKED:
        (learnt,) = learn_together([adaptation], progress, resume)
        return learnt
    if adaptation.old is not None:
        adaptation.plugins.before_domain(adaptation.old, partial(_old_logits, adaptation))
    # Asked only now: a plugin may begin to hold something as the domain arrives.
    recorded = chosen.name == RECORDED and adaptation.plugins.recording_obstacle() is None
    if group is not None:
        return _learn_alone(adaptation, partial(ParallelStepper, group=group), progress, resume, group)
    return _learn_alone(adaptation, RecordedStepper if recorded else PlainStepper, progress, resume)


def _old_logits(adaptation: Adaptation) -> Tensor:
    assert isinstance(adaptation.old, Classifier)  # a plugin that asks refuses others
    return adaptation.old.logits(adaptation.training.as_known_to(adaptation.old.vocabulary_size))


def _learn_alone(
    adaptation: Adaptation,
    stepper: Callable[..., PlainStepper],
    progress: Progress,
    resume: ResumeFolder,
    group: DataParallel | None = None,
) -> tuple[Learnt, Stage]:
    settings = adaptation.setup.training
    with seeded(adaptation.seed, "train", device=adaptation.device):
        (outcome,) = train(
            stepper(
                adaptation.model,
                adaptation.training,
                adaptation.validation,
                settings=settings,
                trains=adaptation.trains,
                plugins=adaptation.plugins,
            ),
            adaptation.training,
            name=adaptation.stage.name,
            settings=settings,
            seeds=[adaptation.seed],
            plugins=[adaptation.plugins],
            resume=resume,
            progress=progress,
            validation=len(adaptation.validation),
        )
    return _finish_plainly(adaptation, outcome, group)


def _solve(
    adaptation: Adaptation, progress: Progress, resume: ResumeFolder, group: DataParallel | None
) -> tuple[Learnt, Stage]:
    """Learn without training; a run that was killed begins again."""
    resume.restore()  # which refuses to give up another's unfinished training

    def tell(done: int, total: int) -> None:
        progress.step(Step(adaptation.stage.name, 1, 1, done, total))

    with _read_by(adaptation, group):
        adaptation.plugins.solve(adaptation.model, adaptation.data, tell)
        validation = adaptation.model.score(adaptation.validation)
    return _finish_plainly(adaptation, Outcome(0, 0, validation, 0.0), group)


def _read_by(adaptation: Adaptation, group: DataParallel | None) -> AbstractContextManager[None]:
    """Within, all processes of a group read what the model is given; its encoder stays as it is."""
    if group is None:
        return nullcontext()
    group.take(adaptation.model.encoder)
    return group.sharing(adaptation.model.encoder)


def _finish_plainly(adaptation: Adaptation, outcome: Outcome, group: DataParallel | None) -> tuple[Learnt, Stage]:
    adaptation.after_training(partial(tally_each, adaptation.model, adaptation.validation))
    if adaptation.grew.slots:
        adaptation.model.encoder.note_texts(adaptation.data)  # once more: word vectors may have moved
    note = adaptation.plugins.after_domain(adaptation.model, adaptation.training, adaptation.device, adaptation.seed)
    with _read_by(adaptation, group if adaptation.tested else None):
        scores = {
            name: adaptation.model.score(adaptation.encode(part.test)) for name, part in adaptation.tested.items()
        }
    return adaptation.finish(outcome, note, scores)


def learn_together(
    adaptations: Sequence[Adaptation], progress: Progress, resume: ResumeFolder
) -> list[tuple[Learnt, Stage]]:
    """Let models that can be stacked learn one domain as a stack; resumed is only a stack of one."""
    first, plugins = adaptations[0], [one.plugins for one in adaptations]
    models, seeds = [one.model for one in adaptations], [one.seed for one in adaptations]
    domain = StackedDomain(models, first.training, seeds, first.device)
    domain.prepare(first.validation, first.setup.training.batch)
    _before_domain(adaptations, domain)
    # Asked only now: a plugin may begin to hold something as the domain arrives.
    if (reason := first.plugins.stacking_obstacle()) is not None:
        if len(adaptations) > 1:
            progress.note(one_after_another(first.stage.name, reason))
        return [_learn_alone(one, PlainStepper, progress, resume) for one in adaptations]
    outcomes = domain.train(
        first.stage.name, first.setup.training, first.trains, plugins, resume=resume, progress=progress
    )
    for number, one in enumerate(adaptations):
        one.after_training(partial(domain.tally_each, number))
    notes = Plugins.after_domain_together(plugins, domain)
    answers = {name: correct(models, first.encode(part.test), first.device) for name, part in first.tested.items()}
    scores = [{name: fmean(right[number]) for name, right in answers.items()} for number in range(len(models))]
    finished = zip(adaptations, outcomes, notes, scores, strict=True)
    return [one.finish(outcome, note, score) for one, outcome, note, score in finished]


def one_after_another(name: str, reason: str) -> str:
    """The sentence about learners that cannot be stacked."""
    return f"{name}: the learners are trained one after another, as {reason}"


def _before_domain(adaptations: Sequence[Adaptation], domain: StackedDomain) -> None:
    """Let plugins prepare for a later domain; if one asks for its old model's answers, all old models are asked."""
    olds = [one.old for one in adaptations if one.old is not None]
    answers: list[Tensor] = []

    def ask(number: int) -> Tensor:
        if not answers:
            answers.extend(domain.logits(olds))
        return answers[number]

    for number, (one, old) in enumerate(zip(adaptations, olds, strict=False)):
        one.plugins.before_domain(old, partial(ask, number))
