"""The domain memory: an entry for each learned domain. A router finds the entry of a text from the text alone.

An entry has a key (see `router`) and a value. The value turns weights that are at hand into those that the model had
when it had just learned the domain:

- chained entries start at the next entry's weights. The newest entry is the model itself;
- independent entries start at the original encoder. Every domain was trained from it, and none depends on another.

Entries are never changed by learning. Which of them answers depends on how the memory is read
(`DomainMemory.__init__`): the text's own entry, the newest one, or both.
"""

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch
from torch import Tensor, nn

from memgrow.data.batches import Encoded
from memgrow.data.disk import Shapes
from memgrow.errors import ModelError, listed
from memgrow.models.base import Encoder, Model
from memgrow.models.recurrent import RecurrentEncoder
from memgrow.models.router import (
    BUCKETS,
    KEY,
    NOISE,
    TEXTS,
    VARIANCE,
    features,
    key_of,
    scores_by_vectors,
    scores_by_words,
)
from memgrow.models.transformer import PretrainedEncoder

if TYPE_CHECKING:
    from memgrow.models.classifier import Classifier

Known = TypeVar("Known", bound=Model)
UNLIKELY = 10.0  # how far a label that an entry does not have is below the least logit of those it has
CACHED = 1 << 30  # bytes of weights of entries that are kept at hand
LABELS = "labels"
UP, DOWN = ":up", ":down"  # suffixes of the two factors of a low-rank difference
INDEPENDENT = "independent"
READINGS = ("conflict", "mean", "always")
# A domain conflicts if less than this share of it was known already (`carried_over`), by so many standard errors: of a
# recurrent network, and of an encoder. Chosen in research/memory.
RECURRENT_LIMIT, RECURRENT_ERRORS = 0.8, 1.0
ENCODER_LIMIT, ENCODER_ERRORS = 0.5, 0.0
SURE = 0.995  # the probability of a label from which on the newest model needs no second opinion: see research/memory


@dataclass(frozen=True)
class Entry:
    """A domain's entry. Its tensors are never changed, so that copies of a memory share them."""

    name: str
    blocks: tuple[int, ...]  # labels of the model at that time, as they were added
    shape: Mapping[str, Any]  # of the encoder at that time
    carried: float  # the share of this domain that earlier ones had taught: see `carried_over`
    tensors: Mapping[str, Tensor] = field(repr=False)  # labels and key; then the value, by names of parameters


