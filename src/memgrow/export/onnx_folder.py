"""A classifier as a folder that onnxruntime runs without memgrow and torch: a graph, tokens, labels, how to use it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module, resources
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from memgrow.data.batches import Encoded, token_mask
from memgrow.data.text import tokenize
from memgrow.data.vocabulary import UNKNOWN_INDEX
from memgrow.errors import MissingExtraError, ModelError, brief
from memgrow.export.encoder_graph import MASK, PIECES, encoder_graph, for_export
from memgrow.export.new_folder import free_place, new_folder
from memgrow.export.recurrent_graph import PROBABILITIES, WORDS, recurrent_graph
from memgrow.folder_writer import write_file
from memgrow.learner import Learner
from memgrow.models import Classifier, Encoder, PretrainedEncoder, RecurrentEncoder, Responder
from memgrow.models.pretrained.catalogue import public_name
from memgrow.models.pretrained.files import encoders_extra
from memgrow.storage import flush, pack_json
from memgrow.version import __version__

MODEL, ABOUT = "model.onnx", "memgrow-export.json"
WEIGHTS = "model.onnx.data"  # of a model that is too large for one file
TOKENIZER, TOKENISE, VOCABULARY = "tokenizer.json", "tokenise.py", "vocabulary.json"
LARGEST = 1_900_000_000  # bytes of tensors in one file; what ONNX is written in allows two gigabytes
SMALLEST_APART = 1024  # bytes of a tensor that stands in a file of its own then
TRIED = 24  # tokens of the longest row on which a graph is tried
NEAR = 1e-4  # how far a graph's probabilities may be from the model's: a wrong graph is further off
SOURCE = f"# From memgrow {__version__}, under its licence (MIT): the words that a model's vocabulary.json numbers.\n"
ROWS = {
    "text": "a row for each text",
    "one": "a row for each pair: its two texts as one, as the tokenizer joins them",
    "two": "a row for each text: all first texts of the pairs, then all second ones",
}

Arrays = Mapping[str, NDArray[np.int64]]


@dataclass(frozen=True)
class ExportedGraph:
    """A graph, the files that make tokens for it, and what there is to say of them."""

    proto: Any  # an onnx.ModelProto
    files: Mapping[str, bytes]
    about: Mapping[str, Any]
    tried: Arrays  # inputs on which it is held against the model
    expected: NDArray[np.float32]  # the model's own probabilities of these


def export_onnx(learner: Learner, path: str | Path, for_domain: str | None = None) -> None:
    """Write the model as a new folder for onnxruntime; with `for_domain`, as it answers for that domain.

    Its probabilities are those of `predict` up to rounding, the calibrated temperature included.
    """
    free_place(path)
    model = learner.trained()
    if isinstance(model, Responder):
        raise ModelError(
            "this model answers with words, one after another by a search, and ONNX holds what is computed in one go: "
            "export it --to huggingface, or serve it with memgrow serve"
        )
    make = next((make for kind, make in GRAPHS.items() if isinstance(model.encoder, kind)), None)
    if make is None:
        raise ModelError(
            f"there is no ONNX graph of the encoder {learner.settings.cell!r}: recurrent networks and pretrained "
            "Transformers have one; export it --to huggingface"
        )
    _check_extra(learner.settings.kind.is_pretrained)
    graph = make(learner)
    about = {**_about(learner), **graph.about}
    with new_folder(path, learner.folder) as folder:
        for name, content in {**graph.files, ABOUT: pack_json(about)}.items():
            write_file(folder / name, content)
        _write_graph(graph, folder / MODEL)  # last: what a stranger's model calls a licence takes no place of ours


def _about(learner: Learner) -> dict[str, Any]:
    task = learner.task or "text"
    pairs = getattr(learner.settings, "pairs", "two")
    return {
        "memgrow": __version__,
        "model": MODEL,
        "task": task,
        "labels": list(learner.labels or ()),
        "domains": list(learner.history.domains),
        "output": {PROBABILITIES: "float32 (batch, labels), in the order of `labels`"},
        "temperature": learner.calibration.temperature,  # for the record: the graph divides by it
        "longest": learner.setup.limit,
        "pairs": pairs if task == "pair" else None,
        "rows": ROWS[pairs if task == "pair" else "text"],
    }


def _recurrent(learner: Learner) -> ExportedGraph:
    split = learner.settings.kind.tokenizer(learner.settings)
    if split.__module__ != tokenize.__module__:
        raise ModelError("this model splits texts into words by a function of its own, which no export can hold")
    model, temperature = learner.classifier().eval(), learner.calibration.temperature
    source = resources.files("memgrow.data").joinpath("text.py").read_text(encoding="utf-8")
    rule = f"{SOURCE}{source}\n\nwords_of = {split.__name__}  # as this model reads texts\n"
    numbers = {word: number for number, word in enumerate(learner.vocabulary.words) if number > UNKNOWN_INDEX}
    about = {
        "inputs": {WORDS: "int64 (rows, length): numbers of words, 0 after a row's end"},
        "tokenizer": TOKENISE,
        "vocabulary": VOCABULARY,
        "unknown": UNKNOWN_INDEX,
        "use": f"Split a text by words_of() of {TOKENISE}, take the first `longest` words, and their numbers from "
        f"{VOCABULARY}; a word that is not there, and a text without words, is `unknown`. Pad rows with 0.",
    }
    words, lengths = _drawn(model, learner.setup.limit, UNKNOWN_INDEX)
    files = {TOKENISE: rule.encode(), VOCABULARY: pack_json(numbers)}
    proto = recurrent_graph(model, temperature)
    return ExportedGraph(proto, files, about, {WORDS: words.numpy()}, _expected(model, words, lengths, temperature))


def _pretrained(learner: Learner) -> ExportedGraph:
    with encoders_extra():
        from tokenizers import Tokenizer

    files, limit = learner.encoder, learner.setup.limit
    labelling = for_export(learner.classifier(), learner.calibration.temperature)
    assert files is not None
    padding = cast(PretrainedEncoder, labelling.model.encoder).padding
    tokenizer: Any = Tokenizer.from_str(files.tokenizer)
    tokenizer.enable_truncation(limit, strategy="longest_first")
    tokenizer.enable_padding(pad_id=padding, pad_token=tokenizer.id_to_token(padding) or "[PAD]")
    about = {
        "inputs": {
            PIECES: "int64 (rows, length): numbers of word pieces",
            MASK: "int64 (rows, length): 1 where there is a piece, 0 where there is padding",
        },
        "tokenizer": TOKENIZER,
        "encoder": public_name(files.name),
        "use": f"Read {TOKENIZER} with the package tokenizers, set its encode_special_tokens to true, and give "
        "encode_batch the texts: it cuts and pads them. `ids` and `attention_mask` are the two inputs.",
    }
    pieces, lengths = _drawn(labelling.model, limit)
    there = token_mask(pieces, lengths).long()
    expected = _expected(labelling.model, pieces, lengths, labelling.temperature)
    written = {**files.licences, TOKENIZER: tokenizer.to_str()}
    tried = {PIECES: pieces.numpy(), MASK: there.numpy()}
    return ExportedGraph(
        encoder_graph(labelling), {name: text.encode() for name, text in written.items()}, about, tried, expected
    )


GRAPHS: dict[type[Encoder], Callable[[Learner], ExportedGraph]] = {
    RecurrentEncoder: _recurrent,
    PretrainedEncoder: _pretrained,
}


def _drawn(model: Classifier, limit: int, lowest: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of tokens of three lengths, 0 after their ends, to try a graph on; the same each time."""
    chance = torch.Generator().manual_seed(0)
    longest = min(limit, TRIED)
    lengths = torch.tensor([longest, 1, -(-longest // 2)] * model.texts)
    tokens = torch.randint(lowest, model.vocabulary_size, (len(lengths), longest), generator=chance)
    return tokens * token_mask(tokens, lengths), lengths


@torch.no_grad()
def _expected(
    model: Classifier, tokens: torch.Tensor, lengths: torch.Tensor, temperature: float
) -> NDArray[np.float32]:
    """The probabilities of rows of tokens by the way of `predict`, and not by a wrapper that is made for an export."""
    rows = [row[:length].tolist() for row, length in zip(tokens, lengths.tolist(), strict=True)]
    count = len(rows) // model.texts
    texts = list(zip(*(rows[start : start + count] for start in range(0, len(rows), count)), strict=True))
    expected: NDArray[np.float32] = (model.logits(Encoded(texts, [-1] * count)) / temperature).softmax(-1).numpy()
    return expected


def _write_graph(graph: ExportedGraph, path: Path) -> None:
    """Write the graph, and try what was written: of a family that nobody has tried, it may be another model."""
    import onnx
    import onnxruntime

    large = sum(tensor.ByteSize() for tensor in graph.proto.graph.initializer) > LARGEST
    onnx.save_model(
        graph.proto,
        str(path),
        save_as_external_data=large,
        location=WEIGHTS if large else None,
        size_threshold=SMALLEST_APART,
    )
    for written in path.parent.glob("*"):  # onnx leaves it to chance when they reach the disk
        with written.open("rb+") as file:
            flush(file)
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        (found,) = session.run([PROBABILITIES], dict(graph.tried))
    except Exception as error:  # of the runtime, which has no common kind
        raise ModelError(f"onnxruntime cannot run the graph ({brief(error)}): export it --to huggingface") from error
    if found.shape != graph.expected.shape or not np.abs(found - graph.expected).max() < NEAR:
        raise ModelError(
            "the graph gives other probabilities than the model, so that nothing was written: export it --to "
            "huggingface, or serve it with memgrow serve"
        )


def _check_extra(pretrained: bool) -> None:
    """Tell who lacks a package before anything is computed."""
    for name in ("onnx", "onnxruntime", *(("onnxscript",) if pretrained else ())):
        try:
            import_module(name)
        except ImportError as error:
            raise MissingExtraError(
                f"an export to ONNX needs the package {name}: run `pip install 'memgrow[onnx]'`"
            ) from error
