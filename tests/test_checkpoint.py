"""A large encoder's weights are stored once: later versions of a model share what has not changed of them."""

import errno
import random
import shutil
from pathlib import Path

import pytest
import torch

from memgrow import folder_writer, folders, storage
from memgrow.checkpoint import FORMAT, checkpoint_files
from memgrow.errors import ModelError
from memgrow.folder_reader import read_folder
from memgrow.learner import Learner
from memgrow.manifest import Manifest, stored_at
from memgrow.methods import MethodSettings
from memgrow.models import ENCODERS, ModelSettings
from memgrow.training.settings import TrainingSettings
from memgrow.unwritten_tensors import UnwrittenTensors
from memgrow.weight_files import BASE, KEPT_FROM, MODEL
from tests.models.test_custom_encoder import MeanEncoder
from tests.support.breaking import Plug, PulledPlug

SIZES = {"embedding": 48, "hidden": 5, "slots": 4, "perceptron": 6}
TRAINING = TrainingSettings(rate=0.01, batch=16, epochs=1)
OPTIONS = MethodSettings(slots=3)


class LargeEncoder(MeanEncoder):
    """One of which a model's folder keeps the weights apart."""

    stored_once = True


@pytest.fixture(autouse=True)
def encoders(monkeypatch):
    monkeypatch.setitem(ENCODERS, "large", LargeEncoder)
    monkeypatch.setitem(ENCODERS, "mean", MeanEncoder)


@pytest.fixture
def learner(stream) -> Learner:
    """One that has learnt a domain."""
    new = Learner.create("frozen+M", model=large(), training=TRAINING, options=OPTIONS, device="cpu")
    new.adapt(stream[0])
    return new


def large() -> ModelSettings:
    return ModelSettings("large", **SIZES)


def size(folder: Path, *names: str) -> int:
    return sum((folder / name).stat().st_size for name in names)


def bits(learner: Learner) -> dict[str, str]:
    return {
        name: UnwrittenTensors.of({"t": tensor}).checksum() for name, tensor in learner.trained().state_dict().items()
    }


def assert_saved(learner: Learner, folder: Path) -> None:
    """What is loaded is what was saved, and the manifest has every file."""
    assert bits(Learner.load(folder, device="cpu")) == bits(learner)
    named = Manifest.of(folder)
    earlier = [one.folder for one in named.earlier.values()]
    assert {"manifest.json", *named.sha256, *earlier} == {path.name for path in folder.iterdir()}


def change(learner: Learner, *names: str) -> None:
    tensors = learner.trained().state_dict()
    for name in names:
        tensors[name].add_(1)


def test_where_the_encoder_is_frozen_a_later_version_stores_slots_and_head_alone(learner, stream, tmp_path):
    versions = [tmp_path / f"v{number}" for number in range(3)]
    learner.save(versions[0])
    for domain, folder in zip(stream[1:3], versions[1:], strict=True):
        learner.adapt(domain)
        learner.save(folder)
    for folder in versions:
        assert (folder / BASE).samefile(versions[0] / BASE)
        assert_saved(Learner.load(folder), folder)
    assert size(versions[2], MODEL) < 0.2 * size(versions[0], BASE)
    assert bits(Learner.load(versions[2])) == bits(learner)
    for folder in versions[:2]:
        shutil.rmtree(folder)
    assert_saved(learner, versions[2])


def test_where_all_of_it_trains_a_later_version_is_whole(learner, stream, tmp_path):
    learner.use("F")
    learner.adapt(stream[1], folder=tmp_path / "model")
    before = size(tmp_path / "model", BASE, MODEL)
    learner.adapt(stream[2], folder=tmp_path / "model")
    assert size(tmp_path / "model", BASE, MODEL) == before
    assert not any(
        name.startswith("encoder.") for name in storage.load_tensors(checkpoint_files(tmp_path / "model"), MODEL)
    )
    assert_saved(learner, tmp_path / "model")


def test_adapting_in_place_keeps_the_file_that_was_there(learner, stream, tmp_path):
    learner.save(tmp_path / "model")
    number = (tmp_path / "model" / BASE).stat().st_ino
    for domain in stream[1:3]:
        again = Learner.load(tmp_path / "model", device="cpu")
        again.adapt(domain, folder=tmp_path / "model")
        assert (tmp_path / "model" / BASE).stat().st_ino == number
        assert_saved(again, tmp_path / "model")


