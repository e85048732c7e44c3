"""Learning one domain: check, grow a copy of the model, train it, evaluate, record. Values in, values out."""

import copy
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from memgrow.data import Domain, Example
from memgrow.data.batches import Encoded, Tokenized, encode, unknown_in
from memgrow.data.text import StoredWords, Vocabulary, store_words
from memgrow.errors import ForgettingError, SettingsError, counted, listed
from memgrow.evaluation.calibration import calibrate
from memgrow.evaluation.drift import Reference, summarize
from memgrow.evaluation.history import AccuracyMatrix, Grew, History, Row, Stage
from memgrow.methods import FinishedDomain, MethodSpec
from memgrow.methods.base import Weights, newly_trained
from memgrow.models import REPLY, CausalModel, CausalSettings, Classifier, Model, PretrainedEncoder, Tally, build
from memgrow.models.recurrent import first_vectors
from memgrow.models.router import NOISE
from memgrow.models.router import TEXTS as TEXTS_OF_MEANS
from memgrow.models.tokenizer import word_tokenizer
from memgrow.nn import count_parameters, distributed, matching_hidden
from memgrow.nn.device import derive, seeded, suited_threads, using_threads
from memgrow.training.checks import TEXTS, StageData, is_plain_text, label_warnings, labels_in, majority
from memgrow.training.loop import TrainResult, swapped, train
from memgrow.training.progress import Progress, ResumeFolder, Step
from memgrow.training.settings import LearnerConfig, LearnerState

TELLING = 1000  # texts up to which a stored mean of them tells whether a text is one of them: see docs/privacy.md
ROUNDING = 1e-9  # accuracies are shares of whole numbers


@dataclass(frozen=True)
class AdaptOptions:
    """How to learn a domain, beside the learner's own settings."""

    device: torch.device
    progress: Progress
    watch: Sequence[Domain] = ()  # whose test examples are evaluated afterwards
    vectors: str | Path | None = None  # a file of word vectors for new words
    max_forgetting: float | None = None  # points that a watched domain may lose
    upcoming: Collection[str] = ()  # domains that are being learned now or later: they cannot be forgotten yet
    threads: int | None = None
    base: PretrainedEncoder | None = None  # for a new model, in place of the weights in the encoder's files


def adapt_model(
    config: LearnerConfig, state: LearnerState, stage: StageData, *, resume: ResumeFolder, options: AdaptOptions
) -> tuple[LearnerState, Stage]:
    """Learn a domain whose data has been checked; returns the next state and the record of this stage."""
    check_learnable(config, stage)
    learn = _adapt_alone if config.options.independent else _adapt
    return learn(config, state, stage, resume, options)


def _adapt_alone(
    config: LearnerConfig, state: LearnerState, stage: StageData, resume: ResumeFolder, options: AdaptOptions
) -> tuple[LearnerState, Stage]:
    """Learn an independent domain: as the only one of a new model, which then joins the others."""
    from memgrow.training.independent import assemble, check_independent, parts_of

    check_independent(config, state)
    if stage.name in state.history.domains:
        raise SettingsError(f"{stage.name} was learned already: remove it first (memgrow domain remove)")
    tested = {domain.name: domain for domain in (*options.watch, *stage.domains) if domain.test}
    before = _scores_to_keep(config, state, tested, options)
    own = tuple(sorted({label for domain in stage.domains for label in domain.labels}))
    empty = LearnerState(stage.task, None, None, Vocabulary(), config.method.create(config.options), History())
    learned, record = _adapt(
        replace(config, seed=derive(config.seed, "domain", stage.name)),
        empty,
        replace(stage, labels=own, new_labels=own),
        resume,
        replace(options, watch=(), max_forgetting=None, base=state.memory.base if state.memory else None),
    )
    next_state = assemble(config, learned, [*parts_of(state), *parts_of(learned)])
    scores = {name: next_state.score(config, domain) for name, domain in tested.items()}
    if options.max_forgetting is not None:
        _check_forgetting(stage.name, before, scores, allowed=options.max_forgetting, resume=resume)
    history = next_state.history
    history.matrix = AccuracyMatrix((*history.matrix.rows[:-1], Row(record.learned, scores)))
    history.baseline |= state.history.baseline
    history.test_examples |= state.history.test_examples
    _note_tests(history, tested)
    return next_state, record


