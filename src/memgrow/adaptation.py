"""One domain being learnt: a copy of the model grown, trained and tried. Values in, values out."""

import copy
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from memgrow.calibration import calibrate
from memgrow.checkpoint import REHEARSAL
from memgrow.data import Domain, Example
from memgrow.data.batches import Encoded, Tokenized, encode, unknown_in
from memgrow.device import warm_up
from memgrow.domain_parts import parts_after
from memgrow.drift import Reference, summarise
from memgrow.errors import SettingsError, counted, listed
from memgrow.history import Stage
from memgrow.learnt import Learnt, Setup
from memgrow.methods import Evaluate, Grew, Plugins, Trains
from memgrow.methods.trains import new_names
from memgrow.models import REPLY, Classifier, Model
from memgrow.nn import count_parameters
from memgrow.progress import Progress
from memgrow.seeding import derive, seeded
from memgrow.stage_data import READS, StageData, most_frequent_share, warnings_of
from memgrow.starting_model import starting_model
from memgrow.text import StoredWords, Vocabulary
from memgrow.training.loop import Outcome


@dataclass(frozen=True)
class Adaptation:
    """A stage that has begun. What was learnt before it is not touched; `finish` says what is known after it."""

    setup: Setup  # whose epochs are a number
    before: Learnt
    device: torch.device
    stage: StageData
    tested: Mapping[str, Domain]  # domains whose test examples are tried in the end
    old: Model | None  # the model that met the domain, where its weights go on
    model: Model  # as it begins: new, or grown
    words: StoredWords
    plugins: Plugins
    grew: Grew
    trains: Trains
    trained: int  # entries of parameters that train
    tokens: Tokenized
    data: Encoded
    training: Encoded  # what batches are drawn from: the data and, if the method keeps any, rows of earlier domains
    validation: Encoded
    seed: int
    started: float

    @classmethod
    def begin(
        cls,
        setup: Setup,
        before: Learnt,
        device: torch.device,
        stage: StageData,
        tested: Iterable[Domain],
        vectors: str | Path | None,
        progress: Progress,
        like: "Adaptation | None" = None,
    ) -> "Adaptation":
        """Grow a copy of the model for data that has been checked.

        `like` is another learner's adaptation to this very data: what it has read need not be read once more.
        """
        started, tested = time.monotonic(), tuple(tested)
        check_learnable(setup, before.plugins, stage, before.model is not None)
        old = None if setup.method.afresh else before.model
        if vectors is not None and setup.model.kind.is_pretrained:
            raise SettingsError(
                "word vectors are for words, and a pretrained encoder has pieces of words of its own: leave them out"
            )
        warm_up(device)
        seed = derive(setup.seed, "stage", len(before.history.stages))
        with seeded(seed, "growth", device=device):
            tokens = setup.tokenized(stage.train) if like is None else like.tokens
            if tokens.cut and like is None:
                unit = setup.model.kind.unit
                progress.note(f"{stage.name}: only the first {setup.limit} {unit} are read of {tokens.cut} text(s)")
            for sentence in warnings_of(stage, tested, before.history.baseline) if like is None else ():
                progress.note(sentence)
            model, words, grew = starting_model(setup, before, device, old, stage, tokens, vectors, progress)
            vocabulary = words.vocabulary
            same = like is not None and like.vocabulary == vocabulary and like.stage.labels == stage.labels
            data = like.data if like and same else encode(tokens, vocabulary, stage.labels)
            if grew.slots:
                model.encoder.start_slots(stage.name, data)
            plugins = copy.deepcopy(before.plugins)
            training = data
            if old is not None:
                plugins.before_training(model)
                training = _with_kept_rows(setup, plugins, stage, data, vocabulary)
        trains = replace(setup.method.trains(old, model), new=new_names(old, model))
        validation = like.validation if like and same else None
        if validation is None:
            validation = encode(setup.tokenized(stage.validation), vocabulary, stage.labels)
        if like is None and not setup.model.kind.is_pretrained:
            _note_unknown_words(setup, stage, validation, old is not None, progress)
        batches = -(-len(training) // setup.training.batch)
        settled = setup.training.settled(batches, len(validation), first=old is None)
        return cls(
            replace(setup, training=settled),
            before,
            device,
            stage,
            {part.name: part for part in (*tested, *stage.domains) if part.test},
            old,
            model,
            words,
            plugins,
            grew,
            trains,
            trains.count(model),  # now: what a method adds for the time of training counts
            tokens,
            data,
            training,
            validation,
            seed,
            started,
        )

    def notes_on_kept_rows(self) -> Iterator[str]:
        """Sentences for a user whose method keeps rows: how many, where, and which ones this domain is learnt with."""
        if not self.plugins.keeps_examples:
            return
        name, method = self.stage.name, self.setup.method.name
        count = sum(min(self.setup.options.rehearse, len(domain.train)) for domain in self.stage.domains)
        yield f"{name}: {method} keeps {counted(count, 'row')} of it, as text, in the model's folder ({REHEARSAL})"
        kept, earlier = self.plugins.rows_kept(), self.before.history.domains
        if mixed := len(self.training) - len(self.data):
            found = f"{counted(sum(kept.values()), 'row')} of {listed(kept)}"
            yield f"{name}: {found} are learnt with it, as {mixed:,} of the {len(self.training):,} rows of an epoch"
        if lost := [domain for domain in earlier if domain not in kept and domain not in self.stage.learned]:
            yield f"{name}: no rows were kept of {listed(lost)}, which cannot be rehearsed"

    @property
    def multiplications(self) -> int:
        """About how many a step of training has."""
        return self.model.multiplications(self.setup.training.batch * READS[self.stage.task])

    def after_training(self, evaluate: Evaluate) -> None:
        if self.old is not None:
            self.plugins.after_training(self.old, self.model, evaluate)

    @property
    def vocabulary(self) -> Vocabulary:
        return self.words.vocabulary

    def encode(self, examples: Sequence[Example]) -> Encoded:
        """Examples that have been checked, as the model reads them."""
        return encode(self.setup.tokenized(examples), self.vocabulary, self.stage.labels)

    def finish(self, outcome: Outcome, note: dict[str, Any], scores: Mapping[str, float]) -> tuple[Learnt, Stage]:
        """The learner's knowledge after this stage, and the record of it."""
        self.model.requires_grad_(True)
        for domain in self.stage.domains:
            note = {**note, **self.plugins.keep_examples(domain.name, domain.train, self.seed)}
        stage = Stage(
            learned=self.stage.learned,
            method=self.setup.method.name,
            grew=self.grew,
            parameters=count_parameters(self.model),
            examples=len(self.data),
            epochs=outcome.epochs,
            best_epoch=outcome.best_epoch,
            validation=outcome.validation,
            seconds=round(max(outcome.seconds, time.monotonic() - self.started), 3),
            fingerprint=self.stage.fingerprint,
            note=note,
            trained=self.trained,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            curve=outcome.curve,
        )
        history = copy.deepcopy(self.before.history)
        history.add(stage, scores)
        history.baseline |= {name: most_frequent_share(part.test) for name, part in self.tested.items()}
        if self.stage.labels:
            history.labels |= {domain.name: domain.labels for domain in self.stage.domains}
        parts = parts_after(
            self.before.parts, self.old, self.model, self.setup.method, self.stage.learned, self.stage.labels
        )
        known = (self.stage.task, self.stage.labels, self.model, self.vocabulary, self.plugins, history)
        return Learnt(*known, parts=parts), stage

    def described(self, learnt: Learnt) -> Learnt:
        """What has been learnt, with what is to be known later of this stage's data: it is at hand only now."""
        stage, names = len(learnt.history.stages), self.stage.learned
        sizes = [len(domain.validation) for domain in self.stage.domains]
        confidences: Sequence[Tensor] = [torch.empty(0)] * len(names)
        if isinstance(learnt.model, Classifier):
            logits, labels = learnt.model.logits(self.validation), torch.tensor(self.validation.labels)
            known, parts = self.before.calibration, dict(zip(names, sizes, strict=True))
            calibration = calibrate(logits, labels, parts, known, learnt.history.domains, stage)
            learnt = replace(learnt, calibration=calibration)
            sure = (logits / calibration.temperature).softmax(-1).max(-1).values
            confidences = torch.split(sure, sizes)
        kind = self.setup.model.kind
        tokenizer, vocabulary = kind.tokenizer(self.setup.model), None if kind.is_pretrained else self.vocabulary
        found = {
            domain.name: summarise(domain.train, domain.validation, tokenizer, vocabulary, one.tolist(), stage)
            for domain, one in zip(self.stage.domains, confidences, strict=True)
        }
        earlier = {} if self.old is None else self.before.reference.domains  # a new model knows nothing of them
        kept = {name: one for name, one in {**earlier, **found}.items() if one is not None}
        return replace(learnt, reference=Reference(kept))


def _with_kept_rows(setup: Setup, plugins: Plugins, stage: StageData, data: Encoded, vocabulary: Vocabulary) -> Encoded:
    """The data of a domain and, behind it, the rows of earlier ones that the method mixes in, each so many times."""
    mixed = plugins.mixed_in(len(data))
    if not mixed:
        return data
    texts, labels = list(data.texts), list(data.labels)
    for rows, times in mixed:
        encoded = encode(setup.tokenized(rows), vocabulary, stage.labels)
        texts += [*encoded.texts] * times
        labels += [*encoded.labels] * times
    return Encoded(texts, labels, data.answered)


def _note_unknown_words(setup: Setup, stage: StageData, validation: Encoded, later: bool, progress: Progress) -> None:
    """Tell of a domain whose words are mostly not stored; its validation texts are as new texts will be."""
    sentence = unknown_in(validation).sentence(f"the validation part of {stage.name}")
    if sentence is not None:
        joins = not later or "words" in setup.method.grows
        stored = f"more rows, or a min_documents below {setup.training.min_documents}, let more of them join"
        advice = stored if joins else f"they do not join by {setup.method.name}, but by a method with V"
        progress.note(f"{sentence}: {advice}")


def check_learnable(setup: Setup, plugins: Plugins, stage: StageData, later: bool) -> None:
    """Refuse a stage that method or model cannot learn; `later`: there is a model by then that it goes on from."""
    if (reason := plugins.refuses(stage.task)) is not None:
        raise SettingsError(f"{setup.method.name}: {reason}")
    if later and not setup.method.afresh and (reason := plugins.refuses_labels(stage.joined)) is not None:
        raise SettingsError(f"{setup.method.name}: {reason}")
    if stage.task == REPLY and setup.model.kind.is_pretrained:
        raise SettingsError(
            f"a model with a pretrained encoder answers with labels, and {stage.name} has replies: give rows with "
            "labels, or leave the encoder out"
        )
