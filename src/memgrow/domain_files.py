"""A domain as one small file, taken out of a model and put into another one with the same encoder.

The file is a safetensors file: the tensors are the domain's slots, with the queries that read them, and its head; the
header holds a description in JSON. Slots of earlier domains that the domain was learnt on top of are not in the file,
but named by their checksums: they have to be there where it is imported.
"""

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from memgrow.calibration import Calibration
from memgrow.data.domain import check_name
from memgrow.domain_parts import DomainPart, encoder_of, find_part
from memgrow.errors import ModelError, brief, listed, quoted
from memgrow.history import Stage
from memgrow.kinds import wrong_part
from memgrow.learnt import Learnt, Setup
from memgrow.methods import Grew
from memgrow.models import Classifier, PretrainedEncoder, PretrainedSettings
from memgrow.models.fit import all_finite
from memgrow.nn import count_parameters
from memgrow.storage import open_output, parse_json
from memgrow.tensor_files import PREFIX, check_tensors

FORMAT = 1  # of the file; a later one is refused
DESCRIPTION = "memgrow domain"  # the header's name for the description
LARGEST = 1 << 32  # bytes: a domain is small
AGAIN = "export the domain again"
# Settings that decide on an answer.
READ_BY = ("pooling", "perceptron", "pairs", "memory", "key_size", "best", "domains_read")


@dataclass(frozen=True)
class SlotSegment:
    """Slots that are read for the domain: of its own, which are in the file, or of another one."""

    domain: str
    sha256: str  # of all their numbers, in all memories
    own: bool
    slots: int = 0  # as they were asked for
    quiet: bool = False


@dataclass(frozen=True)
class DomainDescription:
    """All that a domain's file says beside its tensors."""

    domain: str
    task: str
    labels: tuple[str, ...]
    blocks: tuple[int, ...]  # of labels that came together
    labels_of_data: tuple[str, ...]
    encoder: str  # SHA-256 of its weights, its configuration and its tokenizer
    reads: Mapping[str, Any]  # how a text is read: settings, layers with a memory, longest text
    segments: tuple[SlotSegment, ...]  # in the order in which they are read
    stage: Stage
    calibration: Calibration  # of this domain alone, if it is known

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "DomainDescription":
        """What `asdict` made JSON of; of what is not of the right kinds a ValueError."""
        described = cls(
            **{
                **value,
                **{name: tuple(value[name]) for name in ("labels", "blocks", "labels_of_data")},
                "segments": tuple(SlotSegment(**one) for one in value["segments"]),
                "stage": Stage.from_json(value["stage"]),
                "calibration": Calibration.from_json(value["calibration"]),
            }
        )
        if (wrong := wrong_part(described, cls, "it")) is not None:
            raise ValueError(f"{wrong} is not of the kind that it must be")
        return described

    def to_json(self) -> dict[str, Any]:
        return {
            **vars(self),
            "segments": [vars(segment) for segment in self.segments],
            "stage": self.stage.to_json(),
            "calibration": self.calibration.to_json(),
        }


@dataclass(frozen=True)
class DomainFile:
    """A domain that has been read from a file."""

    path: Path
    described: DomainDescription
    tensors: Mapping[str, Tensor]

    def under(self, prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): t for name, t in self.tensors.items() if name.startswith(prefix)}


# Out


