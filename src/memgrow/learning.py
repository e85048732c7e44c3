"""A learner learns domain after domain (the paper's Algorithm 1): data is checked, learnt, bounded and saved."""

import os
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from memgrow.adaptation import Adaptation, check_learnable
from memgrow.answering import Answering
from memgrow.data import Domain, Stream
from memgrow.data.values import kind_of
from memgrow.defaults import Defaults, sizes_line
from memgrow.device import suited_threads, using_threads
from memgrow.errors import DataError, ForgettingError
from memgrow.folder_writer import clear_versions
from memgrow.forgetting import Bound, check_bound, guarded
from memgrow.history import History, Stage
from memgrow.learnt import Learnt, Setup
from memgrow.locking import hold
from memgrow.methods import Method, MethodSettings, Plugins
from memgrow.printable import printable
from memgrow.progress import NoProgress, Progress, shown_by, warn
from memgrow.stage_data import StageData, check_tests, domains_of_stage, validate, weak_scores
from memgrow.stage_training import learn_stage
from memgrow.text.remembered_vectors import RememberedVectors
from memgrow.text.vector_files import detect
from memgrow.training.data_parallel import DataParallel
from memgrow.training.processes import check_processes, started
from memgrow.training.resume import ResumeFolder
from memgrow.training.settings import TrainingSettings
from memgrow.versions import check_extends, check_keep_versions

# For a model that has learnt nothing of use.
ADVICE = "give it more rows, word vectors (--vectors), more epochs or patience (--set epochs=40), or a higher rate"
ADVICE_WITH_VECTORS = ADVICE.replace(" word vectors (--vectors),", "")
ADVICE_ON_ENCODERS = "give it more rows, or another method or rate; with few rows try a new model with --method ridge"
ADVICE_WITHOUT_TRAINING = "give it more rows"


