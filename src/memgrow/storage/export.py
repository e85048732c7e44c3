"""Export a model: an ONNX graph for onnxruntime, or a folder for the Hugging Face hub with a model card."""

import copy
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from memgrow import __version__
from memgrow.data.batches import token_mask
from memgrow.data.disk import atomic_folder, atomic_write, expanded, pack_json, sync_file, write_new
from memgrow.errors import MissingExtraError, ModelError, brief
from memgrow.models import Classifier, PairClassifier, PretrainedEncoder, PretrainedSettings
from memgrow.models.hub import encoders_extra, public_name
from memgrow.storage.checkpoint import REHEARSAL, write_files
from memgrow.storage.folder import MANIFEST, ModelFolder

if TYPE_CHECKING:
    from memgrow.learner import Learner

import html
import re
from typing import TYPE_CHECKING

from memgrow.errors import counted, printable
from memgrow.evaluation.history import perplexity_of
from memgrow.models import REPLY
from memgrow.models.hub import HUB_NAME, KNOWN, EncoderFiles
from memgrow.nn import count_parameters

if TYPE_CHECKING:
    from memgrow.learner import Learner

GRAPH, ABOUT, TOKENIZER, CARD = "model.onnx", "memgrow-export.json", "tokenizer.json", "README.md"
INPUTS, OUTPUT = ("input_ids", "attention_mask"), "probabilities"
OPSET = 18
TEST_LENGTH = 24  # tokens of the longest row on which a graph is tested
TOLERANCE = 1e-4  # of probabilities


# The Hugging Face hub


def export_huggingface(learner: "Learner", path: str | Path) -> None:
    """Write the model as a new folder for `upload_folder` and `Learner.load`, without earlier versions.

    Rows of data that the method keeps, and paths of this machine, are left out.
    """
    config = replace(learner.config, vectors=None)
    if isinstance(config.model, PretrainedSettings):
        config = replace(config, model=replace(config.model, encoder=public_name(config.model.encoder)))
    with _new_folder(path) as folder:
        with ModelFolder(folder).new_version([], None) as version:
            write_files(version, config, learner.state)
            if (version / REHEARSAL).exists():
                atomic_write(version / REHEARSAL, pack_json({}))
        write_new(folder / CARD, model_card(learner, Path(path).name))


# ONNX


def export_onnx(learner: "Learner", path: str | Path) -> None:
    """Write a classifier on a pretrained encoder as a new folder for onnxruntime.

    Its probabilities are those of `predict` in float32, calibration included.
    """
    model = learner.trained()
    if isinstance(model, Classifier) and model.memory is not None and model.memory.routes:
        raise ModelError("this model reads its domain memory, which ONNX cannot: use --to huggingface or memgrow serve")
    if not isinstance(model, Classifier) or not isinstance(model.encoder, PretrainedEncoder):
        raise ModelError("only classifiers on a pretrained encoder become ONNX: use --to huggingface, or memgrow serve")
    for name in ("onnx", "onnxruntime", "onnxscript"):
        try:
            import_module(name)
        except ImportError as error:
            raise MissingExtraError(f"ONNX export needs {name}: run `pip install 'memgrow[onnx]'`") from error
    with encoders_extra():
        from tokenizers import Tokenizer

    files, longest = learner.encoder, learner.config.max_tokens
    assert files is not None
    probabilities = Probabilities(model, learner.calibration.temperature)
    padding = model.encoder.padding
    tokenizer: Any = Tokenizer.from_str(files.tokenizer)
    tokenizer.enable_truncation(longest, strategy="longest_first")
    tokenizer.enable_padding(pad_id=padding, pad_token=tokenizer.id_to_token(padding) or "[PAD]")
    about = {
        "memgrow": __version__,
        "model": GRAPH,
        "task": learner.task,
        "labels": list(learner.labels or ()),
        "domains": list(learner.history.domains),
        "temperature": learner.calibration.temperature,  # the graph applies it
        "longest": longest,
        "pairs": model.encoder.settings.pairs if learner.task == "pair" else None,
        "tokenizer": TOKENIZER,
        "encoder": public_name(files.name),
        "use": f"Read {TOKENIZER} with the package tokenizers, set its encode_special_tokens to true, and call "
        "encode_batch, which truncates and pads. Pass `ids` and `attention_mask`; where `pairs` is two, the rows of "
        "all first texts, then those of the second ones. Probabilities are in the order of `labels`.",
    }
    with _new_folder(path) as folder:
        for name, text in {**files.licences, TOKENIZER: tokenizer.to_str()}.items():
            write_new(folder / name, text)
        write_new(folder / ABOUT, pack_json(about))
        import_module("onnx").save_model(_graph(probabilities), str(folder / GRAPH))
        _check_graph(folder / GRAPH, probabilities, longest)


