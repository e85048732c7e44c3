"""The effect of growth on a trained model before anything further is learned: new slots against new hidden units."""

import copy
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from memgrow import Example, Learner, matching_hidden
from memgrow.errors import DataError, ModelError
from memgrow.models import Classifier
from research.theorem.closed_form import Estimate, derive
from research.theorem.trace import Moved, Seen, compare, kept_entries, look, newest_column

QUIET = 5.0  # how much lower the logits of quiet slots start
AT_ONCE = 64  # texts that are read together

GROWTHS: dict[str, Callable[[Classifier, int], dict[str, Any]]] = {  # how a model grows, given a number of slots
    "slots": lambda model, slots: {"slots": slots},
    "quiet slots": lambda model, slots: {"slots": slots, "initial_logit_bias": -QUIET},
    "units, matched": lambda model, slots: {"hidden": max(1, matching_hidden(model, slots))},
    "units, d": lambda model, slots: {"hidden": newest_column(model).slot_size},  # the theorem's own pairing
}


@dataclass(frozen=True)
class Effect:
    """One way of growing, over several draws of what is new. Squared changes are means for a word, or for a text."""

    slots: int
    hidden: int
    parameters: int  # that it adds
    step: Estimate  # of old hidden units at a word, by one step from the old states: the theorem's setting
    run: Estimate  # the same as it adds up along the text: as in use
    text: Estimate  # of the old entries of a text's vector
    content: Estimate  # of what the memory says, in one step
    silenced: Estimate | None  # the part of it that is the old slots' loss of voice
    newcomers: Estimate  # squared size of the new units' states
    weights: Estimate  # squared size of a weight that reads the content (slots) or the new units (units)
    changed: Estimate  # share of examples whose label changes
    accuracy: Estimate
    holds: Estimate | None  # share of words and directions where the assumption on attention holds
    share: Estimate | None  # of attention, for the new slots
    shift: Estimate | None  # sum of squared betas: slots over states, were all variances equal


@dataclass(frozen=True)
class Expansion:
    """A trained model on the examples of one domain, just before and just after growth."""

    model: str
    domain: str
    examples: int
    words: int  # once for each direction
    slots: int  # of each bank, before growth
    read: float  # how many of them are in effect read at a word: 1 over the sum of squared weights, on the mean
    state: float  # mean squared size of the hidden state at a word
    vector: float  # mean squared size of a text's vector
    accuracy: float  # before growth
    effects: dict[str, Effect]  # by the way of growing


@torch.no_grad()
def measure(
    learner: Learner,
    examples: Sequence[Example],
    *,
    domain: str = "",
    slots: int | None = None,
    draws: int = 5,
    seed: int = 0,
) -> Expansion:
    """Grow copies of the learner's model in each of the ways, `draws` times; the learner stays as it is.

    `slots` is how many are added; if None, as many as the method adds, or as the model began with.
    """
    check(learner, examples, domain)
    model = learner.classifier().eval()
    slots = slots or learner.options.slots or model.settings.slots or newest_column(model).slots
    data = learner.encode(examples)
    before = [(words, look(model, words)) for words in _by_length(data, learner.device)]
    answers = model.logits(data).argmax(-1)
    effects: dict[str, Effect] = {}
    for name, sized in GROWTHS.items():
        growth, found = sized(model, slots), []
        for number in range(draws):
            after = grown(model, growth, derive(seed, "expansion", name, number))
            found.append(_compared(before, answers, data, model, after))
        effects[name] = _effect(growth, _size(after) - _size(model), found)
    total = found[-1].moved
    return Expansion(
        "",
        domain,
        examples=len(examples),
        words=total.words,
        slots=newest_column(model).slots,
        read=total.read / total.words,
        state=total.state / total.words,
        vector=total.vector / total.texts,
        accuracy=_agreement(answers, torch.tensor(data.labels)),
        effects=effects,
    )


def check(learner: Learner, examples: Sequence[Example], domain: str = "") -> None:
    """Refuse what cannot be measured."""
    if not newest_column(learner.trained()).slots:
        raise ModelError("this model has no slots, and the theorem is about adding some: use one with slots above 0")
    if not examples:
        raise DataError(f"{domain or 'the data'} has no test examples to measure on: give a file with some")


def grown(model: Classifier, growth: dict[str, Any], seed: int) -> Classifier:
    """A copy that has grown; the original and torch's own generator stay as they are."""
    after = copy.deepcopy(model)
    after.grow(**growth, domain="theorem", generator=torch.Generator().manual_seed(seed))
    return after.eval()


@dataclass(frozen=True)
class _Found:
    """The figures of one draw."""

    moved: Moved
    weights: float
    changed: float
    accuracy: float


def _compared(
    before: Sequence[tuple[Tensor, Seen]], answers: Tensor, data: Any, model: Classifier, after: Classifier
) -> _Found:
    hidden = newest_column(after).hidden_size - newest_column(model).hidden_size
    kept, moved = kept_entries(model, hidden), Moved()
    for words, seen in before:
        moved += compare(seen, look(after, words, seen), kept)
    new = after.logits(data).argmax(-1)
    right = _agreement(new, torch.tensor(data.labels))
    return _Found(moved, _reading_weights(model, after), 1 - _agreement(new, answers), right)


def _size(model: Classifier) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _agreement(one: Tensor, other: Tensor) -> float:
    return float((one == other).double().mean())


def _reading_weights(model: Classifier, after: Classifier) -> float:
    """Mean squared weight from what is new in a step to the old units: from the content, or from new units."""
    old, new = newest_column(model), newest_column(after)
    layer, units = old.num_layers - 1, new.hidden_size - old.hidden_size
    pieces = []
    for direction in range(old.num_directions):
        weights = new.weights(layer, direction)
        rows = weights.hh.view(-1, new.hidden_size, new.hidden_size)[:, : old.hidden_size]  # (gates, old units, all)
        content = weights.ih.view(-1, new.hidden_size, weights.ih.shape[1])[:, : old.hidden_size, -old.slot_size :]
        pieces.append((rows[..., old.hidden_size :] if units else content).double().square().mean())
    return float(torch.stack(pieces).mean())


def _effect(growth: dict[str, Any], parameters: int, found: Sequence[_Found]) -> Effect:
    def mean(name: str, count: str) -> Any:
        return Estimate.of([getattr(one.moved, name) / getattr(one.moved, count) for one in found])

    slots = growth.get("slots", 0)
    values: dict[str, Any] = {name: mean(name, "words") for name in ("step", "run", "content", "newcomers")}
    values |= {name: Estimate.of([getattr(one, name) for one in found]) for name in ("weights", "changed", "accuracy")}
    values |= {name: mean(name, "words") if slots else None for name in ("silenced", "holds", "share", "shift")}
    return Effect(slots, growth.get("hidden", 0), parameters, text=mean("text", "texts"), **values)


def _by_length(data: Any, device: torch.device) -> Iterator[Tensor]:
    """All texts, those of one length together: (B, T)."""
    lengths: dict[int, list[Sequence[int]]] = defaultdict(list)
    for texts in data.texts:
        for text in texts:
            lengths[len(text)].append(text)
    for length in sorted(lengths):
        for start in range(0, len(lengths[length]), AT_ONCE):
            yield torch.tensor(lengths[length][start : start + AT_ONCE], device=device)
