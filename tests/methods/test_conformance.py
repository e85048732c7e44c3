"""What every method promises, on a network with memory, on a plain one, on one that replies, on a pretrained encoder.

Each method learns three domains once on each kind of network; the tests look at what was kept on the way. The second
domain brings a label that the first did not have, and the third does not have it.
"""

import gc
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from memgrow.lockstep import adapt_together
from memgrow.methods.plugin import old_part

from memgrow.data import Domain, Stream, synthetic_stream
from memgrow.data.batches import Encoded
from memgrow.data.synthetic_dialogue import synthetic_dialogue
from memgrow.errors import SettingsError
from memgrow.learner import Learner
from memgrow.methods import LETTERS, METHODS, Method, MethodSettings, Plugin, check_method, find_method
from memgrow.methods.lora import ADAPTED
from memgrow.models import ModelSettings, PretrainedSettings
from memgrow.training.defaults import RECURRENT as RECURRENT_TRAINING
from memgrow.training.settings import TrainingSettings
from tests.support.breaking import Plug
from tests.support.canaries import leaks, planted, rare_words
from tests.support.new_labels import NEW, with_label
from tests.support.tiny_encoder import make_encoder

SLOTS = 20  # for each later domain
KINDS = {
    "memory": ModelSettings(embedding=6, hidden=5, slots=4, perceptron=16, dropout=0.1),
    "plain": ModelSettings(embedding=6, hidden=5, slots=0, perceptron=16, dropout=0.1),
    "replies": ModelSettings(cell="gru", embedding=6, hidden=5, slots=4, bidirectional=False, dropout=0.1),
    "plain replies": ModelSettings(cell="gru", embedding=6, hidden=5, slots=0, bidirectional=False, dropout=0.1),
    **{
        family: PretrainedSettings(encoder="tiny", slots=4, key_size=4, best=2, dropout=0.1)
        for family in ("bert", "distilbert", "roberta", "modernbert")
    },
}
# `make check` has two kinds; `make test` those too that are not two others put together.
MARKS = {"memory": (), "bert": (), **dict.fromkeys(("distilbert", "roberta", "plain replies"), pytest.mark.extras)}
RECURRENT = [kind for kind, settings in KINDS.items() if not settings.kind.is_pretrained]
# What cannot be done with a kind of network, and is refused with a sentence.
REFUSED = {
    **dict.fromkeys(RECURRENT, ("LoRA", "ridge", "sparse")),
    "bert": ("F+V", "F+M+V", "F+H", "F+H+V", "Progressive"),
}
# Beyond the rows of the table, methods with letters.
LETTERED_ON = {
    **{kind: ["F+V+A"] for kind in RECURRENT},
    # Each letter once, with methods that it meets in an encoder alone: others have the same code as elsewhere.
    "bert": ["F+M+A", "F+D", "F+L", "F+M+Q", "EWC+M", "LoRA+E", "sparse+M"],
}
# Where there are no slots at first, what grows of nothing, and a few others.
WITHOUT_SLOTS = ("F+V", "F+M", "F+M+V", "frozen+M", "EWC+M+V", "F+H+V", "Progressive", "multi-task")
CASES = [
    (kind, method)
    for kind in LETTERED_ON
    for method in (WITHOUT_SLOTS if "plain" in kind else (*METHODS, *LETTERED_ON[kind]))
    if method not in REFUSED[kind]
]
# Other families of encoders have the same code around them: a few methods that reach into them.
CASES += [(kind, name) for kind in KINDS if kind not in REFUSED for name in ("frozen+M", "LoRA")]
Weights = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Learnt:
    """A learner after three domains, and what it was before."""

    learner: Learner
    weights: list[Weights]  # after each domain
    folders: list[Path]  # what was saved after each domain
    references: tuple[list[int], list[int]]  # to data of the first domain, before and after it was learnt


@pytest.fixture(
    params=[pytest.param(case, marks=MARKS.get(case[0], pytest.mark.slow), id="-".join(case)) for case in CASES],
    scope="module",
)
def case(request) -> tuple[str, str]:
    return request.param