def write_domain(path: str | Path, setup: Setup, learnt: Learnt, name: str) -> None:
    """Write a domain of a model as a file, whole or not at all."""
    model = _classifier(learnt)
    encoder = encoder_of(model)
    part = find_part(learnt.parts, name, learnt.history.domains)
    segments, tensors = [], {f"head/{key}": tensor for key, tensor in part.head.items()}
    for number in part.segments:
        segment = encoder.memories[0].bank.segments[number]
        own = segment.domain == name
        asked = encoder.memories[0].growths[number]["slots"]
        segments.append(SlotSegment(segment.domain, _checksum(encoder, number), own, asked, segment.quiet))
        if own:
            prefix = f"slots/{sum(one.own for one in segments) - 1}/"
            tensors |= {prefix + key: tensor for key, tensor in encoder.segment_tensors(number).items()}
    stage = next(stage for stage in reversed(learnt.history.stages) if name in stage.learned)
    described = DomainDescription(
        domain=name,
        task=learnt.task or "",
        labels=part.labels,
        blocks=part.blocks,
        labels_of_data=learnt.history.labels.get(name, part.labels),
        encoder=encoder_checksum(encoder),
        reads=_reads(setup, encoder),
        segments=tuple(segments),
        stage=replace(stage, learned=(name,)),
        calibration=Calibration(domains={name: known[name]} if name in (known := learnt.calibration.domains) else {}),
    )
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    told = json.dumps(described.to_json(), ensure_ascii=False)
    header = {DESCRIPTION: told, "format": str(FORMAT), "sha256": _sum_of(told, content)}
    with open_output(path) as file:
        file.write(safetensors.torch.save(content, header))


def encoder_checksum(encoder: PretrainedEncoder) -> str:
    """The SHA-256 of what an encoder is without its memories: its weights, its configuration, its tokenizer."""
    digest = hashlib.sha256()
    for text in (encoder.files.config, encoder.files.tokenizer):
        digest.update(hashlib.sha256(text.encode()).digest())
    _hash(digest, encoder.backbone.state_dict())
    return digest.hexdigest()


# In


