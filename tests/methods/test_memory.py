"""The domain memory: each text reads the weights that answered for its domain."""

import copy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from memgrow.data import Domain, Stream, synthetic_stream
from memgrow.data.batches import Encoded
from memgrow.errors import ModelError, SettingsError
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import Classifier, ModelSettings, PretrainedEncoder, PretrainedSettings, domain_memory, rebuild
from memgrow.models.domain_memory import DomainMemory, Entry, carried_over
from memgrow.models.router import (
    BUCKETS,
    LEAST_GROUP,
    LEAST_TEXTS,
    gaussian_key,
    private_key,
    scores_by_vectors,
    token_counts,
)
from memgrow.storage.export import export_huggingface, export_onnx
from memgrow.storage.versions import undo
from memgrow.training.settings import TrainingSettings
from tests.support.breaking import Plug
from tests.support.new_labels import with_label
from tests.support.tiny_encoder import make_encoder

SMALL = ModelSettings(embedding=12, hidden=8, slots=4, perceptron=16)
TRAINING = TrainingSettings(rate=1e-2, epochs=2)


def stream(domains: int = 3) -> Stream:
    return synthetic_stream(domains=domains, train=60, validation=20, test=20, seed=1)


def create(method: str, encoder: Path | None = None, **options_given: Any) -> Learner:
    options = MethodSettings(read_entries="always", **options_given)
    if encoder is None:
        return Learner.create(method, model=SMALL, training=TRAINING, options=options)
    return Learner.create(method, model=PretrainedSettings(encoder=str(encoder)), training=TRAINING, options=options)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("memory") / "encoder")


@pytest.fixture(scope="module")
def words() -> Learner:
    """A recurrent network that has learned three domains; not to be changed."""
    learner = create("finetune+vocab+memory")
    learner.learn(stream())
    return learner


