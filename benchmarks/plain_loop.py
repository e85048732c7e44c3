"""The plain loop that memgrow is held against: transformers, AdamW, a linear schedule, no validation."""

from collections.abc import Sequence

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, get_linear_schedule_with_warmup

from memgrow.data import Domain

EPOCHS = (10, 5)  # of the first domain and of later ones
BATCH, RATE, LONGEST = 32, 5e-5, 256


def plain_loop(domains: Sequence[Domain], encoder: str, seed: int, device: str, held_out: bool) -> list[list[float]]:
    """Fine-tune on each domain in turn; returns the test accuracies (stages, domains), in percent.

    All rows are trained on, those of the validation part too, unless they are to be `held_out`.
    """
    torch.manual_seed(seed)
    labels = sorted({label for domain in domains for label in domain.labels})
    tokenizer = AutoTokenizer.from_pretrained(encoder, model_max_length=LONGEST)
    model = AutoModelForSequenceClassification.from_pretrained(encoder, num_labels=len(labels)).float().to(device)
    matrix = []
    for number, domain in enumerate(domains):
        rows = [*domain.train] if held_out else [*domain.train, *domain.validation]
        steps = EPOCHS[min(number, 1)] * -(-len(rows) // BATCH)
        optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
        schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
        model.train()
        for _ in range(EPOCHS[min(number, 1)]):
            for batch in torch.split(torch.randperm(len(rows)), BATCH):
                chosen = [rows[index] for index in batch.tolist()]
                inputs = tokenizer([row.text for row in chosen], padding=True, truncation=True, return_tensors="pt")
                answers = torch.tensor([labels.index(row.label or "") for row in chosen])
                loss = model(**inputs.to(device), labels=answers.to(device)).loss
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        matrix.append([_accuracy(model, tokenizer, one, labels, device) for one in domains])
    return matrix


@torch.no_grad()
def _accuracy(model: torch.nn.Module, tokenizer: object, domain: Domain, labels: list[str], device: str) -> float:
    model.eval()
    right = 0
    for start in range(0, len(domain.test), 256):
        rows = domain.test[start : start + 256]
        texts = [row.text for row in rows]
        inputs = tokenizer(texts, padding=True, truncation=True, return_tensors="pt")  # type: ignore[operator]
        best = model(**inputs.to(device)).logits.argmax(-1).tolist()
        right += sum(labels[one] == row.label for one, row in zip(best, rows, strict=True))
    return round(100 * right / len(domain.test), 2)