def read_domain(path: str | Path) -> DomainFile:
    """Read a file that `write_domain` wrote, if it is whole."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            if path.stat().st_size > LARGEST:
                raise ModelError(f"{path} is too large for a domain: {AGAIN}")
            check_tensors(file, path)
            content = file.read()
        tensors = safetensors.torch.load(content)
        header = parse_json(content[PREFIX : PREFIX + int.from_bytes(content[:PREFIX], "little")])["__metadata__"]
        version = int(header["format"])
        if version > FORMAT:
            raise ModelError(f"{path} was written by a newer memgrow (format {version}): update memgrow")
        if header["sha256"] != _sum_of(header[DESCRIPTION], tensors):
            raise ModelError(f"{path} is not what was written: copy it again, or {AGAIN}")
        return DomainFile(path, DomainDescription.from_json(parse_json(header[DESCRIPTION])), tensors)
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror or error}): check the name") from error
    except ModelError:
        raise
    except (SafetensorError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise ModelError(f"{path} is no domain that memgrow export-domain wrote ({brief(error)})") from error


def with_domain(setup: Setup, learnt: Learnt, file: DomainFile, name: str | None = None) -> Learnt:
    """What is known with a domain put in, under its own name or another; what was known before is not touched."""
    described, name = file.described, name or file.described.domain
    check_name(name)
    encoder = encoder_of(_classifier(learnt))
    _check_encoder(setup, learnt, encoder, file)
    if name in learnt.history.domains:
        raise ModelError(f"the model has a domain {quoted(name)} already: import it under another name (--as NAME)")
    model = copy.deepcopy(_classifier(learnt))
    encoder = encoder_of(model)
    before = len(encoder.memories[0].bank.segments)
    there = {_checksum(encoder, number): number for number in range(before)}  # fewer, if a domain is in it twice
    missing = [one.domain for one in described.segments if not one.own and one.sha256 not in there]
    if missing:
        raise ModelError(
            f"{described.domain} was learnt on top of slots of {listed(dict.fromkeys(missing))}, which this model does "
            "not have, or has others of: import these first, or export a domain that was learnt on the encoder alone"
        )
    numbers, added = [], 0
    for segment in described.segments:
        if not segment.own:
            numbers.append(there[segment.sha256])
            continue
        numbers.append(_put_in(encoder, segment, name, file.under(f"slots/{sum(n >= before for n in numbers)}/")))
        added += segment.slots
        if _checksum(encoder, numbers[-1]) != segment.sha256:
            raise _unfit(file)
    part = DomainPart(described.labels, described.blocks, tuple(numbers), file.under("head/"))
    if not part.fits(model):
        raise _unfit(file)
    stage = replace(
        described.stage,
        learned=(name,),
        grew=Grew(slots=added),
        parameters=count_parameters(model),
        note={**described.stage.note, "imported": described.domain},
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    history = copy.deepcopy(learnt.history)
    history.add(stage, {})
    history.labels |= {name: described.labels_of_data} if history.labels else {}
    calibration, figures = learnt.calibration, described.calibration.domains.get(described.domain)
    if figures is not None:
        known = {**calibration.domains, name: replace(figures, stage=len(history.stages))}
        calibration = replace(calibration, domains=known)
    parts = {**learnt.parts, name: part}
    return replace(learnt, model=model, history=history, calibration=calibration, parts=parts)


def _check_encoder(setup: Setup, learnt: Learnt, encoder: PretrainedEncoder, file: DomainFile) -> None:
    described = file.described
    if described.task != learnt.task:
        raise ModelError(f"{file.path} is of a model of the task {described.task!r}, and this one's is {learnt.task!r}")
    if (found := encoder_checksum(encoder)) != described.encoder:
        raise ModelError(
            f"{file.path} belongs to another encoder: its weights have the SHA-256 {described.encoder[:16]}..., and "
            f"those of this model {found[:16]}...; import it into a copy of the model that it was learnt from"
        )
    ours = _reads(setup, encoder)
    differing = [key for key in ours if described.reads.get(key) != ours[key]]
    if differing:
        key = differing[0]
        raise ModelError(
            f"{file.path} was learnt with {key}: {described.reads.get(key)!r}, and this model has {ours[key]!r}: texts "
            "would be read in another way; import it into a copy of the model that it was learnt from"
        )


def _put_in(encoder: PretrainedEncoder, segment: SlotSegment, name: str, tensors: Mapping[str, Tensor]) -> int:
    """Add the slots of a segment to all memories, and return its number."""
    if segment.slots < 1 or sum(tensor.numel() for tensor in tensors.values()) < segment.slots:
        raise ModelError(f"the domain has {segment.slots} slots and no numbers for them: {AGAIN}")
    number = encoder.add_apart(segment.slots, name, float(segment.quiet))
    for key, own in encoder.segment_tensors(number).items():
        given = tensors.get(key)
        if given is None or given.shape != own.shape or given.dtype != own.dtype or not all_finite(given):
            raise ModelError(f"the domain's {key} is missing, of another size or no finite number: {AGAIN}")
        own.copy_(given)
    return number


def _reads(setup: Setup, encoder: PretrainedEncoder) -> dict[str, Any]:
    assert isinstance(setup.model, PretrainedSettings)
    values = {name: getattr(setup.model, name) for name in READ_BY}
    return {**values, "memory_layers": ",".join(map(str, encoder.memory_layers)), "longest text": setup.limit}


def _checksum(encoder: PretrainedEncoder, number: int) -> str:
    digest = hashlib.sha256()
    _hash(digest, encoder.segment_tensors(number))
    return digest.hexdigest()


def _sum_of(told: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(told.encode())
    _hash(digest, tensors)
    return digest.hexdigest()


def _hash(digest: Any, tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())


def _classifier(learnt: Learnt) -> Classifier:
    if learnt.model is None:
        raise ModelError("this learner has learnt nothing yet: give it a domain with `adapt` first")
    encoder_of(learnt.model)
    assert isinstance(learnt.model, Classifier)
    return learnt.model


def _unfit(file: DomainFile) -> ModelError:
    return ModelError(f"{file.path} holds a domain that does not fit into this model: {AGAIN}")