@pytest.fixture(scope="module")
def vectors(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Learner:
    """An encoder that has learned and saved two domains; not to be changed."""
    learner = create("finetune+memory", tiny)
    learner.learn(stream(2), folder=tmp_path_factory.mktemp("vectors") / "model")
    return learner


def memory_of(learner: Learner) -> DomainMemory:
    memory = learner.classifier().memory
    assert memory is not None
    return memory


def word_table(model: Classifier) -> torch.nn.Parameter:
    return cast(PretrainedEncoder, model.encoder).word_table


def own_logits(learner: Learner, domain: Domain) -> torch.Tensor:
    """By the current weights, for the labels that the model has."""
    return learner.classifier().plain_logits(learner.split(domain, "test"))


def entry_logits(learner: Learner, domain: Domain) -> torch.Tensor:
    return learner.classifier().logits(learner.split(domain, "test"), domain.name)


@pytest.mark.parametrize("method", ["finetune+memory", "F+V+R", "finetune+slots+vocab+memory", "ewc+memory"])
def test_an_entry_answers_as_the_model_did_when_it_had_learned_the_domain(method: str) -> None:
    learner, found = create(method), {}
    learner.use(method, replace(learner.options, fisher_examples=5))
    for domain in stream():
        learner.adapt(domain)
        found[domain.name] = own_logits(learner, domain)
    for domain in stream():
        torch.testing.assert_close(entry_logits(learner, domain), found[domain.name], rtol=0, atol=1e-6)


@pytest.mark.parametrize(("method", "rank"), [("lora+memory", 8), ("finetune+memory", 64), ("F+E+R", 64)])
def test_an_encoders_entry_answers_nearly_as_the_model_did(tiny: Path, method: str, rank: int) -> None:
    learner, earlier = create(method, tiny), []
    learner.use(method, replace(learner.options, entry_rank=rank))
    for domain in stream():
        learner.adapt(domain)
        earlier.append(copy.deepcopy(learner.classifier()))
    for domain, model in zip(stream(), earlier, strict=True):
        with torch.no_grad():  # entries share the newest table of words
            word_table(model).copy_(word_table(learner.classifier()))
        expected = model.plain_logits(learner.split(domain, "test"))
        torch.testing.assert_close(entry_logits(learner, domain), expected, rtol=0, atol=0.01)


def test_training_is_that_of_the_method_without_memory() -> None:
    with_memory, without = create("finetune+vocab+memory"), create("finetune+vocab")
    for learner in (with_memory, without):
        learner.learn(stream(2))
    expected = without.classifier().state_dict()
    found = with_memory.classifier().state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


@pytest.mark.parametrize("pretrained", [False, True])
def test_a_memory_is_saved_loaded_extended_and_undone(tmp_path: Path, tiny: Path, pretrained: bool) -> None:
    learner, domains = create("finetune+memory", tiny if pretrained else None), stream()
    learner.learn(domains[:2], folder=tmp_path / "model")
    before = [learner.predict(domain.test) for domain in domains[:2]]
    loaded = Learner.load(tmp_path / "model")
    assert loaded.route(domains[0].test) == learner.route(domains[0].test)
    assert [loaded.predict(domain.test) for domain in domains[:2]] == before
    loaded.adapt(domains[2], folder=tmp_path / "model")
    assert memory_of(Learner.load(tmp_path / "model")).names == [domain.name for domain in domains]
    undo(tmp_path / "model")
    again = Learner.load(tmp_path / "model")
    assert [again.predict(domain.test) for domain in domains[:2]] == before


def test_texts_of_domains_with_other_words_read_their_own_entry(words: Learner) -> None:
    for domain in stream():
        routes = words.route(domain.test)
        assert sum(max(route, key=route.__getitem__) == domain.name for route in routes) >= 0.9 * len(routes)
        assert all(sum(route.values()) == pytest.approx(1) for route in routes)


def test_an_entry_predicts_the_labels_of_its_domain_alone() -> None:
    first, second = stream(2)
    renamed = with_label(second, every=1)
    learner = create("finetune+vocab+memory")
    learner.learn([first, renamed])
    for domain in (first, renamed):
        predicted = learner.classifier().logits(learner.split(domain, "test"), domain.name).argmax(-1)
        assert {learner.labels[index] for index in predicted.tolist()} <= set(domain.labels)  # type: ignore[index]


def test_rare_tokens_and_repeated_texts_leave_no_trace_in_a_key(words: Learner) -> None:
    data = words.encode(stream()[0].train)
    counts = token_counts(data)
    assert counts[counts > 0].min() >= LEAST_TEXTS
    repeated = data.some([*range(len(data)), *[0] * 50])
    assert torch.equal(token_counts(repeated), counts)


def test_what_a_memory_does_not_go_with_is_refused(vectors: Learner, tmp_path: Path) -> None:
    domains = stream(2)
    plain = create("finetune")
    plain.adapt(domains[0])
    plain.use("finetune+memory")
    with pytest.raises(SettingsError, match="without one"):
        plain.adapt(domains[1])
    with pytest.raises(SettingsError, match=r"finetune\+memory"):
        vectors.use("finetune")
    with pytest.raises(ModelError, match="domain memory"):
        export_onnx(vectors, tmp_path / "onnx")
    with pytest.raises(ModelError, match="no domain memory"):
        plain.route(domains[0].test)
    for name in ("multi-task+memory", "ridge+memory", "progressive+memory"):
        with pytest.raises(SettingsError, match="no additions"):
            Learner.create(name)


@pytest.mark.parametrize("independent", [False, True])
def test_a_hub_folder_holds_the_memory(tmp_path: Path, tiny: Path, independent: bool) -> None:
    learner, domains = create("finetune+memory", tiny) if independent else create("finetune+vocab+memory"), stream(2)
    learner.use(learner.method.name, MethodSettings(independent=independent))
    learner.learn(domains)
    export_huggingface(learner, tmp_path / "hub")
    texts = domains[0].test
    assert Learner.load(tmp_path / "hub").predict(texts) == learner.predict(texts)


@pytest.mark.parametrize("change", ["no key", "no entry", "other size"])
def test_a_damaged_memory_is_refused(words: Learner, change: str) -> None:
    model = words.classifier()
    shape = model.shape()
    stored = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    if change == "no key":
        del stored["memory.0:key"]
    elif change == "no entry":
        shape["domain_memory"]["entries"].clear()
    else:
        stored["memory.0:key"] = (10**12,)
    with pytest.raises((ValueError, ModelError)):
        rebuild("pair", model.settings, model.labels, shape, stored=stored)


def answering(share: float) -> Any:
    """A model that answers this share of 100 examples of two labels, 50 each, right."""
    right = torch.arange(100) % 50 < round(50 * share)
    labels = torch.arange(100) // 50
    logits = torch.nn.functional.one_hot(torch.where(right, labels, 1 - labels), 2).double()
    return SimpleNamespace(settings=SimpleNamespace(is_pretrained=True), plain_logits=lambda data: logits)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(0.5, 0.9, 0.0), (0.1, 0.9, 0.0), (0.7, 0.9, 0.5), (0.9, 0.9, 1.0), (0.5, 0.5, 1.0), (0.2, 0.4, 1.0)],
)
def test_what_carried_over_is_the_share_of_the_new_models_gain(before: float, after: float, expected: float) -> None:
    data = Encoded([()] * 100, [0] * 50 + [1] * 50, False)
    old, new = answering(before), answering(after)
    assert carried_over(old, new, data) == pytest.approx(expected)
    old.settings.is_pretrained, old.vocabulary_size = False, 1  # of a recurrent network with a standard error
    error = (before * (1 - before) / 100) ** 0.5 / max(0.1, after - 0.5) if after > 0.5 and before >= 0.5 else 0
    assert carried_over(old, new, data) == pytest.approx(expected + error)