class DomainMemory(nn.Module):
    """Entries in the order in which their domains were learned."""

    def __init__(self, entries: Sequence[Entry], base: Encoder | None, read: str) -> None:
        """`base` is the encoder as it was before the first domain, which is never changed.

        `read` says what answers a text that the router gives to an entry:

        - "always": the entry;
        - "conflict": the entry, if a later domain conflicts with what the model knew or lacks labels of the entry's
          domain; else the newest;
        - "mean": the same, but with the mean of both probabilities in place of the newest. Where no domain conflicts,
          texts that the newest is sure of are answered by it alone;
        - "independent": the entry, whose value starts at `base`.
        """
        super().__init__()
        if isinstance(base, PretrainedEncoder):
            self.base = base
        else:  # none, or one that shares the model's parameters, which are saved with the model
            self.__dict__["base"] = base
        self.read = read
        self._entries = [(one.name, one.blocks, one.shape, one.carried) for one in entries]
        for number, entry in enumerate(entries):
            for name, tensor in entry.tensors.items():
                self.register_buffer(_buffer(number, name), tensor)
        self._models: dict[int, Any] = {}  # that have been read lately
        self._built: tuple[int, dict[str, Tensor]] | None = None  # number and weights of the last one in it

    # Growing

    @classmethod
    def grown(
        cls,
        old: "Classifier | None",
        model: "Classifier",
        *,
        domain: str,
        data: Encoded,
        validation: Encoded | None,
        base: Encoder | None,
        rank: int,
        read: str,
        private: bool = False,
    ) -> "DomainMemory":
        """The old model's memory, with a value for its newest entry and a new entry for the domain."""
        entries = [] if old is None or old.memory is None else list(old.memory.entries())
        if old is not None and entries:
            last = entries[-1]
            entries[-1] = replace(last, tensors={**last.tensors, **way_back(old, model, rank)})
        carried = 0.0 if old is None or validation is None else carried_over(old, model, validation)
        return cls([*entries, _new_entry(model, domain, data, base, private, carried=carried)], base, read)

    @classmethod
    def alone(
        cls,
        model: "Classifier",
        *,
        domain: str,
        data: Encoded,
        base: PretrainedEncoder,
        rank: int,
        private: bool,
        added: Mapping[str, tuple[Tensor, Tensor]],
    ) -> "DomainMemory":
        """A memory of one independent domain. The model, which has learned it from `base`, goes back to there.

        `added` are the factors of low-rank matrices by the weights that they were added to: these are kept exactly.
        """
        entry = _new_entry(model, domain, data, base, private)
        learned = copy.deepcopy(model)
        go_to_base(model, base)
        start = model.state_dict()
        value = {
            name: tensor.float()
            for name, tensor in way_back(learned, model, rank, skip=added.keys()).items()
            if not (name in start and torch.equal(tensor, start[name]))
        }
        for name, factors in added.items():
            value |= dict(zip((name + UP, name + DOWN), factors, strict=True))
        heads = {name: tensor for name, tensor in learned.state_dict().items() if name.startswith("heads.")}
        tensors = {**entry.tensors, **value, **heads}
        return cls([replace(entry, tensors={n: t.detach().clone() for n, t in tensors.items()})], base, INDEPENDENT)

    def entries(self) -> Iterator[Entry]:
        tensors: list[dict[str, Tensor]] = [{} for _ in self._entries]
        for place, tensor in self._buffers.items():
            number, _, name = place.partition(":")
            tensors[int(number)][name.replace("/", ".")] = cast(Tensor, tensor)
        for (name, blocks, shape, carried), own in zip(self._entries, tensors, strict=True):
            yield Entry(name, blocks, shape, carried, own)

    def without(self, name: str, labels: Sequence[int], heads: Collection[str]) -> "DomainMemory":
        """The memory without a chained entry that is not the newest; only these labels, by their indices, stay.

        `heads` are the names of the parameters that have a row for each label.
        """
        entries = list(self.entries())
        number = self.names.index(name)
        if number:  # the entry before starts at the one after
            entries[number - 1] = _skipping(entries[number - 1], entries[number])
        del entries[number]
        return DomainMemory([_with_labels(one, labels, heads) for one in entries], self.base, self.read)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def names(self) -> list[str]:
        return [name for name, *_ in self._entries]

    def number(self, name: str) -> int:
        """The number of a domain's newest entry."""
        if name not in self.names:
            raise ModelError(f"the memory has no entry {name!r}; it has {listed(self.names)}")
        return len(self) - 1 - self.names[::-1].index(name)

    @property
    def independent(self) -> bool:
        return self.read == INDEPENDENT

    @property
    def newest_carried(self) -> float:
        """The share of the newest domain that earlier ones had taught."""
        return self._entries[-1][3]

    # Reading

    @property
    def readers(self) -> list[tuple[int, ...]]:
        """For each entry, the numbers of those whose mean answers for its domain."""
        newest, labels = len(self) - 1, [set(own.tolist()) for own in self._buffers_named(LABELS)]
        limit = RECURRENT_LIMIT if self.base is None else ENCODER_LIMIT
        found: list[tuple[int, ...]] = []
        for number, own in enumerate(labels):
            carried = min((share for *_, share in self._entries[number + 1 :]), default=inf)
            if self.independent or self.read == "always" or not own <= labels[-1] or carried < limit:
                found.append((number,))
            else:
                found.append((number, newest) if self.read == "mean" and number != newest else (newest,))
        return found

    @property
    def routes(self) -> bool:
        """Whether any but the newest entry answers."""
        return self.independent or any(one != (len(self) - 1,) for one in self.readers)

    def scores(self, data: Encoded) -> Tensor:
        """Log-probabilities of entries (examples, entries) for each text."""
        names = (KEY,) if self.base is None else (KEY, VARIANCE, TEXTS)
        keys = [{name: self.get_buffer(_buffer(number, name)) for name in names} for number in range(len(self))]
        found = scores_by_words(data, keys) if self.base is None else scores_by_vectors(features(self.base, data), keys)
        return found.log_softmax(-1)

    def readers_of(self, model: "Classifier", data: Encoded) -> tuple[Tensor, Tensor | None]:
        """Which entries answer each text (texts, entries), and the newest one's logits if that takes them."""
        found, newest = self.readers, len(self) - 1
        readers, unsure, answers = torch.zeros(len(data), len(self), dtype=torch.bool), torch.arange(len(data)), None
        if all(newest in one for one in found):
            answers = self._logits_of(newest, model, data)
            readers[:, newest] = True
            unsure = (answers.softmax(-1).amax(1) < SURE).nonzero().flatten()
        if len(unsure):
            for index, number in zip(unsure, self.scores(data.some(unsure.tolist())).argmax(-1).tolist(), strict=True):
                readers[index, list(found[number])] = True
        return readers, answers

    def _buffers_named(self, name: str) -> list[Tensor]:
        return [self.get_buffer(_buffer(number, name)).cpu() for number in range(len(self))]

    def logits(
        self, model: "Classifier", data: Encoded, domain: str | None = None, temperatures: Mapping[str, float] = {}
    ) -> Tensor:
        """Logits (examples, labels), each text by what reads for its entry, or all by the entry of a domain.

        `temperatures`, by domain, divide the logits of the texts that a single entry answers.
        """
        if domain is not None:
            return self._logits_of(self.number(domain), model, data)
        readers, answers = self.readers_of(model, data)
        newest = len(self) - 1
        logits = torch.full((len(data), model.labels), -inf)
        several = readers.sum(1) > 1
        # From the newest on, as each entry's weights start at the next one's.
        for number in reversed(range(len(self))):
            rows = readers[:, number].nonzero().flatten()
            if len(rows):
                if number == newest and answers is not None:
                    own = answers
                else:
                    own = self._logits_of(number, model, data.some(rows.tolist()))
                both = torch.logaddexp(logits[rows], own.log_softmax(-1))  # log of the sum of probabilities
                logits[rows] = torch.where(several[rows, None], both, own / temperatures.get(self.names[number], 1.0))
        return logits

    def _logits_of(self, number: int, model: "Classifier", data: Encoded) -> Tensor:
        reader = self.model_for(number, model)
        if not model.settings.is_pretrained:
            data = data.as_known_to(reader.vocabulary_size)  # later words are unknown
        found, own = reader.plain_logits(data), self.get_buffer(_buffer(number, LABELS)).cpu()
        found = found if self.independent else found[:, own]
        logits = (found.amin(1, keepdim=True) - UNLIKELY).repeat(1, model.labels)
        logits[:, own] = found
        return logits

    def model_for(self, number: int, model: Known) -> Known:
        """The model as it was when it had learned that entry's domain."""
        if number == len(self) - 1 and not self.independent:
            return model
        found: Known | None = self._models.get(number)
        if found is None:
            found = self._rebuilt(number, model)
            while self._models and (len(self._models) + 1) * _bytes_of(found) > CACHED:
                # Any: were it the one read longest ago, a batch that reads more than fit would find none.
                self._models.pop([*self._models][number % len(self._models)], None)
            self._models[number] = found
        return found

    @torch.no_grad()
    def _rebuilt(self, number: int, model: Any) -> Any:
        entries = list(self.entries())
        entry = entries[number]
        if names := model.addition_names():
            new = model.twin()
            new.load_state_dict({name: entry.tensors[name] for name in names}, strict=False)
            return new.eval()
        labels = sum(entry.blocks)
        if isinstance(model.encoder, PretrainedEncoder):
            table = model.encoder.word_table  # large, and the same for all entries
            new = type(model)(copy.deepcopy(model.encoder, {id(table): table}), labels)
        else:
            new = type(model)(RecurrentEncoder.rebuild(model.settings, entry.shape), labels)
        new.label_blocks = entry.blocks
        state, chain = dict(new.state_dict()), [entry]
        if not self.independent:  # each difference starts at the next one's weights
            chain = entries[number:-1]
            if (built := self._built) is not None and built[0] > number:
                state |= {n: t for n, t in built[1].items() if n in state and t.shape == state[n].shape}
                chain = entries[number : built[0]]
        for name in {name.removesuffix(UP) for one in chain for name in one.tensors if name.endswith(UP)}:
            parts = [one.tensors for one in chain if name + UP in one.tensors]
            up, down = torch.cat([one[name + UP] for one in parts], 1), torch.cat([one[name + DOWN] for one in parts])
            state[name] = state[name] + up.float() @ down.float()
        state |= {name: tensor for name, tensor in entry.tensors.items() if name in state}
        new.to(model.device).load_state_dict(state)
        self._built = None if self.independent else (number, state)
        if isinstance(new.encoder, PretrainedEncoder):
            new.encoder.convert_matrices()
        return new.eval().requires_grad_(False)

    # Copying, saving and loading

    def __deepcopy__(self, memo: Any) -> "DomainMemory":
        return DomainMemory(list(self.entries()), self.base, self.read)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        self._models.clear()
        self._built = None
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]

    def shape(self) -> dict[str, Any]:
        """All that is needed to build it again, as JSON, but for the shapes of its tensors."""
        entries = [
            {
                "name": one.name,
                "labels": list(one.blocks),
                "encoder": one.shape,
                "carried": one.carried,
            }
            for one in self.entries()
        ]
        return {"read": self.read, "entries": entries}

    @classmethod
    def restore(cls, shape: Mapping[str, Any], base: Encoder | None, stored: Shapes) -> "DomainMemory":
        """A memory of that shape, its tensors to be filled in; `stored` are those of a model, by their names in it."""
        given, read = shape["entries"], shape["read"]
        sizes: list[dict[str, list[int]]] = [{} for _ in given]
        for place, size in stored.items():
            number, is_entry, name = place.removeprefix("memory.").partition(":")
            if is_entry and int(number) < len(given):
                sizes[int(number)][name.replace("/", ".")] = [*size]
        if len(given) == 0 or not all(isinstance(one["name"], str) for one in given):
            raise ValueError("an entry of the domain memory has no name")
        if read not in (*READINGS, INDEPENDENT) or (read == INDEPENDENT and base is None):
            raise ValueError("the domain memory is read in an unknown way")
        for own in sizes:
            expected = {KEY: [BUCKETS]}
            if base is not None:
                (groups,), width = own[TEXTS], sizes[0][KEY][1]
                expected = {KEY: [groups, width], VARIANCE: [1]}
                expected |= {NOISE: [1]} if NOISE in own else {}
            if LABELS not in own or any(own.get(name) != size for name, size in expected.items()):
                raise ValueError("an entry of the domain memory has no key")
        entries = [
            Entry(
                one["name"],
                tuple(one["labels"]),
                one["encoder"],
                float(one["carried"]),
                {name: torch.empty(size, dtype=_dtype(name, base, read)) for name, size in own.items()},
            )
            for one, own in zip(given, sizes, strict=True)
        ]
        return cls(entries, base, read)


