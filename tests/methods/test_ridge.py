"""Ridge: a head in closed form, from sums, on a pretrained encoder that stays as it is."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from memgrow.data import Domain, Example, Stream, synthetic_stream
from memgrow.data.batches import collate
from memgrow.errors import ModelError, SettingsError
from memgrow.experiments.run import Run
from memgrow.learner import Learner
from memgrow.methods import METHODS, MethodSettings
from memgrow.methods.ridge import RidgeHead, Sums, solve
from memgrow.models import ModelSettings, PretrainedSettings
from tests.support.breaking import Plug, PulledPlug
from tests.support.new_labels import NEW, with_label
from tests.support.tiny_encoder import make_encoder

RIDGE = 30.0


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def texts() -> Stream:
    """One text and two labels, where the stream has pairs and three."""
    return Stream(
        Domain(
            domain.name,
            *(
                [Example(e.text, label="yes" if e.label == "entailment" else "no") for e in part]
                for part in (domain.train, domain.validation, domain.test)
            ),
        )
        for domain in synthetic_stream(domains=3, train=60, validation=24, test=24, seed=3)
    )


@pytest.fixture(params=["texts", "pairs read as one", "pairs read as two"], scope="module")
def given(request, stream, texts, encoder) -> tuple[Stream, PretrainedSettings]:
    """Three domains, of which the second has a label that the others lack, and how they are read."""
    pairs = "two" if request.param.endswith("two") else "one"
    first, second, third = texts if request.param == "texts" else stream
    second = with_label(second, "no" if request.param == "texts" else "neutral")
    return Stream([first, second, third]), PretrainedSettings(encoder=str(encoder), pairs=pairs)


def create(settings: ModelSettings) -> Learner:
    return Learner.create("ridge", model=settings, options=MethodSettings(ridge=RIDGE), device="cpu")


@torch.no_grad()
def features_and_labels(learner: Learner, domains: Stream) -> tuple[np.ndarray, np.ndarray]:
    """Of the training examples of all domains at once, read in the batches of each domain: those decide on rounding."""
    model, features, labels = learner.classifier(), [], []
    for data in (learner.encode(domain.train) for domain in domains):
        for indices in model.in_batches(data):
            batch = collate(data, indices, model.device)
            features.append(model.features(model.encoder(batch.words, batch.lengths)).double())
            labels += batch.labels.tolist()
    return torch.cat(features).numpy(), np.eye(model.labels)[labels]


def solved_naively(x: np.ndarray, y: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """Least squares over all examples, where each weight has an example of its own that wants it to be zero."""
    around = x - x.mean(0)
    penalty = np.sqrt(ridge * around.var(0).mean()) * np.eye(x.shape[1])
    rows, wanted = np.vstack([around, penalty]), np.vstack([y - y.mean(0), np.zeros((x.shape[1], y.shape[1]))])
    weight = np.linalg.lstsq(rows, wanted, rcond=None)[0]
    return weight.T, y.mean(0) - x.mean(0) @ weight


def test_the_sums_give_the_solution_over_all_data_at_once(given):
    stream, settings = given
    learner = create(settings)
    learner.learn(stream)
    part = learner.plugins.parts[0]
    assert isinstance(part, RidgeHead)
    head = solve(part.sums, RIDGE)
    weight, bias = solved_naively(*features_and_labels(learner, stream), RIDGE)
    np.testing.assert_allclose(head.weight.numpy(), weight, rtol=0, atol=1e-10)
    np.testing.assert_allclose(head.bias.numpy(), bias, rtol=0, atol=1e-10)


def test_the_model_answers_by_the_head_that_was_solved_for_and_as_sure(given):
    stream, settings = given
    learner = create(settings)
    learner.learn(stream)
    head = solve(learner.plugins.parts[0].sums, RIDGE)
    assert head.certainty != pytest.approx(1, rel=0.01), "or nobody would see that it is missing"
    layer = learner.classifier().heads[-1][0]
    for ours, solved in ((layer.weight, head.weight), (layer.bias, head.bias)):
        torch.testing.assert_close(ours.detach().double(), solved * head.certainty, rtol=1e-6, atol=1e-6)


def test_the_order_of_domains_does_not_matter(given):
    stream, settings = given
    heads, predictions = [], []
    for order in ((0, 1, 2), (1, 2, 0)):
        learner = create(settings)
        learner.learn([stream[number] for number in order])
        assert learner.labels.index(NEW) == (0 if order[0] == 1 else len(learner.labels) - 1)
        head, places = solve(learner.plugins.parts[0].sums, RIDGE), [learner.labels.index(x) for x in stream[1].labels]
        heads.append(replace(head, weight=head.weight[places], bias=head.bias[places]))
        predictions.append([one.label for one in learner.predict(stream[0].test)])
    assert torch.allclose(heads[0].weight, heads[1].weight, rtol=0, atol=1e-10)
    assert torch.allclose(heads[0].bias, heads[1].bias, rtol=0, atol=1e-10)
    assert predictions[0] == predictions[1]


def test_the_encoder_keeps_its_bits_from_the_first_domain_on(given):
    stream, settings = given
    learner = create(settings)
    learner.adapt(stream[0])
    before = {name: tensor.clone() for name, tensor in learner.trained().state_dict().items()}
    fresh = settings.kind.create(learner.settings, 0, None, learner.encoder).state_dict()
    learner.adapt(stream[1])
    for name, tensor in learner.trained().state_dict().items():
        assert torch.equal(tensor, before[name]) == name.startswith("encoder."), name
        assert not name.startswith("encoder.") or torch.equal(tensor, fresh[name.removeprefix("encoder.")])


def test_what_is_remembered_are_sums_in_double_precision(given, tmp_path):
    stream, settings = given
    learner, twin = create(settings), create(settings)
    learner.adapt(stream[0])
    learner.save(tmp_path / "model")
    loaded = Learner.load(tmp_path / "model", device="cpu")
    assert {tensor.dtype for tensor in loaded.plugins.tensors().values()} == {torch.float64}
    loaded.adapt(stream[1])
    twin.learn(stream[:2])
    for name, tensor in twin.trained().state_dict().items():
        assert torch.equal(loaded.trained().state_dict()[name], tensor), name


def test_a_stage_has_no_epochs_and_tells_how_far_it_is(texts, encoder):
    learner, ear = create(PretrainedSettings(encoder=str(encoder))), Plug()
    stage = learner.adapt(texts[0], progress=ear)
    assert (stage.epochs, stage.best_epoch, stage.note) == (0, 0, {"ridge": RIDGE})
    assert stage.validation == learner.evaluate(texts[0], "validation")[texts[0].name]
    assert ear.steps[-1].batch == ear.steps[-1].batches > 0
    assert ear.steps[-1].loss is None


def test_probabilities_are_as_sure_as_held_out_examples_allow():
    """Two normal clouds: what the head says is the probability that one would reckon, where examples abound."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(2, (20_000,), generator=generator)
    points = torch.randn(20_000, 3, generator=generator) + labels.unsqueeze(1) * torch.tensor([1.0, -0.5, 0.0])
    head = solve(Sums.of(points, labels, 2), 1.0)
    told = ((points.double() @ head.weight.T + head.bias) * head.certainty).softmax(-1)[:, 1]
    true = torch.sigmoid(points.double() @ torch.tensor([1.0, -0.5, 0.0]).double() - 1.25 / 2)
    assert (told - true).abs().max() < 0.05


