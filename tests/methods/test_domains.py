"""Domains of a domain memory are exported, imported and removed; independent ones leave no trace."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from memgrow.data import Domain, Stream, synthetic_stream
from memgrow.data.disk import read_metadata
from memgrow.errors import ModelError, SettingsError
from memgrow.evaluation.report import render, report_of_model
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import ModelSettings, PretrainedSettings
from memgrow.storage.versions import undo
from memgrow.training.settings import TrainingSettings
from tests.support.new_labels import with_label
from tests.support.tiny_encoder import make_encoder

TRAINING = TrainingSettings(rate=1e-2, epochs=1)


@pytest.fixture(autouse=True, scope="module")
def drift_statistics() -> Iterator[None]:
    """Also of domains that are as small as these."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("memgrow.evaluation.drift.MIN_TEXTS", 10)
        yield


def stream() -> Stream:
    first, second, third = synthetic_stream(domains=3, train=40, validation=16, test=12, seed=1)
    return Stream([with_label(first, new="old"), with_label(second), third])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("domains") / "encoder")


def create(encoder: Path, method: str = "lora+memory", independent: bool = True, **options: Any) -> Learner:
    settings = MethodSettings(independent=independent, **options)
    return Learner.create(method, model=PretrainedSettings(encoder=str(encoder)), training=TRAINING, options=settings)


def learned(encoder: Path, method: str, domains: list[Domain]) -> Learner:
    learner = create(encoder, method)
    for domain in domains:
        learner.adapt(domain)
    return learner


def files(learner: Learner, folder: Path) -> dict[str, bytes]:
    """The files of a saved model but for the history, which has times."""
    learner.save(folder, overwrite=True)
    (version,) = (folder / "versions").iterdir()
    names = {path.name: path.read_bytes() for path in version.iterdir()}
    return {name: content for name, content in names.items() if name not in ("history.json", "checksums.json")}


@pytest.fixture(scope="module")
def three(tiny: Path) -> Learner:
    return learned(tiny, "lora+memory", list(stream()))


@pytest.mark.parametrize("method", ["lora+memory", "finetune+ema+memory"])
def test_a_model_without_a_removed_domain_is_one_that_never_saw_it(
    tiny: Path, three: Learner, tmp_path: Path, method: str
) -> None:
    domains = list(stream())
    learner = three if method == "lora+memory" else learned(tiny, method, domains)
    learner.save(tmp_path / "all")
    for number, domain in enumerate(domains if learner is three else domains[:1]):
        rest = [one for one in domains if one is not domain]
        never = learned(tiny, method, rest)
        removed = Learner.load(tmp_path / "all")
        removed.remove_domain(domain.name)
        assert removed.labels == never.labels
        assert removed.history.domains == never.history.domains
        assert [replace(one, seconds=0) for one in removed.history.stages] == [
            replace(one, seconds=0) for one in never.history.stages
        ]
        expected, found = files(never, tmp_path / f"never{number}"), files(removed, tmp_path / f"removed{number}")
        assert found.keys() == expected.keys()
        assert "drift.json" in found
        assert [name for name in found if found[name] != expected[name]] == []
        for one in domains:
            assert removed.predict(one.test) == never.predict(one.test)
        assert domain.name not in json.dumps(removed.history.to_json())


def test_the_order_of_other_domains_and_the_seed_of_a_stage_do_not_matter(tiny: Path, three: Learner) -> None:
    domains = list(stream())
    alone = learned(tiny, "lora+memory", [domains[1]])
    texts = domains[1].test
    name = domains[1].name
    assert alone.for_domain(name).predict(texts) == three.for_domain(name).predict(texts)


def test_an_entry_holds_the_matrices_of_lora_exactly(three: Learner) -> None:
    memory = three.classifier().memory
    assert memory is not None
    for entry in memory.entries():
        ups = {name: one for name, one in entry.tensors.items() if name.endswith(":up")}
        assert ups
        assert all(one.shape[1] == three.options.rank and one.dtype == torch.float32 for one in ups.values())
    base = memory.base
    assert base is not None
    own = three.classifier().encoder.state_dict()
    assert all(torch.equal(tensor, own[name]) for name, tensor in base.state_dict().items())


