"""The domain memory: an entry for each learned domain. A router finds the entry of a text from the text alone.

An entry has a key and a value. The value turns the current weights into those that the model had when it had just
learned the domain. The newest entry is the model itself, and earlier ones are never changed. Which weights then answer
depends on how the memory is read (`DomainMemory.__init__`): the entry's, the newest ones, or both. Keys score a text:

- with a pretrained encoder, by the distance of its vector from the mean vector of each label, in units of a common
  variance. The original encoder is kept for it. (A covariance would route somewhat more texts right, but shows whose
  texts it is made of: see docs/privacy.md);
- else by naive Bayes: a key is in how many of the domain's distinct texts each bucket of words occurs.
"""

import copy
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memgrow.data.batches import Batch, Encoded
from memgrow.errors import ModelError, listed
from memgrow.models.base import read_all
from memgrow.models.recurrent import RecurrentEncoder
from memgrow.models.transformer import PretrainedEncoder

if TYPE_CHECKING:
    from memgrow.models.classifier import Classifier

BUCKETS, HASH_FACTOR = 8192, 40503  # token ids are spread over buckets by an odd factor: an id below 8,192 has its own
LEAST_TEXTS = 3  # a bucket that fewer texts of a domain have counts as empty: it could name a single person
SMOOTHING = 0.5  # texts that every bucket is taken to have in addition
UNLIKELY = 10.0  # how far a label that an entry does not have is below the least logit of those it has
MODELS = 16  # entries whose weights are kept at hand
LEAST_GROUP = 5  # distinct texts of a label that has its own mean
KEY, LABELS = "key", "labels"
VARIANCE, TEXTS = "variance", "texts"  # of vectors around the means, and texts of each mean
UP, DOWN = ":up", ":down"  # suffixes of the two factors of a low-rank difference


@dataclass(frozen=True)
class Entry:
    """A domain's entry. Its tensors are never changed, so that copies of a memory share them."""

    name: str
    blocks: tuple[int, ...]  # labels of the model at that time, as they were added
    shape: Mapping[str, Any]  # of the encoder at that time
    conflicts: bool  # with what the model knew before: see `conflicts`
    tensors: Mapping[str, Tensor] = field(repr=False)  # labels and key; then the value, by names of parameters