@pytest.fixture(scope="module")
def kind(case) -> str:
    return case[0]


@pytest.fixture(scope="module")
def dialogues() -> Stream:
    return synthetic_dialogue(domains=3, train=48, validation=16, test=24)


@pytest.fixture(scope="module")
def stream(kind, stream, dialogues) -> Stream:
    return planted(dialogues if "replies" in kind else Stream([stream[0], with_label(stream[1]), stream[2]]))


@pytest.fixture(scope="module")
def learnt(case, stream, short, tmp_path_factory) -> Learnt:
    kind, method = case
    folder, before = tmp_path_factory.mktemp("learnt"), references(stream[0])
    # What auto is of, A and E alone read.
    options = MethodSettings(slots=SLOTS, fisher_examples=10, keep="auto", smooth="auto")
    model, training = KINDS[kind], replace(short, epochs=1, min_documents=RECURRENT_TRAINING.min_documents)
    if isinstance(model, PretrainedSettings):
        encoder = make_encoder(tmp_path_factory.mktemp("encoder"), kind)
        model, training = replace(model, encoder=str(encoder)), replace(training, new_rate=0.02, warm_up=2)
    learner = Learner.create(method, model=model, training=training, options=options, device="cpu")
    kept, folders, after = [], [], []
    for number in range(3):
        adapt(learner, stream, number)
        after = after or references(stream[0])
        kept.append(weights(learner))
        folders.append(folder / str(number))
        learner.save(folders[-1])
    return Learnt(learner, kept, folders, (before, after))


def adapt(learner: Learner, stream, number: int) -> None:
    earlier = stream[:number] if learner.method.together else ()
    learner.adapt(stream[number], earlier=earlier, watch=stream)


def weights(learner: Learner) -> Weights:
    return {name: tensor.clone() for name, tensor in learner.trained().state_dict().items()}


def references(domain: Domain) -> list[int]:
    """To parts of a domain, and how often its texts are there as numbers, which hold on to none of them."""
    gc.collect()
    encoded = sum(type(one) is Encoded and len(one) == len(domain.train) for one in gc.get_objects())
    return [*(sys.getrefcount(part) for part in (domain.train, domain.train[0], domain.train[0].text)), encoded]


@pytest.mark.parametrize(("kind", "method"), [(kind, name) for kind, names in REFUSED.items() for name in names])
def test_a_method_that_does_not_go_with_a_network_is_refused_with_a_sentence(kind, method):
    with pytest.raises(SettingsError, match=f"^{re.escape(method)} .*: (use|give) "):
        check_method(find_method(method), KINDS[kind])


def test_every_letter_is_tried_on_a_pretrained_encoder():
    tried = {letter for kind, method in CASES if kind == "bert" for letter in method.split("+")[1:]}
    assert tried == LETTERS.keys() - {"V"}, "which adds words: an encoder has pieces"


def test_three_domains_grow_the_model_as_promised(learnt, stream):
    learner, method = learnt.learner, learnt.learner.method
    first, *later = learner.history.stages
    assert first.grew.columns == 1
    for before, stage in zip((first, *later), later, strict=False):
        grew = stage.grew
        if method.afresh:
            assert grew.columns == 1
            continue
        if "column" in method.grows:
            assert (grew.slots, grew.hidden) == (learner.settings.slots, learner.settings.hidden)
        else:
            assert grew.slots == (SLOTS if "slots" in method.grows else 0)
            assert (grew.hidden > 0) == ("hidden" in method.grows)
        assert (grew.words > 0) == ("words" in method.grows)
        assert grew.columns == int("column" in method.grows)
        labels = 0 if stream[0].has_replies or stage is not later[0] else 1
        assert grew.labels == labels
        assert (stage.parameters > before.parameters) == bool(method.grows or labels)
    if "slots" in method.grows:
        expected = stream.names if learner.settings.slots else stream.names[1:]
        assert learner.trained().encoder.banks[0].domains == expected
    if "words" in learner.settings.kind.grows:
        assert learner.trained().vocabulary_size == len(learner.vocabulary)
    assert len(learner.history.matrix.rows) == 3
    assert set(learner.history.matrix.domains) == set(stream.names)