@pytest.mark.parametrize("shares", [(0.0, 1.0, 1.0), (0.0, 0.0, 1.0), (0.0, 1.0, 0.0)])
def test_an_entry_answers_if_a_later_domain_conflicts_or_lacks_its_labels(shares: tuple[float, ...]) -> None:
    labels = [torch.tensor([0, 1]), torch.tensor([0, 1]), torch.tensor([0, 1])]
    key = torch.zeros(BUCKETS, dtype=torch.int32)

    def readers(read: str) -> list[tuple[int, ...]]:
        entries = [
            Entry(str(number), (2,), {}, share, {"labels": own, "key": key})
            for number, (own, share) in enumerate(zip(labels, shares, strict=True))
        ]
        return DomainMemory(entries, None, read).readers

    assert readers("always") == readers("independent") == [(0,), (1,), (2,)]
    last = max((number for number, share in enumerate(shares[1:], 1) if share < 0.5), default=0)
    assert readers("conflict") == [(number if number < last else 2,) for number in range(3)]
    assert readers("mean") == [(number,) if number < last or number == 2 else (number, 2) for number in range(3)]
    labels[0] = torch.tensor([0, 1, 2])
    assert readers("conflict")[0] == readers("mean")[0] == (0,)


def test_unsure_texts_read_the_mean_of_entry_and_newest_where_nothing_conflicts(words: Learner, monkeypatch) -> None:
    model, domains = copy.deepcopy(words.classifier()), stream()
    model.memory = DomainMemory([replace(one, carried=1.0) for one in memory_of(words).entries()], None, "mean")
    for domain in domains:
        data = words.split(domain, "test")
        chosen = model.memory.scores(data).argmax(-1)
        own = torch.stack([model.logits(data, one.name).softmax(-1) for one in domains])[chosen, range(len(data))]
        newest = model.plain_logits(data).softmax(-1)
        most = newest.amax(-1, keepdim=True)
        for sure in (0.0, float(most.median()), 1.1):
            monkeypatch.setattr(domain_memory, "SURE", sure)
            expected = torch.where(most >= sure, newest, (own + newest) / 2)
            torch.testing.assert_close(model.logits(data).softmax(-1), expected)


def test_texts_on_an_encoder_read_the_mean_and_pairs_where_domains_conflict(tiny: Path) -> None:
    pairs = stream(1)[0]
    texts = Domain("texts", *([replace(one, pair=None) for one in part] for part in (pairs.train, pairs.validation)))
    for domain, encoder, read in ((texts, tiny, "mean"), (pairs, tiny, "conflict"), (texts, None, "conflict")):
        learner = create("finetune+memory", encoder)
        learner.use("finetune+memory", MethodSettings())
        learner.adapt(domain)
        assert memory_of(learner).read == read


def test_versions_share_the_file_of_the_encoder_that_routes(vectors: Learner) -> None:
    assert vectors.folder is not None
    files = list((vectors.folder / "versions").glob("*/router.safetensors"))
    assert len(files) == 2
    assert len({file.stat().st_ino for file in files}) == 1


def test_a_mean_of_few_texts_is_not_kept(words: Learner) -> None:
    data = words.encode(stream()[0].train)
    vectors = torch.randn(len(data), 6)
    rare = data.some(list(range(len(data))))
    rare.labels[0] = 7  # type: ignore[index]
    key = gaussian_key(rare, vectors)
    assert int(key["texts"].min()) >= LEAST_GROUP
    repeated = gaussian_key(data.some([*range(len(data)), *[0] * 50]), torch.cat([vectors, vectors[:1].repeat(50, 1)]))
    torch.testing.assert_close(repeated["key"], gaussian_key(data, vectors)["key"])


def test_a_private_key_hides_each_text(words: Learner) -> None:
    data = words.encode(stream()[0].train)
    vectors = torch.randn(len(data), 100)
    key = private_key(data, vectors)
    assert key["key"].shape == (1, 100)
    repeated = private_key(data.some([*range(len(data)), *[0] * 50]), torch.cat([vectors, vectors[:1].repeat(50, 1)]))
    torch.testing.assert_close(repeated["key"], key["key"])  # the noise is the same for the same texts
    noise = key["key"] - vectors.mean(0)
    part = vectors[0].norm() / len(data)  # what a single text adds to the mean
    assert noise.norm() > part / 2
    many = Encoded([((number,),) for number in range(100)], [0] * 100, False)  # so many need none
    exact = torch.randn(100, 6)
    torch.testing.assert_close(private_key(many, exact)["key"][0], exact.mean(0))


