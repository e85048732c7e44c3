"""Pretrained encoders for tests: tiny, random and made in place, in the layout of Hugging Face's folders."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from memgrow.data import synthetic_stream

HIDDEN, LAYERS, HEADS, WIDTH, POSITIONS = 16, 2, 2, 32, 64


@dataclass(frozen=True)
class Family:
    """A family of encoders: its special tokens, and the settings that only its configuration has."""

    start: str
    end: str
    pad: str
    unknown: str
    mask: str
    bytes: bool  # byte-level BPE, else word pieces
    settings: dict[str, Any]

    @property
    def specials(self) -> tuple[str, ...]:
        return (self.start, self.pad, self.end, self.unknown, self.mask)  # 1 is padding, as RoBERTa has it


BERT = {
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": WIDTH,
    "max_position_embeddings": POSITIONS,
}
DISTILBERT = {
    "dim": HIDDEN,
    "n_layers": LAYERS,
    "n_heads": HEADS,
    "hidden_dim": WIDTH,
    "max_position_embeddings": POSITIONS,
}
MODERNBERT = {**BERT, "global_attn_every_n_layers": 2, "local_attention": 8}
PIECES = ("[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]")
FAMILIES = {
    "bert": Family(*PIECES, bytes=False, settings=BERT),
    "distilbert": Family(*PIECES, bytes=False, settings=DISTILBERT),
    # RoBERTa counts positions from the one after the padding's number.
    "roberta": Family("<s>", "</s>", "<pad>", "<unk>", "<mask>", True, {**BERT, "max_position_embeddings": 66}),
    "modernbert": Family(*PIECES, bytes=True, settings=MODERNBERT),
}


# Families that are not among those which memgrow promises, with BERT's tokenizer. RoBERTa's kin have more positions.
WORD_PIECES = FAMILIES["bert"]
OTHERS = {
    "electra": replace(WORD_PIECES, settings={**BERT, "embedding_size": HIDDEN}),
    "albert": replace(WORD_PIECES, settings={**BERT, "embedding_size": HIDDEN}),
    "deberta-v2": replace(WORD_PIECES, settings=BERT),
    "fnet": replace(WORD_PIECES, settings=BERT),
    "longformer": replace(WORD_PIECES, settings={**BERT, "max_position_embeddings": 66, "attention_window": 8}),
    **{
        name: replace(WORD_PIECES, settings={**BERT, "max_position_embeddings": 66})
        for name in ("mpnet", "xlm-roberta", "camembert", "xmod")
    },
}


def make_encoder(folder: str | Path, family: str = "bert", seed: int = 0) -> Path:
    """Write config.json, tokenizer.json and model.safetensors of a small random encoder; the same for the same seed."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in encoder_files(family, seed).items():
        (folder / name).write_bytes(content)
    return folder


@cache  # dozens of tests want the same one
def encoder_files(family: str, seed: int) -> dict[str, bytes]:
    with TemporaryDirectory() as folder:
        build_encoder(Path(folder), family, seed)
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def build_encoder(folder: Path, family: str, seed: int) -> None:
    from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast
    from transformers.utils import logging

    kind = {**FAMILIES, **OTHERS}[family]
    tokenizer = make_tokenizer(kind)
    number = {token: tokenizer.token_to_id(token) for token in kind.specials}
    special = {
        "pad_token_id": number[kind.pad],
        "bos_token_id": number[kind.start],
        "cls_token_id": number[kind.start],
        "sep_token_id": number[kind.end],
        "eos_token_id": number[kind.end],
    }
    config = AutoConfig.for_model(family, vocab_size=tokenizer.get_vocab_size(), **special, **kind.settings)
    shows_bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModel.from_config(config)
    model.save_pretrained(folder)
    if shows_bars:
        logging.enable_progress_bar()
    named = {"cls_token": kind.start, "sep_token": kind.end, "pad_token": kind.pad, "unk_token": kind.unknown}
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, mask_token=kind.mask, model_max_length=POSITIONS, **named
    ).save_pretrained(folder)


def make_tokenizer(family: Family, texts: Iterable[str] | None = None) -> Tokenizer:
    """A tokenizer of a few hundred pieces, from the texts of a synthetic stream."""
    texts = generated_texts() if texts is None else list(texts)
    tokenizer = _byte_pairs(family, texts) if family.bytes else _word_pieces(family, texts)
    start, end = ((token, tokenizer.token_to_id(token)) for token in (family.start, family.end))
    if family.start == "<s>":
        tokenizer.post_processor = processors.RobertaProcessing(end, start, add_prefix_space=False)
    else:
        tokenizer.post_processor = processors.BertProcessing(end, start)
    return tokenizer


def generated_texts() -> list[str]:
    stream = synthetic_stream(domains=3, train=40, validation=1, test=1, seed=3)
    return [text for domain in stream for example in domain.train for text in example.texts]


def _word_pieces(family: Family, texts: list[str]) -> Tokenizer:
    """All letters, within a word and at its start, and the most frequent words."""
    counts = Counter(word for text in texts for word in text.lower().split() if word.isalpha())
    words = sorted(counts, key=lambda word: (-counts[word], word))[:150]
    letters = sorted({chr(code) for code in range(33, 127)} - {chr(code) for code in range(65, 91)})
    pieces = [*family.specials, *letters, *(f"##{letter}" for letter in letters)]
    pieces += [word for word in words if word not in letters]
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token=family.unknown))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(list(family.specials))
    return tokenizer


def _byte_pairs(family: Family, texts: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=list(family.specials),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def edit_config(folder: str | Path, **changes: Any) -> None:
    """Change settings of a folder's config.json; None takes one away."""
    path = Path(folder, "config.json")
    config = {**json.loads(path.read_bytes()), **changes}
    kept = {name: value for name, value in config.items() if name not in changes or value is not None}
    path.write_text(json.dumps(kept), encoding="utf-8")
