"""A DistilBERT that was exported to ONNX and quantised to int8, turned back into a folder in Hugging Face's layout."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from memgrow.errors import ModelError, SettingsError
from memgrow.models.pretrained.files import CONFIG, WEIGHTS

TAGGER = "tagger.onnx"
PREFIX = "distilbert."
# A product with a weight is named after the layer that it belongs to.
PRODUCT = re.compile(r"/distilbert/(?P<layer>transformer/layer\.\d+/.*)/MatMul")

Arrays = dict[str, NDArray[np.float32]]


def import_onnx() -> Any:
    """The package onnx; who lacks it is told what to install."""
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError as error:
        raise SettingsError(
            "these weights come as ONNX, which is read with the package onnx: run `pip install onnx`"
        ) from error
    return onnx


def distilbert_from_onnx(folder: Path) -> None:
    """Write config.json and model.safetensors beside tagger.onnx, which is then removed."""
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
    """The settings that the shapes tell, and for the rest those of DistilBERT-base-cased."""
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
