"""From examples to tokens: words, or the word pieces of a pretrained encoder."""

import base64
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

from memgrow.data import Example
from memgrow.data.batches import Tokenized, tokenize_examples
from memgrow.data.text import tokenize, tokenize_lower
from memgrow.errors import ModelError, SettingsError, brief
from memgrow.models.base import ModelSettings
from memgrow.models.hub import EncoderFiles, encoders_extra

ODDITIES = "a \u00e9 \u4e2d \U0001f600 \x00 !"  # a tokenizer that can read these has a piece for what it does not know

GROWTH = {"ByteLevel": 4.0, "NFKC": 18.0, "NFKD": 18.0}  # characters that these may make of one
MAX_GROWTH = 10_000


def tokenize_for(
    settings: ModelSettings, examples: Sequence[Example], max_words: int, files: EncoderFiles | None = None
) -> Tokenized:
    """Examples as the tokens that the encoder of these settings reads: words, or numbers of word pieces."""
    if files is None:
        return tokenize_examples(examples, max_words, word_tokenizer(settings))
    if files.chat is not None:
        return chat_of(files).tokenize(examples, max_tokens(max_words, files))
    return tokenizer_of(files).tokenize(examples, max_tokens(max_words, files), settings.joins_pairs)


def word_tokenizer(settings: ModelSettings) -> Callable[[str], list[str]]:
    return tokenize_lower if settings.lowercase else tokenize


def max_tokens(max_words: int, files: EncoderFiles | None = None) -> int:
    """The number of tokens that are read of a text, at most, where `max_words` are asked for."""
    if files is None:
        return max_words
    from memgrow.models.transformer import config_of, max_length

    return min(max_words, max_length(config_of(files.config)))


def token_strings(tokenized: Tokenized, files: EncoderFiles | None = None) -> list[tuple[list[str], ...]]:
    if files is None:
        return [tuple(map(list, texts)) for texts in tokenized.texts]
    tokenizer = tokenizer_of(files)
    return [tuple(tokenizer.pieces(row) for row in rows) for rows in tokenized.texts]


class PieceTokenizer:
    """Reads `tokenizer.json` with the library tokenizers, which works in parallel and outside Python."""

    def __init__(self, text: str) -> None:
        with encoders_extra():
            from tokenizers import Tokenizer
        with _model_errors():
            steps = json.loads(text)
            growth = math.prod(_growth(steps.get(name)) for name in ("normalizer", "pre_tokenizer", "post_processor"))
            if growth > MAX_GROWTH:
                raise ValueError("it makes far more of a text than there is")
            self._tokenizer: Any = Tokenizer.from_str(text)
        self._tokenizer.no_padding()
        # A text that spells out [SEP] is a text about separators, not a pair.
        self._tokenizer.encode_special_tokens = True
        self._lock = Lock()  # the library keeps the length that texts are cut to, and threads share the tokenizer

    def check(self, embeddings: object) -> None:
        """Refuse a tokenizer that cannot read a text, or has pieces that the model has no embeddings for."""
        with self._lock, _model_errors():
            read = [self._tokenizer.encode(ODDITIES), self._tokenizer.encode(ODDITIES, ODDITIES)]
        numbers = [*self._tokenizer.get_vocab().values(), *(number for one in read for number in one.ids)]
        count = max(numbers, default=-1) + 1
        if not count or (isinstance(embeddings, int) and count > embeddings):
            raise ModelError(f"tokenizer.json has {count:,} pieces and the model {embeddings}: copy the right one")

    def separator(self) -> int | None:
        """The piece after which the second text of a pair begins, if that has its own token type, as BERT's has."""
        with self._lock:
            self._tokenizer.no_truncation()
            with _model_errors():
                pair = self._tokenizer.encode("a", "b")
        types: list[int] = pair.type_ids
        second = types.index(1) if 1 in types else 0
        last: int | None = pair.ids[second - 1] if second and set(types[second:]) == {1} else None
        return last

    def pieces(self, numbers: Sequence[int]) -> list[str]:
        return [self._tokenizer.id_to_token(number) or "?" for number in numbers]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Texts as numbers, whole and without special pieces."""
        with self._lock, _model_errors():
            self._tokenizer.no_truncation()
            found = self._tokenizer.encode_batch_fast([*map(_without_surrogates, texts)], add_special_tokens=False)
        return [one.ids for one in found]

    def decode(self, numbers: Sequence[int]) -> str:
        with _model_errors():
            return str(self._tokenizer.decode(list(numbers), skip_special_tokens=True))

    def with_specials(self) -> Any:
        """The library's tokenizer, which reads special pieces that a text spells out."""
        self._tokenizer.encode_special_tokens = False
        return self._tokenizer

    def tokenize(self, examples: Sequence[Example], longest: int, joins_pairs: bool) -> Tokenized:
        """Examples as numbers, at most `longest` for each row: a text, or a pair that is read as one.

        Of a pair that is too long the longer text is cut; special pieces stay.
        """
        texts = len(examples[0].texts) if examples else 1
        each = 1 if joins_pairs else texts  # rows of an example
        special = self._tokenizer.num_special_tokens_to_add(texts > each)
        if longest <= special:  # the library would cut nothing at all
            raise SettingsError(f"max_words must be at least {special + 1}, not {longest}: {special} are special")
        read = [tuple(map(_without_surrogates, example.texts)) for example in examples]
        rows: list[Any] = read if texts > each else [text for row in read for text in row]
        with self._lock:
            self._tokenizer.enable_truncation(longest, strategy="longest_first")
            with _model_errors():
                encodings = self._tokenizer.encode_batch_fast(rows)
        # Without special pieces a blank text has none at all, and there would be nothing to take the mean of.
        numbers = [encoding.ids or [0] for encoding in encodings]
        cut = sum(bool(encoding.overflowing) for encoding in encodings)
        grouped = [tuple(numbers[start : start + each]) for start in range(0, len(numbers), each)]
        return Tokenized(grouped, [example.label for example in examples], cut, numbered=True)