class Learning(Answering):
    """The side of a learner that learns. By what and with which settings is set by whoever makes it."""

    method: Method
    training: TrainingSettings
    options: MethodSettings
    seed: int
    plugins: Plugins
    vectors: RememberedVectors | None
    _sizes: Defaults | None

    @property
    @abstractmethod
    def learnt(self) -> Learnt:
        """The model, the vocabulary and the history so far."""

    @abstractmethod
    def take(self, learnt: Learnt) -> None:
        """Know this from now on."""

    @abstractmethod
    def _write(
        self, path: str | Path, setup: Setup, learnt: Learnt, overwrite: bool, keep_versions: int | None = None
    ) -> None:
        """Write this as the model's folder."""

    def adapt(
        self,
        domain: Domain,
        *,
        earlier: Sequence[Domain] = (),
        watch: Iterable[Domain] = (),
        vectors: str | Path | None = None,
        folder: str | Path | None = None,
        save_every: float = 60.0,
        progress: Progress | bool | None = None,
        loop: str | None = None,
        overwrite: bool = False,
        keep_versions: int | None = None,
        max_forgetting: float | None = None,
        processes: int = 1,
        threads: int | None = None,
    ) -> Stage:
        """Learn a domain; the learner is unchanged until that has succeeded.

        `watch` are domains whose test examples are tried afterwards, beside this one's. `vectors` is a file of word
        vectors for new words; later domains take it as well (`learner.vectors`; None ends that), for as long as it
        lies unchanged where this user gave it. With a `folder` the learner is saved there at the end, and until then
        its state is kept in folder.adapting, so that a run that was killed goes on where it was and ends with the same
        bits.
        `earlier` are all domains before this one, for a method that trains on them together. `loop` is "plain",
        "stacked" or "recorded" (see `choose_loop`); without it the faster one is taken.
        No other process can change the folder meanwhile. A folder with a model of which this would be no later version
        is refused, unless `overwrite` is given. The folder keeps as many earlier versions as `keep_versions` says, or
        was said before, or one: see `undo`.
        With `max_forgetting`, a domain that costs more than so many points on one of those that are watched is not
        kept: there is a ForgettingError, and learner and folder are as they were.
        The texts of each batch are shared by so many `processes`, for a pretrained encoder; each has a GPU of its own,
        or its part of the CPU's threads. The result is that of one up to rounding and, with dropout, chance.
        Without `threads` a small model takes one on a CPU, unless OMP_NUM_THREADS or torch.set_num_threads says more.
        """
        progress = shown_by(progress)
        if not isinstance(domain, Domain):
            raise DataError(
                f"adapt takes a domain, and this is {kind_of(domain)}: Domain.from_rows makes one of rows and frames, "
                "Domain.from_dataset of a dataset, and load_stream of files; learn takes several"
            )
        self.refuse_told("adapt")
        check_processes(processes, self.settings, self.device)
        stage = validate(domains_of_stage(self.method, self.history, domain, earlier), self.task, self.labels)
        watch = tuple(watch)
        check_tests(watch, stage)
        with _holding(folder), using_threads(threads), started(processes, self.device, progress) as group:
            return self._adapt(
                stage,
                watch,
                vectors,
                folder,
                save_every,
                overwrite,
                keep_versions,
                progress,
                loop,
                max_forgetting,
                threads,
                stage.learned,
                group,
            )

    def _adapt(
        self,
        stage: StageData,
        watch: Sequence[Domain],
        vectors: str | Path | None = None,
        folder: str | Path | None = None,
        save_every: float = 60.0,
        overwrite: bool = False,
        keep_versions: int | None = None,
        progress: Progress | None = None,
        loop: str | None = None,
        max_forgetting: float | None = None,
        threads: int | None = None,
        coming: Collection[str] = (),
        group: DataParallel | None = None,
    ) -> Stage:
        """Learn from data that has been checked; `coming` are the domains that are being learnt, now or later."""
        check_keep_versions(keep_versions)
        check_bound(max_forgetting)
        if folder and not overwrite:
            check_extends(folder, [*(past.fingerprint for past in self.history.stages), stage.fingerprint])
        progress = progress or NoProgress()
        vectors = self._vectors_now(vectors, progress)
        setup = self.setup
        if self._sizes is not None and self.model is None:
            if vectors is not None:
                setup = replace(setup, model=replace(setup.model, embedding=detect(Path(vectors)).size))
            progress.note(sizes_line(self._sizes, setup.model, setup.training))
        adaptation = Adaptation.begin(setup, self.learnt, self.device, stage, watch, vectors, progress)
        if vectors is not None:
            setup = replace(setup, vectors=RememberedVectors.given(vectors))
        bound = None if max_forgetting is None else self._bound(max_forgetting, adaptation.tested, coming)
        if folder and adaptation.words.chosen_from:
            progress.note(adaptation.words.sentence(stage.name))
        for sentence in adaptation.notes_on_kept_rows():
            progress.note(sentence)
        key = {"data": stage.fingerprint, "settings": self._key(stage, setup.vectors if vectors else None)}
        resume = ResumeFolder.beside(folder, len(self.history.stages), key, save_every)
        asked = threads if group is None else None  # a group has parted them already
        with using_threads(suited_threads(self.device, adaptation.multiplications, asked)):
            learnt, record = learn_stage(adaptation, progress, resume, loop, group)
            if bound is not None:
                try:
                    bound.check(stage.name, learnt.history.matrix.rows[-1].scores)
                except ForgettingError:
                    resume.clear()
                    raise
            learnt = adaptation.described(learnt)
        if folder:
            self._write(folder, setup, learnt, overwrite, keep_versions)
            resume.clear()
        self.settings, self.vectors = setup.model, setup.vectors
        self.take(learnt)
        # Last: whatever stops this finds learner and folder to have learnt the same.
        scores = learnt.history.matrix.rows[-1].scores
        for sentence in weak_scores(stage, record.validation, scores, _advice(setup)):
            warn(progress, sentence)
        return record

    def learn(
        self,
        stream: Iterable[Domain],
        *,
        watch: Iterable[Domain] = (),
        again: bool = False,
        on_stage: Callable[[Stage, bool], None] = lambda stage, new: None,
        processes: int = 1,
        **options: Any,
    ) -> History:
        """Adapt to each domain of a stream in turn, testing all of its domains, and those to `watch`, after each.

        All data is checked before the first domain is learnt. A domain that has been learnt from this very data is
        skipped, unless `again` asks for it, so that a learner loaded after a broken run goes on. A method that trains
        on all domains together does so once. `on_stage` is called with each stage, and whether it is new.
        The further options, and `processes`, are those of `adapt`.
        """
        self.refuse_told("learn")
        options["progress"] = shown_by(options.get("progress"))
        check_processes(processes, self.settings, self.device)
        domains = Stream(stream)
        if not domains:
            raise DataError("there is no domain to learn: give at least one")
        watch = [*watch, *domains]
        stages: list[StageData] = []
        for part in [domains] if self.method.together else [[domain] for domain in domains]:
            known = (stages[-1].task, stages[-1].labels) if stages else (self.task, self.labels)
            *earlier, last = part
            stages.append(validate(domains_of_stage(self.method, self.history, last, earlier), *known))
        check_tests(watch, *stages)
        for number, stage in enumerate(stages):
            check_learnable(self.setup, self.plugins, stage, number > 0 or self.model is not None)
        coming = [name for stage in stages for name in stage.learned]
        with _holding(folder := options.get("folder")), using_threads(options.get("threads")):
            if folder is not None:  # also where there is nothing new to save
                ResumeFolder.beside(folder, len(self.history.stages), {}, 0.0).clear_ended()
                clear_versions(Path(os.path.realpath(folder)))
            new = again or any(self.history.find(stage.fingerprint) is None for stage in stages)
            with started(processes if new else 1, self.device, options["progress"]) as group:
                for stage in stages:
                    found = None if again else self.history.find(stage.fingerprint)
                    on_stage(found or self._adapt(stage, watch, **options, coming=coming, group=group), found is None)
        return self.history

    def _bound(self, points: float, tested: Mapping[str, Domain], coming: Collection[str]) -> Bound:
        """How much may be lost, and of what: tried with the model as it is."""
        names, model = guarded(tested, self.history.domains, coming), self.model
        if model is None:
            return Bound(points, {})
        return Bound(points, {name: model.score(self.part(tested[name], "test", strange=True)) for name in names})

    def _vectors_now(self, given: str | Path | None, progress: Progress) -> str | Path | None:
        """The file of word vectors that is given or, if none is, that of earlier domains, if it is found."""
        if given is not None or self.vectors is None:
            return given
        if (found := self.vectors.find()) is None:
            progress.note(
                f"The word vectors of earlier domains, {printable(self.vectors.name)}, are not found: new words begin "
                "at random; give the file again (--vectors), or none of them (--vectors none)"
            )
        return found

    def _key(self, stage: StageData, vectors: RememberedVectors | None) -> str:
        """Tells a training from others with the same data, so that a run resumes its own and no other."""
        content = vectors.sha256 if vectors else None
        parts = (self.method.name, self.settings, self.training, self.options, self.seed, content)
        kept = self.plugins.rows_kept()  # of which a model that was passed on has none, by the same settings
        known = (stage.task, stage.labels, [past.fingerprint for past in self.history.stages])
        return repr((*parts, *known, *([kept] if kept else [])))


def _advice(setup: Setup) -> str:
    """What may help a model that has learnt nothing of use, and has not been tried."""
    if setup.model.kind.is_pretrained:
        return ADVICE_WITHOUT_TRAINING if setup.method.closed_form else ADVICE_ON_ENCODERS
    return ADVICE if setup.vectors is None else ADVICE_WITH_VECTORS


def _holding(folder: str | Path | None) -> AbstractContextManager[None]:
    return hold(folder) if folder else nullcontext()
