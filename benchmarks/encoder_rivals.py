"""Ways to read and to train a pretrained encoder that `encoders.py` times: memgrow's, and others' on the same files."""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from memgrow.data import Domain, Example
from memgrow.learner import Learner
from memgrow.models import PretrainedSettings
from memgrow.training.settings import FINE_TUNING

BATCH = 32

Answers = list[tuple[int, list[float]]]
"""Of each text the number of its label, and the probability of each label."""


def new_learner(asked: argparse.Namespace, method: str = "F", **given: Any) -> Learner:
    """A learner as it comes by default, but for the precision that was asked for."""
    model = PretrainedSettings(precision=asked.precision)
    return Learner.create(method, **{"encoder": asked.encoder, "model": model, "device": asked.device, **given})


def folder_of(learner: Learner) -> str:
    """The folder of the encoder's files."""
    assert learner.encoder is not None
    assert learner.encoder.weights is not None
    return str(learner.encoder.weights.parent)


# Rivals that predict


def predict_with_memgrow(learner: Learner) -> Callable[[Sequence[str]], Answers]:
    names = {label: number for number, label in enumerate(learner.labels or ())}

    def predict(texts: Sequence[str]) -> Answers:
        found = learner.predict(texts)
        return [(names[one.label], list(one.probabilities.values())) for one in found]

    return predict


def predict_with_sentence_transformers(learner: Learner) -> Callable[[Sequence[str]], Answers]:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    head = learner.classifier().heads[-1]
    reader = Transformer(folder_of(learner), max_seq_length=FINE_TUNING.max_words)
    width = learner.classifier().encoder.sizes[0]
    model = SentenceTransformer(modules=[reader, Pooling(width)], device=str(learner.device))

    @torch.no_grad()
    def predict(texts: Sequence[str]) -> Answers:
        vectors = model.encode(list(texts), convert_to_tensor=True, show_progress_bar=False)
        return answers_of(head(vectors.float()))

    return predict


def predict_with_auto_model(learner: Learner, batch: int) -> Callable[[Sequence[str]], Answers]:
    """A loop as one writes it by hand; bfloat16 on a GPU, float32 on a CPU."""
    from transformers import AutoModel, AutoTokenizer

    dtype = torch.bfloat16 if learner.device.type == "cuda" else torch.float32
    tokenizer: Any = AutoTokenizer.from_pretrained(folder_of(learner))
    model = AutoModel.from_pretrained(folder_of(learner), dtype=dtype).to(learner.device).eval()
    head = learner.classifier().heads[-1]

    @torch.inference_mode()
    def predict(texts: Sequence[str]) -> Answers:
        pieces = tokenizer(list(texts), truncation=True, max_length=FINE_TUNING.max_words, padding=False)["input_ids"]
        order = sorted(range(len(texts)), key=lambda number: len(pieces[number]))
        logits = []
        for start in range(0, len(order), batch):
            chosen = [{"input_ids": pieces[number]} for number in order[start : start + batch]]
            given = tokenizer.pad(chosen, return_tensors="pt").to(learner.device)
            states = model(**given).last_hidden_state
            mask = given["attention_mask"].unsqueeze(-1)
            logits.append(head((states * mask).sum(1).float() / mask.sum(1)))
        answers = answers_of(torch.cat(logits))
        back = {number: place for place, number in enumerate(order)}
        return [answers[back[number]] for number in range(len(texts))]

    return predict


def answers_of(logits: Tensor) -> Answers:
    rows = logits.softmax(-1).tolist()
    return [(max(range(len(row)), key=row.__getitem__), row) for row in rows]


# Rivals that train


@dataclass(frozen=True)
class Trained:
    """What a training ended with."""

    validation: float
    steps: int


def train_with_memgrow(asked: argparse.Namespace, domain: Domain) -> Trained:
    settings = replace(FINE_TUNING, batch=BATCH, epochs=asked.epochs, patience=asked.epochs)
    learner = new_learner(asked, training=settings)
    stage = learner.adapt(replace(domain, test=()))
    return Trained(stage.validation, stage.epochs * -(-len(domain.train) // BATCH))


def train_with_trainer(asked: argparse.Namespace, domain: Domain, folder: str, **options: Any) -> Trained:
    """Defaults, but for the size of a batch and what is printed and saved."""
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
    )

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)

    def rows(examples: Sequence[Example]) -> list[dict[str, Any]]:
        texts = [example.text for example in examples]
        pieces = tokenizer(texts, truncation=True, max_length=FINE_TUNING.max_words, padding=False)
        labels = [domain.labels.index(str(example.label)) for example in examples]
        return [
            {**{name: values[number] for name, values in pieces.items()}, "labels": label}
            for number, label in enumerate(labels)
        ]

    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=len(domain.labels))
    with tempfile.TemporaryDirectory() as out:
        arguments = TrainingArguments(
            output_dir=out,
            per_device_train_batch_size=BATCH,
            num_train_epochs=asked.epochs,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
            use_cpu=asked.device == "cpu",
            **options,
        )
        data: Any = rows(domain.train)
        trainer = Trainer(
            model=model, args=arguments, train_dataset=data, data_collator=DataCollatorWithPadding(tokenizer)
        )
        trainer.train()
        seconds = time.perf_counter()
        held: Any = rows(domain.validation)
        right = trainer.predict(held)
        guessed = torch.tensor(right.predictions).argmax(-1).tolist()
        score = statistics.fmean(a == row["labels"] for a, row in zip(guessed, held, strict=True))
        NOT_COUNTED.append(time.perf_counter() - seconds)
    return Trained(score, int(trainer.state.global_step))


NOT_COUNTED: list[float] = []  # seconds within the present rival that are not its own
