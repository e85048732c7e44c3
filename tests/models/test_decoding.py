"""Replies: a batch decodes as its members do alone, steps are those of teacher forcing, and every reply has an end."""

import copy

import pytest
import torch

from memgrow.data.vocabulary import UNKNOWN_INDEX
from memgrow.errors import SettingsError
from memgrow.models import ModelSettings, build
from memgrow.models.decoding import decode

WORDS = 13
KINDS = {
    "gru": {"cell": "gru", "bidirectional": False},
    "plain gru": {"cell": "gru", "slots": 0},
    "lstm, two layers": {"cell": "lstm", "layers": 2, "slot_size": 3},
    "tied rnn": {"cell": "rnn", "bidirectional": False, "tied": True},
}
SETTINGS = {"greedy": {}, "beam": {"beam": 4}, "beam without normalising": {"beam": 3, "alpha": 0.0}}


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def practised(request):
    """A model of two columns that has learnt some replies of several lengths, half by heart."""
    torch.manual_seed(5)
    settings = ModelSettings(**{"embedding": 6, "hidden": 7, "slots": 4, "dropout": 0.1, **request.param})
    model = build("reply", settings, WORDS, domain="first")
    model.grow(slots=3, initial_logit_bias=-1.0, domain="second")
    model.add_column(5, 2, "third")
    model.double()
    words, lengths = messages()
    replies, ends = torch.randint(2, WORDS, (len(words), 8)), torch.arange(len(words)) % 9
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(40):
        optimizer.zero_grad()
        model(words, lengths, replies, ends).mean.backward()
        optimizer.step()
    optimizer.zero_grad()
    return model


@pytest.fixture
def model(practised):
    return copy.deepcopy(practised)


def messages(count=18):
    generator = torch.Generator().manual_seed(6)
    lengths = torch.randint(1, 8, (count,), generator=generator)
    return torch.randint(1, WORDS, (count, 7), generator=generator), lengths


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_batch_decodes_as_its_members_do_alone(model, settings):
    words, lengths = messages()
    together = decode(model, words, lengths, max_words=12, **settings)
    assert len({reply.words for reply in together}) > 3
    assert len({len(reply.words) for reply in together}) > 1, "some end before others"
    for row, reply in list(enumerate(together))[::2]:
        alone = decode(model, words[row : row + 1, : lengths[row]], lengths[row : row + 1], max_words=12, **settings)[0]
        assert (alone.words, alone.ended) == (reply.words, reply.ended)
        assert alone.score == pytest.approx(reply.score)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [*SETTINGS.values(), {"temperature": 0.8}], ids=[*SETTINGS, "drawn"])
def test_a_score_is_what_teacher_forcing_gives_the_reply(model, settings):
    with torch.no_grad():
        model.heads[-1].output.bias[UNKNOWN_INDEX] = -1e9  # which decoding leaves out of account
    words, lengths = messages()
    model.eval()
    for row, reply in enumerate(decode(model, words, lengths, max_words=12, **settings)):
        said = torch.tensor([reply.words], dtype=torch.long).view(1, -1)
        loss = model(words[row : row + 1], lengths[row : row + 1], said, torch.tensor([len(reply.words)])).tokens[0]
        assert reply.score == pytest.approx(-float(loss.sum() if reply.ended else loss[:-1].sum()), abs=1e-6)


def test_greedy_takes_the_best_word_at_every_step(model):
    words, lengths = messages(4)
    model.eval()
    for row, reply in enumerate(decode(model, words, lengths, max_words=5)):
        for number in range(len(reply.words) + reply.ended):
            rivals = torch.tensor([[*reply.words[:number], word] for word in range(2, WORDS)])
            many = (len(rivals), -1)
            with torch.no_grad():
                given = words[row].expand(many), lengths[row].expand(len(rivals))
                losses = model(*given, rivals, torch.full((len(rivals),), number + 1)).tokens
                end = model(*given, rivals, torch.full((len(rivals),), number)).tokens[0, number]
            best = 0 if end < losses[:, number].min() else int(losses[:, number].argmin()) + 2
            assert best == (*reply.words, 0)[number]


@pytest.mark.parametrize("settings", [*SETTINGS.values(), {"temperature": 1.0}], ids=[*SETTINGS, "drawn"])
def test_a_reply_that_never_ends_is_cut_and_says_so(model, settings):
    with torch.no_grad():
        model.heads[-1].output.bias[0] = -1e9
    for reply in decode(model, *messages(), max_words=6, **settings):
        assert len(reply.words) == 6
        assert not reply.ended


def test_a_reply_of_exactly_the_largest_length_has_ended_and_of_one_more_is_cut(model):
    words, lengths = messages()
    replies = [(row, r) for row, r in enumerate(decode(model, words, lengths, max_words=60)) if r.ended and r.words[1:]]
    assert replies
    for row, reply in replies:
        size = len(reply.words)
        one = words[row : row + 1], lengths[row : row + 1]
        whole = decode(model, *one, max_words=size)[0]
        assert (whole.words, whole.ended) == (reply.words, True)
        assert whole.score == pytest.approx(reply.score)
        cut = decode(model, *one, max_words=size - 1)[0]
        assert (cut.words, cut.ended) == (reply.words[:-1], False)


@pytest.mark.parametrize("settings", [*SETTINGS.values(), {"temperature": 3.0}], ids=[*SETTINGS, "drawn"])
def test_unknown_words_and_padding_are_never_said(model, settings):
    with torch.no_grad():
        model.heads[-1].output.bias[UNKNOWN_INDEX] = 50.0
    for reply in decode(model, *messages(40), max_words=8, **settings):
        assert all(2 <= word < WORDS for word in reply.words)
        assert -100 < reply.score <= 0


@pytest.mark.slow
def test_unknown_words_alone_and_very_long_messages_are_answered(model):
    words = torch.ones(2, 1000, dtype=torch.long)
    words[1] = torch.arange(1000) % (WORDS - 2) + 2
    replies = decode(model, words, torch.tensor([1, 1000]), max_words=3)
    assert len(replies) == 2
    assert replies[0].words == decode(model, words[:1, :1], torch.tensor([1]), max_words=3)[0].words


def test_decoding_leaves_no_trace_and_knows_no_dropout(model):
    model.train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    first = decode(model, *messages(), beam=2, max_words=8)
    assert model.training
    assert first == decode(model.eval(), *messages(), beam=2, max_words=8)
    assert not model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert model.decoder.columns[0].backend == "auto"
    assert all(parameter.grad is None for parameter in model.parameters())


def test_no_messages_have_no_replies(model):
    assert decode(model, torch.zeros(0, 4, dtype=torch.long), torch.zeros(0, dtype=torch.long)) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"beam": 0},
        {"max_words": 0},
        {"temperature": 0.0},
        {"temperature": float("nan")},
        {"beam": 2, "alpha": -1.0},
        {"beam": 2, "temperature": 1.0},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused_in_a_sentence(model, wrong):
    with pytest.raises(SettingsError, match=r"beam|max_words|temperature|alpha"):
        decode(model, *messages(2), **wrong)
