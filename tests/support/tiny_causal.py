"""Tiny random causal language models for tests, in the layout of Hugging Face's folders."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from research.common.dialogues import synthetic_dialogue

TEMPLATE = (
    "{% for message in messages %}<start>{{ message['role'] }}\n{{ message['content'] }}<end>\n{% endfor %}"
    "{% if add_generation_prompt %}<start>assistant\n{% endif %}"
)
POSITIONS = 128


def make_causal(folder: Path, family: str = "llama", *, template: bool = True, seed: int = 0) -> Path:
    """Write a small random model; the same for the same seed."""
    from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

    tokenizer = _tokenizer()
    config = AutoConfig.for_model(
        family,
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=POSITIONS,
        initializer_range=0.5,  # with usual ones nothing but the embeddings could change an answer
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder)
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<start>", eos_token="<end>")
    made.chat_template = TEMPLATE if template else None
    made.save_pretrained(folder)
    return folder


def _tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<start>", "<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    stream = synthetic_dialogue(domains=2, train=40, validation=1, test=1)
    tokenizer.train_from_iterator(
        [one for domain in stream for row in domain.train for one in (row.text, row.reply)], trainer
    )
    return tokenizer
