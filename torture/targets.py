"""What reads the bytes of strangers, each as a function of bytes that may end with a sentence and with nothing else.

Both kinds of fuzzing use them: hypothesis, which builds inputs out of their parts, and atheris, which is guided by the
lines of code that an input reaches.
"""

import gzip
import importlib
import io
import json
import shutil
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memgrow.errors import MemgrowError

LONGEST = 1500  # characters of a sentence; names of columns and files may be in it


@dataclass(frozen=True)
class Target:
    """A reader, files or texts that it takes, and words that mean something to it."""

    read: Callable[[bytes, Path], None]  # from a folder in which it may write
    seeds: tuple[bytes, ...]
    words: tuple[str, ...]


def attempt(target: Target, content: bytes, place: Path) -> None:
    """Read it. Anything but a result or a sentence is an error of ours."""
    try:
        target.read(content, place)
    except MemgrowError as error:
        said = str(error)
        if "\n" in said or len(said) > LONGEST or len(said.split()) < 4:
            raise AssertionError(f"{len(said)} characters are no sentence: {said[:300]!r}") from error


def as_text(content: bytes) -> str:
    """Any text, halves of characters among it."""
    return content.decode("utf-8", errors="surrogateescape") if content[:1] != b"\xff" else _as_units(content[1:])