def test_new_labels_join_and_every_domain_is_tested(learnt, stream):
    learner = learnt.learner
    if stream[0].has_replies:
        assert learner.labels == ()
        return
    assert learner.labels == (*stream[0].labels, NEW)
    assert learner.classifier().labels == 4
    assert learner.history.labels == {domain.name: domain.labels for domain in stream}
    for row in learner.history.matrix.rows:
        assert row.scores.keys() == set(stream.names)
    known = sum(example.label != NEW for example in stream[1].test) / len(stream[1].test)
    assert learner.history.matrix.score(0, stream[1].name) <= known, "a label that it does not have counts as wrong"


@pytest.mark.parametrize("later", [1, 2])
def test_what_must_stay_frozen_keeps_its_bits_and_the_rest_trains(learnt, later):
    old, new = learnt.weights[later - 1 : later + 1]
    below = {name for name in old if not name.startswith("heads.")}
    beside = {name for name in below if not any(name.endswith(f".{layer}.weight") for layer in ADAPTED)}
    beside |= {name for name in below if "attention.output" in name}  # another "output.dense", of BERT
    around = {name for name in below if ".bank." not in name}
    frozen = {
        **dict.fromkeys(("frozen", "frozen+M", "frozen+M+A", "ridge"), below),
        **dict.fromkeys(("sparse", "sparse+A", "sparse+M"), around),
        **dict.fromkeys(("LoRA", "LoRA+A", "LoRA+E", "LoRA+M"), beside),
        "Progressive": set(old),
    }.get(learnt.learner.method.name, set())
    for name in frozen:
        kept = new[name]
        for dim, size in enumerate(old[name].shape):  # the part that was there before
            kept = kept.narrow(dim, 0, size)
        assert torch.equal(kept, old[name]), f"{name} was to stay as it is"
    for name, tensor in new.items():
        grown = name not in old or tensor.shape != old[name].shape
        if name not in frozen and not grown:
            assert not torch.equal(tensor, old[name]), f"{name} was to train"


@pytest.mark.slow
def test_saving_and_loading_between_domains_changes_nothing(learnt, stream, tmp_path):
    # After two domains a folder has all that it can have: what a method remembers of one, and what grew for the other.
    learner, twin = learnt.learner, Learner.load(learnt.folders[1], device="cpu")
    adapt(twin, stream, 2)
    twin.save(tmp_path / "model")
    twin = Learner.load(tmp_path / "model", device="cpu")
    ours, theirs = learnt.weights[-1], weights(twin)
    assert list(ours) == list(theirs)
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name
    assert twin.vocabulary == learner.vocabulary
    assert twin.history.matrix == learner.history.matrix
    for name, tensor in learner.plugins.tensors().items():
        assert torch.equal(tensor, twin.plugins.tensors()[name])


def test_prediction_needs_no_domain(learnt, stream):
    learner = Learner.load(learnt.folders[1], device="cpu")
    mixed = [example for domain in stream for example in domain.test]
    if stream[0].has_replies:
        assert len(learner.reply(mixed, max_words=5)) == len(mixed)
        return
    predictions = learner.predict(mixed)
    for prediction in predictions:
        assert sum(prediction.probabilities.values()) == pytest.approx(1, abs=1e-5)
        assert prediction.label == max(prediction.probabilities, key=prediction.probabilities.get)
    right = [p.label == e.label for p, e in zip(predictions[:24], stream[0].test, strict=True)]
    assert sum(right) / len(right) == pytest.approx(learner.evaluate(stream[0])[stream[0].name])