def test_private_keys_route_texts(tiny: Path) -> None:
    learner, domains = create("finetune+memory", tiny), stream(2)
    learner.use("finetune+memory", replace(learner.options, keys="private"))
    learner.learn(domains)
    assert all(entry.tensors["key"].shape[0] == 1 for entry in memory_of(learner).entries())
    assert all(sum(route.values()) == pytest.approx(1) for route in learner.route(domains[0].test))


def test_means_of_few_texts_are_told_and_private_keys_are_not(tiny: Path) -> None:
    for keys, notes in (("label", 1), ("private", 0)):
        learner, heard = create("finetune+memory", tiny, keys=keys), Plug()
        learner.adapt(stream(1)[0], progress=heard)
        assert ("noise" in list(memory_of(learner).entries())[-1].tensors) == (keys == "private")
        assert sum("keys=private" in note for note in heard.notes) == notes


def test_a_small_domain_with_a_noisy_key_can_be_found_beside_a_large_one() -> None:
    """Noise takes its mean far away from all texts, which the router allows for."""
    random = torch.Generator().manual_seed(0)

    def texts(count: int, at: float) -> tuple[Encoded, torch.Tensor]:
        vectors = torch.randn(count, 64, generator=random) + at * (torch.arange(64) < 8)
        return Encoded([((number,),) for number in range(count)], [0] * count, False), vectors

    keys = [private_key(*texts(count, at)) for count, at in ((2000, -1.0), (30, 1.0))]
    for number, at in enumerate((-1.0, 1.0)):
        found = scores_by_vectors(texts(200, at)[1], keys).argmax(1)
        assert (found == number).double().mean() > 0.7
    keys[1].pop("noise")
    assert (scores_by_vectors(texts(200, 1.0)[1], keys).argmax(1) == 1).double().mean() < 0.3


def test_each_text_is_calibrated_by_the_domain_whose_weights_answer(words: Learner) -> None:
    temperatures = {name: one.temperature for name, one in words.calibration.domains.items()}
    memory = memory_of(words)
    for domain in stream():
        raw, found = (words.logits(domain, calibrated=calibrated)[0] for calibrated in (False, True))
        entries = memory.scores(words.split(domain, "test")).argmax(-1).tolist()
        divisors = torch.tensor([[temperatures[memory.names[entry]]] for entry in entries])
        torch.testing.assert_close(found, raw / divisors)
        shares = [list(one.probabilities.values()) for one in words.predict(domain.test)]
        torch.testing.assert_close(torch.tensor(shares), found.softmax(-1))


def rebuilt_step_by_step(learner: Learner, number: int) -> Classifier:
    """The model of an entry: one difference after another is added to the newest weights."""
    model, entries = copy.deepcopy(learner.classifier()), list(memory_of(learner).entries())
    model.memory, state = None, model.state_dict()
    for one in reversed(entries[number:-1]):
        for name, up in one.tensors.items():
            if name.endswith(":up"):
                name = name.removesuffix(":up")
                state[name] = state[name] + up.float() @ one.tensors[f"{name}:down"].float()
    state |= {name: tensor for name, tensor in entries[number].tensors.items() if name in state}
    model.load_state_dict(state)
    return model


@pytest.fixture(scope="module")
def four(tiny: Path) -> Learner:
    learner = create("finetune+memory", tiny)
    learner.use("finetune+memory", replace(learner.options, entry_rank=2))
    learner.learn(stream(4))
    return learner


@pytest.mark.parametrize("cached", [0, domain_memory.CACHED])
def test_entries_are_rebuilt_in_any_order_and_whatever_is_cached(four: Learner, monkeypatch, cached: int) -> None:
    monkeypatch.setattr(domain_memory, "CACHED", cached)
    monkeypatch.setattr(PretrainedEncoder, "_half", False)
    data = four.split(stream()[0], "test")
    expected = [rebuilt_step_by_step(four, number).plain_logits(data) for number in range(4)]
    memory = copy.deepcopy(memory_of(four))
    for number in (1, 0, 2, 0, 3, 1):
        found = memory.model_for(number, four.classifier()).plain_logits(data)
        torch.testing.assert_close(found, expected[number], rtol=0, atol=1e-5)


def test_matrices_that_are_kept_in_bfloat16_give_the_same_bits(four: Learner, monkeypatch) -> None:
    monkeypatch.setattr(PretrainedEncoder, "_half", True)
    data = four.split(stream()[0], "test")
    found = [copy.deepcopy(memory_of(four)).model_for(n, four.classifier()) for n in range(3)]
    monkeypatch.setattr(PretrainedEncoder, "convert_matrices", lambda encoder: None)
    expected = [copy.deepcopy(memory_of(four)).model_for(n, four.classifier()) for n in range(3)]
    for fast, plain in zip(found, expected, strict=True):
        assert domain_memory._bytes_of(fast) < domain_memory._bytes_of(plain)
        assert torch.equal(fast.plain_logits(data), plain.plain_logits(data))
