"""An encoder from outside the package: a subclass and a row in ENCODERS are all that it takes."""

import pytest
import torch
from memgrow.lockstep import adapt_together
from torch import Tensor, nn

from memgrow.data import Domain, Example
from memgrow.data.synthetic_dialogue import synthetic_dialogue
from memgrow.data.text import tokenize
from memgrow.data.vocabulary import Vocabulary
from memgrow.errors import ModelError, SettingsError
from memgrow.learner import Learner
from memgrow.methods import METHODS, MethodSettings, Trains
from memgrow.models import ENCODERS, Encoder, ModelSettings
from memgrow.nn import MemoryBank
from memgrow.report.learner import about
from memgrow.report.reading import reading_shares
from memgrow.training.settings import TrainingSettings
from research.theorem.measure import measure
from tests.support.breaking import Plug, PulledPlug

LETTERS = ["F+V+E", "F+V+A", "F+M+V+A+D", "F+M+V+Q+L", "EWC+M+V", "multi-task+E"]
SUITABLE = [name for name, method in METHODS.items() if method.needs(ModelSettings()) is None]
GROWS_OTHERWISE = {"F+H": "hidden units", "F+H+V": "hidden units", "Progressive": "columns"}


class MeanEncoder(Encoder):
    """The mean over words of a perceptron's answer to a word's vector and of what that finds in a memory."""

    def __init__(self, settings: ModelSettings, words: int, domain: str | None = None) -> None:
        super().__init__(settings, words, domain)
        self.vectors = nn.Embedding(words, settings.embedding, padding_idx=0)
        self.inner = nn.Sequential(nn.Linear(settings.embedding, settings.hidden), nn.Tanh())
        self.bank = MemoryBank(settings.hidden, settings.slot_size or settings.hidden, settings.slots, domain)

    @property
    def sizes(self) -> list[int]:
        return [self.bank.keys.shape[1] + self.bank.values.shape[1]]

    @property
    def vocabulary_size(self) -> int:
        return self.vectors.num_embeddings

    @property
    def word_vectors(self) -> nn.Embedding:
        return self.vectors

    @property
    def banks(self) -> tuple[MemoryBank]:
        return (self.bank,)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        states, content, _ = self._look(words)
        inside = _inside(words, lengths).unsqueeze(-1)
        return (torch.cat((states, content), dim=-1) * inside).sum(1) / lengths.to(states).unsqueeze(1)

    def reading(self, words: Tensor, lengths: Tensor) -> list[dict[str, Tensor]]:
        return [self.bank.share(self._look(words)[2] * _inside(words, lengths).unsqueeze(-1))]

    def _look(self, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        states = self.inner(self.vectors(words))
        return states, *self.bank.attend(states)


def _inside(words: Tensor, lengths: Tensor) -> Tensor:
    return torch.arange(words.shape[1], device=words.device) < lengths.to(words.device).unsqueeze(1)


class SyllableEncoder(MeanEncoder):
    """The same with a tokenizer and a vocabulary of its own: the first two letters of a word, and the rest."""

    @classmethod
    def tokenizer(cls, settings):
        return lambda text: [piece for word in tokenize(text) for piece in (word[:2], word[2:]) if piece]

    @classmethod
    def first_vocabulary(cls, settings):
        return Vocabulary(["th", "e", "is"])


@pytest.fixture(autouse=True)
def encoders(monkeypatch):
    monkeypatch.setitem(ENCODERS, "mean", MeanEncoder)
    monkeypatch.setitem(ENCODERS, "syllables", SyllableEncoder)


def make(method: str, seed: int = 0, cell: str = "mean", **sizes: int) -> Learner:
    return Learner.create(
        method,
        model=ModelSettings(cell=cell, **{"embedding": 6, "hidden": 5, "slots": 4, "perceptron": 16, **sizes}),
        training=TrainingSettings(rate=0.01, batch=16, epochs=2),
        options=MethodSettings(slots=3, fisher_examples=10),
        seed=seed,
        device="cpu",
    )


def same_bits(one: Learner, other: Learner) -> bool:
    ours, theirs = one.trained().state_dict(), other.trained().state_dict()
    return list(ours) == list(theirs) and all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "slots"),
    [
        *((name, 4) for name in (*SUITABLE, *LETTERS) if name not in GROWS_OTHERWISE),
        # Without any, and with some that grow of none
        *((name, 0) for name in ("F", "F+M+V", "frozen+M", "EWC+M+V", "multi-task")),
    ],
)
def test_every_method_that_has_a_meaning_for_it_learns_saves_and_loads(method, slots, stream, tmp_path):
    learner = make(method, slots=slots)
    learner.learn(stream, folder=tmp_path / "model")
    again = Learner.load(tmp_path / "model", device="cpu")
    assert same_bits(learner, again)
    assert again.vocabulary == learner.vocabulary
    assert again.trained().vocabulary_size == len(learner.vocabulary)
    assert again.evaluate(stream) == learner.evaluate(stream)
    texts = stream[0].test[:5]
    assert again.predict(texts) == learner.predict(texts)
    told, owners = about(again), stream.names if slots else stream.names[1:]
    if "slots" in learner.method.grows:
        assert tuple(told.slots_in_each_bank) == owners
    assert not told.hidden_units
    (shares,) = reading_shares(again, texts[0])
    assert sum(shares.values()) == pytest.approx(1 if told.banks else 0)