# Values


def carried_over(old: "Classifier", model: "Classifier", validation: Encoded) -> float:
    """The share of what the new model has learned about a domain that the old model knew already, from 0 on.

    Measured on the domain's validation data, by how much both models are above the majority class. Of a recurrent
    network a standard error of the old model's accuracy is added.
    """
    labels = torch.tensor(validation.labels)
    known = validation if old.settings.is_pretrained else validation.as_known_to(old.vocabulary_size)
    before = float((old.plain_logits(known).argmax(-1) == labels).double().mean())
    after = float((model.plain_logits(validation).argmax(-1) == labels).double().mean())
    majority = float(labels.bincount().max()) / len(labels)
    errors = ENCODER_ERRORS if old.settings.is_pretrained else RECURRENT_ERRORS
    gained = before - majority + errors * (before * (1 - before) / len(labels)) ** 0.5
    return max(0.0, gained / (after - majority)) if after > majority else 1.0


@torch.no_grad()
def way_back(old: Model, model: Model, rank: int, skip: Collection[str] = ()) -> dict[str, Tensor]:
    """What turns the model's weights into the old model's.

    Of a recurrent network, the old weights. Of a pretrained encoder, the best approximation of that rank to each
    matrix's difference, and smaller parameters as they were; the word table, and what to `skip`, stay as in the model.
    """
    before, after = old.state_dict(), model.state_dict()
    if names := old.addition_names():
        return {name: before[name].clone() for name in names}
    before = {name: tensor for name, tensor in before.items() if not name.startswith("memory.")}
    if not isinstance(old.encoder, PretrainedEncoder):
        return {name: tensor.clone() for name, tensor in before.items()}
    found, table = {}, old.encoder.word_table
    for name, tensor in before.items():
        if tensor.data_ptr() == table.data_ptr() or name in skip:
            continue
        if not name.startswith("encoder.") or tensor.dim() != 2 or rank * sum(tensor.shape) >= tensor.numel():
            found[name] = tensor.clone()
        elif not torch.equal(tensor, after[name]):
            u, s, v = torch.linalg.svd((tensor - after[name]).float(), full_matrices=False)
            root = s[:rank].sqrt()  # shared between the factors, so that neither leaves the range of float16
            found[name + UP] = (u[:, :rank] * root).half()
            found[name + DOWN] = (root[:, None] * v[:rank]).half()
    return found


