"""What each domain has of its own in a model whose encoder is frozen: the slots that its texts read, and its head.

With these a model can be told which domain a text is of, and answers as it did when that domain had just been learnt:
no later domain has moved anything of it.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from memgrow.errors import ModelError, listed
from memgrow.kinds import wrong_part
from memgrow.methods import Method
from memgrow.methods.plugin import old_part
from memgrow.methods.trains import what_is_new
from memgrow.models import Classifier, Model, PretrainedEncoder
from memgrow.models.fit import all_finite

HEADS = "domains.safetensors"  # the heads of all parts, in a model's folder
LATEST = 8  # parts of a model that are kept ready
DAMAGED = "copy the model again, or go back to a saved one"


@dataclass(frozen=True)
class DomainPart:
    """The part of a model that answers texts of one domain."""

    labels: tuple[str, ...]
    blocks: tuple[int, ...]  # of labels that came together
    segments: tuple[int, ...]  # numbers of the slots that are read, in this order: those before it and its own
    head: Mapping[str, Tensor]

    @classmethod
    def of(cls, model: Classifier, labels: Sequence[str]) -> "DomainPart":
        """The model as it is now."""
        head = {name: tensor.detach().clone() for name, tensor in model.heads[-1].state_dict().items()}
        return cls(tuple(labels), model.label_blocks, tuple(encoder_of(model).memories[0].read_segments), head)

    def of_model(self, model: Classifier) -> Classifier:
        """A model that reads these slots alone and answers by this head, and shares all else with the one given."""
        shared = [*model.parameters(), *model.buffers()]
        with _making:
            latest = _made.setdefault(model, [])
            for number, (part, known, told) in enumerate(latest):
                if part is self and list(map(id, known)) == list(map(id, shared)):
                    latest.append(latest.pop(number))
                    return told
            told = copy.deepcopy(model, {id(tensor): tensor for tensor in shared})
            told.answer_by({name: tensor.to(model.device) for name, tensor in self.head.items()}, self.blocks)
            encoder_of(told).read_only(self.segments)
            latest[:] = [*latest[1 - LATEST :], (self, shared, told)]
            return told

    def fits(self, model: Model) -> bool:
        """Whether it can be of this model."""
        if not isinstance(model, Classifier) or not isinstance(model.encoder, PretrainedEncoder):
            return False
        own = {name: tuple(tensor.shape) for name, tensor in model.heads[-1].state_dict().items()}
        last = {f"{len(model.heads[-1]) - 1}.{name}" for name in ("weight", "bias")}  # of as many rows as labels
        wanted = {name: (len(self.labels), *shape[1:]) if name in last else shape for name, shape in own.items()}
        count = len(model.encoder.memories[0].bank.segments)
        return (
            {name: tuple(tensor.shape) for name, tensor in self.head.items()} == wanted
            and all(tensor.dtype == torch.float32 and all_finite(tensor) for tensor in self.head.values())
            and 0 < len(self.labels) == len(set(self.labels)) == sum(self.blocks)
            and min(self.blocks) > 0
            and len(set(self.segments)) == len(self.segments)
            and all(0 <= number < count for number in self.segments)
        )


Parts = Mapping[str, DomainPart]
"""By the names of domains."""

# Of each model what its parts made of it last, and of which tensors: to make it takes as long as to answer a text.
_made: WeakKeyDictionary[Classifier, list[tuple[DomainPart, list[Tensor], Classifier]]] = WeakKeyDictionary()
_making = Lock()


def encoder_of(model: Model) -> PretrainedEncoder:
    """The encoder of a model, if a domain can have a part of it."""
    if not isinstance(model, Classifier) or not isinstance(model.encoder, PretrainedEncoder):
        raise ModelError(
            "a domain has no part of its own in a recurrent network, where one softmax reads the slots of all domains "
            "together: use a pretrained encoder (--encoder) and the method frozen+M"
        )
    return model.encoder


def find_part(parts: Parts, name: str, learnt: Iterable[str]) -> DomainPart:
    """That of a domain, or a sentence that says why it has none."""
    if name in parts:
        return parts[name]
    known = f"those that have one: {listed(parts) or 'none'}"
    if name in learnt:
        raise ModelError(
            f"the domain {name!r} has no part of its own in this model ({known}): the encoder or its slots have been "
            "trained since, as all methods but frozen and frozen+M do, or the model is older than such parts"
        )
    raise ModelError(f"this model has no domain {name!r}; {known}")


def parts_after(
    before: Parts, old: Model | None, new: Model, method: Method, domains: Iterable[str], labels: Sequence[str]
) -> dict[str, DomainPart]:
    """The parts when domains have been learnt: of earlier ones, if nothing has moved what they need, and theirs."""
    if not isinstance(new, Classifier) or not isinstance(new.encoder, PretrainedEncoder):
        return {}
    kept = dict(before) if old is not None and before and _is_frozen(old, new) else {}
    if method.trains is what_is_new:
        kept |= {name: DomainPart.of(new, labels) for name in domains}
    return kept


def _is_frozen(old: Model, new: Model) -> bool:
    """Whether all that the old encoder had, slots among it, is in the new one to the bit."""
    now = dict(new.encoder.named_parameters())
    return all(torch.equal(old_part(now[name], was.shape), was) for name, was in old.encoder.named_parameters())


# In a model's folder


def describe_parts(parts: Parts) -> list[dict[str, Any]]:
    """All but the heads, as JSON."""
    return [
        {"name": name, "labels": part.labels, "blocks": part.blocks, "segments": part.segments}
        for name, part in parts.items()
    ]


def heads_of(parts: Parts) -> dict[str, Tensor]:
    """The tensors of all heads, by the number of the part and their own names."""
    return {f"{n}.{name}": t for n, part in enumerate(parts.values()) for name, t in part.head.items()}


def restore_parts(described: Any, heads: Mapping[str, Tensor], model: Model) -> dict[str, DomainPart]:
    """The parts that `describe_parts` and `heads_of` told of, if they can be of this model."""
    if wrong_part(described, list[Mapping[str, Any]], "domains") is not None:
        raise ModelError(f"config.json: domains is not what it must be: {DAMAGED}")
    parts: dict[str, DomainPart] = {}
    for number, one in enumerate(described):
        prefix = f"{number}."
        head = {name.removeprefix(prefix): t for name, t in heads.items() if name.startswith(prefix)}
        part = DomainPart(tuple(one["labels"]), tuple(one["blocks"]), tuple(one["segments"]), head)
        kinds = (tuple[str, ...], tuple[int, ...], tuple[int, ...])
        values = (part.labels, part.blocks, part.segments)
        wrong = any(wrong_part(value, kind, "") is not None for value, kind in zip(values, kinds, strict=True))
        if wrong or not isinstance(one["name"], str) or one["name"] in parts or not part.fits(model):
            raise ModelError(f"config.json and {HEADS} tell of a domain that is no part of this model: {DAMAGED}")
        parts[one["name"]] = part
    return parts
