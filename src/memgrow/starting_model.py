"""The model as it starts on a domain: a new one, or a copy of the old one that has grown."""

import copy
from pathlib import Path

import torch

from memgrow.data.batches import Tokenized
from memgrow.learnt import Learnt, Setup
from memgrow.methods import Grew, grow_for
from memgrow.models import Classifier, Model, build
from memgrow.models.encoder import first_vectors
from memgrow.progress import Progress
from memgrow.stage_data import StageData
from memgrow.text import StoredWords, store_words


def starting_model(
    setup: Setup,
    before: Learnt,
    device: torch.device,
    old: Model | None,
    stage: StageData,
    tokens: Tokenized,
    vectors: str | Path | None,
    progress: Progress,
) -> tuple[Model, StoredWords, Grew]:
    """The model as it starts on a domain: a new one, or a copy of the old one that has grown."""
    settings, method = setup.model, setup.method
    known = settings.kind.first_vocabulary(settings) if old is None else before.vocabulary
    joining = tokens.documents if old is None or "words" in method.grows else ()
    stored = store_words(known, joining, setup.training.min_count, setup.training.min_documents)
    vocabulary = stored.vocabulary
    words = vocabulary.words[len(known) :]
    rows, found = first_vectors(words, settings.embedding, vectors)
    if vectors is not None:
        progress.note(f"{stage.name}: {found} of {len(words)} new words have a vector in {Path(vectors).name}")
    if old is None:
        model = build(stage.task, settings, len(vocabulary), len(stage.labels), stage.name, setup.encoder).to(device)
        if model.word_vectors is not None:
            with torch.no_grad():
                model.word_vectors.weight[len(known) :] = rows.to(device)
        return model, stored, Grew(settings.slots, _first_hidden(model), len(words), 1)
    model = copy.deepcopy(old)
    joined = len(stage.labels) - old.labels if isinstance(old, Classifier) else 0
    return model, stored, grow_for(model, method, setup.options, stage.name, rows, joined)


def _first_hidden(model: Model) -> int:
    """The hidden units of a new model; those of a pretrained encoder did not grow."""
    if model.encoder.is_pretrained:
        return 0
    return next(iter(model.encoder.hidden_units), model.settings.hidden)