class ChatTokenizer:
    """Messages and replies for a causal language model, by its chat template where it has one."""

    def __init__(self, files: EncoderFiles) -> None:
        chat = json.loads(files.chat or "{}")
        self._pieces, specials = tokenizer_of(files), PieceTokenizer(files.tokenizer).with_specials()
        ends = [specials.token_to_id(chat.get("eos_token") or ""), chat.get("eos_token_id")]
        self.end: int = next((number for number in ends if isinstance(number, int)), -1)
        if self.end < 0:
            raise ModelError(f"{files.name} has no token for the end of a text (eos_token): choose another model")
        start = specials.token_to_id(chat.get("bos_token") or "")
        self.start: int = self.end if start is None else start  # before a text that is no reply
        # The template is filled in once. So a message that spells out a special token is only a message about it.
        before, after = "", "\n"
        if template := chat.get("chat_template"):
            before, _, after = _rendered(template, chat).partition(MARK)
        with _model_errors():
            self.before: list[int] = specials.encode(before, add_special_tokens=not template).ids
            self.after: list[int] = specials.encode(after, add_special_tokens=False).ids

    def tokenize(self, examples: Sequence[Example], longest: int) -> Tokenized:
        """Prompts, and with replies these and their ends, at most `longest` tokens together: a message keeps its end.

        An example without a message is a text that is no reply.
        """
        room = longest - len(self.before) - len(self.after)
        if room < 2:
            raise SettingsError(
                f"max_words must be at least {longest - room + 2}, not {longest}: others are the prompt"
            )
        messages = self._pieces.encode([example.text for example in examples])
        replies = self._pieces.encode([example.reply or "" for example in examples])
        texts, cut = list[tuple[list[int], ...]](), 0
        for example, message, reply in zip(examples, messages, replies, strict=True):
            if not example.text:
                texts.append(([self.start], (reply or [self.end])[: longest - 1]))
                continue
            said = [] if example.reply is None else [*reply, self.end][: max(room // 2, room - len(message))]
            kept = message[max(0, len(message) + len(said) - room) :]
            cut += len(kept) < len(message) or (example.reply is not None and len(said) <= len(reply))
            prompt = [*self.before, *kept, *self.after]
            texts.append((prompt,) if example.reply is None else (prompt, said))
        answered = any(example.reply is not None for example in examples)
        return Tokenized(texts, [None] * len(texts), cut, answered, numbered=True)

    def decode(self, numbers: Sequence[int]) -> str:
        return self._pieces.decode(numbers).strip()


MARK = "MESSAGE-8c1f"  # stands for a message in a chat template


def _rendered(template: str, chat: dict[str, Any]) -> str:
    from transformers.utils.chat_template_utils import render_jinja_template

    tokens = {name: chat.get(name) or "" for name in ("bos_token", "eos_token")}
    message = {"role": "user", "content": MARK}
    try:
        (text,), _ = render_jinja_template(
            [[message]], chat_template=template, add_generation_prompt=True, date_string="1 January 2026", **tokens
        )
    except Exception as error:  # a template is a program
        raise ModelError(f"the chat template cannot be used ({brief(error)}): fetch the model again") from error
    if text.count(MARK) != 1:
        raise ModelError("the chat template does not show a message once: use a model with another template, or none")
    return str(text)


def _growth(step: Any) -> float:
    """How many characters a step may make of one: steps in a row can fill any memory."""
    if not isinstance(step, dict):
        return 1
    if isinstance(parts := step.get("normalizers", step.get("pretokenizers", step.get("processors"))), list):
        return math.prod(map(_growth, parts))
    if isinstance(specials := step.get("special_tokens"), dict):
        longest = max((len(one["ids"]) for one in specials.values()), default=1)
        return float(len([*step["single"], *step["pair"]]) * longest)
    if "pattern" in step and "content" in step:
        return max(1.0, len(step["content"]) / max(1, len(step["pattern"].get("String", ""))))
    if "precompiled_charsmap" in step:
        raw = base64.b64decode(step["precompiled_charsmap"])
        return max(map(len, raw[4 + int.from_bytes(raw[:4], "little") :].split(b"\0")))
    return 1 + len(step["prepend"]) if "prepend" in step else GROWTH.get(str(step.get("type")), 1)


@contextmanager
def _model_errors() -> Iterator[None]:
    """Within, errors of the library become a ModelError."""
    try:
        yield
    except BaseException as error:  # the library raises nothing more special, and its panics are not even that
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ModelError(f"tokenizer.json cannot be used ({brief(error)}): copy or fetch the encoder again") from error


def _without_surrogates(text: str) -> str:
    """JSON can hold half of a surrogate pair, but no encoding of Unicode can."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def tokenizer_of(files: EncoderFiles) -> PieceTokenizer:
    return _built(files.tokenizer)


@lru_cache(maxsize=4)
def chat_of(files: EncoderFiles) -> ChatTokenizer:
    return ChatTokenizer(files)


@lru_cache(maxsize=4)
def _built(text: str) -> PieceTokenizer:
    """Building a tokenizer takes longer than most texts take."""
    return PieceTokenizer(text)
