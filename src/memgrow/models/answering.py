"""What a model answers to many examples: large batches of similar length, no gradients."""

import torch
from torch import Tensor

from memgrow.batches import Encoded, by_length, collate
from memgrow.models.classifier import Classifier

LARGE = 256  # examples in a batch where no gradient is needed


@torch.no_grad()
def logits_of(model: Classifier, data: Encoded) -> Tensor:
    """Logits (examples, labels) in the order of the data, on the CPU."""
    device = next(model.parameters()).device
    model.eval()
    answers = torch.empty(len(data), model.labels)
    for indices in by_length(data, LARGE):
        batch = collate(data, indices, device)
        answers[indices] = model(batch.words, batch.lengths).cpu()
    return answers
