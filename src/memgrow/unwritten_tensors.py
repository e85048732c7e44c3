"""Tensors as a safetensors file that is still to be written: without a copy of them, and hashed meanwhile."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO, cast

import torch
from torch import Tensor

from memgrow.tensor_files import PREFIX

CHUNK = 1 << 24  # bytes that are written or hashed at once
KINDS = {  # as the format calls them; all that a model may hold
    torch.float64: "F64",
    torch.int64: "I64",
    torch.uint64: "U64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.uint32: "U32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int16: "I16",
    torch.uint16: "U16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


@dataclass(frozen=True)
class UnwrittenTensors:
    """A file of these tensors, piece by piece; they must not change until it is written."""

    by_name: Mapping[str, Tensor]

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> "UnwrittenTensors":
        on_cpu = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        order = sorted(on_cpu, key=lambda name: (-on_cpu[name].itemsize, name))  # so that each lies as it must
        return cls({name: on_cpu[name] for name in order})

    def tensors(self) -> dict[str, Tensor]:
        return dict(self.by_name)

    @cached_property
    def header(self) -> bytes:
        """Names, kinds, shapes and places of the tensors, and before it how long that is."""
        told, end = {}, 0
        for name, tensor in self.by_name.items():
            start, end = end, end + tensor.nbytes
            told[name] = {"dtype": KINDS[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
        text = json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % PREFIX)
        return len(text).to_bytes(PREFIX, "little") + text

    @property
    def size(self) -> int:
        return len(self.header) + sum(tensor.nbytes for tensor in self.by_name.values())

    def chunks(self) -> Iterator[bytes | memoryview]:
        """All bytes of the file, in order."""
        yield self.header
        for tensor in self.by_name.values():
            if tensor.numel():
                content = memoryview(cast(Any, tensor.reshape(-1).view(torch.uint8).numpy()))
                yield from (content[start : start + CHUNK] for start in range(0, len(content), CHUNK))

    def write(self, file: BinaryIO) -> str:
        """Write all of it, and return its checksum, which is computed at the same time."""
        with ThreadPoolExecutor(1, "memgrow-checksum") as beside:
            checksum = beside.submit(self.checksum)
            for chunk in self.chunks():
                file.write(chunk)
            return checksum.result()

    def checksum(self) -> str:
        digest = hashlib.sha256()
        for chunk in self.chunks():
            digest.update(chunk)
        return digest.hexdigest()