@torch.no_grad()
def go_to_base(model: "Classifier", base: PretrainedEncoder) -> None:
    """The weights of a model all of whose entries are independent: those of the original encoder, and an empty head."""
    model.encoder.load_state_dict(base.state_dict())
    for parameter in model.heads.parameters():
        parameter.zero_()


def _new_entry(
    model: "Classifier",
    domain: str,
    data: Encoded,
    base: Encoder | None,
    private: bool,
    carried: float = 0.0,
) -> Entry:
    """An entry without a value."""
    tensors = {LABELS: torch.tensor(sorted(set(data.labels))), **key_of(data, base, private)}
    on_device = {name: tensor.to(model.device) for name, tensor in tensors.items()}
    return Entry(domain, model.label_blocks, model.encoder.shape(), carried, on_device)


def _skipping(entry: Entry, removed: Entry) -> Entry:
    """An entry whose value starts at the weights at which the removed one, which was next, started."""
    factors = {name: tensor for name, tensor in removed.tensors.items() if name.endswith((UP, DOWN))}
    joined = {
        name: torch.cat([tensor, entry.tensors[name]], 1 if name.endswith(UP) else 0)
        if name in entry.tensors
        else tensor
        for name, tensor in factors.items()
    }
    return replace(entry, tensors={**entry.tensors, **joined})