class DomainMemory(nn.Module):
    """Entries in the order in which their domains were learned."""

    def __init__(self, entries: Sequence[Entry], base: PretrainedEncoder | None, read: str) -> None:
        """`base` is the encoder as it was before the first domain, which is never changed.

        `read` says what answers a text that the router gives to an entry:

        - "always": the entry;
        - "conflict": the entry, if a later domain conflicts with what the model knew or lacks labels of the entry's
          domain; else the newest;
        - "mean": the same, but with the mean of both probabilities in place of the newest.
        """
        super().__init__()
        self.base, self.read = base, read
        self._entries = [(one.name, one.blocks, one.shape, one.conflicts) for one in entries]
        for number, entry in enumerate(entries):
            for name, tensor in entry.tensors.items():
                self.register_buffer(_buffer(number, name), tensor)
        self._models: dict[int, Classifier] = {}  # that have been read lately

    # Growing

    @classmethod
    def grown(
        cls,
        old: "Classifier | None",
        model: "Classifier",
        *,
        domain: str,
        data: Encoded,
        validation: Encoded,
        rank: int,
        read: str,
    ) -> "DomainMemory":
        """The old model's memory, with a value for its newest entry and a new entry for the domain."""
        entries, base = (
            ([], None) if old is None or old.memory is None else (list(old.memory.entries()), old.memory.base)
        )
        if old is None and isinstance(model.encoder, PretrainedEncoder):
            base = PretrainedEncoder.create(model.encoder.settings, model.encoder.files).to(model.device)
        if old is not None and entries:
            last = entries[-1]
            tensors = {**last.tensors, **way_back(old, model, rank)}
            entries[-1] = replace(last, tensors=tensors)
        own = torch.tensor(sorted(set(data.labels)))
        key = {KEY: token_counts(data)} if base is None else gaussian_key(data, features(base, data))
        tensors = {name: tensor.to(model.device) for name, tensor in {LABELS: own, **key}.items()}
        clash = old is not None and conflicts(old, model, validation)
        return cls([*entries, Entry(domain, model.label_blocks, model.encoder.shape(), clash, tensors)], base, read)

    def entries(self) -> Iterator[Entry]:
        for number, (name, blocks, shape, conflicts) in enumerate(self._entries):
            prefix = _buffer(number, "")
            tensors = {
                n.removeprefix(prefix).replace("/", "."): t for n, t in self.named_buffers() if n.startswith(prefix)
            }
            yield Entry(name, blocks, shape, conflicts, tensors)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def names(self) -> list[str]:
        return [name for name, *_ in self._entries]

    @property
    def newest_conflicts(self) -> bool:
        """Whether the newest domain conflicts with what the model knew before."""
        return self._entries[-1][3]

    # Reading

    @property
    def readers(self) -> list[int]:
        """For each entry, the number of the one that answers for its domain."""
        newest, labels = len(self) - 1, [set(own.tolist()) for own in self._keys(LABELS)]
        clashes = [clash for *_, clash in self._entries]
        return [
            number if self.read == "always" or any(clashes[number + 1 :]) or not own <= labels[-1] else newest
            for number, own in enumerate(labels)
        ]

    @property
    def routes(self) -> bool:
        """Whether any but the newest entry answers."""
        return self.read == "mean" or any(number != len(self) - 1 for number in self.readers)

    def scores(self, data: Encoded) -> Tensor:
        """Log-probabilities of entries (examples, entries) for each text."""
        found = self._scores_by_words(data) if self.base is None else self._scores_by_vectors(features(self.base, data))
        return found.log_softmax(-1)

    def _keys(self, name: str) -> list[Tensor]:
        return [self.get_buffer(_buffer(number, name)).cpu() for number in range(len(self))]

    def _scores_by_words(self, data: Encoded) -> Tensor:
        counts = torch.stack(self._keys(KEY)).double() + SMOOTHING
        weights = (counts / counts.sum(1, keepdim=True)).log().T  # (buckets, entries)
        found = [torch.from_numpy(buckets_of(texts)) for texts in data.texts]
        sizes = torch.tensor([0, *map(len, found)]).cumsum(0)[:-1]
        return F.embedding_bag(torch.cat(found), weights.contiguous(), sizes, mode="sum")

    def _scores_by_vectors(self, vectors: Tensor) -> Tensor:
        counts, means = self._keys(TEXTS), self._keys(KEY)
        summed = sum(float(c.sum() * v) for c, v in zip(counts, self._keys(VARIANCE), strict=True))
        variance = max(1e-12, summed / max(1, int(sum(c.sum() - len(c) for c in counts))))
        # A domain is a mixture of its labels, all alike.
        near = [(-0.5 / variance * torch.cdist(vectors.double(), one.double()) ** 2) for one in means]
        return torch.stack([one.logsumexp(1) - math.log(one.shape[1]) for one in near], 1)

    def logits(self, model: "Classifier", data: Encoded, domain: str | None = None) -> Tensor:
        """Logits (examples, labels), each text by what reads for its entry, or all by the entry of a domain."""
        if domain is not None and domain not in self.names:
            raise ModelError(f"the memory has no entry {domain!r}; it has {listed(self.names)}")
        if domain is None:
            chosen = self.scores(data).argmax(-1)
        else:
            chosen = torch.full((len(data),), len(self) - 1 - self.names[::-1].index(domain))
        logits = torch.empty(len(data), model.labels)
        readers = torch.tensor(self.readers)[chosen] if domain is None else chosen
        for number in sorted(set(readers.tolist())):
            indices = (readers == number).nonzero().flatten()
            logits[indices] = self._logits_of(number, model, data.some(indices.tolist()))
        if self.read == "mean" and domain is None:
            self._mix(logits, model, data, chosen=chosen, newest=readers == len(self) - 1)
        return logits

    def _mix(self, logits: Tensor, model: "Classifier", data: Encoded, *, chosen: Tensor, newest: Tensor) -> None:
        """Where the newest answers for an older entry: the logarithm of the mean of both probabilities, in place."""
        for number in sorted(set(chosen[newest].tolist()) - {len(self) - 1}):
            indices = (newest & (chosen == number)).nonzero().flatten()
            own = self._logits_of(number, model, data.some(indices.tolist())).softmax(-1)
            logits[indices] = ((logits[indices].softmax(-1) + own) / 2).log()

    def _logits_of(self, number: int, model: "Classifier", data: Encoded) -> Tensor:
        reader = self.model_for(number, model)
        if not model.settings.is_pretrained:
            data = data.as_known_to(reader.vocabulary_size)  # later words are unknown
        found, own = reader.plain_logits(data), self.get_buffer(_buffer(number, LABELS)).cpu()
        least = found[:, own].amin(1, keepdim=True) - UNLIKELY
        logits = least.repeat(1, model.labels)
        logits[:, own] = found[:, own]
        return logits

    def model_for(self, number: int, model: "Classifier") -> "Classifier":
        """The model as it was when it had learned that entry's domain."""
        if number == len(self) - 1:
            return model
        if (found := self._models.get(number)) is None:
            found = self._rebuilt(number, model)
            while len(self._models) >= MODELS:
                self._models.pop(next(iter(self._models)), None)
            self._models[number] = found
        return found

    @torch.no_grad()
    def _rebuilt(self, number: int, model: "Classifier") -> "Classifier":
        entries = list(self.entries())
        entry = entries[number]
        labels = sum(entry.blocks)
        if isinstance(model.encoder, PretrainedEncoder):
            table = model.encoder.word_table  # large, and the same for all entries
            new = type(model)(copy.deepcopy(model.encoder, {id(table): table}), labels)
        else:
            new = type(model)(RecurrentEncoder.rebuild(model.settings, entry.shape), labels)
        new.label_blocks = entry.blocks
        state = dict(new.state_dict())
        for one in reversed(entries[number:-1]):  # each difference starts at the next one's weights
            for name in [name for name in one.tensors if name.endswith(UP)]:
                base = name.removesuffix(UP)
                state[base] = state[base] + one.tensors[name].float() @ one.tensors[base + DOWN].float()
        state |= {name: tensor for name, tensor in entry.tensors.items() if name in state}
        new.to(model.device).load_state_dict(state)
        return new.eval().requires_grad_(False)

    # Copying, saving and loading

    def __deepcopy__(self, memo: Any) -> "DomainMemory":
        return DomainMemory(list(self.entries()), self.base, self.read)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self._models.clear()
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def shape(self) -> dict[str, Any]:
        """All that is needed to build it again, as JSON."""
        entries = [
            {
                "name": one.name,
                "labels": list(one.blocks),
                "encoder": one.shape,
                "conflicts": one.conflicts,
                "tensors": {name: [*tensor.shape] for name, tensor in one.tensors.items()},
            }
            for one in self.entries()
        ]
        return {"read": self.read, "entries": entries}

    @classmethod
    def restore(cls, shape: Mapping[str, Any], base: PretrainedEncoder | None) -> "DomainMemory":
        """A memory of that shape, its tensors to be filled in."""
        given = shape["entries"]
        if len(given) == 0 or not all(isinstance(one["name"], str) for one in given):
            raise ValueError("an entry of the domain memory has no name")
        for one in given:
            sizes, expected = one["tensors"], {KEY: [BUCKETS]}
            if base is not None:
                (groups,), width = sizes[TEXTS], given[0]["tensors"][KEY][1]
                expected = {KEY: [groups, width], VARIANCE: [1]}
            if LABELS not in sizes or any(sizes.get(name) != size for name, size in expected.items()):
                raise ValueError("an entry of the domain memory has no key")
        entries = [
            Entry(
                one["name"],
                tuple(one["labels"]),
                one["encoder"],
                bool(one["conflicts"]),
                {name: torch.empty(sizes, dtype=_dtype(name, base)) for name, sizes in one["tensors"].items()},
            )
            for one in given
        ]
        return cls(entries, base, shape["read"])

    @staticmethod
    def sizes(shape: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        """The shapes of the tensors of a memory that `shape` describes, by their names in a model's state dict."""
        return {
            f"memory.{_buffer(number, name)}": tuple(sizes)
            for number, one in enumerate(shape["entries"])
            for name, sizes in one["tensors"].items()
        }


def conflicts(old: "Classifier", model: "Classifier", validation: Encoded) -> bool:
    """Whether less than half of what is to be learned about a domain was known to the old model.

    Measured on the domain's validation data, by how much the old model and the new one are above the majority class.
    """
    labels = torch.tensor(validation.labels)
    known = validation if old.settings.is_pretrained else validation.as_known_to(old.vocabulary_size)
    before = float((old.plain_logits(known).argmax(-1) == labels).double().mean())
    after = float((model.plain_logits(validation).argmax(-1) == labels).double().mean())
    majority = float(labels.bincount().max()) / len(labels)
    return before < majority + (after - majority) / 2


@torch.no_grad()
def way_back(old: "Classifier", model: "Classifier", rank: int) -> dict[str, Tensor]:
    """What turns the model's weights into the old model's.

    Of a recurrent network, the old weights. Of a pretrained encoder, the best approximation of that rank to each
    matrix's difference, and smaller parameters as they were; the word table stays as it is in the model.
    """
    before, after = old.state_dict(), model.state_dict()
    before = {name: tensor for name, tensor in before.items() if not name.startswith("memory.")}
    if not isinstance(old.encoder, PretrainedEncoder):
        return {name: tensor.clone() for name, tensor in before.items()}
    found, table = {}, old.encoder.word_table
    for name, tensor in before.items():
        if tensor.data_ptr() == table.data_ptr():
            continue
        if not name.startswith("encoder.") or tensor.dim() != 2 or rank * sum(tensor.shape) >= tensor.numel():
            found[name] = tensor.clone()
        elif not torch.equal(tensor, after[name]):
            u, s, v = torch.linalg.svd((tensor - after[name]).float(), full_matrices=False)
            root = s[:rank].sqrt()  # shared between the factors, so that neither leaves the range of float16
            found[name + UP] = (u[:, :rank] * root).half()
            found[name + DOWN] = (root[:, None] * v[:rank]).half()
    return found


def buckets_of(texts: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The buckets of an example's tokens, each once."""
    tokens = np.concatenate([np.asarray(text, np.int64) for text in texts])
    return np.unique(tokens * HASH_FACTOR % BUCKETS)


def token_counts(data: Encoded) -> Tensor:
    """In how many distinct examples each bucket occurs (buckets); 0 where these are fewer than three."""
    distinct = {buckets_of(texts).tobytes() for texts in data.texts}
    counts = np.zeros(BUCKETS, np.int32)
    for one in distinct:
        counts[np.frombuffer(one, np.int64)] += 1
    return torch.from_numpy(np.where(counts < LEAST_TEXTS, 0, counts))


def features(base: PretrainedEncoder, data: Encoded) -> Tensor:
    """The vectors of examples (examples, width) by the encoder; those of a pair's texts side by side."""
    texts = len(data.texts[0]) if len(data) else 1

    def vectors(batch: Batch) -> Tensor:
        return torch.cat(base(batch.words, batch.lengths).chunk(texts), -1)

    return read_all(base, data, vectors, texts * base.width)


def gaussian_key(data: Encoded, vectors: Tensor) -> dict[str, Tensor]:
    """The mean vector of each label's distinct texts, and the variance of a number around these means.

    Labels of fewer than `LEAST_GROUP` texts share a mean, so that none is nearly a single text's vector.
    """
    distinct = {tuple(np.asarray(text).tobytes() for text in texts): index for index, texts in enumerate(data.texts)}
    counts = Counter(data.labels[index] for index in distinct.values())
    groups: dict[int, list[int]] = {}
    for index in distinct.values():
        label = data.labels[index]
        groups.setdefault(label if counts[label] >= LEAST_GROUP else -1, []).append(index)
    if len(groups) > 1 and len(groups.get(-1, groups)) < LEAST_GROUP:
        groups.pop(-1, None)
    parts = [vectors[rows].double() for rows in groups.values()]
    means = torch.stack([part.mean(0) for part in parts])
    around = torch.cat([part - mean for part, mean in zip(parts, means, strict=True)])
    return {
        KEY: means.float(),
        VARIANCE: around.square().mean().float().reshape(1),
        TEXTS: torch.tensor([len(part) for part in parts]),
    }


def _buffer(number: int, name: str) -> str:
    """The name of a buffer, which may hold no dots."""
    return f"{number}:{name}".replace(".", "/")


def _dtype(name: str, base: PretrainedEncoder | None) -> torch.dtype:
    special = {KEY: torch.int32 if base is None else torch.float32, LABELS: torch.int64, TEXTS: torch.int64}
    return special.get(name, torch.float16 if name.endswith((UP, DOWN)) else torch.float32)