def _as_units(content: bytes) -> str:
    return content[: len(content) // 2 * 2].decode("utf-16-le", errors="surrogatepass")


# Texts


def tokenising(content: bytes, place: Path) -> None:
    from memgrow.data.text import REPAIRS, tokenize
    from memgrow.data.vocabulary import Vocabulary

    text = as_text(content)
    tokens = tokenize(text)
    assert all(token and not any(sign.isspace() for sign in token) for token in tokens), tokens
    assert tokenize(" ".join(tokens)) == tokens, "the tokens of tokens are others"
    assert bool(tokens) == bool(text.translate(REPAIRS).split()), "words came from nothing, or went"
    vocabulary = Vocabulary().extended([tokens])
    numbers = vocabulary.encode(tokens)
    assert all(
        token in ("<pad>", "<unk>") or vocabulary.words[n] == token for token, n in zip(tokens, numbers, strict=True)
    )


def showing(content: bytes, place: Path) -> None:
    """What is shown of a stranger's text can be written, and holds nothing that a terminal obeys."""
    from memgrow.errors import json_text, printable

    text = as_text(content)
    shown = printable(text)
    shown.encode()
    assert not any(ord(sign) < 32 or 127 <= ord(sign) < 160 for sign in shown)
    json_text(text).encode()
    assert json.loads(json_text(text)) == text


# Files


def data_file(name: str) -> Callable[[bytes, Path], None]:
    """Reads a file of examples as `adapt` and as `predict` do."""

    def read(content: bytes, place: Path) -> None:
        from memgrow.data import load_stream
        from memgrow.data.columns import DEFAULT_COLUMNS
        from memgrow.data.files import line_chunks
        from memgrow.data.inputs import inputs_from_lines, read_unlabelled

        (path := place / name).write_bytes(content)
        try:
            stream = load_stream(path).stream
            for domain in stream:
                for example in domain.train:
                    "\n".join(example.texts).encode()
        finally:
            with suppress(MemgrowError):
                read_unlabelled(path)
            with suppress(MemgrowError):
                list(inputs_from_lines(line_chunks(io.BytesIO(content)), DEFAULT_COLUMNS, "text"))

    return read


def vector_file(name: str) -> Callable[[bytes, Path], None]:
    def read(content: bytes, place: Path) -> None:
        import numpy as np

        from memgrow.data.vectors import read_vectors

        (path := place / name).write_bytes(content)
        vectors = read_vectors(path, ["the", "The", "a", "1", "\u00e9", ""])
        for row in vectors.rows.values():
            assert row.shape == (vectors.size,)
            assert np.isfinite(row).all()

    return read


def recipe(content: bytes, place: Path) -> None:
    from memgrow.cli.recipe import read_recipe

    (path := place / "recipe.yaml").write_bytes(content)
    try:
        found = read_recipe(path)
        usual = found.defaults("cpu")
        for section, kind in (("model", usual.model), ("training", usual.training)):
            found.section(section, kind)
    finally:
        with suppress(MemgrowError):
            read_recipe(None, [content[:2000].decode(errors="replace")])


def encoder_folder(content: bytes, place: Path) -> None:
    """A folder of an encoder in which one file is another."""
    from memgrow.models.hub import CONFIG, SHARDS, TOKENIZER, WEIGHTS, read_encoder

    whole = place.parent / "encoder"
    if not whole.is_dir():
        importlib.import_module("tests.support.tiny_encoder").make_encoder(whole)
    folder = place / "encoder"
    if not folder.is_dir():
        shutil.copytree(whole, folder)
    name = (CONFIG, TOKENIZER, WEIGHTS, SHARDS)[content[0] % 4 if content else 0]
    rest = content[1:]
    if name == WEIGHTS and content[0] & 4:  # with a right length of its header
        rest = struct.pack("<Q", len(rest)) + rest + bytes(64)
    (folder / name).write_bytes(rest)
    if name == SHARDS:
        (folder / WEIGHTS).unlink()
    try:
        read_encoder(folder)
    finally:
        for one in (CONFIG, TOKENIZER, WEIGHTS):
            shutil.copyfile(whole / one, folder / one)
        (folder / SHARDS).unlink(missing_ok=True)


# Requests


def request_body(content: bytes, place: Path) -> None:
    """What is sent to a service to be answered: examples that can be written down, or a sentence."""
    from pydantic import ValidationError

    from memgrow.serve.schemas import PredictRequest, to_examples
    from memgrow.serve.settings import ServeSettings

    try:
        asked = PredictRequest.model_validate(json.loads(content))
    except (ValueError, RecursionError, ValidationError):  # which the framework answers
        return
    for task in ("text", "pair", "reply"):
        with suppress(MemgrowError):
            for example in to_examples(asked.inputs, task, ServeSettings()):
                "\n".join(example.texts).encode()
    to_examples(asked.inputs, "text", ServeSettings())


def upload_name(content: bytes, place: Path) -> None:
    """The name of an uploaded file becomes the name of a domain that can stand anywhere, or a sentence."""
    from memgrow.serve.jobs import split_name

    text = as_text(content)
    found, _ = split_name(text, None)
    assert 0 < len(found) <= 64
    assert not set(found) & set("/\\\0\n")
    assert not found.startswith(".")


ROW = b'{"text": "so fine", "label": "good"}\n{"text": "so dull", "label": "bad", "split": "test"}\n'
ASKED = b'{"inputs": ["so fine", {"text": "so dull"}]}'
ASKED_PAIR = b'{"inputs": ["a\\tb", {"premise": "a", "hypothesis": "b"}, {"message": "hello"}]}'
TABLE = b'text,label\n"a ""fine"" lamp",good\ndull,bad\n'
DIALOGUE = b'{"message": "hello", "response": "hi"}\n{"message": "why", "response": "so"}\n'
PAIRS = b"premise\thypothesis\tlabel\na\tb\t1\nc\td\t0\n"
GLOVE = b"the 0.25 -1 .5\na 1e3 +2. 3\nThe 1 2 3\n"
BINARY = b"2 3\nthe " + struct.pack("<3f", 0.25, -1, 3) + b"\na " + struct.pack("<3f", 1, 2, 3)
RECIPE = b"method: F+M\nseed: 3\nmodel:\n  hidden: 64\n  dropout: 0.1\ntraining:\n  rate: 3e-4\noptions:\n  keep: 1\n"
CONFIG = b'\x00{"model_type": "bert", "hidden_size": 16, "num_hidden_layers": 2, "vocab_size": 400}'
PIECES = b'\x01{"version": "1.0", "added_tokens": [], "model": {"type": "WordPiece", "vocab": {"[UNK]": 0}}}'
HEADER = b'\x06{"a": {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 64]}}'
INDEX = b'\x03{"metadata": {}, "weight_map": {"a": "model-00001-of-00001.safetensors"}}'
TEXT = "Mr. O'Neil's isn't $3,000.50 -- \u00e9e\u0301\u200d"
# Marks without a place of their own, ends of lines that only some know, directions, a face in two units; and words.
ODD = (
    *("\ufeff", "\u2028", "\u2029", "\x85", "\x00", "\u200d", "\u0301", "\u202e", "\U0001f469", "\xad", "\r\n", "\x1b"),
    *("n't", "'ll", "Mr.", "U.S.", "3,000.50", "...", "--", "''", "-LRB-", "'tis", "\u0f72", "\u200b", "\t", "\u3000"),
)
JSON = ('{"text": "', '", "label": "', '"}', '"split": "test"', "\\ud800", "\\u0000", "null", "[[", "1e999", "NaN")
NUMBERS = ("nan", "inf", "1e400", "the ", "\u00e9 ", "0x1", "_", "-", ".", "1 1\n", "9" * 18)
YAML = ("&a", "*a", "!!python/object:os.system", ".inf", "<<:", "hidden=", "---", "0x", "2001-01-01", "? ", "- ", "|")
PARTS = ('"auto_map"', '"shape"', '"dtype"', '"model"', '"vocab"', '"type"', "10e99", "[", "{", "-1", "null")


def _zip(content: bytes) -> bytes:
    with zipfile.ZipFile(packed := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("glove.txt", content)
    return packed.getvalue()


TARGETS = {
    "tokeniser": Target(tokenising, (TEXT.encode(), b"\xff\x00\xd8a\x00"), ODD),
    "printable": Target(showing, (b"\x1b[2J", "\u202e\u2066".encode()), ODD),
    "jsonl": Target(data_file("x.jsonl"), (ROW, DIALOGUE, b"\xef\xbb\xbf" + ROW), (*JSON, *ODD)),
    "csv": Target(data_file("x.csv"), (TABLE,), ('"', '""', ",", "text,label", "\r", *ODD)),
    "tsv": Target(data_file("x_train.tsv"), (PAIRS,), ("\t", "text\tlabel", "split", "premise", *ODD)),
    "jsonl.gz": Target(data_file("x.jsonl.gz"), (gzip.compress(ROW, mtime=0),), ()),
    "vectors": Target(vector_file("x.txt"), (GLOVE, b"2 3\n" + GLOVE), NUMBERS),
    "vectors.bin": Target(vector_file("x.bin"), (BINARY,), NUMBERS),
    "vectors.gz": Target(vector_file("x.txt.gz"), (gzip.compress(GLOVE, mtime=0),), ()),
    "vectors.zip": Target(vector_file("x.zip"), (_zip(GLOVE),), ("PK\x03\x04", "PK\x01\x02", "PK\x05\x06")),
    "recipe": Target(recipe, (RECIPE, b"model: {hidden: 1}"), YAML),
    "request": Target(request_body, (ASKED, ASKED_PAIR), (*JSON, '{"inputs": [', "premise", "\\t", *ODD)),
    "upload name": Target(upload_name, (b"new.jsonl", b"../up.csv"), (".jsonl", ".tsv", "..", "/", "\\", "CON", *ODD)),
    "encoder folder": Target(encoder_folder, (CONFIG, PIECES, HEADER, INDEX), PARTS),
}