def _adapt(
    config: LearnerConfig, state: LearnerState, stage: StageData, resume: ResumeFolder, options: AdaptOptions
) -> tuple[LearnerState, Stage]:
    started, device, progress = time.monotonic(), options.device, options.progress
    seed = derive(config.seed, "stage", len(state.history.stages))
    old = None if config.method.reinit else state.model
    tested = {domain.name: domain for domain in (*options.watch, *stage.domains) if domain.test}
    before = _scores_to_keep(config, state, tested, options)
    for warning in label_warnings(stage, options.watch, state.history.baseline):
        progress.note(warning)
    labels = labels_in(stage.train)
    known = labels & set(state.labels or ())
    unlike = old is not None and bool(labels) and not known
    if old is not None and 2 * len(known) < len(labels) and not config.method.keeps_labels:
        progress.note(
            f"{stage.name} shares {len(known)} of its {counted(len(labels), 'label')} with the model: "
            f"{config.method.name} will forget the others. A new model with {config.method.name}+memory or, on an "
            "encoder, ridge would keep them"
        )

    # Grow a copy of the model.
    method = copy.deepcopy(state.method_state)
    with seeded(seed, "growth", device=device):
        tokens = config.tokenize(stage.train)
        words = _new_words(config, state, old, tokens)
        model, grew = _grow(config, old, stage, words=words, options=options)
        data = encode(tokens, words.vocabulary, stage.labels)
        if grew.slots:
            model.encoder.start_slots(stage.name, data)
        training = _with_rows(data, config, method.extra_rows(len(data)) if old is not None else (), stage, words)
        trainable = method.start_domain(old, model, training)
    validation = encode(config.tokenize(stage.validation), words.vocabulary, stage.labels)
    _note_data(
        config, stage, tokens=tokens, words=words, validation=validation, later=old is not None, progress=progress
    )
    if config.method.keeps_rows:
        _note_rows(config, state, stage, progress)

    plain = {one_name: one for one_name, one in tested.items() if is_plain_text(one)}
    before_texts = _scores_of_texts(config, model if old is None else old, plain)
    if old is None and options.max_forgetting is not None:
        before |= before_texts

    # Train.
    trained = trainable.count(model)
    batches = -(-len(training) // config.training.batch)
    settings = config.training.resolve(batches, len(validation), first=old is None or unlike)
    multiplications = model.multiplications(settings.batch * TEXTS[stage.task])
    with using_threads(suited_threads(device, multiplications, options.threads)):
        if config.method.closed_form:
            resume.restore()  # refuses to give up another unfinished training
            method.fit(model, data, lambda done, total: progress.step(Step(stage.name, 1, 1, done, total)))
            result = TrainResult(0, 0, model.score(validation), 0.0)
        else:
            with seeded(seed, "train", device=device):
                result = train(
                    model,
                    method,
                    training,
                    validation=validation,
                    trainable=trainable,
                    new=newly_trained(old, model),
                    settings=settings,
                    seed=seed,
                    name=stage.name,
                    resume=resume,
                    progress=progress,
                )

        # Evaluate and record.
        evaluate = _evaluator(model, validation)
        note = method.finish_domain(
            FinishedDomain(
                old=old,
                model=model,
                data=training,
                validation=validation,
                domains=stage.domains,
                last_weights=result.last_weights,
                evaluate=evaluate,
                seed=seed,
            )
        )
        model.requires_grad_(True)
        _note_key(stage, model, progress)
        next_state = LearnerState(
            task=stage.task,
            labels=stage.labels,
            model=model,
            vocabulary=words.vocabulary,
            method_state=method,
            history=copy.deepcopy(state.history),
        )
        scores = {name: next_state.score(config, domain) for name, domain in tested.items()}
        if before_texts:
            note["texts_before"] = before_texts  # 1 / perplexity of watched texts
            for text, score in before_texts.items():
                progress.note(f"{text}: perplexity {1 / score:.4g} before {stage.name}, {1 / scores[text]:.4g} after")
        if (limit := options.max_forgetting) is not None:
            replies = stage.task == REPLY
            _check_forgetting(stage.name, before, scores, allowed=limit, resume=resume, replies=replies)
        record = Stage(
            learned=stage.learned,
            method=config.method.name,
            grew=grew,
            parameters=count_parameters(model),
            examples=len(data),
            epochs=result.epochs,
            best_epoch=result.best_epoch,
            validation=note.get("validation_of_kept", result.validation),
            seconds=round(max(result.seconds, time.monotonic() - started), 3),
            fingerprint=stage.fingerprint,
            note=note,
            trained=trained,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            curve=result.curve,
        )
        history = next_state.history
        history.add(record, scores)
        _note_tests(history, tested)
        if stage.labels:
            history.labels |= {domain.name: domain.labels for domain in stage.domains}
        return _with_statistics(config, state, next_state, stage, validation), record


def _scores_of_texts(config: LearnerConfig, model: Model, texts: Mapping[str, Domain]) -> dict[str, float]:
    """1 / perplexity of texts without messages."""
    if texts and not isinstance(model, CausalModel):
        raise SettingsError(f"only a causal language model reads a plain text: leave {listed(texts)} out of --watch")
    return {name: model.score(encode(config.tokenize(one.test), Vocabulary())) for name, one in texts.items()}


def _note_tests(history: History, tested: Mapping[str, Domain]) -> None:
    """Record what is known of test examples beside their scores."""
    history.baseline |= {name: majority(domain.test)[1] for name, domain in tested.items()}
    history.test_examples |= {name: len(domain.test) for name, domain in tested.items()}


def check_learnable(config: LearnerConfig, stage: StageData) -> None:
    """Refuse a stage that the method or the model cannot learn."""
    causal = isinstance(config.model, CausalSettings)
    if stage.task == REPLY and config.model.is_pretrained and not causal:
        raise SettingsError(
            f"{stage.name} has replies, and a pretrained encoder predicts labels: give rows with labels, or name a "
            "causal language model (--encoder smollm2), or gru"
        )
    config.method.check_task(stage.task, config.model)
    if causal and stage.task != REPLY:
        raise SettingsError(
            f"{stage.name} has labels, and a causal language model learns replies: give rows with replies, or leave "
            "the encoder out"
        )
    if causal and config.options.independent:
        raise SettingsError("independent domains are for encoders: leave independent out with a causal language model")
    if distributed.process_count() > 1 and any(part.needs_whole_batches for part in config.method.parts):
        raise SettingsError(f"{config.method.name} trains in one process only: start it without accelerate or torchrun")


def _new_words(config: LearnerConfig, state: LearnerState, old: Model | None, tokens: Tokenized) -> StoredWords:
    """The vocabulary with the words that this domain adds, if the method adds any."""
    known = Vocabulary() if old is None else state.vocabulary
    joining = tokens.documents if old is None or "words" in config.method.grows else ()
    return store_words(known, joining, config.training.min_count, config.training.min_documents)


def _grow(
    config: LearnerConfig, old: Model | None, stage: StageData, *, words: StoredWords, options: AdaptOptions
) -> tuple[Model, Grew]:
    """A new model, or a copy of the old one that has grown for this domain."""
    settings, vectors = config.model, options.vectors
    vocabulary = words.vocabulary
    new_words = vocabulary.words[len(vocabulary) - words.stored :] if words.stored else ()
    rows, found = torch.empty(0), 0
    if not settings.is_pretrained:
        rows, found = first_vectors(new_words, settings.embedding, vectors)
    if vectors is not None:
        options.progress.note(
            f"{stage.name}: {found} of {len(new_words)} new words have a vector in {Path(vectors).name}"
        )
    if old is None:
        model = build(
            stage.task,
            settings,
            len(vocabulary),
            labels=len(stage.labels),
            domain=stage.name,
            files=config.encoder,
            base=options.base,
        )
        _add_low_rank(model, config)
        model.to(options.device)
        if model.word_vectors is not None:
            with torch.no_grad():
                model.word_vectors.weight[len(vocabulary) - words.stored :] = rows.to(options.device)
        hidden = 0 if settings.is_pretrained else next(iter(model.encoder.hidden_units), settings.hidden)
        return model, Grew(settings.slots, hidden, words.stored, 1)
    # Pretrained weights that stay as they are belong to both.
    kept = () if config.method.trains_base or not old.addition_names() else old.encoder.pretrained_parameters()
    model = copy.deepcopy(old, {id(one): one for one in kept})
    if isinstance(model, Classifier | CausalModel):
        model.memory = None  # a domain trains without it; the method adds an entry afterwards
    _add_low_rank(model, config)
    labels = len(stage.labels) - old.labels if isinstance(old, Classifier) else 0
    slots, hidden = _growth_sizes(config, model, config.method)
    model.grow(slots=slots, hidden=hidden, domain=stage.name, words=rows, labels=labels)
    if "column" in config.method.grows:  # as large as the first one was
        slots, hidden = settings.slots, settings.hidden
        model.add_column(hidden, slots, stage.name)
    return model, Grew(slots, hidden, words.stored, int("column" in config.method.grows), labels)


def _add_low_rank(model: Model, config: LearnerConfig) -> None:
    """The matrices that train in a causal language model, unless its own weights do."""
    if not isinstance(model, CausalModel):
        return
    if config.method.trains_base and model.rank:
        raise SettingsError(
            f"this model's domains are in additions of LoRA, which {config.method.name} has not: use lora"
        )
    if model.rank not in (0, config.options.rank):
        raise SettingsError(f"this model's additions have rank {model.rank}: leave rank out, or start a new model")
    if not config.method.trains_base and not model.rank:
        model.add_low_rank(config.options.rank)
        model.additions.to(model.device)


def _growth_sizes(config: LearnerConfig, model: Model, method: MethodSpec) -> tuple[int, int]:
    """The number of new slots and hidden units."""
    if not {"slots", "hidden"} & set(method.grows):
        return 0, 0
    slots = config.options.slots or model.settings.slots or model.settings.default_slots
    if not slots:
        raise SettingsError(
            f"{method.name} adds slots, and this model has none yet: set their number (--set slots=64), or use a "
            "method without slots"
        )
    return (0, matching_hidden(model, slots)) if "hidden" in method.grows else (slots, 0)


def _with_rows(
    data: Encoded, config: LearnerConfig, rows: Sequence[Example], stage: StageData, words: StoredWords
) -> Encoded:
    """The data with further rows after it."""
    if not rows:
        return data
    more = encode(config.tokenize(rows), words.vocabulary, stage.labels)
    return Encoded([*data.texts, *more.texts], [*data.labels, *more.labels], data.answered)


def _evaluator(model: Model, validation: Encoded) -> Callable[[Iterable[Weights]], list[Tally]]:
    def evaluate(variants: Iterable[Weights]) -> list[Tally]:
        tallies = []
        for weights in variants:
            with swapped(model, weights):
                tallies.append(model.tally(validation))
        return tallies

    return evaluate


def _with_statistics(
    config: LearnerConfig, before: LearnerState, state: LearnerState, stage: StageData, validation: Encoded
) -> LearnerState:
    """Add the calibration and the drift reference, for which this stage's data is needed."""
    number, model = len(state.history.stages), state.model
    sizes = [len(domain.validation) for domain in stage.domains]
    calibration = state.calibration
    if isinstance(model, Classifier):
        logits, labels = model.logits(validation), torch.tensor(validation.labels)
        parts = dict(zip(stage.learned, sizes, strict=True))
        calibration = calibrate(
            logits, labels, sizes=parts, before=before.calibration, learned=state.history.domains, stage=number
        )
    tokenizer, vocabulary = word_tokenizer(config.model), None if config.model.is_pretrained else state.vocabulary
    texts = {one.name: (one.train, one.validation) for one in stage.domains if config.training.drift}
    found = {name: summarize(*parts, tokenizer, vocabulary) for name, parts in texts.items()}
    earlier = {} if config.method.reinit else before.reference.domains
    kept = {name: one for name, one in {**earlier, **found}.items() if one is not None}
    return replace(state, calibration=calibration, reference=Reference(kept))


# The bound on forgetting


def _scores_to_keep(
    config: LearnerConfig, state: LearnerState, tested: Mapping[str, Domain], options: AdaptOptions
) -> dict[str, float]:
    """The score, before this domain, of what `max_forgetting` protects: learned domains, and others only watched."""
    if options.max_forgetting is None or state.model is None:
        return {}
    learned = state.history.domains
    names = [name for name in tested if name in learned or name not in options.upcoming]
    if not names:
        raise SettingsError(
            f"max_forgetting needs test examples of earlier domains ({listed(learned)}): watch some (--watch FILE)"
        )
    return {name: state.score(config, tested[name]) for name in names}


def _check_forgetting(
    name: str,
    before: Mapping[str, float],
    after: Mapping[str, float],
    *,
    allowed: float,
    resume: ResumeFolder,
    replies: bool = False,
) -> None:
    # Of replies, scores are 1 / perplexity, which is limited in percent.
    lost = {
        domain: 100 * (score / max(after[domain], 1e-12) - 1 if replies else score - after[domain])
        for domain, score in before.items()
    }
    worse = sorted((domain for domain in lost if lost[domain] > allowed + ROUNDING), key=lambda one: -lost[one])
    if not worse:
        return
    resume.clear()
    details = "; ".join(
        f"the perplexity of {one} rises from {1 / before[one]:.4g} to {1 / max(after[one], 1e-12):.4g} "
        f"({lost[one]:.1f}%)"
        if replies
        else f"{one} falls from {100 * before[one]:.1f} to {100 * after[one]:.1f} ({lost[one]:.1f} points)"
        for one in worse
    )
    raise ForgettingError(
        f"{name} was learned and not kept: {details}, and at most {allowed:g} may be lost. The model is unchanged. "
        "Use a method that forgets less (`memgrow methods`), or allow more (--max-forgetting)",
        before,
        {domain: after[domain] for domain in before},
    )


# Notes for the user


def _note_data(
    config: LearnerConfig,
    stage: StageData,
    *,
    tokens: Tokenized,
    words: StoredWords,
    validation: Encoded,
    later: bool,
    progress: Progress,
) -> None:
    if tokens.cut and isinstance(config.model, CausalSettings):
        progress.note(
            f"{stage.name}: {counted(tokens.cut, 'row')} longer than {config.max_tokens} tokens: messages keep "
            "their end, replies their beginning"
        )
    elif tokens.cut:
        unit = config.model.token_name
        progress.note(
            f"{stage.name}: only the first {config.max_tokens} {unit} are read of {counted(tokens.cut, 'text')}"
        )
    if config.model.is_pretrained:
        return
    if words.stored or words.left_out:
        progress.note(words.sentence(stage.name))
    if (sentence := unknown_in(validation).sentence(f"the validation part of {stage.name}")) is not None:
        joins = not later or "words" in config.method.grows
        more = f"more rows, or min_documents below {config.training.min_documents}, add words"
        progress.note(f"{sentence}: {more if joins else f'{config.method.name} adds no words; use one with vocab'}")


def _note_key(stage: StageData, model: Model, progress: Progress) -> None:
    """Tell if the key of the newest entry of a domain memory shows which texts it is made of."""
    memory = model.memory if isinstance(model, Classifier) else None
    key = list(memory.entries())[-1].tensors if memory is not None else {}
    if TEXTS_OF_MEANS in key and NOISE not in key and (fewest := int(key[TEXTS_OF_MEANS].min())) < TELLING:
        progress.note(
            f"{stage.name}: mean vectors of its labels are stored, of {counted(fewest, 'text')} or more, and tell "
            "which texts were used; --set keys=private hides that, but finds domains with other labels less often"
        )


def _note_rows(config: LearnerConfig, state: LearnerState, stage: StageData, progress: Progress) -> None:
    """Tell which rows the method keeps, and which it trains on again."""
    count = counted(sum(min(config.options.rehearse, len(domain.train)) for domain in stage.domains), "row")
    kept = state.method_state.rows
    again = f", and trains on rows of {listed(kept)} again" if kept else ""
    progress.note(f"{stage.name}: {config.method.name} keeps {count} of it as text in the model's folder{again}")
