"""A domain of a frozen encoder answers for itself, moves to another copy as a file, and changes nothing there."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from memgrow import versions
from memgrow.data import Domain, Example
from memgrow.training.defaults import FINE_TUNING
from memgrow.errors import DataError, ModelError
from memgrow.learner import Learner, Prediction
from memgrow.methods import MethodSettings
from memgrow.models import ModelSettings, PretrainedSettings
from memgrow.training.settings import TrainingSettings
from tests.support.tiny_encoder import make_encoder

FAST = replace(FINE_TUNING, epochs=2, batch=16, warm_up=2, rate=1e-3, new_rate=0.05)
THINGS = {"things": ("lamp", "chair", "clock"), "food": ("stew", "soup", "pie"), "films": ("plot", "scene", "cast")}


def domain(name: str, more: tuple[str, ...] = ()) -> Domain:
    words = {"good": ("fine", "lovely"), "bad": ("awful", "dull"), **{label: (label,) for label in more}}
    rows = tuple(
        Example(f"a {word} {thing}", None, label) for label in words for word in words[label] for thing in THINGS[name]
    )
    return Domain(name, rows, rows, rows)


DOMAINS = [domain("things"), domain("food", ("strange",)), domain("films")]
TEXTS = [example.text for one in DOMAINS for example in one.test]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoders") / "tiny")


@pytest.fixture(scope="module")
def folders(encoder, tmp_path_factory) -> list[Path]:
    """The model after each of three domains, in a folder each. Not to be changed."""
    place = tmp_path_factory.mktemp("stages")
    learner = Learner.create(
        "frozen+M", encoder=encoder, training=FAST, options=MethodSettings(slots=6, quiet=2.0), device="cpu"
    )
    for number, one in enumerate(DOMAINS):
        learner.adapt(one)
        learner.save(place / str(number))
    return [place / str(number) for number in range(len(DOMAINS))]


@pytest.fixture(scope="module")
def after(folders) -> list[list[Prediction]]:
    """The answers, to all texts, right after each domain."""
    return [Learner.load(folder, "cpu").predict(TEXTS) for folder in folders]


@pytest.fixture(scope="module")
def files(folders, tmp_path_factory) -> dict[str, Path]:
    place, learner = tmp_path_factory.mktemp("domains"), Learner.load(folders[-1], "cpu")
    for one in DOMAINS:
        learner.export_domain(one.name, place / one.name)
    return {one.name: place / one.name for one in DOMAINS}


def test_domains_that_are_read_by_the_nearest_texts_alone_answer_for_themselves_and_move_too(encoder, tmp_path):
    learner = Learner.create(
        "frozen+M",
        model=PretrainedSettings(encoder=str(encoder), slots=4, domains_read=1),
        training=replace(FAST, epochs=1),
        options=MethodSettings(slots=4),
        device="cpu",
    )
    after = []
    for one in DOMAINS[::2]:
        learner.adapt(one, folder=tmp_path / "m", keep_versions=1)
        after.append(learner.predict(TEXTS))
    loaded = Learner.load(tmp_path / "m", "cpu")
    assert loaded.predict(TEXTS) == after[1]
    assert loaded.predict(TEXTS, "things") == after[0]
    loaded.export_domain("films", tmp_path / "films")
    first = Learner.load(tmp_path / "m", "cpu", version=1)
    first.import_domain(tmp_path / "films")
    assert first.predict(TEXTS, "films") == after[1]
    assert first.predict(TEXTS) == after[0]


def test_a_recurrent_network_whose_texts_read_one_domain_is_the_same_when_it_was_saved(tmp_path):
    sizes = ModelSettings(embedding=6, hidden=5, slots=4, perceptron=8, domains_read=1)
    learner = Learner.create("F+M+V", model=sizes, training=TrainingSettings(epochs=1), device="cpu")
    learner.learn(DOMAINS[::2], folder=tmp_path / "m")
    loaded = Learner.load(tmp_path / "m", "cpu")
    assert loaded.predict(TEXTS) == learner.predict(TEXTS)
    (shares,) = {tuple(found) for found in loaded.reading(TEXTS[0])}
    assert shares == ("things", "films")
    assert [bool(share.any()) for share in loaded.reading(TEXTS[0])[0].values()] == [True, False]


def bits(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in learner.trained().state_dict().items()}


def test_a_domain_that_is_told_is_answered_as_when_it_had_just_been_learnt(folders, after):
    learner = Learner.load(folders[-1], "cpu")
    before = bits(learner)
    for one, answers in zip(DOMAINS, after, strict=True):
        assert learner.predict(TEXTS, one.name) == answers
        assert set(learner.evaluate(one, for_domain=one.name)) == {one.name}
    assert learner.predict(TEXTS) == after[-1]
    assert all(torch.equal(tensor, before[name]) for name, tensor in bits(learner).items())
    assert after[0] != after[1] != after[2], "or nothing was tried"


def test_an_imported_domain_answers_to_the_bit_and_changes_no_other_answer(folders, files, after, tmp_path):
    learner = Learner.load(folders[0], "cpu")
    for name in ("food", "films"):  # films was learnt on top of food
        stage = learner.import_domain(files[name])
        assert (stage.learned, stage.grew.slots) == ((name,), 6)
    learner.save(tmp_path / "m")
    for one in (learner, Learner.load(tmp_path / "m", "cpu")):
        assert one.predict(TEXTS) == after[0]
        assert one.predict(TEXTS, "food") == after[1]
        assert one.predict(TEXTS, "films") == after[2]
        assert "strange" in one.predict(TEXTS[:1], "food")[0].probabilities


def test_a_domain_is_imported_beside_another_that_was_imported_twice(folders, files, after):
    """Slots that are equal have one checksum, and are counted all the same."""
    learner = Learner.load(folders[0], "cpu")
    learner.import_domain(files["food"])
    learner.import_domain(files["food"], "customer-17")
    learner.import_domain(files["films"])
    for name, expected in {"food": after[1], "customer-17": after[1], "films": after[2]}.items():
        assert learner.predict(TEXTS, for_domain=name) == expected


def test_what_was_imported_stays_as_it_is_while_the_model_learns_on(folders, files, after, tmp_path):
    learner = Learner.load(folders[0], "cpu")
    learner.import_domain(files["food"], "customer")
    learner.adapt(DOMAINS[2])
    assert learner.trained().encoder.memories[0].read_segments == [1], "what was imported is no part of it"
    assert learner.predict(TEXTS, "customer") == after[1]
    assert learner.predict(TEXTS, "things") == after[0]
    learner.export_domain("customer", tmp_path / "again")
    other = Learner.load(folders[0], "cpu")
    other.import_domain(tmp_path / "again", "food")
    assert other.predict(TEXTS, "food") == after[1]


def test_undo_takes_an_import_back_to_the_byte(folders, files, tmp_path):
    folder = Path(shutil.copytree(folders[0], tmp_path / "m"))
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".lock"}
    learner = Learner.load(folder, "cpu")
    learner.import_domain(files["food"])
    learner.save(folder)
    assert versions.undo(folder).taken_back[0].learned == ("food",)
    assert {name: (folder / name).read_bytes() for name in before if name != "manifest.json"} == {
        name: content for name, content in before.items() if name != "manifest.json"
    }


def refused(learner: Learner, file: Path, name: str | None = None) -> str:
    before = bits(learner)
    with pytest.raises(ModelError) as error:
        learner.import_domain(file, name)
    assert all(torch.equal(tensor, before[name]) for name, tensor in bits(learner).items())
    return str(error.value)


def test_what_does_not_belong_to_the_encoder_is_refused_in_a_sentence(folders, files, encoder, tmp_path):
    first = Learner.load(folders[0], "cpu")
    assert "learnt on top of slots of food" in refused(first, files["films"])
    assert "has a domain 'things' already" in refused(first, files["things"])
    with pytest.raises(DataError, match=r"the name of the domain a\\ud800 holds half a character"):
        first.import_domain(files["food"], "a\ud800")
    assert first.history.domains == ("things",)
    other = Learner.create("frozen+M", encoder=make_encoder(tmp_path / "other", seed=1), training=FAST, device="cpu")
    other.adapt(DOMAINS[0])
    assert "belongs to another encoder" in refused(other, files["food"])
    settings = PretrainedSettings(encoder=str(encoder), best=3)
    narrow = Learner.load(folders[0], "cpu", model=replace(first.settings, best=settings.best))
    assert "was learnt with best: 16, and this model has 3" in refused(narrow, files["food"])


def test_a_damaged_file_is_refused_wherever_a_byte_has_changed(folders, files, tmp_path):
    learner, content = Learner.load(folders[0], "cpu"), files["food"].read_bytes()
    for place in (0, 9, 40, 300, len(content) // 2, len(content) - 1):
        changed = bytearray(content)
        changed[place] ^= 1
        (tmp_path / "changed").write_bytes(changed)
        refused(learner, tmp_path / "changed")
    for strange in (b"", content[:-1], content[:100], b"{}"):
        (tmp_path / "strange").write_bytes(strange)
        refused(learner, tmp_path / "strange")
    assert "cannot be read" in refused(learner, tmp_path / "nowhere")


def test_a_domain_has_no_part_once_its_encoder_has_been_trained_on(folders):
    learner = Learner.load(folders[1], "cpu")
    learner.use("F")
    learner.adapt(DOMAINS[2])
    with pytest.raises(ModelError, match=r"'food' has no part of its own in this model .*trained since"):
        learner.predict(TEXTS[:1], "food")
    with pytest.raises(ModelError, match="this model has no domain 'foot'"):
        learner.predict(TEXTS[:1], "foot")


def test_a_recurrent_network_has_no_such_parts():
    sizes = ModelSettings(embedding=6, hidden=5, slots=4, perceptron=8)
    learner = Learner.create("frozen+M", model=sizes, training=TrainingSettings(epochs=1), device="cpu")
    learner.adapt(DOMAINS[0])
    with pytest.raises(ModelError, match="one softmax reads the slots of all domains"):
        learner.predict(TEXTS[:1], "things")
