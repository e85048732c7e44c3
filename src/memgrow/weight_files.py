"""The weights of a model as files of its folder.

A large encoder's weights stand in a file of their own, `BASE`. A later version has the same file, by a link, for as
long as half of it is still true; `MODEL` then holds all that differs from it or is not in it, and is read over it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from memgrow.models import Model
from memgrow.models.fit import check_numbers
from memgrow.storage import Content, ReplacedError, StoredFile, identity_of, load_tensors
from memgrow.tensor_files import Shapes, stored_shapes
from memgrow.unwritten_tensors import UnwrittenTensors

MODEL = "model.safetensors"  # all weights, or those that are not in the base
BASE = "base.safetensors"  # weights of a large encoder, as they were in this version or an earlier one
KEPT_FROM = 0.5  # of the bytes of a base: with fewer that are still true, a new one is written


def pack_weights(model: Model, bases: Sequence[Path] = ()) -> dict[str, Content]:
    """The files of a model's weights: all of them, or those of a large encoder and the rest."""
    tensors = model.state_dict()
    if not model.encoder.stored_once:
        return {MODEL: UnwrittenTensors.of(tensors)}
    for path in bases:
        if (found := _still_true(path, tensors)) is not None:
            base, same = found
            rest = {name: tensor for name, tensor in tensors.items() if name not in same}
            return {BASE: base, MODEL: UnwrittenTensors.of(rest)}
    large = {f"encoder.{name}" for name in model.encoder.state_dict()}
    parts = {BASE: large, MODEL: tensors.keys() - large}
    return {file: UnwrittenTensors.of({n: tensors[n] for n in names}) for file, names in parts.items()}


def load_weights(model: Model, files: Mapping[str, Content]) -> None:
    """Fill in the weights that `pack_weights` made files of."""
    known = model.state_dict().keys()
    base = {name: tensor for name, tensor in load_tensors(files, BASE).items() if name in known}
    tensors = {**base, **load_tensors(files, MODEL)}
    check_numbers(model, tensors)
    model.load_state_dict(tensors)


def weight_shapes(files: Mapping[str, Content]) -> Shapes:
    """The shapes of all weights, by name, as the headers of their files tell."""
    found = [files[name] for name in (BASE, MODEL) if name in files]
    try:
        parts = [stored_shapes(one.path if isinstance(one, StoredFile) else cast(bytes, one)) for one in found]
    except OSError as error:
        raise ReplacedError("the weights were replaced while they were read: try again") from error
    return {name: shape for part in parts for name, shape in part.items()}


def _still_true(path: Path, tensors: Mapping[str, Tensor]) -> tuple[StoredFile, set[str]] | None:
    """A base and the names of its tensors that are those of the model to the bit, if that is enough of it."""
    try:
        before, known = identity_of(path.stat()), load_file(path)
        same = {name for name, tensor in known.items() if name in tensors and _same_bits(tensor, tensors[name])}
        size = {name: tensor.nbytes for name, tensor in known.items()}
        if sum(size[name] for name in same) < KEPT_FROM * sum(size.values()):
            return None
        base = StoredFile.open(path)  # last, as a checksum takes longer than to compare
    except (OSError, SafetensorError):  # not there, or damaged: a new one is written
        return None
    return (base, same) if base.identity == before else None


def _same_bits(one: Tensor, other: Tensor) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    ours, theirs = (tensor.detach().cpu().contiguous().flatten().view(torch.uint8) for tensor in (one, other))
    return torch.equal(ours, theirs)