def test_a_mount_point_hands_the_file_on_to_versions_within_and_elsewhere(learner, stream, tmp_path, monkeypatch):
    model, rename = tmp_path / "model", folders.rename

    def busy(old, new):
        if model in (old, new):
            raise OSError(errno.EBUSY, "Device or resource busy")
        rename(old, new)

    monkeypatch.setattr(folders, "rename", busy)
    model.mkdir()
    learner.save(model)
    number = stored_at(model, BASE).stat().st_ino
    for domain in stream[1:3]:
        again = Learner.load(model, device="cpu")
        again.adapt(domain, folder=model)
        assert stored_at(model, BASE).stat().st_ino == number
        assert bits(Learner.load(model, device="cpu")) == bits(again)
    again.save(tmp_path / "copy")
    assert (tmp_path / "copy" / BASE).samefile(stored_at(model, BASE))
    assert_saved(again, tmp_path / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "model"]


def test_a_version_that_is_replaced_while_it_is_loaded_is_loaded_anew(learner, tmp_path, monkeypatch):
    learner.save(tmp_path / "model")
    tensors, saved = storage.StoredFile.tensors, []

    def slowly(file):
        if not saved:  # between the checksum of the base and its tensors
            saved.append(file.path)
            change(learner, *(f"encoder.{name}" for name in learner.trained().encoder.state_dict()))
            learner.save(tmp_path / "model")
        return tensors(file)

    monkeypatch.setattr(storage.StoredFile, "tensors", slowly)
    loaded = Learner.load(tmp_path / "model", device="cpu")
    assert saved
    assert bits(loaded) == bits(learner)


def test_whatever_has_changed_comes_back_to_the_bit(learner, tmp_path):
    """A walk through versions, with numbers that compare as equal to others among them."""
    rng = random.Random(1)
    torch.manual_seed(1)
    kept = 0
    learner.save(tmp_path / "0")
    for version in range(1, 13):
        tensors = learner.trained().state_dict()
        for name in rng.sample(list(tensors), rng.randrange(len(tensors))) if version % 3 else tensors:
            tensors[name].view(-1)[:1].fill_(rng.choice([0.0, -0.0, 1e-45, 1.0]))  # one after another in one place
        learner.save(tmp_path / str(version))
        assert_saved(learner, tmp_path / str(version))
        kept += (tmp_path / str(version) / BASE).samefile(tmp_path / str(version - 1) / BASE)
    assert 2 <= kept <= 10
    assert bits(Learner.load(tmp_path / "0")) != bits(learner)


def test_the_file_is_kept_for_as_long_as_half_of_it_is_true(learner, tmp_path):
    encoder = {f"encoder.{name}": t.nbytes for name, t in learner.trained().encoder.state_dict().items()}
    largest = max(encoder, key=encoder.__getitem__)
    assert encoder[largest] > KEPT_FROM * sum(encoder.values())
    learner.save(tmp_path / "first")
    change(learner, *(name for name in encoder if name != largest))
    learner.save(tmp_path / "kept")
    assert (tmp_path / "kept" / BASE).samefile(tmp_path / "first" / BASE)
    change(learner, largest)
    learner.save(tmp_path / "new")
    assert not (tmp_path / "new" / BASE).samefile(tmp_path / "first" / BASE)
    assert size(tmp_path / "new", MODEL) < size(tmp_path / "kept", MODEL) < size(tmp_path / "kept", BASE)
    assert_saved(learner, tmp_path / "new")


def test_a_copied_folder_loads_alone_and_goes_on(learner, stream, tmp_path):
    learner.save(tmp_path / "first")
    learner.adapt(stream[1])
    learner.save(tmp_path / "second")
    shutil.copytree(tmp_path / "second", tmp_path / "elsewhere" / "model")
    for name in ("first", "second"):
        shutil.rmtree(tmp_path / name)
    moved = Learner.load(tmp_path / "elsewhere" / "model", device="cpu")
    assert bits(moved) == bits(learner)
    assert moved.predict(stream[1].test) == learner.predict(stream[1].test)
    moved.adapt(stream[2], folder=tmp_path / "elsewhere" / "model")
    learner.adapt(stream[2])
    assert_saved(learner, tmp_path / "elsewhere" / "model")


