"""One job done by a worker: learners adapted, evaluated and recorded, or a sentence that says why not."""

import gc
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import torch

from memgrow.data import Domain, Stream
from memgrow.device import is_out_of_memory
from memgrow.errors import MemgrowError, ModelError
from memgrow.experiments.plan import Job, Result, Task
from memgrow.experiments.reply_records import ReplyEvaluation, ReplyRecord
from memgrow.experiments.run import Record
from memgrow.experiments.store import Store
from memgrow.history import Stage
from memgrow.learner import Learner
from memgrow.methods import FinishedDomain, find_method
from memgrow.methods.rehearsal import draw_balanced
from memgrow.models import REPLY, Model
from memgrow.nn import ResidualMemory
from memgrow.progress import Progress
from memgrow.seeding import derive

Answers = Mapping[str, Sequence[bool]]


class Tested(NamedTuple):
    """The scores of a learner on all domains, as a record keeps them."""

    validation: Answers
    test: Answers
    replies: Mapping[str, Mapping[str, ReplyRecord]] = MappingProxyType({})


@dataclass(frozen=True)
class WorkerContext:
    """The context that a worker needs for any job: the data, where results are kept, and the device."""

    stream: Stream
    held_out: dict[str, str]  # fingerprints of what learners are evaluated on
    store: Store
    vectors: Path | None
    device: str
    reply_evaluation: ReplyEvaluation | None = None  # of models that answer with words
    only_learnt: bool = False  # evaluate on learnt domains alone and, at the end, a model with slots without them too
    stack_single: bool = True  # a learner by itself is trained as a stack of one; if not, as `Learner.adapt` does

    def run(self, job: Job, progress: Progress) -> list[Record]:
        """Do a job and return its records, which are in the store by then; notes have none."""
        learners = [self._learner(task) for task in job.tasks]
        stages: Sequence[Stage | None] = [None] * len(learners)
        if job.run.takes_notes():
            _take_notes(learners, job, self.stream[job.run.learns[0]])
        else:
            *earlier, domain = (self.stream[name] for name in job.run.learns)
            _draw_rows_again(learners, earlier)
            stages = [
                learner.adapt(domain, earlier=earlier, vectors=self.vectors, progress=progress) for learner in learners
            ]
        for task, learner in zip(job.tasks, learners, strict=True):
            learner.state.method_state.load_rows({})  # the stream has them: no file is to hold any
            if task.keep:  # the learner first: a record says that its stage is finished
                learner.save(self.store.model(task.key), overwrite=True)
        wanted = [
            (task, learner, stage)
            for task, learner, stage in zip(job.tasks, learners, stages, strict=True)
            if stage is not None and task.record
        ]
        return self._records(*zip(*wanted, strict=True)) if wanted else []

    def _learner(self, task: Task) -> Learner:
        run = task.run
        if task.parent is None:
            return Learner.create(
                run.method,
                model=run.model,
                training=run.training,
                options=run.options,
                seed=run.seed,
                device=self.device,
            )
        learner = Learner.load(self.store.model(task.parent), self.device, run.model)
        if not run.takes_notes():
            learner.use(run.method, run.options)
        return learner

    def _records(self, tasks: Sequence[Task], learners: Sequence[Learner], stages: Sequence[Stage]) -> list[Record]:
        """Evaluate the learners on all domains, and keep what came of it."""
        names = tasks[0].run.learns if self.only_learnt else self.stream.names
        tested = self._replies(learners) if learners[0].task == REPLY else self._answers(learners, names)
        without: Sequence[Mapping[str, Answers]] = [{}] * len(learners)
        if self.only_learnt and set(names) == set(self.stream.names) and has_slots(learners[0].trained()):
            with ExitStack() as silent:
                for learner in learners:
                    silent.enter_context(slots_silent(learner.trained()))
                found_without = self._answers(learners, names)
            without = [{"validation": found.validation, "test": found.test} for found in found_without]
        held_out = {name: print_ for name, print_ in self.held_out.items() if name in names or not self.only_learnt}
        records = []
        for task, stage, found, silenced in zip(tasks, stages, tested, without, strict=True):
            about = (asdict(task.run), held_out, dict(found.replies), silenced)
            record = Record(task.key, stage, found.validation, found.test, *about)
            self.store.put(record)
            records.append(record)
        return records

    def _answers(self, learners: Sequence[Learner], names: Sequence[str]) -> list[Tested]:
        """For each learner, whether it gets each example of these domains right."""
        none: list[list[bool]] = [[]] * len(learners)
        right = {
            (part, domain.name): [learner.correct(domain, part) for learner in learners]
            if getattr(domain, part)
            else none
            for part in ("validation", "test")
            for domain in (self.stream[name] for name in names)
        }

        def answers(part: str, number: int) -> Answers:
            return {name: tuple(right[part, name][number]) for name in names}

        return [Tested(answers("validation", number), answers("test", number)) for number in range(len(learners))]

    def _replies(self, learners: Sequence[Learner]) -> list[Tested]:
        if self.reply_evaluation is None:
            raise ModelError("these models answer with words, and here only labels can be counted right or wrong")
        nothing: Answers = dict.fromkeys(self.stream.names, ())
        return [Tested(nothing, nothing, self.reply_evaluation.evaluate(learner, self.stream)) for learner in learners]