def _with_labels(entry: Entry, labels: Sequence[int], heads: Collection[str]) -> Entry:
    """A chained entry with some of the labels only, by their indices; `heads` are parameters with a row for each."""
    known = [label for label in labels if label < sum(entry.blocks)]
    tensors = {name: tensor[known] if name in heads else tensor for name, tensor in entry.tensors.items()}
    own = tensors[LABELS]
    tensors[LABELS] = torch.tensor([labels.index(label) for label in own.tolist()]).to(own)
    return replace(entry, blocks=kept_blocks(entry.blocks, labels), tensors=tensors)


def kept_blocks(blocks: Sequence[int], labels: Collection[int]) -> tuple[int, ...]:
    """How many of the labels are in each block, without empty blocks."""
    ends = [0, *accumulate(blocks)]
    counts = [sum(start <= label < end for label in labels) for start, end in pairwise(ends)]
    return tuple(count for count in counts if count)


def _bytes_of(model: Model) -> int:
    if names := model.addition_names():
        return sum(model.get_parameter(name).nbytes for name in names)
    shared = {id(model.encoder.word_table)} if isinstance(model.encoder, PretrainedEncoder) else set()
    return sum(one.numel() * one.element_size() for one in model.parameters() if id(one) not in shared)


def _buffer(number: int, name: str) -> str:
    """The name of a buffer, which may hold no dots."""
    return f"{number}:{name}".replace(".", "/")


def _dtype(name: str, base: Encoder | None, read: str) -> torch.dtype:
    special = {KEY: torch.int32 if base is None else torch.float32, LABELS: torch.int64, TEXTS: torch.int64}
    is_half = name.endswith((UP, DOWN)) and read != INDEPENDENT
    return special.get(name, torch.float16 if is_half else torch.float32)
