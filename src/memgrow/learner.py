"""Learner: one model that learns domain after domain. It is created or loaded, adapted, asked, evaluated and saved."""

import operator
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

import torch

from memgrow.data import Domain, Example, Stream
from memgrow.data.batches import Encoded, UnknownWords, collate, encode, unknown_in
from memgrow.data.disk import kind_of, lone_surrogate
from memgrow.data.domain import as_label
from memgrow.data.rows import input_of, is_frame
from memgrow.data.text import Vocabulary
from memgrow.data.vectors import RememberedVectors, detect
from memgrow.errors import DataError, ModelError, SettingsError, listed
from memgrow.evaluation.calibration import Calibration, Reliability, reliability
from memgrow.evaluation.drift import ALPHA, WINDOW, DriftMonitor, Reference
from memgrow.evaluation.history import History, Stage
from memgrow.evaluation.metrics import Confusion, confusion_of
from memgrow.methods import MethodSettings, MethodSpec, find_method
from memgrow.models import (
    REPLY,
    TASKS,
    CausalModel,
    Classifier,
    Model,
    ModelSettings,
    PretrainedSettings,
    Responder,
)
from memgrow.models.base import INFERENCE_BATCH
from memgrow.models.generate import MAX_WORDS, generate_all
from memgrow.models.hub import EncoderFiles
from memgrow.models.tokenizer import chat_of, token_strings, word_tokenizer
from memgrow.nn import LAYERS
from memgrow.nn.device import derive, find_device, seeded, suited_threads, using_threads
from memgrow.storage.checkpoint import read_checkpoint
from memgrow.storage.folder import hold
from memgrow.storage.versions import check_extends, check_keep_versions, write_checkpoint
from memgrow.training.adapt import AdaptOptions, adapt_model, check_learnable
from memgrow.training.checks import (
    StageData,
    check_examples,
    check_stage,
    check_watched,
    domains_of_stage,
    forgetting_warnings,
    labels_in,
    weak_scores,
)
from memgrow.training.progress import Progress, ResumeFolder, find_progress, warn
from memgrow.training.settings import (
    LearnerConfig,
    LearnerState,
    TrainingSettings,
    advice_for,
    defaults_for,
    defaults_for_new,
    sizes_line,
)

Text = str | tuple[str, str] | Mapping[str, object] | Example
Split = str  # "train", "validation" or "test"


@dataclass(frozen=True)
class Prediction:
    """The most probable label, and the probability of each."""

    label: str
    probabilities: dict[str, float]

    @property
    def confidence(self) -> float:
        """The probability of the label."""
        return self.probabilities[self.label]


@dataclass(frozen=True)
class Answer:
    text: str
    ended: bool  # False: it was cut off
    score: float  # log-probability
    words: tuple[int, ...]  # indices


class AdaptArguments(TypedDict, total=False):
    """Keyword arguments of `Learner.adapt` and `Learner.learn`."""

    watch: Iterable[Domain]  # domains whose test examples are evaluated afterwards, to measure forgetting
    vectors: str | Path | None  # a file of word vectors for new words
    folder: str | Path | None  # save here at the end; a run that was killed resumes and ends with the same bits
    save_every: float  # seconds between two saves of the unfinished training (60)
    progress: Progress | bool | None  # True for a default one
    overwrite: bool  # replace a model with another history
    keep_versions: int | None  # earlier versions to keep in the folder (3), see `undo`
    max_forgetting: float | None  # raise ForgettingError, and keep nothing, if a watched domain loses more points
    threads: int | None  # CPU threads; by default one for small models


def _part(path: str) -> Any:
    """A read-only attribute: a part of a learner's configuration or state."""
    return property(operator.attrgetter(path))


