"""The files of a pretrained encoder, read from a folder in Hugging Face's layout and checked."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from memgrow.data.disk import Shapes, check_regular, stored_shapes
from memgrow.data.paths import expanded
from memgrow.errors import MissingExtraError, ModelError, brief

CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
SHARDS = f"{WEIGHTS}.index.json"  # says which file has which tensor, where the weights are in several
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
VOCABULARIES = ("vocab.txt", "vocab.json", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
LICENCES = ("LICENSE*", "LICENCE*", "NOTICE*")
WORKS = "BERT, DistilBERT, RoBERTa, ModernBERT and other encoders work"
CHUNK = 1 << 20
LONGEST_LICENCE = 1 << 20  # bytes

# What configurations of Transformers call the number of their layers, and sizes that tensors have as well.
LAYERS = ("num_hidden_layers", "num_layers", "n_layers")
SIZES = ("hidden_size", "intermediate_size", "vocab_size", "embedding_size", "dim", "hidden_dim")


@dataclass(frozen=True)
class EncoderFiles:
    """All that makes a pretrained encoder: its configuration, tokenizer and weights, and the licence to use them."""

    name: str
    config: str  # config.json
    tokenizer: str  # tokenizer.json, truncation and padding switched off
    sha256: str  # of the weights
    licences: Mapping[str, str] = field(default_factory=dict)  # texts by name of file
    weights: Path | None = None  # model.safetensors, or the index of its parts

    def tensors(self) -> dict[str, Tensor]:
        """The weights by the names they have in the file; numbers of positions, which are no weights, left out."""
        if self.weights is None:
            raise ModelError(f"the weights of the encoder {self.name} are not at hand; name its folder")
        loaded: dict[str, Tensor] = {}
        for part in weight_parts(self.weights):
            try:
                loaded |= load_file(part)
            except (OSError, SafetensorError) as error:
                raise _damaged(part, error) from error
        return {name: tensor for name, tensor in loaded.items() if name.rpartition(".")[2] != "position_ids"}


@contextmanager
def encoders_extra() -> Iterator[None]:
    """Around an import of what pretrained encoders are read with: who lacks it is told what to install."""
    try:
        yield
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError):
            reason = f"the package {error.name}"
        else:  # a package is there, and another that it goes with is not, or is too old
            reason = f"packages that go together ({str(error).strip().partition(chr(10))[0]})"
        raise MissingExtraError(
            f"a pretrained encoder needs {reason}: run `pip install 'memgrow[encoders]'`"
        ) from error


def read_encoder(folder: str | Path, name: str | None = None) -> EncoderFiles:
    """Read a folder in Hugging Face's layout (config.json, tokenizer.json, model.safetensors), and check it."""
    folder = expanded(folder)
    if not folder.exists():
        raise ModelError(f"there is no folder {folder}; check the name of the encoder")
    if not folder.is_dir():
        raise ModelError(f"{folder} is a file; an encoder is a folder with {CONFIG}, {TOKENIZER} and {WEIGHTS}")
    config = _read_config(folder / CONFIG)
    weights = _find_weights(folder)
    parts = [stored_shapes(part) for part in weight_parts(weights)]
    check_sizes(config, {name: shape for part in parts for name, shape in part.items()})
    tokenizer = _read_tokenizer(folder)
    _check_words(tokenizer, config, folder)
    return EncoderFiles(
        name=name or Path(os.path.realpath(folder)).name,
        config=json.dumps(config, indent=2, ensure_ascii=False),
        tokenizer=tokenizer,
        sha256=hash_files(*weight_parts(weights)),
        licences=read_licences(folder),
        weights=weights,
    )


def check_sizes(config: Mapping[str, Any], stored: Shapes) -> None:
    """Refuse a configuration that tells of more than there are weights for, before it is built at full size."""
    largest = max((size for sizes in stored.values() for size in sizes), default=0)
    for names, most in ((LAYERS, len(stored)), (SIZES, largest)):
        for name in names:
            if isinstance(value := config.get(name), int) and value > most:
                raise unfit(f"{name} is {value:,}, and the tensors speak of {most:,} at most")


def unfit(what: str, longest: int = 200) -> ModelError:
    """The error of weights that are not those of the configuration; names and shapes of a file may be of any length."""
    what = f"{what[:longest]}..." if len(what) > longest else what
    return ModelError(
        f"config.json and the weights do not belong together ({what}): copy the model again, or go back to a saved one"
    )


def read_licences(folder: Path) -> dict[str, str]:
    """The texts of licences and notices in a folder, by name of file; links are followed only within a hub's cache."""
    real = folder.resolve()
    homes = {real, real.parent.parent / "blobs"}
    paths = {path for pattern in LICENCES for path in folder.glob(pattern) if path.resolve().parent in homes}
    paths = {path for path in paths if path.is_file()}
    texts = {}
    for path in sorted(path for path in paths if path.name.isprintable()):
        with path.open("rb") as file:
            texts[path.name] = file.read(LONGEST_LICENCE).decode(errors="replace")
    return texts


