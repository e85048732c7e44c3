"""A tokenizer that the library tokenizers cannot use is refused with a sentence, before a text is read with it."""

import json

import pytest

from memgrow.data import Example
from memgrow.errors import ModelError
from memgrow.models.pretrained.files import read_encoder
from memgrow.models.pretrained.tokenizer import PieceTokenizer
from tests.support.tiny_encoder import make_encoder


def pieces(**numbers: int) -> str:
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "vocab": numbers}
    return json.dumps({"version": "1.0", "added_tokens": [], "model": {**model, "max_input_chars_per_word": 100}})


@pytest.mark.parametrize("text", ["{", "[]", '{"model": 5}'])
def test_what_is_no_tokenizer_is_told(text):
    with pytest.raises(ModelError, match=r"tokenizer.json cannot be used .*copy or fetch"):
        PieceTokenizer(text)


def test_one_without_a_piece_for_unknown_words_is_found_before_a_text_has_any():
    tokenizer = PieceTokenizer(pieces(a=0))
    with pytest.raises(ModelError, match="cannot be used"):
        tokenizer.check(1)
    with pytest.raises(ModelError, match="cannot be used"):
        tokenizer.tokenized([Example("b")], 8, False)


def test_one_with_more_pieces_than_the_model_has_embeddings_is_refused():
    tokenizer = PieceTokenizer(pieces(**{"[UNK]": 0, "a": 7}))
    tokenizer.check(8)
    with pytest.raises(ModelError, match="8 pieces and the model 7"):
        tokenizer.check(7)


def test_a_piece_around_a_text_that_the_model_has_no_embedding_for_is_refused(tmp_path):
    folder = make_encoder(tmp_path / "tiny")
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text())
    name, number = content["post_processor"]["cls"]
    embeddings = json.loads((folder / "config.json").read_text())["vocab_size"]
    PieceTokenizer(json.dumps(content)).check(embeddings)
    content["post_processor"]["cls"] = [name, number + 2**31]
    with pytest.raises(ModelError, match="it is of another model"):
        PieceTokenizer(json.dumps(content)).check(embeddings)
    path.write_text(json.dumps(content))
    with pytest.raises(ModelError, match="it is of another model"):
        read_encoder(folder)
