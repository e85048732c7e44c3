"""What every method must do, on each kind of network. A new method is tested by adding it to METHODS.

Each method learns three domains; the second brings a label that the first did not have.
"""

import gc
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from memgrow.data import Domain, Stream
from memgrow.errors import SettingsError
from memgrow.learner import Learner
from memgrow.methods import METHODS, MethodSettings, find_method
from memgrow.methods.lora import ADAPTED
from memgrow.models import CausalSettings, ModelSettings, PretrainedSettings
from research.common.dialogues import synthetic_dialogue
from tests.support.canaries import leaks, planted, rare_words
from tests.support.new_labels import NEW, with_label
from tests.support.tiny_causal import make_causal
from tests.support.tiny_encoder import make_encoder

SLOTS = 20
KINDS = {
    "memory": ModelSettings(embedding=6, hidden=5, slots=4, perceptron=16, dropout=0.1),
    "plain": ModelSettings(embedding=6, hidden=5, slots=0, perceptron=16, dropout=0.1),
    "replies": ModelSettings(cell="gru", embedding=6, hidden=5, slots=4, bidirectional=False, dropout=0.1),
    **{
        family: PretrainedSettings(encoder="tiny", slots=4, key_size=4, best=2, dropout=0.1)
        for family in ("bert", "distilbert", "modernbert")
    },
}
CAUSAL = "llama"
KINDS[CAUSAL] = CausalSettings(encoder="tiny")
REPLYING = ("replies", CAUSAL)
ENCODERS = ("bert", "distilbert", "modernbert")
ON_ENCODERS_ONLY = ("lora", "ridge")
NOT_ON_ENCODERS = tuple(find_method(name).name for name in ("F+V", "F+M+V", "F+H", "F+H+V", "Progressive"))
TRIED = {
    "memory": (*METHODS, "F+V+A", "F+D", "F+V+E", "F+V+R", "EWC+M+V", "SI+M+V", "IMM+M+V"),
    "plain": ("F+V", "F+M", "F+H+V", "EWC+M+V", "Progressive", "multi-task"),
    "replies": ("F+V", "F+M+V", "EWC", "SI", "IMM", "frozen+M", "Progressive", "F+V+E", "rehearsal"),
    "bert": (*METHODS, "F+E", "F+M+A", "F+D", "LoRA+E", "EWC+M"),
    "distilbert": ("frozen+M", "LoRA"),
    "modernbert": ("frozen+M", "LoRA"),
    CAUSAL: ("LoRA", "LoRA+R", "LoRA+E", "LoRA+A", "EWC", "SI", "IMM", "rehearsal", "finetune", "multi-task"),
}
CASES = [
    (kind, find_method(name).name)
    for kind, names in TRIED.items()
    for name in names
    if name not in (NOT_ON_ENCODERS if kind in ENCODERS else () if kind == CAUSAL else ON_ENCODERS_ONLY)
]


@dataclass(frozen=True)
class Learned:
    """A learner after three domains, and its weights and folder after each."""

    learner: Learner
    weights: list[dict[str, torch.Tensor]]
    folders: list[Path]
    references: tuple[list[int], list[int]]  # to data of the first domain, before and after it was learned


@pytest.fixture(params=CASES, ids="-".join, scope="module")
def case(request) -> tuple[str, str]:
    return request.param


@pytest.fixture(scope="module")
def domains(case, stream) -> Stream:
    if case[0] in REPLYING:
        return planted(synthetic_dialogue(domains=3, train=48, validation=16, test=24))
    return planted(Stream([stream[0], with_label(stream[1]), stream[2]]))


@pytest.fixture(scope="module")
def learned(case, domains, short, tmp_path_factory) -> Learned:
    kind, method = case
    folder, before = tmp_path_factory.mktemp("learned"), references(domains[0])
    options = MethodSettings(slots=SLOTS, fisher_examples=10, keep="auto", smooth="auto", projection=30)
    model, training = KINDS[kind], replace(short, epochs=1, min_documents=2)
    if kind in ENCODERS:
        model = replace(model, encoder=str(make_encoder(tmp_path_factory.mktemp("encoder"), kind)))
        training = replace(training, new_rate=0.02, warm_up=2)
    if kind == CAUSAL:
        model = replace(model, encoder=str(make_causal(tmp_path_factory.mktemp("causal"))))
        training = replace(training, rate=0.01, max_words=100)
    learner = Learner.create(method, model=model, training=training, options=options, device="cpu")
    weights, folders, after = [], [], []
    for number in range(3):
        adapt(learner, domains, number)
        after = after or references(domains[0])
        weights.append({name: tensor.clone() for name, tensor in learner.trained().state_dict().items()})
        folders.append(folder / str(number))
        learner.save(folders[-1])
    return Learned(learner, weights, folders, (before, after))


def adapt(learner: Learner, domains: Stream, number: int) -> None:
    learner.adapt(domains[number], earlier=domains[:number] if learner.method.joint else (), watch=domains)


def references(domain: Domain) -> list[int]:
    gc.collect()
    return [sys.getrefcount(part) for part in (domain.train, domain.train[0], domain.train[0].text)]


