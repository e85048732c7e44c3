"""A generated stream of many domains, and a small Transformer that knows its words.

Each domain has things of its own to speak of, and its own reading of four words that all share: what is good in one
domain is bad in another.
"""

import random
from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from memgrow.data import Domain, Example, Stream

SHARED, THINGS = 4, 6
SPECIALS = ("[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]")
WIDTH, LAYERS = 64, 2


def words_of(count: int, seed: str) -> list[str]:
    chance, found = random.Random(seed), {}
    while len(found) < count:
        found["".join(chance.choice("bdfgklmnprstvz") + chance.choice("aeiou") for _ in range(3))] = None
    return list(found)


def make_stream(domains: int, sizes: Sequence[int]) -> Stream:
    words = words_of(SHARED + THINGS * domains, "words")
    shared, things = words[:SHARED], words[SHARED:]
    return Stream(
        make_domain(f"d{number:03}", shared, things[THINGS * number : THINGS * (number + 1)], sizes)
        for number in range(domains)
    )


def make_domain(name: str, shared: Sequence[str], things: Sequence[str], sizes: Sequence[int]) -> Domain:
    chance = random.Random(name)
    good = set(chance.sample(shared, SHARED // 2))
    parts = []
    for size in sizes:
        rows = []
        for _ in range(size):
            word = chance.choice(shared)
            said = [*chance.sample(things, 3), word]
            chance.shuffle(said)
            rows.append(Example(" ".join(said), label="good" if word in good else "bad"))
        parts.append(tuple(rows))
    return Domain(name, *parts)


def make_encoder(folder: Path, stream: Stream, width: int = WIDTH, layers: int = LAYERS, longest: int = 32) -> Path:
    """A small random BERT with a piece for each word of the stream, in the layout of Hugging Face's folders."""
    from transformers import BertConfig, BertModel

    words = sorted({word for domain in stream for example in domain.train for word in example.text.split()})
    numbers = {word: number for number, word in enumerate((*SPECIALS, *words))}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 1), ("[CLS]", 0))
    tokenizer.add_special_tokens(list(SPECIALS))
    config = BertConfig(
        vocab_size=len(numbers),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=2 * width,
        max_position_embeddings=longest,
        pad_token_id=2,
        initializer_range=0.2,
    )
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
