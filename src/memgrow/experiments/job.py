"""One job at the workbench: learners go on from where their parents are, learn a domain, are tried and kept."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from memgrow.data import Domain, Stream
from memgrow.experiments.plan import Job, Task, labels_of
from memgrow.experiments.run import Record
from memgrow.experiments.store import Store
from memgrow.history import Stage
from memgrow.learner import Learner
from memgrow.lockstep import adapt_together
from memgrow.methods import find_method
from memgrow.progress import Progress
from memgrow.randomness import derive, seeded


@dataclass(frozen=True)
class Bench:
    """What every job needs."""

    stream: Stream
    held_out: dict[str, str]  # fingerprints of what learners are tried on
    store: Store
    vectors: Path | None
    device: str

    def do(self, job: Job, progress: Progress) -> list[Record]:
        """The records of a job, which are in the store by then; none for notes."""
        learners = [self._learner(task) for task in job.tasks]
        if job.run.takes_notes():
            for learner in learners:
                _take_notes(learner, job, self.stream[job.run.learns[0]])
            stages: Sequence[Stage | None] = [None] * len(learners)
        else:
            *earlier, domain = (self.stream[name] for name in job.run.learns)
            stages = adapt_together(learners, domain, earlier=earlier, vectors=self.vectors, progress=progress)
        return [
            record
            for task, learner, stage in zip(job.tasks, learners, stages, strict=True)
            if (record := self._keep(task, learner, stage)) is not None
        ]

    def _learner(self, task: Task) -> Learner:
        run = task.run
        if task.parent is None:
            return Learner.create(
                run.method,
                labels=labels_of(self.stream),
                model=run.model,
                training=run.training,
                options=run.options,
                seed=run.seed,
                device=self.device,
            )
        learner = Learner.load(self.store.model(task.parent), self.device)
        if not run.takes_notes():
            learner.use(run.method, run.options)
        return learner

    def _keep(self, task: Task, learner: Learner, stage: Stage | None) -> Record | None:
        """The learner first: a record says that its stage is finished."""
        if task.keep:
            learner.save(self.store.model(task.key))
        if stage is None or not task.record:
            return None
        answers = {
            part: {domain.name: _answers(learner, domain, part) for domain in self.stream}
            for part in ("validation", "test")
        }
        record = Record(task.key, stage, **answers, run=asdict(task.run), held_out=self.held_out)
        self.store.put(record)
        return record


def _answers(learner: Learner, domain: Domain, part: str) -> tuple[bool, ...]:
    return tuple(learner.correct(domain, part)) if getattr(domain, part) else ()


def _take_notes(learner: Learner, job: Job, domain: Domain) -> None:
    """What a learner by this method would have noted when it learnt its first domain, to the bit."""
    method, options = find_method(job.run.method), job.run.options
    past = method.past(options)
    with seeded(derive(learner.seed, "stage", 0), "note", device=learner.device):
        past.take_note(learner.trained(), learner.encode(domain.train), learner.device)
    learner.method, learner.options, learner.past = method, options, past