def test_a_domain_moves_to_another_model_as_a_file(tiny: Path, tmp_path: Path, three: Learner) -> None:
    domains = list(stream())
    three.export_domain(domains[2].name, tmp_path / "domain")
    other = learned(tiny, "lora+memory", domains[:2])
    assert other.import_domain(tmp_path / "domain") == domains[2].name
    assert files(other, tmp_path / "other") == files(three, tmp_path / "three")
    for domain in domains:
        assert other.predict(domain.test) == three.predict(domain.test)
        assert other.for_domain(domain.name).predict(domain.test) == three.for_domain(domain.name).predict(domain.test)
    with pytest.raises(ModelError, match="already"):
        other.import_domain(tmp_path / "domain")


def test_a_domain_that_does_not_fit_is_refused_and_nothing_changes(
    tiny: Path, tmp_path: Path, three: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, path = stream()[2].name, tmp_path / "domain"
    three.export_domain(name, path)
    tensors, about = load_file(path), read_metadata(path)
    receiver = learned(tiny, "lora+memory", [stream()[0]])
    other_base = learned(make_encoder(tmp_path / "encoder", seed=5), "lora+memory", [stream()[0]])
    other_width = create(tiny)
    other_width.config = replace(other_width.config, model=replace(other_width.config.model, pairs="two"))
    other_width.adapt(stream()[0])
    chained = create(tiny, independent=False)
    chained.adapt(stream()[0])
    plain = create(tiny, "finetune", independent=False)
    plain.adapt(stream()[0])
    cases: list[tuple[Learner, dict[str, torch.Tensor], dict[str, str]]] = [
        (other_base, tensors, about),
        (other_width, tensors, about),
        (chained, tensors, about),
        (plain, tensors, about),
        (receiver, {**tensors, "key": tensors["key"] + 1}, about),
        (receiver, tensors, {}),
        (receiver, tensors, {"memgrow": about["memgrow"].replace('"format": 1', '"format": 2')}),
        (receiver, tensors, {"memgrow": about["memgrow"].replace(name, "another")}),
    ]
    for learner, changed, metadata in cases:
        save_file(changed, path, metadata or None)
        before = learner.state
        with pytest.raises(ModelError) as error:
            learner.import_domain(path)
        assert "\n" not in str(error.value)
        assert learner.state is before
    from memgrow.training import independent  # a file whose checksum is right may still not fit

    monkeypatch.setattr(independent, "_digest", lambda about, tensors: json.loads(about_of)["sha256"])
    about_of = about["memgrow"]
    heads = [one for one in tensors if one.startswith("heads.") and one.endswith("weight")]
    for changed in (
        {one: tensor for one, tensor in tensors.items() if one != heads[0]},
        {one: tensor for one, tensor in tensors.items() if one != "variance"},
        {**tensors, heads[0]: tensors[heads[0]][:, :3].contiguous()},
        {**tensors, heads[0]: tensors[heads[0]] * torch.nan},
        {**tensors, "key": tensors["key"].half()},
    ):
        save_file(changed, path, about)
        with pytest.raises(ModelError, match="damaged"):
            receiver.import_domain(path)
    path.write_bytes(b"no tensors")
    for missing in (path, tmp_path / "none"):
        with pytest.raises(ModelError):
            receiver.import_domain(missing)


def test_what_independent_domains_do_not_go_with_is_refused(tiny: Path, three: Learner, tmp_path: Path) -> None:
    domain = stream()[0]
    for method in ("ewc+memory", "lora", "rehearsal+memory"):
        with pytest.raises(SettingsError, match="lora\\+memory"):
            create(tiny, method).adapt(domain)
    options = MethodSettings(independent=True)
    with pytest.raises(SettingsError, match="encoder"):
        Learner.create("finetune+memory", model=ModelSettings(embedding=4), options=options).adapt(domain)
    given = Learner.create("lora+memory", encoder=str(tiny), labels=("x", "y"), options=options)
    with pytest.raises(SettingsError, match="labels"):
        given.adapt(domain)
    with pytest.raises(SettingsError, match="already"):
        three.adapt(domain)
    chained = create(tiny, independent=False)
    chained.adapt(domain)
    chained.use("lora+memory", MethodSettings(independent=True))
    with pytest.raises(SettingsError, match="new model"):
        chained.adapt(stream()[1])
    with pytest.raises(ModelError, match="independent"):
        chained.export_domain(domain.name, tmp_path / "file")
    with pytest.raises(ModelError, match="only domain"):
        chained.remove_domain(domain.name)
    with pytest.raises(ModelError, match="no domain"):
        three.remove_domain("another")
    with pytest.raises(ModelError):
        create(tiny).remove_domain(domain.name)
    mixed = Learner(three.config, three.state, three.device)
    mixed.use("lora+memory", MethodSettings())
    with pytest.raises(SettingsError, match="independent"):
        mixed.adapt(Domain("new", domain.train, domain.validation))


def test_an_independent_model_is_saved_resumed_and_undone(
    tiny: Path, tmp_path: Path, three: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = stream()
    folder = tmp_path / "model"
    create(tiny).learn([first, second], folder=folder)
    learner = Learner.load(folder)
    shutil.move(tiny / "model.safetensors", tmp_path / "away")  # the folder has the original encoder
    try:
        with monkeypatch.context() as patched:
            patched.setattr("memgrow.methods.memory.DomainMemory.alone", killed)
            with pytest.raises(KeyboardInterrupt):
                learner.adapt(third, folder=folder, save_every=0)
        assert (folder / "training").exists()
        learner = Learner.load(folder)
        learner.adapt(third, folder=folder)
    finally:
        shutil.move(tmp_path / "away", tiny / "model.safetensors")
    assert [learner.predict(one.test) for one in stream()] == [three.predict(one.test) for one in stream()]
    undo(folder)
    assert Learner.load(folder).history.domains == (first.name, second.name)


def killed(*given: Any, **named: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize("pretrained", [False, True])
def test_a_chained_entry_is_removed_and_the_others_answer_as_before(
    tiny: Path, tmp_path: Path, pretrained: bool
) -> None:
    domains = list(stream())
    settings = PretrainedSettings(encoder=str(tiny)) if pretrained else ModelSettings(embedding=12, hidden=8, slots=4)
    options = MethodSettings(read_entries="always", entry_rank=2)
    learner = Learner.create("finetune+memory", model=settings, training=TRAINING, options=options)
    learner.learn(domains, folder=tmp_path / "model")
    for number in (0, 1):
        changed = Learner.load(tmp_path / "model")
        changed.remove_domain(domains[number].name)
        changed.save(tmp_path / f"{number}")
        changed = Learner.load(tmp_path / f"{number}")
        rest = [one for one in domains if one is not domains[number]]
        assert set(changed.labels or ()) == {label for one in rest for label in one.labels}
        assert changed.history.domains == tuple(one.name for one in rest)
        assert list(changed.calibration.domains) == [one.name for one in rest]
        for one in rest:
            before = learner.for_domain(one.name).predict(one.test)
            after = changed.for_domain(one.name).predict(one.test)
            for old, new in zip(before, after, strict=True):
                assert new.probabilities == pytest.approx(old.probabilities, abs=1e-4)
        changed.adapt(Domain("new", domains[number].train, domains[number].validation))
    with pytest.raises(ModelError, match="undo"):
        learner.remove_domain(domains[2].name)


def test_the_classifier_of_scikit_learn_learns_independent_domains(tiny: Path) -> None:
    pytest.importorskip("sklearn")
    from memgrow.sklearn import MemgrowClassifier

    classifier = MemgrowClassifier(
        method="lora+memory",
        model=PretrainedSettings(encoder=str(tiny)),
        training=TRAINING,
        options=MethodSettings(independent=True),
    )
    for domain in stream()[:2]:
        texts = [one.texts for one in domain.train]
        classifier.partial_fit(texts, [one.label for one in domain.train], domain=domain.name)
    assert classifier.predict_proba([one.texts for one in stream()[2].test]).shape == (12, 5)
    assert classifier.learner_.history.domains == tuple(stream().names[:2])


def test_a_report_shows_the_accuracy_with_the_domain_given_and_only_settings_that_matter(three: Learner) -> None:
    domains = list(stream())
    page = render(report_of_model(three, "model", domains))
    given = three.accuracy_with_domain(domains)
    assert set(given) == {one.name for one in domains}
    assert "domain given, %" in page
    assert all(f"{100 * share:.1f}" in page for share in given.values())
    shown = {
        name for name in ("rank", "rate", "ridge", "embedding", "damping", "memory_layers") if f"<td>{name}<" in page
    }
    assert shown == {"rank", "rate"}
