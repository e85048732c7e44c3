"""The domain memory: an entry for each learned domain, of which a text reads the one that suits it best.

An entry has a key and a value. The key is in how many of the domain's distinct texts each bucket of tokens occurs;
naive Bayes on these counts scores the entries for a text. The value turns the current weights into those that the model
had when it had just learned the domain. The newest entry is the model itself, and earlier ones are never changed.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memgrow.data.batches import Encoded
from memgrow.errors import ModelError, listed
from memgrow.models.recurrent import RecurrentEncoder
from memgrow.models.transformer import PretrainedEncoder

if TYPE_CHECKING:
    from memgrow.models.classifier import Classifier

BUCKETS, SPREAD = 8192, 40503  # token ids are spread over buckets by an odd factor: an id below 8,192 has its own
LEAST_TEXTS = 3  # a bucket that fewer texts of a domain have counts as empty: it could name a single person
SMOOTHING = 0.5  # texts that every bucket is taken to have in addition
UNLIKELY = 10.0  # how far a label that an entry does not have is below the least logit of those it has
MODELS = 16  # entries whose weights are kept at hand
KEY, LABELS = "key", "labels"
UP, DOWN = ":up", ":down"  # suffixes of the two factors of a low-rank difference


@dataclass(frozen=True)
class Entry:
    """A domain's entry. Its tensors are never changed, so that copies of a memory share them."""

    name: str
    blocks: tuple[int, ...]  # labels of the model at that time, as they were added
    shape: Mapping[str, Any]  # of the encoder at that time
    tensors: Mapping[str, Tensor] = field(repr=False)  # key, labels; then the value, by names of parameters


class DomainMemory(nn.Module):
    """Entries in the order in which their domains were learned."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        super().__init__()
        self._entries = [(one.name, one.blocks, one.shape) for one in entries]
        for number, entry in enumerate(entries):
            for name, tensor in entry.tensors.items():
                self.register_buffer(_buffer(number, name), tensor)
        self._models: dict[int, Classifier] = {}  # that have been read lately

    # Growing

    @classmethod
    def grown(cls, old: "Classifier | None", model: "Classifier", *, domain: str, data: Encoded, rank: int) -> Any:
        """The old model's memory, with a value for its newest entry and a new entry for the domain."""
        entries = [] if old is None or old.memory is None else list(old.memory.entries())
        if old is not None and entries:
            last = entries[-1]
            tensors = {**last.tensors, **way_back(old, model, rank)}
            entries[-1] = Entry(last.name, last.blocks, last.shape, tensors)
        own = torch.tensor(sorted(set(data.labels)))
        key = {KEY: token_counts(data), LABELS: own}
        tensors = {name: tensor.to(model.device) for name, tensor in key.items()}
        return cls([*entries, Entry(domain, model.label_blocks, model.encoder.shape(), tensors)])

    def entries(self) -> Iterator[Entry]:
        for number, (name, blocks, shape) in enumerate(self._entries):
            prefix = _buffer(number, "")
            tensors = {
                n.removeprefix(prefix).replace("/", "."): t for n, t in self.named_buffers() if n.startswith(prefix)
            }
            yield Entry(name, blocks, shape, tensors)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self._entries]

    # Reading

    def scores(self, data: Encoded) -> Tensor:
        """Log-probabilities of entries (examples, entries) for each text, by its tokens alone."""
        counts = torch.stack([self.get_buffer(_buffer(number, KEY)) for number in range(len(self))]).cpu().double()
        counts = counts + SMOOTHING
        weights = (counts / counts.sum(1, keepdim=True)).log().T  # (buckets, entries)
        found = [torch.from_numpy(buckets_of(texts)) for texts in data.texts]
        sizes = torch.tensor([0, *map(len, found)]).cumsum(0)[:-1]
        bags = F.embedding_bag(torch.cat(found), weights.contiguous(), sizes, mode="sum")
        return bags.log_softmax(-1)

    def logits(self, model: "Classifier", data: Encoded, domain: str | None = None) -> Tensor:
        """Logits (examples, labels), each text by the best entry, or all by that of a domain."""
        if domain is not None and domain not in self.names:
            raise ModelError(f"the memory has no entry {domain!r}; it has {listed(self.names)}")
        if domain is None:
            chosen = self.scores(data).argmax(-1)
        else:
            chosen = torch.full((len(data),), len(self) - 1 - self.names[::-1].index(domain))
        logits = torch.empty(len(data), model.labels)
        for number in sorted(set(chosen.tolist())):
            indices = (chosen == number).nonzero().flatten()
            logits[indices] = self._logits_of(number, model, data.some(indices.tolist()))
        return logits

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
        return DomainMemory(list(self.entries()))

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self._models.clear()
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def shape(self) -> list[dict[str, Any]]:
        """All that is needed to build it again, as JSON."""
        return [
            {
                "name": one.name,
                "labels": list(one.blocks),
                "encoder": one.shape,
                "tensors": {name: [*tensor.shape] for name, tensor in one.tensors.items()},
            }
            for one in self.entries()
        ]

    @classmethod
    def restore(cls, shape: Sequence[Mapping[str, Any]]) -> "DomainMemory":
        """A memory of that shape, its tensors to be filled in."""
        if len(shape) == 0 or not all(isinstance(one["name"], str) for one in shape):
            raise ValueError("an entry of the domain memory has no name")
        if not all(set(one["tensors"]) >= {KEY, LABELS} and one["tensors"][KEY] == [BUCKETS] for one in shape):
            raise ValueError("an entry of the domain memory has no key")
        return cls(
            [
                Entry(
                    one["name"],
                    tuple(one["labels"]),
                    one["encoder"],
                    {name: torch.empty(sizes, dtype=_dtype(name)) for name, sizes in one["tensors"].items()},
                )
                for one in shape
            ]
        )

    @staticmethod
    def sizes(shape: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, ...]]:
        """The shapes of the tensors of a memory that `shape` describes, by their names in a model's state dict."""
        return {
            f"memory.{_buffer(number, name)}": tuple(sizes)
            for number, one in enumerate(shape)
            for name, sizes in one["tensors"].items()
        }


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
    return np.unique(tokens * SPREAD % BUCKETS)


def token_counts(data: Encoded) -> Tensor:
    """In how many distinct examples each bucket occurs (buckets); 0 where these are fewer than three."""
    distinct = {buckets_of(texts).tobytes() for texts in data.texts}
    counts = np.zeros(BUCKETS, np.int32)
    for one in distinct:
        counts[np.frombuffer(one, np.int64)] += 1
    return torch.from_numpy(np.where(counts < LEAST_TEXTS, 0, counts))


def _buffer(number: int, name: str) -> str:
    """The name of a buffer, which may hold no dots."""
    return f"{number}:{name}".replace(".", "/")


def _dtype(name: str) -> torch.dtype:
    if name in (KEY, LABELS):
        return torch.int32 if name == KEY else torch.int64
    return torch.float16 if name.endswith((UP, DOWN)) else torch.float32