@pytest.mark.parametrize("where", [8, -1], ids=["its head", "its last number"])
def test_a_damaged_base_is_refused_and_never_handed_on(learner, tmp_path, where):
    learner.save(tmp_path / "model")
    path = tmp_path / "model" / BASE
    content = bytearray(path.read_bytes())
    content[where] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match=f"{BASE} is not what was written"):
        Learner.load(tmp_path / "model")
    learner.save(tmp_path / "model")  # by one who still has it in memory
    assert_saved(learner, tmp_path / "model")
    path.unlink()
    with pytest.raises(ModelError, match=f"{BASE} is missing.*copy it again"):
        Learner.load(tmp_path / "model")
    learner.save(tmp_path / "model")
    assert_saved(learner, tmp_path / "model")


@pytest.mark.parametrize("method", ["frozen+M", "F"])
@pytest.mark.parametrize("files", range(4))
def test_a_writer_that_is_stopped_anywhere_leaves_the_old_version(
    learner, stream, tmp_path, monkeypatch, method, files
):
    learner.save(tmp_path / "model")
    before, write, written = bits(learner), folder_writer.write_file, iter(range(files))

    def stop(path, data):
        if next(written, None) is None:
            raise PulledPlug
        write(path, data)

    learner.use(method)
    learner.adapt(stream[1])
    with monkeypatch.context() as patch:
        patch.setattr(folder_writer, "write_file", stop)
        with pytest.raises(PulledPlug):
            learner.save(tmp_path / "model")
    assert bits(Learner.load(tmp_path / "model", device="cpu")) == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    learner.save(tmp_path / "model")
    assert_saved(learner, tmp_path / "model")
    names = 2 if method == "frozen+M" else 1  # in the model and in the version before it, and in no leftover
    assert (tmp_path / "model" / BASE).stat().st_nlink == names


def test_a_model_of_another_kind_in_the_place_is_of_no_use(learner, stream, tmp_path):
    other = Learner.create("F", model=large(), training=TRAINING, seed=5, device="cpu")
    other.adapt(stream[0], folder=tmp_path / "model")
    learner.save(tmp_path / "mine")
    learner.save(tmp_path / "model")
    assert (tmp_path / "model" / BASE).samefile(tmp_path / "mine" / BASE)
    assert_saved(learner, tmp_path / "model")


def test_a_small_encoder_is_stored_in_one_file(stream, tmp_path):
    settings = ModelSettings("mean", **SIZES)
    small = Learner.create("F", model=settings, training=TRAINING, device="cpu")
    for domain in stream[:2]:
        small.adapt(domain, folder=tmp_path / "model")
    assert not (tmp_path / "model" / BASE).exists()
    assert_saved(small, tmp_path / "model")


def test_a_relative_name_stands_for_the_same_folder_when_the_working_directory_changes(learner, tmp_path, monkeypatch):
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        learner.save("model")
    assert (tmp_path / "here" / "model" / BASE).samefile(tmp_path / "there" / "model" / BASE)


def test_an_older_memgrow_is_told_to_update(learner, tmp_path):
    learner.save(tmp_path / "model")
    with pytest.raises(ModelError, match=rf"newer memgrow \(format {FORMAT}; this one reads up to 1\): update memgrow"):
        read_folder(tmp_path / "model", 1)


def test_what_an_unfinished_training_keeps_lacks_what_is_frozen(learner, stream, tmp_path, monkeypatch):
    monkeypatch.setattr("memgrow.training.loop.REPORT_EVERY_S", -1.0)
    learner.save(tmp_path / "model")
    broken = Learner.load(tmp_path / "model", device="cpu")
    with pytest.raises(PulledPlug):
        broken.adapt(stream[1], folder=tmp_path / "model", save_every=0, progress=Plug(2))
    kept = storage.load_tensors(read_folder(tmp_path / "model.adapting", FORMAT), "state.safetensors")
    assert {name.partition(".")[0] for name in kept} >= {"model/heads", "best/heads"}
    assert not any("vectors" in name or "inner" in name for name in kept)
    broken.adapt(stream[1], folder=tmp_path / "model")
    learner.adapt(stream[1])
    assert bits(broken) == bits(learner)
    assert_saved(learner, tmp_path / "model")