def test_no_word_of_a_single_document_is_in_any_file(learnt):
    """Each part of each domain has sentences with names, numbers and keys; tests/test_privacy.py has the rest."""
    found = {leak.partition(":")[0] for leak in leaks(learnt.folders[0].parent, rare_words(3))}
    keeps = learnt.learner.method.keeps_examples  # as it says wherever it is named
    assert found == ({f"{number}/rehearsal.json" for number in range(3)} if keeps else set())
    assert any(folder.joinpath("rehearsal.json").exists() for folder in learnt.folders) == keeps


def test_no_reference_to_a_domains_data_is_kept(learnt):
    more = [now > was for was, now in zip(*learnt.references, strict=True)]
    assert not any(more) or learnt.learner.method.keeps_examples


# Seeds that are stacked

BASES = {"Q": "F+M", "M": "EWC", "V": "EWC"}  # a method that a letter goes with, where F does not do
LETTERED = [f"{BASES.get(letter, 'F')}+{letter}" for letter in LETTERS]
FURTHER = ["F+V+A", "F+M+V+D", "F+M+V+Q+L", "EWC+M+V", "F+M+V+A+D+Q", "F+V+A+E", "multi-task+E"]


@pytest.fixture(scope="module")
def domains() -> list[Domain]:
    first, second = (
        Domain(domain.name, domain.train[:32], domain.validation[:20], domain.test[:12])
        for domain in synthetic_stream(seed=0)[:2]
    )
    return [first, with_label(second)]


def seeds(method: str, count: int = 2, keep: float | str = 0.5) -> list[Learner]:
    return [
        Learner.create(
            method,
            model=ModelSettings(embedding=6, hidden=5, slots=4, perceptron=7),
            training=TrainingSettings(rate=3e-3, epochs=2, batch=16),
            options=MethodSettings(fisher_examples=6, strength=50.0, keep=keep),
            seed=seed,
            device="cpu",
        )
        for seed in range(count)
    ]


def taught_together_and_alone(
    method: str, domains: list[Domain], keep: float | str = 0.5
) -> tuple[list[Learner], list[Learner], list[str]]:
    """The seeds trained by `adapt_together` and one by one, and what was said."""
    company, alone, ear = seeds(method, keep=keep), seeds(method, keep=keep), Plug()
    for number, domain in enumerate(domains):
        earlier = domains[:number] if company[0].method.together else ()
        adapt_together(company, domain, earlier=earlier, progress=ear)
        for learner in alone:
            learner.adapt(domain, earlier=earlier)
    return company, alone, ear.notes


def assert_alike(ours: Learner, theirs: Learner) -> None:
    for (name, p), (_, q) in zip(ours.model.named_parameters(), theirs.model.named_parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-3, atol=2e-3, msg=lambda text, name=name: f"{name}: {text}")
    for name, tensor in theirs.plugins.tensors().items():
        torch.testing.assert_close(ours.plugins.tensors()[name], tensor, rtol=2e-2, atol=2e-3)
    for a, b in zip(ours.history.stages, theirs.history.stages, strict=True):
        assert replace(a, seconds=0, validation=0) == replace(b, seconds=0, validation=0)
        assert a.validation == pytest.approx(b.validation, abs=0.11)
    assert ours.vocabulary == theirs.vocabulary


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "keep"),
    [
        *((name, 0.5) for name in dict.fromkeys([*METHODS, *FURTHER]) if name not in REFUSED["memory"]),
        # Each letter by itself, which the others combine.
        *(
            pytest.param(name, 0.5, marks=pytest.mark.extras)
            for name in dict.fromkeys(LETTERED)
            if name not in (*METHODS, *FURTHER, *REFUSED["memory"])
        ),
        ("F+A", "auto"),
        ("F+M+V+A+E", "auto"),
    ],
)
def test_stacked_each_learns_what_it_would_have_learnt_alone(method, keep, domains):
    company, alone, notes = taught_together_and_alone(method, domains, keep)
    assert len(notes) == company[0].method.keeps_examples, "all others of the table say how they are stacked"
    assert all(note.endswith("one after another, as each keeps rows of its own") for note in notes)
    for ours, theirs in zip(company, alone, strict=True):
        assert_alike(ours, theirs)