@pytest.mark.parametrize("method", ["F+M+V", "frozen+M", "F+V+A+E", "EWC"])
def test_a_run_that_was_broken_off_ends_with_the_same_bits(method, stream, tmp_path, monkeypatch):
    monkeypatch.setattr("memgrow.training.loop.REPORT_EVERY_S", -1.0)
    whole = make(method)
    for domain in stream[:2]:
        whole.adapt(domain, folder=tmp_path / "whole")
    broken = make(method)
    for domain in stream[:2]:
        with pytest.raises(PulledPlug):
            broken.adapt(domain, folder=tmp_path / "broken", save_every=0, progress=Plug(2))
        broken.adapt(domain, folder=tmp_path / "broken")
    assert same_bits(whole, Learner.load(tmp_path / "broken", device="cpu"))


def test_new_slots_train_alone_where_all_else_is_frozen(stream):
    learner = make("frozen+M")
    learner.adapt(stream[0])
    old = {name: tensor.clone() for name, tensor in learner.trained().state_dict().items()}
    learner.adapt(stream[1])
    for name, tensor in learner.trained().named_parameters():
        before = tensor[: len(old[name])] if name in old else tensor
        moved = not torch.equal(before, old[name]) if name in old else False
        assert moved == name.startswith("heads."), name


@pytest.mark.parametrize(("method", "what"), GROWS_OTHERWISE.items())
def test_a_method_that_grows_otherwise_is_refused_before_anything_is_learnt(method, what, stream):
    with pytest.raises(SettingsError, match=f"adds {what}.*'mean' grows by slots and words alone"):
        make(method)
    learner = make("F")
    learner.adapt(stream[0])
    with pytest.raises(SettingsError, match=what):
        learner.use(method)
    with pytest.raises(SettingsError, match="'mean' cannot grow by hidden units"):
        learner.trained().grow(hidden=1)
    with pytest.raises(SettingsError, match="'mean' cannot grow by columns"):
        learner.trained().add_column(5)


def test_what_else_has_no_meaning_for_it_is_refused(stream):
    with pytest.raises(SettingsError, match="set cell to lstm, gru or rnn"):
        make("F").adapt(synthetic_dialogue(domains=1, train=48, validation=16, test=24)[0])
    learner = make("F")
    learner.adapt(stream[0])
    with pytest.raises(ModelError, match="the theorem is about recurrent networks, and 'mean' is none"):
        measure(learner, stream[0].test)
    with pytest.raises(SettingsError, match="cell 'mena' is not known; there are lstm, gru, rnn, mean"):
        ModelSettings(cell="mena")


def test_seeds_are_taught_one_after_another_with_a_note(stream):
    together, alone = ([make("F+M+V", seed) for seed in (0, 1)] for _ in range(2))
    progress = Plug()
    for domain in stream[:2]:
        adapt_together(together, domain, progress=progress)
        for learner in alone:
            learner.adapt(domain)
    assert all(map(same_bits, together, alone))
    assert any("one after another, as only models of one LSTM layer are stacked" in note for note in progress.notes)


def test_vectors_of_rare_words_wait_until_they_are_needed(stream, monkeypatch):
    learners = []
    for large in (10**9, 1):
        monkeypatch.setattr("memgrow.training.optimiser.LARGE", large)
        learners.append(make("F+V"))
        learners[-1].learn(stream[:2])
    plain, late = (learner.trained().state_dict() for learner in learners)
    assert all(torch.allclose(plain[name], late[name], atol=1e-4) for name in plain)
    assert not torch.equal(plain["encoder.vectors.weight"], late["encoder.vectors.weight"])


def test_an_encoder_may_bring_its_own_tokenizer_and_vocabulary(stream, tmp_path):
    learner = make("F+V", cell="syllables")
    learner.learn(stream[:2], folder=tmp_path / "model")
    again = Learner.load(tmp_path / "model", device="cpu")
    assert learner.vocabulary.words[2:5] == ("th", "e", "is")
    assert again.setup.tokenized([Example("the window")]).texts == [(["th", "e", "wi", "ndow"],)]
    assert again.predict(stream[0].test) == learner.predict(stream[0].test)


def test_the_encoder_names_no_parameter_and_methods_find_them_all(stream):
    learner = make("F+M+V")
    learner.adapt(stream[0])
    model = learner.trained()
    assert model.name_of(model.word_vectors.weight) == "encoder.vectors.weight"
    trains: Trains = METHODS["frozen+M"].trains(model, model)
    assert set(trains.since) == {name for name, _ in model.named_parameters() if name.startswith("heads.")}
    assert len(model.banks) == 1


def test_a_text_of_one_unknown_word_is_read(stream):
    learner = make("F+M+V")
    domain = stream[0]
    single = Domain(
        domain.name,
        tuple(Example(example.text, label=example.label) for example in domain.train),
        tuple(Example(example.text, label=example.label) for example in domain.validation),
        (),
    )
    learner.adapt(single)
    assert learner.task == "text"
    unknown, nothing = learner.predict(["xyzzy", "\u200b"])[0], learner.predict(["\u200b"])[0]
    assert unknown.probabilities == pytest.approx(nothing.probabilities, abs=1e-6)  # alone, it may be rounded otherwise
