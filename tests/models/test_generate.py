"""Replies: a batch is answered as its members are alone, scores are those of teacher forcing, every reply ends."""

import copy
import itertools

import pytest
import torch

from memgrow.data.text import UNKNOWN_INDEX
from memgrow.errors import SettingsError
from memgrow.models import ModelSettings, build
from memgrow.models.generate import generate

WORDS = 13
KINDS = {
    "gru": {"cell": "gru", "bidirectional": False},
    "lstm, two layers": {"cell": "lstm", "layers": 2, "slot_size": 3},
    "tied rnn, plain": {"cell": "rnn", "bidirectional": False, "tied": True, "slots": 0},
}
SETTINGS = {"greedy": {}, "beam": {"beam": 4}}


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
        model(words, lengths, replies, ends).total.backward()
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
    together = generate(model, words, lengths, max_words=12, **settings)
    assert len({reply.words for reply in together}) > 3
    assert len({len(reply.words) for reply in together}) > 1, "some end before others"
    for row, reply in list(enumerate(together))[::2]:
        one = words[row : row + 1, : lengths[row]], lengths[row : row + 1]
        alone = generate(model, *one, max_words=12, **settings)[0]
        assert (alone.words, alone.ended) == (reply.words, reply.ended)
        assert alone.score == pytest.approx(reply.score)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [*SETTINGS.values(), {"temperature": 0.8}], ids=[*SETTINGS, "drawn"])
def test_a_score_is_what_teacher_forcing_gives_the_reply(model, settings):
    with torch.no_grad():
        model.heads[-1].output.bias[UNKNOWN_INDEX] = -1e9  # which decoding leaves out of account
    words, lengths = messages()
    model.eval()
    for row, reply in enumerate(generate(model, words, lengths, max_words=12, **settings)):
        said = torch.tensor([reply.words], dtype=torch.long).view(1, -1)
        loss = model(words[row : row + 1], lengths[row : row + 1], said, torch.tensor([len(reply.words)])).tokens[0]
        assert reply.score == pytest.approx(-float(loss.sum() if reply.ended else loss[:-1].sum()), abs=1e-6)


def test_greedy_takes_the_best_word_at_every_step(model):
    words, lengths = messages(4)
    model.eval()
    for row, reply in enumerate(generate(model, words, lengths, max_words=5)):
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
    for reply in generate(model, *messages(), max_words=6, **settings):
        assert len(reply.words) == 6
        assert not reply.ended


@pytest.mark.parametrize("settings", [*SETTINGS.values(), {"temperature": 3.0}], ids=[*SETTINGS, "drawn"])
def test_unknown_words_and_padding_are_never_said(model, settings):
    with torch.no_grad():
        model.heads[-1].output.bias[UNKNOWN_INDEX] = 50.0
    for reply in generate(model, *messages(40), max_words=8, **settings):
        assert all(2 <= word < WORDS for word in reply.words)
        assert -100 < reply.score <= 0