def pull(strength, parameters, weights):
    known = [(p, weights[name]) for name, p in parameters.items() if name in weights]
    moved = [(old_part(p, before.shape) - before).square().sum() for p, before in known]
    return strength / 2 * torch.stack(moved).sum() if moved else None


class Anchor(Plugin):
    """Pulls every weight back to where the last domain left it. It does not say how it is stacked."""

    def __init__(self, settings):
        super().__init__(settings)
        self.weights = {}

    def weight_loss(self, parameters):
        return pull(self.settings.strength, parameters, self.weights)

    def after_domain(self, model, data, device):
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}
        return {"anchored": len(data)}

    def tensors(self):
        return self.weights

    def restore(self, tensors):
        self.weights = dict(tensors)


class StackedAnchor(Anchor):
    """The same, and says how."""

    def stacked(self, others):
        new = StackedAnchor(self.settings)
        new.weights = {name: torch.stack([other.weights[name] for other in others]) for name in self.weights}
        return new


class LateAnchor(Plugin):
    """Begins to remember as the second domain arrives."""

    def before_domain(self, old, ask):
        self.weights = {name: p.detach().clone() for name, p in old.named_parameters()}

    def weight_loss(self, parameters):
        return pull(self.settings.strength, parameters, getattr(self, "weights", {}))


class Shrink(Plugin):
    """Pulls every weight to zero; holds nothing."""

    def weight_loss(self, parameters):
        return self.settings.strength / 1000 * torch.stack([p.square().sum() for p in parameters.values()]).sum()


@pytest.mark.parametrize(
    ("kind", "refusals"), [(Anchor, 2), (LateAnchor, 1), (StackedAnchor, 0), (Shrink, 0)], ids=lambda x: str(x)
)
def test_a_plugin_that_does_not_say_how_it_is_stacked_is_not_stacked(kind, refusals, domains, monkeypatch):
    monkeypatch.setitem(METHODS, "mine", Method("mine", "a method from outside", remembers=(kind,)))
    company, alone, notes = taught_together_and_alone("mine", domains)
    assert len(notes) == refusals
    assert all(note.endswith(f"as {kind.__name__} does not say how it is stacked") for note in notes)
    for ours, theirs in zip(company, alone, strict=True):
        assert_alike(ours, theirs)


class Rigid(Anchor):
    """Compares whole weights."""

    takes_new_labels = False


def test_a_plugin_that_takes_no_new_labels_refuses_them_with_a_sentence(domains, monkeypatch):
    monkeypatch.setitem(METHODS, "mine", Method("mine", "a method from outside", remembers=(Rigid,)))
    learner = seeds("mine", 1)[0]
    learner.adapt(domains[0])
    with pytest.raises(SettingsError, match=r"^mine: Rigid cannot go on with labels .* \(another\): leave "):
        learner.adapt(domains[1])
    assert learner.labels == domains[0].labels
    assert learner.history.domains == (domains[0].name,)


def test_what_a_plugin_returns_after_a_domain_is_in_the_history(domains, monkeypatch):
    monkeypatch.setitem(METHODS, "mine", Method("mine", "a method from outside", remembers=(StackedAnchor,)))
    company, alone, _ = taught_together_and_alone("mine", domains)
    for learner in (*company, *alone):
        assert [stage.note for stage in learner.history.stages] == [{"anchored": len(domains[0].train)}] * 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("meet", "before_domain"),
        ("penalty", "weight_loss"),
        ("guidance", "output_loss"),
        ("settle", "after_training"),
        ("take_note", "after_domain"),
        ("note", "after_domain"),
    ],
)
def test_a_hook_of_the_first_version_is_refused_with_its_new_name(old, new):
    from memgrow.methods import Past

    with pytest.raises(TypeError, match=rf"Mine\.{old} would never be called: the hook's name is now {new}"):
        type("Mine", (Past,), {old: lambda self, *given: None})