def test_few_examples_are_no_certainty():
    """With as many features as examples, least squares fits them all: that is no reason to be sure."""
    generator = torch.Generator().manual_seed(0)
    points, labels = torch.randn(40, 40, generator=generator), torch.arange(40) % 2
    head = solve(Sums.of(points, labels, 2), 1.0)
    strangers = torch.randn(200, 40, generator=generator).double()
    told = ((strangers @ head.weight.T + head.bias) * head.certainty).softmax(-1)
    assert told.max(-1).values.mean() < 0.8


def test_a_label_that_a_domain_lacks_is_no_obstacle(stream, encoder):
    few = [e for e in stream[0].train if e.label != "neutral"]
    learner = Learner.create(
        "ridge", model=PretrainedSettings(encoder=str(encoder)), labels=stream[0].labels, device="cpu"
    )
    learner.adapt(Domain("few", few, stream[0].validation, stream[0].test))
    learner.adapt(stream[1])
    assert set(learner.predict(stream[1].test[:1])[0].probabilities) == set(stream[0].labels)


@pytest.mark.parametrize("letter", ["A", "D", "E", "L", "M", "Q", "V"])
def test_it_takes_no_letters(letter, encoder):
    with pytest.raises(SettingsError, match="ridge takes no further letters"):
        Learner.create(f"ridge+{letter}", model=PretrainedSettings(encoder=str(encoder)))


def test_models_without_a_linear_head_on_a_pretrained_encoder_are_refused(encoder, tiny):
    with pytest.raises(SettingsError, match="give a pretrained encoder"):
        create(tiny)
    with pytest.raises(SettingsError, match=r"model\.perceptron at 0, not 5"):
        create(PretrainedSettings(encoder=str(encoder), perceptron=5))
    with pytest.raises(SettingsError, match="ridge must be above 0"):
        MethodSettings(ridge=0.0)


def test_it_cannot_be_taken_up_by_a_model_that_learnt_otherwise(texts, encoder, short):
    learner = Learner.create("F", model=PretrainedSettings(encoder=str(encoder)), training=short, device="cpu")
    learner.adapt(texts[0])
    with pytest.raises(SettingsError, match="start a new model with ridge"):
        learner.use("ridge")


def test_an_unfinished_training_of_another_method_is_not_given_up(texts, encoder, short, tmp_path):
    settings, folder = PretrainedSettings(encoder=str(encoder)), tmp_path / "model"
    training = replace(short, epochs=50)
    other = Learner.create("F", model=settings, training=training, device="cpu")
    with pytest.raises(PulledPlug):
        other.adapt(texts[0], folder=folder, save_every=0.0, progress=Plug(1))
    with pytest.raises(ModelError, match="unfinished adaptation"):
        Learner.create("ridge", model=settings, training=training, device="cpu").adapt(texts[0], folder=folder)


def test_runs_by_ridge_share_no_stage_with_others():
    run = Run("ridge", ("books", "dvds"), options=MethodSettings(ridge=3.0))
    first, second = run.stages()
    assert (first.method, first.options.ridge, first.parent()) == ("ridge", 3.0, None)
    assert not first.takes_notes()
    assert second.parent() == first
    assert [name for name, method in METHODS.items() if not method.shares_first] == ["ridge", "multi-task"]


@pytest.mark.parametrize("texts", [1, 2, 3])
@pytest.mark.parametrize("alike", [False, True])
def test_a_head_of_very_few_examples_is_of_finite_numbers(texts, alike):
    features = torch.ones(texts, 4) if alike else torch.randn(texts, 4)
    head = solve(Sums.of(features, torch.arange(texts) % 2, 2), 1.0)
    assert bool((head.weight * head.certainty).isfinite().all())
    assert bool((head.bias * head.certainty).isfinite().all())