def test_decoding_leaves_no_trace_and_knows_no_dropout(model):
    model.train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    first = generate(model, *messages(), beam=2, max_words=8)
    assert model.training
    assert first == generate(model.eval(), *messages(), beam=2, max_words=8)
    assert not model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert model.decoder.columns[0].backend == "auto"
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(
    "wrong",
    [
        {"beam": 0},
        {"max_words": 0},
        {"temperature": 0.0},
        {"temperature": float("nan")},
        {"beam": 2, "temperature": 1.0},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused_in_a_sentence(model, wrong):
    with pytest.raises(SettingsError, match=r"beam|max_words|temperature"):
        generate(model, *messages(2), **wrong)


# Beam search: a wide beam finds what exhaustive search finds

FEW, LONGEST = 5, 3  # three words to choose from, beside the end and the unknown word
SHAPES = {
    "gru": {"cell": "gru", "bidirectional": False},
    "lstm, two layers": {"cell": "lstm", "layers": 2},
    "tied rnn": {"cell": "rnn", "tied": True},
}


@pytest.fixture(params=itertools.product(SHAPES, range(2)), ids=lambda given: f"{given[0]} {given[1]}")
def sure(request):
    """Sure enough of itself that the best reply is seldom the shortest; an unknown word is as good as impossible."""
    shape, seed = request.param
    torch.manual_seed(seed)
    model = build("reply", ModelSettings(embedding=6, hidden=5, slots=4, **SHAPES[shape]), FEW).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith(("heads", "decoder")):
                parameter.mul_(2.5)
        model.heads[-1].output.bias[:2] = torch.tensor([-0.5, -1e9])
    return model


MESSAGES, LENGTHS = torch.tensor([[2, 3, 4], [4, 0, 0], [3, 3, 0]]), torch.tensor([3, 1, 2])


@torch.no_grad()
def every_reply(model, row):
    """All replies of up to LONGEST words and their log-probabilities, by teacher forcing."""
    replies = [r for n in range(LONGEST + 1) for r in itertools.product(range(2, FEW), repeat=n)]
    padded = torch.tensor([[*r, *[0] * (LONGEST - len(r))] for r in replies])
    message = MESSAGES[row : row + 1, : LENGTHS[row]].expand(len(replies), -1)
    lengths = torch.full((len(replies),), int(LENGTHS[row]))
    loss = model(message, lengths, padded, torch.tensor([len(r) for r in replies])).tokens.sum(1)
    return dict(zip(replies, (-loss).tolist(), strict=True))


def test_a_wide_beam_equals_exhaustive_search(sure):
    found = generate(sure, MESSAGES, LENGTHS, beam=150, max_words=LONGEST)
    for row, reply in enumerate(found):
        scores = every_reply(sure, row)
        best = max(scores, key=lambda words: scores[words] / (len(words) + 1))
        assert reply.words == best
        assert reply.score == pytest.approx(scores[best], abs=1e-6)
        assert reply.ended


def test_a_reply_that_ended_goes_before_one_that_was_cut(sure):
    with torch.no_grad():
        sure.heads[-1].output.bias[0] = -8.0  # so that ended replies are found, and worth less than those that go on
    for reply in generate(sure, MESSAGES, LENGTHS, beam=150, max_words=LONGEST):
        assert reply.ended


# Sampling

SOME = 7


@pytest.fixture
def peaked():
    torch.manual_seed(2)
    model = build("reply", ModelSettings(cell="gru", embedding=6, hidden=5, slots=4), SOME)
    with torch.no_grad():
        model.heads[-1].output.weight.mul_(4)
    return model


def drawn(model, words, seed=0, temperature=1.0, max_words=8):
    generator, lengths = torch.Generator().manual_seed(seed), torch.full((len(words),), words.shape[1])
    return generate(model, words, lengths, temperature=temperature, max_words=max_words, generator=generator)


def sampled_messages(count):
    return torch.randint(2, SOME, (count, 4), generator=torch.Generator().manual_seed(9))


def test_neighbours_never_matter(peaked):
    words, other = sampled_messages(30), sampled_messages(60)[30:]
    other[::3] = words[::3]
    first, second = drawn(peaked, words), drawn(peaked, other)
    assert [r.words for r in first[::3]] == [r.words for r in second[::3]]
    assert [r.score for r in first[::3]] == pytest.approx([r.score for r in second[::3]], rel=1e-5)
    assert drawn(peaked, words[:1])[0].words == first[0].words, "the first of a batch is drawn as it is alone"


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_words_come_as_often_as_the_model_says(peaked, temperature):
    one = torch.tensor([[3, 5, 2]])
    count = 6000
    replies = drawn(peaked, one.expand(count, -1), temperature=temperature, max_words=1)
    firsts = torch.tensor([reply.words[0] if reply.words else 0 for reply in replies])
    found = torch.bincount(firsts, minlength=SOME) / count
    with torch.no_grad():
        message, lengths = one.expand(SOME, -1), torch.full((SOME,), 3)
        said = torch.arange(SOME).unsqueeze(1)
        log = -peaked(message, lengths, said, torch.ones(SOME, dtype=torch.long)).tokens[:, 0]
        log[0] = -peaked(message, lengths, said, torch.zeros(SOME, dtype=torch.long)).tokens[0, 0]
    log[1] = float("-inf")
    expected = torch.softmax(log / temperature, 0)
    assert (found - expected).abs().max() < 4 * (0.25 / count) ** 0.5
    assert expected[2:].max() < 0.95, "or there would be nothing to see"
