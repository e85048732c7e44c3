"""Experiments keep tokens, as they read the same texts in every stage; nobody else does."""

from memgrow.data import synthetic_stream
from memgrow.models.pretrained.files import read_encoder
from memgrow.models.pretrained.tokenizer import tokenizer_of, tokens_kept
from tests.support.tiny_encoder import make_encoder


def test_kept_tokens_are_those_that_were_read_and_go_when_the_experiment_ends(tmp_path):
    tokenizer = tokenizer_of(read_encoder(make_encoder(tmp_path / "tiny"), "tiny"))
    domain = synthetic_stream(train=8, validation=4, test=4)[0]
    plain = tokenizer.tokenized(domain.train, 16, True)
    assert tokenizer.tokenized(domain.train, 16, True) is not plain
    with tokens_kept():
        first = tokenizer.tokenized(domain.train, 16, True)
        assert first == plain
        assert tokenizer.tokenized(list(domain.train), 16, True) is first
        assert tokenizer.tokenized(domain.train, 8, True) != first
        assert tokenizer.tokenized(domain.test, 16, True) != first
    assert tokenizer.tokenized(domain.train, 16, True) is not first