class Probabilities(nn.Module):
    """From token ids and attention mask, both (rows, length), to probabilities (batch, labels)."""

    def __init__(self, model: Classifier, temperature: float) -> None:
        super().__init__()
        self.model, self.temperature = copy.deepcopy(model).cpu().eval(), temperature
        self.encoder.settings = replace(self.encoder.settings, precision="float32")

    @property
    def encoder(self) -> PretrainedEncoder:
        return cast(PretrainedEncoder, self.model.encoder)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        mask = attention_mask > 0
        first = torch.arange(input_ids.shape[1], device=input_ids.device) == 0
        some = mask | (first & ~mask.any(1, keepdim=True))  # an empty text is read as its first token
        vectors = self.encoder.pooled(input_ids * mask, some)
        if isinstance(self.model, PairClassifier):
            vectors = self.model.joined(*vectors.reshape(2, -1, vectors.shape[1]).unbind())
        return torch.softmax(self.model.heads[-1](vectors) / self.temperature, dim=-1)


def _graph(probabilities: Probabilities) -> Any:
    """The onnx.ModelProto, for any batch and length."""
    model, encoder = probabilities.model, probabilities.encoder
    batch: Any = torch.export.Dim("batch", min=1)
    shape = {0: batch if model.texts == 1 else model.texts * batch, 1: torch.export.Dim("length", max=encoder.longest)}
    ids = torch.ones(2 * model.texts, 3, dtype=torch.long)
    mask = torch.ones_like(ids)
    mask[0, 2] = 0
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with torch.no_grad(), warnings.catch_warnings(action="ignore"):
            program: Any = torch.onnx.export(
                probabilities,
                (ids, mask),
                input_names=INPUTS,
                output_names=[OUTPUT],
                dynamic_shapes=dict.fromkeys(INPUTS, shape),
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
            return _without_paths(program.model_proto)
    except Exception as error:  # of any kind, by encoder
        raise ModelError(
            f"torch {torch.__version__} cannot export {encoder.files.name} to ONNX "
            f"({brief(error.__cause__ or error)}): use --to huggingface, or memgrow serve"
        ) from error
    finally:
        logging.disable(disabled)


def _without_paths(proto: Any) -> Any:
    """The same graph without the exporter's notes, which name files of this machine."""
    for graph in (proto.graph, *proto.functions):
        for part in (graph, *graph.node, *graph.value_info, *getattr(graph, "initializer", ())):
            del part.metadata_props[:]
            part.doc_string = ""
    for value in (*proto.graph.input, *proto.graph.output):
        del value.metadata_props[:]
    return proto


def _check_graph(path: Path, probabilities: Probabilities, longest: int) -> None:
    """Refuse a graph that does not give the probabilities of `predict` on rows of three lengths."""
    import onnxruntime

    model, longest = probabilities.model, min(longest, TEST_LENGTH)
    lengths = torch.tensor([longest, 1, -(-longest // 2)] * model.texts)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(0, model.vocabulary_size, (len(lengths), longest), generator=generator)
    mask = token_mask(ids, lengths).long()
    with torch.no_grad():
        expected = probabilities(ids, mask).numpy()
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        (found,) = session.run([OUTPUT], dict(zip(INPUTS, (ids.numpy(), mask.numpy()), strict=True)))
    except Exception as error:  # onnxruntime has no common class
        raise ModelError(f"onnxruntime cannot run the graph ({brief(error)}): use --to huggingface") from error
    if found.shape != expected.shape or not np.abs(found - expected).max() < TOLERANCE:
        raise ModelError("the graph gives other probabilities than the model: use --to huggingface, or memgrow serve")


@contextmanager
def _new_folder(path: str | Path) -> Iterator[Path]:
    """An empty folder to fill, which becomes `path` at the end of the block; after an error nothing is there."""
    place = Path(os.path.realpath(expanded(path)))
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise ModelError(f"{path} exists, and an export replaces nothing: choose another name, or move it away")
    if around := next((folder for folder in place.parents if (folder / MANIFEST).is_file()), None):
        raise ModelError(f"{path} is inside the model {around}: choose a place outside")
    try:
        with atomic_folder(place) as folder:
            yield folder
            for file in folder.rglob("*"):
                if file.is_file():
                    sync_file(file)
    except OSError as error:
        raise ModelError(f"cannot write {path} ({error.strerror or error}): choose another place") from error


# The model card, from the history alone: names, labels and numbers, no texts

# By task: the hub's tag, its metric, what the model does, how it is called.
TASKS = {
    "text": ("text-classification", "accuracy", "classifies texts", 'predict(["a text"])'),
    "pair": ("text-classification", "accuracy", "classifies pairs of texts", 'predict([("one text", "another")])'),
    REPLY: ("text-generation", "perplexity", "replies to messages", 'reply(["a message"])'),
}
MAX_DOMAINS = 25  # of a matrix that fits a page


def model_card(learner: "Learner", name: str) -> str:
    """README.md with front matter."""
    import yaml

    front = yaml.safe_dump(_front_matter(learner, printable(name)), sort_keys=False, allow_unicode=True, width=1000)
    return f"---\n{front}---\n\n" + "\n\n".join(_paragraphs(learner, name)) + "\n"


def _front_matter(learner: "Learner", name: str) -> dict[str, Any]:
    tag, metric, *_ = TASKS[learner.task or "text"]
    rows = learner.history.matrix.rows
    results = [
        {
            "task": {"type": tag},
            "dataset": {"name": printable(domain), "type": "own"},
            "metrics": [{"type": metric, "value": round(_figure(learner, score), 2)}],
        }
        for domain, score in (rows[-1].scores if rows else {}).items()
    ]
    licence, base = licence_of(learner.encoder), _base_model(learner)
    return {
        **({"license": licence} if licence else {}),
        "library_name": "memgrow",
        "pipeline_tag": tag,
        "tags": ["memgrow", "continual-learning", "domain-adaptation"],
        **({"base_model": base, "base_model_relation": "finetune"} if base else {}),
        **({"model-index": [{"name": name, "results": results}]} if results else {}),
    }


def _paragraphs(learner: "Learner", name: str) -> Iterator[str]:
    _, metric, does, call = TASKS[learner.task or "text"]
    history, matrix, files = learner.history, learner.history.matrix, learner.encoder
    yield f"# {_safe(name)}"
    yield (
        f"A model that {does}. It has learned {counted(len(history.domains), 'domain')} in this order: "
        f"{', '.join(map(_safe, history.domains))}. It was trained with memgrow {__version__} by the method "
        f"{_safe(learner.method.name)}. It has {count_parameters(learner.trained()):,} parameters."
    )
    if files is not None:
        licence = licence_of(files) or "unknown, look it up before you share this model"
        yield f"Encoder: {_safe(public_name(files.name))}, SHA-256 {_safe(files.sha256)}, licence: {licence}."
    yield (
        f"```shell\npip install 'memgrow{'[encoders]' if files else ''}' huggingface_hub\n```\n\n"
        "```python\nfrom huggingface_hub import snapshot_download\nfrom memgrow import Learner\n\n"
        f'learner = Learner.load(snapshot_download("OWNER/{_safe(name)}"))\nprint(learner.{call})\n```'
    )
    yield f"## Test {metric}"
    domains = matrix.domains[-MAX_DOMAINS:]
    lines = [["after learning", *domains], ["---"] * (len(domains) + 1)]
    for row in matrix.rows[-MAX_DOMAINS:]:
        scores = [row.scores.get(domain) for domain in domains]
        lines.append(["+".join(row.learned), *("" if s is None else f"{_figure(learner, s):.1f}" for s in scores)])
    yield "\n".join("| " + " | ".join(map(_safe, line)) + " |" for line in lines)
    yield (
        "The scores are of held-out examples of the same data; on other texts the model may do worse. It was trained "
        "without a privacy guarantee: the weights may have memorized training texts."
    )


def licence_of(files: EncoderFiles | None) -> str | None:
    """The licence of a known encoder by the hub's name for it."""
    return KNOWN[files.name].licence.lower() if files is not None and files.name in KNOWN else None


def _base_model(learner: "Learner") -> str | None:
    spec = getattr(learner.settings, "encoder", None)
    if spec in KNOWN:
        return KNOWN[spec].hub_name
    return spec if spec is not None and HUB_NAME.fullmatch(spec) and public_name(spec) == spec else None


def _figure(learner: "Learner", score: float) -> float:
    return perplexity_of(score) if learner.task == REPLY else 100 * score


def _safe(text: str) -> str:
    """Text without control characters, HTML, links, images or markup of a table."""
    return re.sub(r"[|\[\]]", r"\\\g<0>", html.escape(printable(text), quote=False).replace("`", "'"))