@pytest.mark.parametrize(
    ("kind", "method"),
    [*(("memory", name) for name in ON_ENCODERS_ONLY), *(("bert", name) for name in NOT_ON_ENCODERS)],
)
def test_a_method_that_does_not_go_with_a_network_is_refused(kind, method):
    with pytest.raises(SettingsError, match=method.replace("+", r"\+")):
        find_method(method).check(KINDS[kind])


def test_the_model_grows_as_the_method_says(learned, domains):
    learner, method = learned.learner, learned.learner.method
    first, *later = learner.history.stages
    assert first.grew.columns == 1
    for stage in later:
        grew = stage.grew
        if method.reinit:
            assert grew.columns == 1
            continue
        if "column" in method.grows:
            assert (grew.slots, grew.hidden) == (learner.settings.slots, learner.settings.hidden)
        else:
            assert grew.slots == (SLOTS if "slots" in method.grows else 0)
            assert (grew.hidden > 0) == ("hidden" in method.grows)
        assert (grew.words > 0) == ("words" in method.grows)
        assert grew.columns == int("column" in method.grows)
        assert grew.labels == int(not domains[0].has_replies and stage is later[0])
    if "slots" in method.grows:
        expected = domains.names if learner.settings.slots else domains.names[1:]
        assert learner.trained().encoder.banks[0].domains == expected


def test_new_labels_join_and_every_domain_is_evaluated(learned, domains):
    learner = learned.learner
    assert all(row.scores.keys() == set(domains.names) for row in learner.history.matrix.rows)
    if domains[0].has_replies:
        assert learner.labels == ()
        return
    assert learner.labels == (*domains[0].labels, NEW)
    known = sum(example.label != NEW for example in domains[1].test) / len(domains[1].test)
    assert learner.history.matrix.score(0, domains[1].name) <= known, "an unknown label counts as wrong"


@pytest.mark.parametrize("later", [1, 2])
def test_frozen_weights_keep_their_bits_and_the_rest_trains(case, learned, later):
    old, new = learned.weights[later - 1 : later + 1]
    base = learned.learner.method.name.split("+")[0]
    body = {name for name in old if not name.startswith("heads.")}
    # "attention.output.dense" ends as an adapted layer of BERT does, and is none.
    adapted = {name for name in body if any(name.endswith(f".{layer}.weight") for layer in ADAPTED)}
    adapted -= {name for name in body if "attention.output" in name}
    frozen = {
        "frozen": body,
        "ridge": body | {"heads.0.0.weight"},
        "lora": body - adapted,
        "progressive": set(old),
        "icarl": {max((n for n in old if n.startswith("heads.") and n.endswith("bias")), default="")},  # always 0
    }.get(base, set())
    if case[0] == CAUSAL:
        frozen = {name for name in old if name.startswith("encoder.") and base != "finetune"}
    frozen = frozen | {name for name in old if name.startswith("memory.")}  # entries of a domain memory
    for name in frozen:
        kept = new[name]
        for dim, size in enumerate(old[name].shape):
            kept = kept.narrow(dim, 0, size)
        assert torch.equal(kept, old[name]), f"{name} must stay frozen"
    for name, tensor in new.items():
        if name in old and name not in frozen and tensor.shape == old[name].shape:
            assert not torch.equal(tensor, old[name]), f"{name} must train"


def test_saving_and_loading_between_domains_changes_nothing(learned, domains, tmp_path):
    twin = Learner.load(learned.folders[1], device="cpu")
    adapt(twin, domains, 2)
    twin.save(tmp_path / "model")
    twin = Learner.load(tmp_path / "model", device="cpu")
    theirs = twin.trained().state_dict()
    assert learned.weights[-1].keys() == theirs.keys()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in learned.weights[-1].items())
    assert twin.vocabulary == learned.learner.vocabulary
    assert twin.history.matrix == learned.learner.history.matrix
    state = twin.state.method_state.state_dict()
    for name, tensor in learned.learner.state.method_state.state_dict().items():
        assert torch.equal(tensor, state[name])


def test_prediction_needs_no_domain(learned, domains):
    mixed = [example for domain in domains for example in domain.test]
    if domains[0].has_replies:
        assert len(learned.learner.reply(mixed, max_words=5)) == len(mixed)
        return
    predictions = learned.learner.predict(mixed)
    for one in predictions:
        assert sum(one.probabilities.values()) == pytest.approx(1, abs=1e-5)
        assert one.label == max(one.probabilities, key=one.probabilities.get)
    right = [p.label == e.label for p, e in zip(predictions[:24], domains[0].test, strict=True)]
    assert sum(right) / 24 == pytest.approx(learned.learner.evaluate(domains[0])[domains[0].name])


def test_no_rare_word_of_the_data_is_in_any_file(learned):
    found = {leak.partition(":")[0] for leak in leaks(learned.folders[0].parent, rare_words(3))}
    keeps = learned.learner.method.keeps_rows
    assert bool(found) == keeps
    assert all("rehearsal" in name for name in found)


def test_no_reference_to_a_domains_data_is_kept(learned):
    before, after = learned.references
    assert learned.learner.method.keeps_rows or all(now <= was for was, now in zip(before, after, strict=True))
