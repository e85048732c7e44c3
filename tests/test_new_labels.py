"""Labels that a later domain brings: the head grows, and all that speaks of labels stays right."""

import json
from dataclasses import replace

import pytest
import torch
from memgrow.lockstep import adapt_together, correct_together
from memgrow.methods.distillation import Distillation
from torch import nn

from memgrow.data import Domain, Example, Stream, write_jsonl
from memgrow.data.synthetic_dialogue import synthetic_dialogue
from memgrow.errors import DataError, ModelError, SettingsError
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import Classifier, ModelSettings, build, rebuild
from memgrow.models.classifier import LabelLayer
from memgrow.nn import Growth
from tests.support.breaking import Plug
from tests.support.new_labels import NEW, with_label

SIZES = ModelSettings(embedding=6, hidden=5, slots=4, perceptron=16, dropout=0.1)


def make(short, method: str = "F+V", model: ModelSettings = SIZES, **more) -> Learner:
    return Learner.create(method, model=model, training=short, device="cpu", **more)


@pytest.fixture(scope="module")
def domains(stream) -> Stream:
    return Stream([stream[0], with_label(stream[1]), stream[2]])


@pytest.fixture(scope="module")
def learnt(domains, short) -> Learner:
    learner = make(short)
    learner.learn(domains)
    return learner


def only(domain: Domain, *labels: str) -> Domain:
    """The examples of a domain that have one of some labels."""
    parts = (domain.train, domain.validation, domain.test)
    return Domain(domain.name, *(tuple(e for e in part if e.label in labels) for part in parts))


# The head


@pytest.mark.parametrize("features", [5, 16, 300, 768])
@pytest.mark.parametrize("labels", [(2, 1), (2, 3), (3, 1, 1), (3, 7), (20, 1)])
def test_old_logits_keep_their_bits_when_labels_join(features, labels):
    torch.manual_seed(0)
    layer, x = LabelLayer(features, labels[0]), [torch.randn(rows, features) for rows in (1, 3, 32, 256)]
    for count in labels[1:]:
        before = [layer(each) for each in x]
        growth = Growth()
        layer.plan(growth, count)
        growth.commit()
        for old, new in zip(before, map(layer, x), strict=True):
            assert torch.equal(new[:, : old.shape[1]], old)
            torch.testing.assert_close(new[:, old.shape[1] :], old.mean(1, keepdim=True).expand(-1, count))
    assert layer.out_features == sum(labels)
    assert layer.blocks == labels


def test_the_whole_model_answers_as_before_with_a_new_label_beside(short, stream):
    learner = make(short)
    learner.adapt(stream[0])
    model, data = learner.classifier(), learner.encode(stream[0].test)
    before = model.logits(data)
    model.grow(labels=2, words=torch.randn(3, 6))
    after = model.logits(data)
    assert torch.equal(after[:, :3], before)
    assert torch.equal(after.argmax(-1), before.argmax(-1))
    assert float(after.softmax(-1)[:, 3:].max()) <= 1 / 5 + 1e-6
    again = rebuild("pair", learner.settings, 5, model.shape())
    again.load_state_dict(model.state_dict())
    assert isinstance(again, Classifier)
    assert torch.equal(again.logits(data), after)