class Learner:
    """One model that learns domain after domain.

    It keeps no data of a domain that it has learned; only rehearsal and its kin keep a few rows.
    """

    method: MethodSpec = _part("config.method")
    settings: ModelSettings = _part("config.model")
    options: MethodSettings = _part("config.options")
    seed: int = _part("config.seed")
    encoder: EncoderFiles | None = _part("config.encoder")
    vectors: RememberedVectors | None = _part("config.vectors")  # that new words started with
    task: str | None = _part("state.task")
    labels: tuple[str, ...] | None = _part("state.labels")  # in the order of the logits; None before the first domain
    model: Model | None = _part("state.model")  # the network, once something has been learned
    vocabulary: Vocabulary = _part("state.vocabulary")
    history: History = _part("state.history")
    calibration: Calibration = _part("state.calibration")
    reference: Reference = _part("state.reference")  # statistics of each domain's texts, for drift

    def __init__(self, config: LearnerConfig, state: LearnerState, device: torch.device) -> None:
        """Use `Learner.create` or `Learner.load`."""
        self.config, self.state, self.device = config, state, device
        self.folder: Path | None = None  # where it was last saved to or loaded from
        self._has_default_sizes = False  # which suit this device

    def __repr__(self) -> str:
        return f"Learner({self.method.name}, {' -> '.join(self.history.domains) or 'nothing learned yet'})"

    @classmethod
    def create(
        cls,
        method: str | None = None,
        *,
        encoder: str | Path | None = None,
        task: str | None = None,
        labels: Sequence[str] | None = None,
        model: ModelSettings | None = None,
        training: TrainingSettings | None = None,
        options: MethodSettings | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> "Learner":
        """A learner that has learned nothing yet.

        `encoder` is a pretrained one (a name that `memgrow encoder list` shows, a folder or a hub name) or the paper's
        recurrent network: lstm, gru or rnn. The default is all-MiniLM-L6-v2, fetched on first use. `task` (text, pair
        or reply) and `labels` are taken from the data unless given; later domains may bring further labels.
        """
        if encoder is not None and model is not None:
            if isinstance(model, PretrainedSettings) == (encoder in LAYERS):
                raise SettingsError(
                    "model must be PretrainedSettings for a pretrained encoder, ModelSettings for lstm, gru and rnn"
                )
            changed: dict[str, Any] = {"cell" if encoder in LAYERS else "encoder": str(encoder)}
            model = replace(model, **changed)
        if task is not None and task not in TASKS:
            raise SettingsError(f"there is no task {task!r}; there are {', '.join(TASKS)}")
        found = find_device(device)
        wanted = find_method(method) if method else None
        if model is None:
            usual = defaults_for_new(found, encoder, methods=[wanted] if wanted else (), replies=task == REPLY)
        else:
            usual = defaults_for(model, task == REPLY)
        spec, options = wanted or find_method(usual.method), options or usual.options
        spec.check(model or usual.model)
        settings, files = (model or usual.model).resolve()
        config = LearnerConfig(spec, settings, training or usual.training, options, operator.index(seed), files)
        state = LearnerState(task, _checked_labels(labels), None, Vocabulary(), spec.create(options), History())
        learner = cls(config, state, found)
        learner._has_default_sizes = model is None
        return learner

    # Learning

    def adapt(self, domain: Domain, *, earlier: Sequence[Domain] = (), **arguments: Unpack[AdaptArguments]) -> Stage:
        """Learn a domain. The learner is unchanged until that has succeeded; see `AdaptArguments`.

        earlier: all earlier domains, for joint training (multi-task).
        """
        if not isinstance(domain, Domain):
            raise DataError(f"adapt takes a Domain, not {kind_of(domain)}: see Domain.from_rows and load_stream")
        domains = domains_of_stage(self.method, self.history.domains, domain, earlier)
        stage = check_stage(domains, self.task, self.labels)
        arguments["watch"] = tuple(arguments.get("watch", ()))
        check_watched(arguments["watch"], stage)
        with _holding(arguments.get("folder")), using_threads(arguments.get("threads")):
            return self._learn_stage(stage, stage.learned, **arguments)

    def learn(
        self,
        stream: Iterable[Domain],
        *,
        again: bool = False,
        on_stage: Callable[[Stage, bool], None] = lambda stage, new: None,
        **arguments: Unpack[AdaptArguments],
    ) -> History:
        """Adapt to each domain of a stream in turn, and evaluate all of them after each.

        All data is checked before the first domain. A domain that was learned from the same data is skipped unless
        `again`, so that a learner that was loaded after a broken run goes on. Joint training runs once, on all domains.
        `on_stage(stage, is_new)` is called after each. The further arguments are those of `adapt`.
        """
        domains = Stream(stream)
        if not domains:
            raise DataError("there is no domain to learn: give at least one")
        watch = [*arguments.get("watch", ()), *domains]
        stages: list[StageData] = []
        for *earlier, last in [domains] if self.method.joint else [[domain] for domain in domains]:
            known = (stages[-1].task, stages[-1].labels) if stages else (self.task, self.labels)
            stages.append(check_stage(domains_of_stage(self.method, self.history.domains, last, earlier), *known))
        check_watched(watch, *stages)
        for stage in stages:
            check_learnable(self.config, stage)
        upcoming = [name for stage in stages for name in stage.learned]
        arguments = {**arguments, "watch": watch, "progress": find_progress(arguments.get("progress"))}
        with _holding(folder := arguments.get("folder")), using_threads(arguments.get("threads")):
            if folder is not None:
                ResumeFolder(folder, len(self.history.stages), {}, 0.0).clear_ended()
            for stage in stages:
                found = None if again else self.history.find(stage.fingerprint)
                on_stage(found or self._learn_stage(stage, upcoming, **arguments), found is None)
        return self.history

    def _learn_stage(self, stage: StageData, upcoming: Collection[str], **given: Unpack[AdaptArguments]) -> Stage:
        """Learn a stage that has been checked, and save it."""
        folder, overwrite = given.get("folder"), given.get("overwrite", False)
        keep_versions, limit = given.get("keep_versions"), given.get("max_forgetting")
        progress = find_progress(given.get("progress"))
        check_keep_versions(keep_versions)
        if limit is not None and not limit >= 0:
            raise SettingsError(f"max_forgetting is the number of points that may be lost, 0 or more, not {limit:g}")
        if folder and not overwrite:
            check_extends(folder, [*(past.fingerprint for past in self.history.stages), stage.fingerprint])
        config, vectors = self.config, given.get("vectors")
        if vectors is None and (known := config.vectors) is not None:
            progress.note(f"new words start at random: give {known.name} again (--vectors), or none (--vectors none)")
        if self._has_default_sizes and self.model is None:
            if vectors is not None and not config.model.is_pretrained:
                config = replace(config, model=replace(config.model, embedding=detect(Path(vectors)).size))
            progress.note(sizes_line(config.model, config.training, len(stage.train), config.method.closed_form))
        if vectors is not None:
            if config.model.is_pretrained:
                raise SettingsError("a pretrained encoder takes no word vectors: leave them out, or use encoder lstm")
            config = replace(config, vectors=RememberedVectors.given(vectors))
        key = {"data": stage.fingerprint, "settings": self._key(config, stage, vectors is not None)}
        resume = ResumeFolder(folder, len(self.history.stages), key, given.get("save_every", 60.0))
        options = AdaptOptions(
            device=self.device,
            progress=progress,
            watch=tuple(given.get("watch", ())),
            vectors=vectors,
            max_forgetting=limit,
            upcoming=upcoming,
            threads=given.get("threads"),
        )
        state, record = adapt_model(config, self.state, stage, resume=resume, options=options)
        if folder:
            write_checkpoint(folder, config, state, self.folder, overwrite, keep_versions)
            self.folder = Path(folder).absolute()
            resume.clear()
        self.config, self.state = config, state
        # Last, so that learner and folder agree whatever a warning leads to.
        advice = advice_for(config, record.epochs)
        weak = weak_scores(stage, record.validation, state.history.matrix.rows[-1].scores, advice)
        for warning in (*weak, *(forgetting_warnings(state.history) if stage.labels else ())):
            warn(progress, warning)
        return record

    def use(self, method: str, options: MethodSettings | None = None) -> None:
        """Switch to another method, and keep what was learned."""
        spec, options = find_method(method), options or self.options
        spec.check(self.settings)
        method_state = spec.create(options)
        new = method_state.inherit(self.state.method_state)
        if self.history.stages and any(part.needs_every_domain for part in new):
            raise SettingsError(
                f"{spec.name} needs statistics of every domain, and {', '.join(self.history.domains)} were learned "
                f"with {self.method.name}: start a new model with {spec.name}"
            )
        if self.state.memory is not None and self.state.memory.routes and not spec.keeps_memory:
            raise SettingsError(f"{spec.name} would drop this model's domain memory: use {spec.name}+memory")
        self.config = replace(self.config, method=spec, options=options)
        self.state = replace(self.state, method_state=method_state)

    def remove_domain(self, name: str) -> None:
        """Take a domain out of the domain memory, with its labels and statistics.

        Of independent domains nothing is left: the model is, bit by bit, one that never saw the domain. Else traces
        stay in the weights of later domains. Save it with overwrite=True: earlier versions with the domain go, too.
        """
        from memgrow.training.independent import without

        self.state = without(self.config, self.state, name)

    def export_domain(self, name: str, path: str | Path) -> None:
        """Write an independent domain as a file; of a causal language model as a folder, an adapter of peft."""
        if isinstance(self.model, CausalModel):
            from memgrow.storage.adapters import export_adapter

            export_adapter(self.config, self.state, name, Path(path))
            return
        from memgrow.training.independent import export_domain

        export_domain(self.config, self.state, name, path)

    def import_domain(self, path: str | Path, *, name: str | None = None, messages: Sequence[Text] = ()) -> str:
        """Take in an independent domain that a model with the same encoder exported; returns its name.

        A causal language model takes in an adapter of peft as its newest domain, and needs messages of that domain if
        memgrow has not exported the adapter.
        """
        if isinstance(self.model, CausalModel):
            from memgrow.storage.adapters import import_adapter

            examples = [Example(one.text) for one in as_examples(messages, "import_domain")]
            self.state, name = import_adapter(self.config, self.state, Path(path), name, examples)
            return name
        if name is not None or messages:
            raise SettingsError("name and messages are for adapters of causal language models: leave them out")
        from memgrow.training.independent import import_domain

        self.state, name = import_domain(self.config, self.state, path)
        return name

    def _key(self, config: LearnerConfig, stage: StageData, vectors: bool) -> str:
        """Identifies a training, so that a run resumes its own state and no other."""
        content = config.vectors.sha256 if vectors and config.vectors else None
        kept = {domain: len(rows) for domain, rows in self.state.method_state.rows.items()}
        past = [one.fingerprint for one in self.history.stages]
        parts = (config.method.name, config.model, config.training, config.options, config.seed, content)
        return repr((*parts, stage.task, stage.labels, past, kept))

    # Inference

    def predict(self, texts: Sequence[Text]) -> list[Prediction]:
        """Labels and calibrated probabilities of texts, or of pairs of texts for a pair model."""
        return self._predict(texts, None)

    def for_domain(self, name: str) -> "DomainView":
        """A view that predicts for texts known to be of one domain: over its labels, with its calibration."""
        if name not in self.history.domains:
            raise ModelError(f"there is no domain {name!r}; there are {listed(self.history.domains)}")
        return DomainView(self, name)

    def _predict(self, texts: Sequence[Text], domain: str | None) -> list[Prediction]:
        self.classifier()
        examples = as_examples(texts, "predict")
        config, state = self.config, self.state  # once: another thread may adapt meanwhile
        check_examples(examples, state.task or "", None)
        data, labels = state.encode(config, examples), state.labels or ()
        own = state.history.labels.get(domain, labels) if domain is not None else labels
        with self.suited_threads():
            logits = state.calibrated_logits(data, domain)[:, [labels.index(label) for label in own]]
        found = [dict(zip(own, row, strict=True)) for row in logits.softmax(-1).tolist()]
        best = logits.argmax(-1).tolist()
        return [Prediction(own[number], shares) for number, shares in zip(best, found, strict=True)]

    def reply(
        self,
        messages: Sequence[str | Example],
        *,
        beam: int = 1,
        temperature: float | None = None,
        top_p: float | None = None,
        max_words: int = MAX_WORDS,
        seed: int = 0,
        domain: str | None = None,
        on_text: Callable[[str], None] | None = None,
    ) -> list[Answer]:
        """A reply to each message, by beam search or, with a temperature, by sampling.

        `max_words` counts tokens of a causal language model, and only such a model takes the other arguments: `top_p`,
        the share of probability that is sampled from; the `domain` whose additions answer; and `on_text`, which
        gets the pieces of one reply while it is written.
        """
        model = self.trained()
        examples = [Example(one.text, where=one.where) for one in as_examples(messages, "reply")]
        data = self.encode(examples, labeled=False)
        if isinstance(model, CausalModel):
            generation: dict[str, Any] = {"max_new_tokens": max_words, "num_beams": beam}
            if temperature is not None or top_p is not None:
                generation |= {"do_sample": True, "temperature": temperature or 1.0, "top_p": top_p or 1.0}
            with seeded(seed, "replies", device=self.device), self.suited_threads():
                written = model.reply(data, domain, on_text, **generation)
            decode = chat_of(model.encoder.files).decode
            return [Answer(decode(one.words), one.ended, one.score, one.words) for one in written]
        if top_p is not None or domain is not None or on_text is not None:
            raise SettingsError("top_p, domain and on_text are for causal language models: leave them out")
        model = self.responder()
        generator = torch.Generator().manual_seed(derive(seed, "replies"))
        options = {"beam": beam, "temperature": temperature, "max_words": max_words}
        with self.suited_threads():
            found = generate_all(model, data, **options, generator=generator)
        known = self.vocabulary.words
        texts = [" ".join(known[word] for word in reply.words) for reply in found]
        return [Answer(text, one.ended, one.score, one.words) for text, one in zip(texts, found, strict=True)]

    def route(self, texts: Sequence[Text]) -> list[dict[str, float]]:
        """For each text, how probable each entry of the domain memory is; see `read_entries` for what answers."""
        self.trained()
        if (memory := self.state.memory) is None:
            raise ModelError(f"this model has no domain memory: train one with {self.method.name}+memory")
        data = self.encode(as_examples(texts, "route"), labeled=False)
        return [dict(zip(memory.names, row, strict=True)) for row in memory.scores(data).exp().tolist()]

    @torch.no_grad()
    def attention(self, text: Text) -> list[dict[str, torch.Tensor]]:
        """For each memory bank, the share of attention that each domain's slots get at each word: (texts, words)."""
        model = self.trained().eval()
        batch = collate(self.encode([_as_example(text)], labeled=False), [0], self.device)
        return model.encoder.attention_shares(batch.words, batch.lengths)

    def reading(self, text: Text) -> list[dict[str, torch.Tensor]]:
        """The name of `attention` before 1.0."""
        warnings.warn("Learner.reading is now Learner.attention", DeprecationWarning, stacklevel=2)
        return self.attention(text)

    def tokens(self, text: Text) -> tuple[list[str], ...]:
        """The words or word pieces that the model reads; an encoder may read a pair as one sequence."""
        (found,) = token_strings(self.config.tokenize([_as_example(text)]), self.encoder)
        return found

    def unknown_words(self, texts: Iterable[Text]) -> float:
        """The share of words that the model does not know; 0 with a pretrained encoder, which has word pieces."""
        return self.count_unknown(as_examples(texts, "unknown_words")).share

    def count_unknown(self, examples: Sequence[Example]) -> UnknownWords:
        """Number of words, and of unknown words, in these examples."""
        if self.settings.is_pretrained:
            return UnknownWords()
        inputs = [Example(one.text, one.pair) for one in examples]
        return unknown_in(encode(self.config.tokenize(inputs), self.vocabulary))

    # Evaluation

    def evaluate(self, domains: Domain | Iterable[Domain], split: Split = "test") -> dict[str, float]:
        """Accuracy on one split of each domain; for replies, 1 / perplexity."""
        model = self.trained()
        given = [domains] if isinstance(domains, Domain) else list(domains)
        if wrong := [one for one in given if not isinstance(one, Domain)]:
            raise DataError(f"evaluate takes domains, not {kind_of(wrong[0])}: Domain.from_rows makes one")
        with self.suited_threads():
            return {domain.name: model.score(self.split(domain, split)) for domain in given}

    def accuracy_with_domain(self, domains: Iterable[Domain]) -> dict[str, float]:
        """Test accuracy where the domain of each text is given, of domains that are read from a domain memory."""
        memory = self.classifier().memory
        known = memory.names if memory is not None and memory.routes else []
        return {one.name: self.for_domain(one.name).evaluate(one) for one in domains if one.name in known}

    def correct(self, domain: Domain, split: Split = "test") -> list[bool]:
        """For each example of a split, whether its label is predicted; never where the model lacks the label."""
        with self.suited_threads():
            found: list[bool] = self.classifier().correct(self.split(domain, split, unknown_labels=True)).tolist()
        return found

    def logits(
        self, domain: Domain, split: Split = "test", calibrated: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits (examples, labels), divided by their temperatures if `calibrated`, and label indices (examples)."""
        model, data = self.classifier(), self.split(domain, split)
        with self.suited_threads():
            found = self.state.calibrated_logits(data) if calibrated else model.logits(data)
        return found, torch.tensor(data.labels)

    def reliability(self, domain: Domain, split: Split = "test", temperature: float | None = None) -> Reliability:
        """Calibration error and related figures, at the calibrated temperatures or another."""
        return reliability(*self.logits(domain, split, temperature is None), temperature or 1.0)

    def confusion(self, domain: Domain, split: Split = "test") -> Confusion:
        """The confusion matrix of one split of a domain, with F1 and more."""
        return confusion_of(self.labels or (), *self.logits(domain, split))

    def drift_monitor(self, window: int = WINDOW, alpha: float = ALPHA) -> DriftMonitor:
        """Watches a running window of texts for drift; at most a share `alpha` of windows raises a false alarm."""
        vocabulary = None if self.settings.is_pretrained else self.vocabulary
        tokenizer = word_tokenizer(self.settings)
        learned = self.history.domains
        return DriftMonitor(self.reference, vocabulary, learned, tokenizer=tokenizer, window=window, alpha=alpha)

    def split(self, domain: Domain, name: Split, unknown_labels: bool = False) -> Encoded:
        """One split of a domain, encoded."""
        examples = getattr(domain, name)
        if not examples:
            raise DataError(f"{domain.name} has no {name} examples to evaluate on")
        return self.encode(examples, unknown_labels=unknown_labels)

    def encode(self, examples: Sequence[Example], labeled: bool = True, unknown_labels: bool = False) -> Encoded:
        """Check and encode examples; `unknown_labels` allows labels that the model does not have."""
        labels = self.labels if labeled else None
        allowed = (*labels, *labels_in(examples)) if labels and unknown_labels else labels
        check_examples(examples, self.task or "", allowed)
        return encode(self.config.tokenize(examples), self.vocabulary, labels or ())

    # Saving and loading

    def save(self, path: str | Path, overwrite: bool = False, keep_versions: int | None = None) -> None:
        """Write the learner as a folder; a reader never sees half of it.

        A model that this one is no later version of is replaced only with `overwrite`. `keep_versions` earlier versions
        stay in the folder (default: as before, or 3), see `undo`.
        """
        write_checkpoint(path, self.config, self.state, self.folder, overwrite, keep_versions)
        self.folder = Path(path).absolute()

    @classmethod
    def load(
        cls,
        path: str | Path,
        device: str = "auto",
        model: ModelSettings | None = None,
        version: int | None = None,
    ) -> "Learner":
        """Read a learner that `save` wrote; with `version`, as it was after that many stages, if that is kept.

        `model` replaces its settings, where they have had no effect yet, such as the size of a memory without slots.
        """
        found = find_device(device)
        learner = cls(*read_checkpoint(path, found, model, version), found)
        learner.folder = Path(path).absolute()
        return learner

    # What it is made of

    @property
    def training(self) -> TrainingSettings:
        return self.config.training

    @training.setter
    def training(self, training: TrainingSettings) -> None:
        self.config = replace(self.config, training=training)

    def trained(self) -> Model:
        """The network; an error before the first domain."""
        if self.model is None:
            raise ModelError("this learner has learned nothing yet: call adapt with a domain first")
        return self.model

    def classifier(self) -> Classifier:
        """The network, if it predicts labels."""
        model = self.trained()
        if not isinstance(model, Classifier):
            raise ModelError("this model replies with words and predicts no labels: use reply")
        return model

    def responder(self) -> Responder:
        """The network, if it writes replies."""
        model = self.trained()
        if not isinstance(model, Responder):
            raise ModelError("this model predicts labels and has learned no replies: use predict")
        return model

    def suited_threads(self) -> AbstractContextManager[None]:
        """Within, torch uses as many threads as suit the model's size."""
        return using_threads(suited_threads(self.device, self.trained().multiplications(INFERENCE_BATCH)))


@dataclass(frozen=True)
class DomainView:
    """A learner whose inputs are known to be of one domain: it predicts that domain's labels only."""

    learner: Learner
    name: str

    def predict(self, texts: Sequence[Text]) -> list[Prediction]:
        """As `Learner.predict`, over the domain's labels and with its calibration."""
        return self.learner._predict(texts, self.name)

    def evaluate(self, domain: Domain, split: Split = "test") -> float:
        """Accuracy on one split of a domain."""
        examples: Sequence[Example] = getattr(domain, split)
        found = self.predict(examples)
        return sum(one.label == example.label for one, example in zip(found, examples, strict=True)) / len(examples)


def _checked_labels(labels: Sequence[str] | None) -> tuple[str, ...] | None:
    if labels is None:
        return None
    found = tuple(map(as_label, labels))
    if len(set(found)) < len(found):
        raise SettingsError(f"labels has a label twice ({listed(found)}): give each once")
    if any(lone_surrogate(label) for label in found):
        raise SettingsError("a label holds half a surrogate pair and cannot be saved: write it otherwise")
    return found


def _as_example(text: Text, place: str = "text 1") -> Example:
    """A text, the two of a pair, or a row with the usual fields, as an example."""
    if isinstance(text, Example):
        return text
    if isinstance(text, tuple | list) and 0 < len(text) <= 2:
        return Example(*text, where=place)
    return input_of(text, None, place).example if isinstance(text, Mapping) else Example(text, where=place)


def as_examples(texts: object, name: str) -> list[Example]:
    """A list of texts as examples. A single text is refused: it would be read letter by letter."""
    if isinstance(texts, str | Example | Mapping) or is_frame(texts) or not isinstance(texts, Iterable):
        what = "a frame: pass one of its columns" if is_frame(texts) else f"{kind_of(texts)}: write {name}([text])"
        raise DataError(f"{name} takes a list of texts, not {what}")
    return [_as_example(text, f"text {number}") for number, text in enumerate(texts, 1)]


def _holding(folder: str | Path | None) -> AbstractContextManager[Any]:
    return hold(folder) if folder else nullcontext()
