"""An encoder is found by name, as a folder or on the hub; a folder with something wrong is refused in one line."""

import json
import shutil

import pytest
from safetensors.torch import save_file
from tokenizers import Tokenizer

from memgrow.errors import MemgrowError, ModelError, SettingsError
from memgrow.models.hub import KNOWN, find_encoder, read_encoder
from tests.support.lacking import lack_package
from tests.support.tiny_encoder import FAMILIES, edit_config, make_encoder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return {family: make_encoder(tmp_path_factory.mktemp("made") / family, family) for family in FAMILIES}


@pytest.fixture
def folder(made, tmp_path):
    """A whole BERT, to be spoilt."""
    return shutil.copytree(made["bert"], tmp_path / "encoder")


def test_a_tokenizer_neither_cuts_nor_pads_whatever_its_file_says(folder):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    before = tokenizer.encode("one two three four five six").ids
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=20)
    tokenizer.save(str(folder / "tokenizer.json"))
    read = Tokenizer.from_str(read_encoder(folder).tokenizer)
    assert [encoding.ids for encoding in read.encode_batch(["one two three four five six"])] == [before]


def test_licences_and_notices_are_kept(folder):
    assert read_encoder(folder).licences == {}
    (folder / "LICENSE").write_text("Apache-2.0")
    (folder / "NOTICE.txt").write_text("a notice")
    (folder.parent / "id_rsa").write_text("a secret")
    (folder / "LICENSE-extra").symlink_to(folder.parent / "id_rsa")
    assert read_encoder(folder).licences == {"LICENSE": "Apache-2.0", "NOTICE.txt": "a notice"}


def write(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def cut(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def without_pieces(folder):
    table = json.loads((folder / "tokenizer.json").read_bytes())
    table["model"]["vocab"], table["added_tokens"], table["post_processor"] = {}, [], None
    (folder / "tokenizer.json").write_text(json.dumps(table))
    edit_config(folder, vocab_size=None)


def steps(**kinds):
    """A tokenizer of a few bytes that would make of a letter more than any memory holds."""

    def make(folder):
        table = json.loads((folder / "tokenizer.json").read_bytes())
        (folder / "tokenizer.json").write_text(json.dumps(table | kinds))

    return make


CLS = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}
TEXTS = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
LONGER = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
BOMBS = {
    "normalizer": {"type": "Sequence", "normalizers": [LONGER] * 4},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [BYTES] * 60},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [CLS] * 4000 + TEXTS[:1],
        "pair": TEXTS,
        "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [1] * 4000, "tokens": ["a"] * 4000}},
    },
}
DAMAGE = {
    **{f"a {name} without bounds": (steps(**{name: one}), "far more") for name, one in BOMBS.items()},
    "not a folder": (lambda folder: (shutil.rmtree(folder), folder.write_text("")), "folder"),
    "no config": (lambda folder: (folder / "config.json").unlink(), "config.json"),
    "no tokenizer": (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer.json"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "model.safetensors"),
    "a pickle": (lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), "pickle"),
    "config is no JSON": (write("config.json", b"{"), "JSON"),
    "config is a list": (write("config.json", b"[1]"), "table"),
    "config is nested without end": (write("config.json", b"[" * 200_000), "JSON"),
    "tokenizer is no JSON": (write("tokenizer.json", b"\xff"), "JSON"),
    "tokenizer of no kind": (write("tokenizer.json", b'{"model": {"type": "none"}}'), "tokenizer.json"),
    "tokenizer without pieces": (without_pieces, "tokenizer.json"),
    "tokenizer of another model": (lambda folder: edit_config(folder, vocab_size=10), "10"),
    "cut weights": (cut, "damaged"),
    "weights without tensors": (lambda folder: save_file({}, folder / "model.safetensors"), "weights"),
    "no type": (lambda folder: edit_config(folder, model_type=None), "no model"),
    "a decoder": (lambda folder: edit_config(folder, model_type="gpt2"), "decoder"),
    "an encoder-decoder": (lambda folder: edit_config(folder, is_encoder_decoder=True), "decoder"),
    "an unknown type": (lambda folder: edit_config(folder, model_type="never-heard-of"), "never-heard-of"),
    "too many layers": (lambda folder: edit_config(folder, num_hidden_layers=10**8), "num_hidden_layers"),
    "too large": (lambda folder: edit_config(folder, hidden_size=10**8), "hidden_size"),
}


@pytest.mark.parametrize(("damage", "keyword"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_folder_is_refused_in_one_line(folder, damage, keyword):
    damage(folder)
    with pytest.raises(MemgrowError, match=keyword) as caught:
        read_encoder(folder)
    assert "\n" not in str(caught.value)


# Finding an encoder


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMGROW_ENCODERS", str(tmp_path / "shelf"))
    return tmp_path / "shelf"


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_encoder_that_was_not_fetched_is_refused_with_the_command(name, shelf):
    with pytest.raises(ModelError, match=f"`memgrow encoder get {name}`"):
        find_encoder(name)


def test_a_folder_is_found_by_its_path(made, tmp_path, monkeypatch, shelf):
    monkeypatch.setenv("HOME", str(made["bert"].parent))
    assert find_encoder("~/bert").sha256 == find_encoder(str(made["bert"])).sha256
    shutil.copytree(made["bert"], tmp_path / "minilm")
    monkeypatch.chdir(tmp_path)
    assert find_encoder("./minilm").name == "minilm"
    with pytest.raises(ModelError, match="encoder get"):  # a known name is not a folder
        find_encoder("minilm")


@pytest.mark.parametrize("spec", ["bert", "./nowhere", "/no/such/folder", "a/b/c", "", "owner/", "../x"])
def test_what_names_no_encoder_is_refused_with_what_can_be_named(spec):
    with pytest.raises(SettingsError, match=r"minilm.*owner/name"):
        find_encoder(spec)


def test_the_hubs_cache_is_asked_before_the_hub_and_neither_for_code_nor_pickles(made, monkeypatch):
    import huggingface_hub
    from huggingface_hub.utils import filter_repo_objects

    wanted = ["config.json", "tokenizer.json", "model.safetensors", "LICENSE"]
    unwanted = ["pytorch_model.bin", "modeling_it.py", "tf_model.h5", "onnx/model.onnx", "training_args.bin"]
    asked = []

    def snapshot(name, *, allow_patterns, local_files_only=False):
        assert list(filter_repo_objects(wanted + unwanted, allow_patterns=allow_patterns)) == wanted
        asked.append(local_files_only)
        if local_files_only:
            raise FileNotFoundError("not in the cache")
        return str(made["bert"])

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    assert find_encoder("owner/name").name == "owner/name"
    assert asked == [True, False]


@pytest.mark.parametrize("package", ["transformers", "tokenizers"])
def test_a_missing_extra_is_named(monkeypatch, package):
    lack_package(package, monkeypatch)
    with pytest.raises(SettingsError, match=rf"{package}: run `pip install transformers`"):
        find_encoder("minilm")
