"""A classifier around a pretrained encoder as an ONNX graph, as torch.onnx traces it: any batch and any length."""

import copy
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from memgrow.errors import ModelError, brief
from memgrow.export.recurrent_graph import OPSET, PROBABILITIES
from memgrow.models import Classifier, PairClassifier, PretrainedEncoder

PIECES, MASK = "input_ids", "attention_mask"


class Labelling(nn.Module):
    """From pieces (R, T) and where they are there, as a tokenizer gives both, to probabilities (B, labels)."""

    def __init__(self, model: Classifier, temperature: float) -> None:
        super().__init__()
        self.model, self.temperature = model, temperature

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        encoder = cast(PretrainedEncoder, self.model.encoder)
        there = attention_mask > 0
        # A text without any piece is read as the first piece, as `PieceTokenizer` has it.
        first = torch.arange(input_ids.shape[1], device=input_ids.device) == 0
        there = there | (first & ~there.any(1, keepdim=True))
        vectors = encoder.pooled(input_ids * (attention_mask > 0), there)
        if isinstance(self.model, PairClassifier):  # not in chunks, of which nobody knows how many there are
            vectors = self.model.joined(*vectors.reshape(2, -1, vectors.shape[1]).unbind())
        logits = self.model.heads[-1](vectors)
        return torch.softmax(logits / self.temperature, dim=-1)


def for_export(model: Classifier, temperature: float) -> Labelling:
    """A copy of the model that gives probabilities at that temperature, in float32 on the CPU."""
    copied = copy.deepcopy(model).cpu().eval()
    encoder = cast(PretrainedEncoder, copied.encoder)
    encoder.settings = replace(encoder.settings, precision="float32")
    return Labelling(copied, temperature)


def encoder_graph(labelling: Labelling) -> Any:
    """The model as an onnx.ModelProto."""
    model = labelling.model
    encoder = cast(PretrainedEncoder, model.encoder)
    batch: Any = torch.export.Dim("batch", min=1)
    shape = {0: batch if model.texts == 1 else model.texts * batch, 1: torch.export.Dim("length", max=encoder.longest)}
    pieces = torch.ones(2 * model.texts, 3, dtype=torch.long)
    mask = torch.ones_like(pieces)
    mask[0, 2] = 0
    try:
        with torch.no_grad(), _quiet():
            program: Any = torch.onnx.export(
                labelling,
                (pieces, mask),
                input_names=[PIECES, MASK],
                output_names=[PROBABILITIES],
                dynamic_shapes={PIECES: shape, MASK: shape},
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
            return without_traces(program.model_proto)
    except Exception as error:  # of any family, and of what torch makes of it
        kind, reason = cast(Any, encoder.backbone).config.model_type, error.__cause__ or error
        raise ModelError(
            f"torch {torch.__version__} makes no ONNX graph of {encoder.files.name} ({kind}; {brief(reason)}): "
            "export it --to huggingface, or serve it with memgrow serve"
        ) from error


def without_traces(proto: Any) -> Any:
    """The same graph without what the exporter notes of where each node is from: lines and files of this machine."""
    for graph in (proto.graph, *proto.functions):
        for part in (graph, *graph.node, *graph.value_info, *getattr(graph, "initializer", ())):
            del part.metadata_props[:]
            part.doc_string = ""
    for value in (*proto.graph.input, *proto.graph.output):
        del value.metadata_props[:]
    return proto


@contextmanager
def _quiet() -> Iterator[None]:
    """Within, the exporter says nothing of its steps and of what it would do in other versions."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
