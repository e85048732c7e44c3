"""An encoder is found by a known name, as a folder, or on the hub; what fails is a sentence that says what to do."""

import shutil
from pathlib import Path

import pytest

from memgrow.errors import MemgrowError, SettingsError
from memgrow.models.pretrained.catalogue import KNOWN, encoders_folder, find_encoder, where
from tests.support.lacking import lack_package
from tests.support.tiny_encoder import make_encoder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_encoder(tmp_path_factory.mktemp("made") / "tiny")


@pytest.fixture(autouse=True)
def nothing_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMGROW_ENCODERS", str(tmp_path / "shelf"))


def refusal(spec):
    with pytest.raises(MemgrowError) as caught:
        find_encoder(spec)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_encoders_lie_beside_the_data(monkeypatch, tmp_path):
    assert encoders_folder() == tmp_path / "shelf"
    monkeypatch.delenv("MEMGROW_ENCODERS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert encoders_folder() == tmp_path / "caches/memgrow/encoders"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert where("minilm") == Path("~/.cache/memgrow/encoders/minilm").expanduser()


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_encoder_that_was_not_fetched_is_told_with_the_command(name):
    assert refusal(name).endswith(f"run: memgrow encoder get {name}")


def test_a_folder_is_found_by_its_path(made, monkeypatch):
    assert find_encoder(str(made)).name == "tiny"
    monkeypatch.chdir(made)
    assert find_encoder(".").name == "tiny"
    monkeypatch.setenv("HOME", str(made.parent))
    assert find_encoder("~/tiny").sha256 == find_encoder(str(made)).sha256


def test_a_known_name_is_not_taken_for_a_folder_of_that_name(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path / "minilm")
    monkeypatch.chdir(tmp_path)
    assert "memgrow encoder get" in refusal("minilm")
    assert find_encoder("./minilm").name == "minilm"


@pytest.mark.parametrize("spec", ["bert", "./nowhere", "/no/such/folder", "a/b/c", "", "owner/", "../x"])
def test_what_is_neither_is_told_with_what_can_be_named(spec):
    told = refusal(spec)
    assert "no such folder" in told
    assert all(name in told for name in KNOWN)
    assert "owner/name" in told


def test_the_hubs_own_cache_is_asked_before_the_hub(made, monkeypatch):
    import huggingface_hub

    asked = []

    def snapshot(name, *, allow_patterns, local_files_only=False):
        asked.append(local_files_only)
        if local_files_only:
            raise FileNotFoundError("not in the cache")
        return str(made)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert find_encoder("owner/name").name == "owner/name"
    assert asked == [True, False]
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda name, **more: str(made))
    assert find_encoder("owner/name").name == "owner/name"


def test_neither_code_nor_pickles_are_asked_of_the_hub(made, monkeypatch):
    import huggingface_hub
    from huggingface_hub.utils import filter_repo_objects

    there = ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors", "LICENSE", "vocab.txt"]
    not_wanted = ["pytorch_model.bin", "modeling_it.py", "tf_model.h5", "onnx/model.onnx", "training_args.bin"]

    def snapshot(name, *, allow_patterns, local_files_only=False):
        assert list(filter_repo_objects(there + not_wanted, allow_patterns=allow_patterns)) == there
        return str(made)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    find_encoder("owner/name")


@pytest.mark.slow
def test_a_hub_out_of_reach_is_told(tmp_path, monkeypatch):
    import huggingface_hub.constants as hub

    monkeypatch.setattr(hub, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", True)
    told = refusal("owner/name")
    assert "the Hugging Face hub did not send it" in told
    assert "minilm" in told


@pytest.mark.parametrize("package", ["transformers", "tokenizers"])
def test_who_lacks_the_extra_is_told_that_first(monkeypatch, package):
    lack_package(package, monkeypatch)
    with pytest.raises(SettingsError, match=rf"needs the package {package}: run `pip install 'memgrow\[encoders\]'`"):
        find_encoder("minilm")