def hash_files(*paths: Path) -> str:
    """The SHA-256 of files as if they were one."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    return digest.hexdigest()


def weight_parts(weights: Path) -> list[Path]:
    """The files that hold the weights: one, or those that an index names."""
    if weights.name != SHARDS:
        return [weights]
    index = _json(weights)
    named = index.get("weight_map")
    if not isinstance(named, dict) or not named:
        raise ModelError(f"{weights} names no files; fetch the encoder again")
    parts = [weights.with_name(Path(str(part)).name) for part in sorted(set(named.values()))]
    if missing := [part.name for part in parts if not part.is_file()]:
        raise ModelError(f"{weights.parent} lacks {', '.join(missing)}, which {SHARDS} names; fetch the encoder again")
    return parts


def _read_config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ModelError(f"{path.parent} has no {CONFIG}; name the folder that an encoder was saved to or fetched into")
    config = _json(path)
    kind = config.get("model_type")
    if not isinstance(kind, str):
        raise ModelError(f"{path} names no model_type, so nobody can say what kind of model it is; {WORKS}")
    _check_kind(kind, config, path)
    return config


def _check_kind(kind: str, config: Mapping[str, Any], path: Path) -> None:
    """Refuse what does not read a whole text in both directions."""
    with encoders_extra():
        from transformers import CONFIG_MAPPING
        from transformers import __version__ as version
        from transformers.models.auto import modeling_auto as known

    if config.get("is_encoder_decoder"):
        raise ModelError(f"{path} is of an encoder-decoder ({kind}), which memgrow does not read; {WORKS}")
    decodes = kind in known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    encodes = kind in known.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    if (decodes and not encodes) or config.get("is_decoder"):
        raise ModelError(f"{path} is of a decoder ({kind}), which memgrow does not read; {WORKS}")
    if kind not in CONFIG_MAPPING:
        raise ModelError(
            f"{path} is of a kind ({kind}) that transformers {version} does not know, and code out of a model's folder "
            f"is never run; {WORKS}"
        )


def _find_weights(folder: Path) -> Path:
    weights = next((folder / name for name in (WEIGHTS, SHARDS) if (folder / name).is_file()), None)
    if weights is None:
        if pickled := next((name for name in PICKLES if (folder / name).is_file()), None):
            raise ModelError(
                f"{folder} has its weights as {pickled}, a pickle, which can run code and is not read; "
                f"save the model with save_pretrained, which writes {WEIGHTS}"
            )
        raise ModelError(f"{folder} has no {WEIGHTS}; it was copied in part: copy or fetch it again")
    for part in weight_parts(weights):
        try:
            with safe_open(part, framework="pt") as file:
                names = list(file.keys())
        except (OSError, SafetensorError, ModelError) as error:
            raise _damaged(part, error) from error
        if not names:
            raise ModelError(f"{part} holds no weights; fetch the encoder again")
    return weights


def _damaged(path: Path, error: Exception) -> ModelError:
    return ModelError(f"{path} is damaged or was copied in part ({brief(error)}); copy or fetch it again")


def _read_tokenizer(folder: Path) -> str:
    """The text of tokenizer.json, or what transformers makes of older files, with neither truncation nor padding."""
    if (folder / TOKENIZER).is_file():
        table = _json(folder / TOKENIZER)
    elif any((folder / name).is_file() for name in VOCABULARIES):
        table = json.loads(_convert_tokenizer(folder))
    else:
        raise ModelError(f"{folder} has no {TOKENIZER}; copy the tokenizer's files to the weights")
    return json.dumps({**table, "truncation": None, "padding": None}, ensure_ascii=False)


def _convert_tokenizer(folder: Path) -> str:
    with encoders_extra():
        from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        return str(tokenizer.backend_tokenizer.to_str())
    except Exception as error:  # what a tokenizer of any family may raise is not listed anywhere
        reason = str(error).strip().partition("\n")[0]
        raise ModelError(
            f"{folder} has no {TOKENIZER}, and transformers cannot make one of its vocabulary ({reason}); "
            "save the tokenizer with save_pretrained"
        ) from error


def _check_words(tokenizer: str, config: Mapping[str, Any], folder: Path) -> None:
    """Refuse a tokenizer that cannot be read, or one with more pieces than the model has embeddings."""
    with encoders_extra():
        from tokenizers import Tokenizer

    try:
        read = Tokenizer.from_str(tokenizer)
        read.no_padding()  # to whatever length a file may name
        highest = highest_number(read)
    except Exception as error:  # tokenizers raises nothing more special
        raise ModelError(f"{folder / TOKENIZER} cannot be read ({brief(error)}); fetch the encoder again") from error
    if highest < 0:
        raise ModelError(f"{folder / TOKENIZER} has no pieces; fetch the encoder again")
    known = config.get("vocab_size")
    if isinstance(known, int) and highest >= known:
        raise ModelError(
            f"{folder / TOKENIZER} has {highest + 1:,} pieces and the model {known:,}; it is of another model: "
            "copy the right one"
        )


def highest_number(tokenizer: Any) -> int:
    """The highest number that a text or a pair may become, also of the pieces around them; -1: it has no pieces."""
    numbers = tokenizer.get_vocab().values()
    around = (*tokenizer.encode("a").ids, *tokenizer.encode("a", "b").ids) if numbers else ()
    return max((*numbers, *around), default=-1)


def _json(path: Path) -> dict[str, Any]:
    check_regular(path)
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not JSON ({brief(error)}); copy or fetch it again") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} is no table of settings; copy or fetch it again")
    return value