def test_parameters_optimiser_and_sizes_grow_together_or_not_at_all():
    torch.manual_seed(0)
    model = build("pair", SIZES, 9, 3)
    adam = torch.optim.Adam(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    adam.step()
    last = model.heads[0][-1]
    moments = adam.state[last.weight]["exp_avg"].clone()
    with pytest.raises(SettingsError, match="the optimiser handed in does not hold it"):
        model.grow(labels=1, words=torch.randn(2, 6), optimiser=torch.optim.Adam([nn.Parameter(torch.ones(1))]))

    def sizes() -> tuple[object, ...]:
        return model.labels, last.out_features, last.blocks, len(last.bias), model.vocabulary_size

    assert sizes() == (3, 3, (3,), 3, 9)
    model.grow(labels=1, words=torch.randn(2, 6), optimiser=adam)
    assert (model.labels, last.out_features, last.blocks, len(last.bias), model.vocabulary_size) == (
        4,
        4,
        (3, 1),
        4,
        11,
    )
    assert torch.equal(adam.state[last.weight]["exp_avg"][:3], moments)
    assert not adam.state[last.weight]["exp_avg"][3:].any()


def test_a_folder_that_lies_about_when_labels_joined_is_refused():
    model = build("pair", SIZES, 9, 3)
    for blocks in ([2, 2], [3, 0], [4, -1], [1.5, 1.5]):
        with pytest.raises(ModelError, match="do not add up to the 3 of the model"):
            rebuild("pair", SIZES, 3, {**model.shape(), "labels": blocks})


def test_a_model_of_replies_has_no_labels_that_could_join(short):
    (first,) = synthetic_dialogue(domains=1, train=24, validation=8, test=8)
    learner = make(short, model=ModelSettings(cell="gru", embedding=6, hidden=5, slots=0, bidirectional=False))
    learner.adapt(first)
    before = {name: tensor.shape for name, tensor in learner.trained().state_dict().items()}
    with pytest.raises(SettingsError, match="a model of replies has no labels"):
        learner.trained().grow(labels=1, words=torch.randn(2, 6))
    assert {name: tensor.shape for name, tensor in learner.trained().state_dict().items()} == before
    with pytest.raises(DataError, match="answers with words, but there is no reply"):
        learner.adapt(Domain("labelled", *((Example("a", label="x"), Example("b", label="y")),) * 3))


# What methods do


def test_distillation_holds_on_to_old_labels_alone():
    torch.manual_seed(0)
    part, examples = Distillation(MethodSettings()), torch.arange(4)
    part.answers = torch.randn(4, 3).softmax(-1)
    logits = torch.randn(4, 5, requires_grad=True)
    loss = part.output_loss(logits, examples)
    assert torch.equal(loss, part.output_loss(logits[:, :3], examples))
    (gradient,) = torch.autograd.grad(loss, logits)
    assert gradient[:, :3].any()
    assert not gradient[:, 3:].any()


@pytest.mark.parametrize("method", ["F+A", "F+L", "EWC"])
def test_a_pull_to_old_weights_moves_no_row_of_a_new_label(method, short, domains):
    """At full strength old rows stay where they were, and the new one learns."""
    options = MethodSettings(keep=1.0, old_rate=0.0, strength=1e9, fisher_examples=8)
    learner = make(short, method, options=options)
    learner.adapt(domains[0])
    before = learner.classifier().heads[0][-1].weight.detach().clone()
    learner.adapt(domains[1])
    after = learner.classifier().heads[0][-1].weight.detach()
    assert torch.allclose(after[:3], before, atol=0.0 if method != "EWC" else 0.05)
    assert float((after[3] - before.mean(0)).abs().max()) > 0.005
    if method == "EWC":
        assert learner.plugins.tensors()["fisher/heads.0.3.weight"].shape == after.shape


def test_a_method_that_freezes_trains_all_of_the_head(short, domains):
    learner = make(short, "frozen")
    learner.adapt(domains[0])
    before = learner.classifier().heads[0][-1].weight.detach().clone()
    learner.adapt(domains[1])
    after = learner.classifier().heads[0][-1].weight.detach()
    assert (after[:3] != before).any(1).all()
    assert (after[3] != before.mean(0)).any()


def test_learners_whose_labels_stand_in_another_order_learn_together_what_they_learn_alone(short, stream):
    """Data of one learner, its labels numbered in that one's order, was once taken for the other's."""
    orders = [stream[0].labels, stream[0].labels[::-1]]
    company, alone = ([make(short, labels=order) for order in orders] for _ in range(2))
    ear = Plug()
    adapt_together(company, stream[0], progress=ear)
    assert ear.notes[-1].endswith("as their vocabularies or labels differ")
    for learner in alone:
        learner.adapt(stream[0])
    for ours, theirs in zip(company, alone, strict=True):
        for name, tensor in theirs.trained().state_dict().items():
            assert torch.equal(ours.trained().state_dict()[name], tensor), name
    assert correct_together(company, stream[0]) == [learner.correct(stream[0]) for learner in alone]


# What is learnt, and what is said


def test_history_and_matrix_know_the_labels(learnt, domains, tmp_path):
    assert learnt.labels == (*domains[0].labels, NEW)
    assert [stage.grew.labels for stage in learnt.history.stages] == [0, 1, 0]
    assert learnt.history.labels == {domain.name: domain.labels for domain in domains}
    learnt.save(tmp_path / "model")
    again = Learner.load(tmp_path / "model", device="cpu")
    assert again.history == learnt.history
    assert torch.equal(
        again.classifier().logits(again.encode(domains[1].test)),
        learnt.classifier().logits(learnt.encode(domains[1].test)),
    )
    for row in learnt.history.matrix.rows:
        assert row.scores.keys() == set(domains.names)


def test_predictions_have_all_labels_whatever_the_domain(learnt, domains):
    for prediction in learnt.predict([e for domain in domains for e in domain.test[:3]]):
        assert tuple(prediction.probabilities) == (*domains[0].labels, NEW)
        assert sum(prediction.probabilities.values()) == pytest.approx(1, abs=1e-5)


def test_examples_with_labels_that_the_model_does_not_have_count_as_wrong_and_that_is_said(short, domains):
    learner, ear = make(short), Plug()
    learner.adapt(domains[0], watch=domains, progress=ear)
    strange = sum(example.label == NEW for example in domains[1].test)
    assert ear.notes == [
        f"{domains.names[1]}: {strange} of 24 test examples have labels that the model does not have yet ({NEW}) and "
        "count as wrong"
    ]
    told = learner.predict(domains[1].test)
    right = sum(one.label == e.label for one, e in zip(told, domains[1].test, strict=True))
    assert learner.history.matrix.score(0, domains.names[1]) == pytest.approx(right / 24)
    with pytest.raises(DataError, match=f"unknown label '{NEW}'"):
        learner.evaluate(domains[1])
    ear.notes.clear()
    learner.adapt(domains[1], watch=domains, progress=ear)
    assert ear.notes == []


def test_one_label_may_be_all_that_a_later_domain_has(short, stream):
    learner, ear = make(short), Plug()
    with pytest.raises(DataError, match="give examples of at least two labels: only a later domain may have one"):
        learner.adapt(only(stream[0], "neutral"))
    learner.adapt(stream[0])
    learner.adapt(only(stream[1], "neutral"), watch=stream, progress=ear)
    learner.adapt(only(with_label(stream[2], every=1), NEW), watch=stream, progress=ear)
    assert learner.labels == (*stream[0].labels, NEW)
    said = "all training examples have the label"
    assert [note.partition(";")[0] for note in ear.notes if said in note] == [
        f"{stream.names[1]}: {said} neutral",
        f"{stream.names[2]}: {said} {NEW}",
    ]


def test_the_order_of_labels_is_that_of_the_alphabet_within_a_domain_and_old_ones_stay_in_place(short, stream):
    learner = make(short, labels=("neutral", "entailment"))
    backwards = replace(stream[0], train=tuple(reversed(stream[0].train)))
    learner.adapt(backwards)
    assert learner.labels == ("neutral", "entailment", "contradiction")
    learner.adapt(with_label(with_label(stream[1], new="z"), "entailment", "b"))
    assert learner.labels == ("neutral", "entailment", "contradiction", "b", "z")


@pytest.mark.parametrize("alike", ["Neutral", " neutral", "neu tral\t"])
def test_labels_that_differ_by_case_or_white_space_alone_are_two_and_both_are_named(alike, short, stream):
    learner, ear = make(short), Plug()
    learner.adapt(stream[0])
    learner.adapt(with_label(stream[1], new=alike), progress=ear)
    assert learner.labels == (*stream[0].labels, alike)
    assert len(ear.notes) == 1
    assert ear.notes[0].startswith(
        f"{stream.names[1]}: the labels 'neutral' and {alike!r} differ by case or white space"
    )


def test_the_command_line_grows_and_tells_of_labels_by_domain(domains, tmp_path):
    from typer.testing import CliRunner

    from memgrow.cli import app
    from tests.cli.conftest import TINY

    def run(*words: object) -> str:
        result = CliRunner().invoke(app, list(map(str, words)), prog_name="memgrow")
        assert result.exit_code == 0, result.output
        return result.output

    files, model = write_jsonl(domains[:2], tmp_path), tmp_path / "model"
    said = run("adapt", model, *files, "--method", "F", *TINY)
    assert "grew 1 label" in " ".join(said.split())
    shown = " ".join(run("inspect", model).split())
    first, second = (f"{domain.name}: {', '.join(domain.labels)}" for domain in domains[:2])
    assert f"{first}; {second}" in shown
    about = json.loads(run("inspect", model, "--json"))["about"]
    assert about["labels_by_domain"] == {domain.name: list(domain.labels) for domain in domains[:2]}