def has_slots(model: Model) -> bool:
    """Whether a memory that can be read without its slots has any."""
    return any(len(memory.bank) for memory in memories_of(model).values())


@contextmanager
def slots_silent(model: Model) -> Iterator[None]:
    """Within, the model reads texts as if it had no slots."""
    with ExitStack() as silent:
        for memory in memories_of(model).values():
            silent.enter_context(memory.without(*memory.bank.domains))
        yield


def _take_notes(learners: Sequence[Learner], job: Job, domain: Domain) -> None:
    """Let learners note what they would have noted by this method when they learned their first domain."""
    method, options = find_method(job.run.method), job.run.options
    for learner in learners:
        state = method.create(options)
        seed = derive(learner.seed, "stage", 0)
        data = learner.split(domain, "train")
        state.finish_domain(FinishedDomain(None, learner.trained(), data, [domain], {}, lambda _: [], seed))
        learner.config = replace(learner.config, method=method, options=options)
        learner.state = replace(learner.state, method_state=state)


def _draw_rows_again(learners: Sequence[Learner], earlier: Sequence[Domain]) -> None:
    """Give learners the rows that their method keeps of earlier domains: stored models have none."""
    for learner in learners:
        if learner.method.keeps_rows:
            rows = {}
            for number, domain in enumerate(earlier):
                seed = derive(derive(learner.seed, "stage", number), "rehearsal")
                chosen = draw_balanced([one.label for one in domain.train], learner.options.rehearse, seed)
                rows[domain.name] = [replace(domain.train[index], where="") for index in chosen]
            learner.state.method_state.load_rows(rows)


def memories_of(model: Model) -> dict[str, ResidualMemory]:
    """The memories in the model's residual stream."""
    return {name: module for name, module in model.named_modules() if isinstance(module, ResidualMemory)}


def run_job(job: Job, context: WorkerContext, progress: Progress) -> Result:
    """Do a job; what goes wrong with it ends this job alone."""
    try:
        return Result(job, tuple(context.run(job, progress)))
    except Exception as error:
        failed = Result(job, reason=reason_of(error))
    # After the handler: the traceback would hold on to the tensors that are to be given back.
    gc.collect()
    torch.cuda.empty_cache()
    return failed


def reason_of(error: Exception) -> str:
    """Why a job failed, in a sentence; for what is no user's mistake, with the place where it happened."""
    if isinstance(error, MemgrowError):
        return str(error)
    if is_out_of_memory(error):
        return "there was not enough memory: choose fewer workers, or a smaller batch, hidden, slots or max_words"
    if isinstance(error, OSError):
        return f"{f'{error.filename}: ' if error.filename else ''}{error.strerror or error}"
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(last.filename).name}, line {last.lineno})"
