"""The files of an encoder are read whole from a folder, and what is wrong with a folder is told in a sentence."""

import hashlib
import json
import os
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from memgrow.errors import MemgrowError, ModelError, SettingsError
from memgrow.models.pretrained.files import encoders_extra, read_encoder
from tests.support.lacking import lack_package
from tests.support.tiny_encoder import FAMILIES, edit_config, make_encoder, vocabulary_alone


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return {family: make_encoder(tmp_path_factory.mktemp("made") / family, family) for family in FAMILIES}


@pytest.fixture
def folder(made, tmp_path):
    """A whole BERT, to be spoilt."""
    return shutil.copytree(made["bert"], tmp_path / "encoder")


def refusal(folder):
    with pytest.raises(MemgrowError) as caught:
        read_encoder(folder)
    told = str(caught.value)
    assert "\n" not in told
    assert ";" in told or ":" in told
    return told


@pytest.mark.parametrize("name", ["num_hidden_layers", "hidden_size", "vocab_size", "intermediate_size"])
def test_a_configuration_without_the_weights_for_it_is_refused_before_it_is_built(folder, name):
    edit_config(folder, **{name: 100_000_000})
    assert f"{name} is 100,000,000, and the tensors speak of" in refusal(folder)


def test_a_configuration_that_is_nested_without_end_is_refused(folder):
    (folder / "config.json").write_text("[" * 200_000)
    assert "config.json is not JSON" in refusal(folder)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_read_with_its_tensors_and_their_hash(made, family):
    files = read_encoder(made[family])
    weights = made[family] / "model.safetensors"
    assert files.name == family
    assert json.loads(files.config) == json.loads((made[family] / "config.json").read_bytes())
    assert files.sha256 == hashlib.sha256(weights.read_bytes()).hexdigest()
    assert files.weights == weights
    stored = load_file(weights)
    tensors = files.tensors()
    assert tensors.keys() == stored.keys()
    assert all(torch.equal(tensors[name], stored[name]) for name in stored)


def test_the_same_seed_makes_the_same_encoder_and_another_another(made, tmp_path):
    again = read_encoder(make_encoder(tmp_path / "again", "roberta"))
    other = read_encoder(make_encoder(tmp_path / "other", "roberta", seed=1))
    first = read_encoder(made["roberta"])
    assert (first.sha256, first.tokenizer) == (again.sha256, again.tokenizer)
    assert first.sha256 != other.sha256
    assert first.tokenizer == other.tokenizer


def test_a_tokenizer_neither_cuts_nor_pads_whatever_its_file_says(folder):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    before = tokenizer.encode("one two three four five six").ids
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=20)
    tokenizer.save(str(folder / "tokenizer.json"))
    read = Tokenizer.from_str(read_encoder(folder).tokenizer)
    assert [encoding.ids for encoding in read.encode_batch(["one two three four five six"])] == [before]
    assert len(read.encode("a").ids) < 20


def test_licences_and_notices_are_kept(folder):
    assert read_encoder(folder).licences == {}
    (folder / "LICENSE").write_text("Apache-2.0")
    (folder / "NOTICE.txt").write_text("by somebody")
    assert read_encoder(folder).licences == {"LICENSE": "Apache-2.0", "NOTICE.txt": "by somebody"}


def test_weights_in_several_files_are_one_encoder(folder, made):
    whole = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(whole)
    parts = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for part, inside in parts.items():
        save_file({name: whole[name] for name in inside}, folder / part)
    index = {"weight_map": {name: part for part, inside in parts.items() for name in inside}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    tensors = read_encoder(folder).tensors()
    assert tensors.keys() == whole.keys()
    assert all(torch.equal(tensors[name], whole[name]) for name in whole)
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert "lacks model-00002-of-00002.safetensors" in refusal(folder)
    (folder / "model.safetensors.index.json").write_text("{}")
    assert "names no files" in refusal(folder)


def test_numbers_of_positions_are_no_weights(folder):
    path = folder / "model.safetensors"
    save_file({**load_file(path), "embeddings.position_ids": torch.arange(64)}, path)
    assert "embeddings.position_ids" not in read_encoder(folder).tensors()


def test_a_vocabulary_alone_is_made_a_tokenizer(folder):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    vocabulary_alone(folder)
    assert "cannot make one of its vocabulary" in refusal(folder)  # nothing says of what family it is
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer", "do_lower_case": true}')
    read = Tokenizer.from_str(read_encoder(folder).tokenizer)
    assert read.encode("The lamp", "is on").ids == tokenizer.encode("The lamp", "is on").ids


def test_a_folder_that_is_none_is_told(folder, tmp_path):
    assert "there is no folder" in refusal(tmp_path / "nowhere")
    assert "is a file" in refusal(folder / "config.json")


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ("config.json", "has no config.json"),
        ("tokenizer.json", "has no tokenizer.json"),
        ("model.safetensors", "has no model.safetensors"),
    ],
)
def test_a_missing_file_is_told(folder, missing, told):
    (folder / missing).unlink()
    assert told in refusal(folder)


def test_a_pickle_is_not_read(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    told = refusal(folder)
    assert "a pickle" in told
    assert "save_pretrained" in told


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
@pytest.mark.parametrize(("content", "told"), [("{", "is not JSON"), ("[1]", "is no table"), ("\xff", "is not JSON")])
def test_files_that_are_no_json_are_told(folder, name, content, told):
    (folder / name).write_bytes(content.encode("latin-1"))
    assert told in refusal(folder)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model_type": None}, "names no model_type"),
        ({"model_type": "gpt2"}, "is of a decoder (gpt2)"),
        ({"is_decoder": True}, "is of a decoder (bert)"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "is of an encoder-decoder (t5)"),
        ({"model_type": "never-heard-of"}, "does not know"),
    ],
)
def test_a_model_that_is_no_encoder_is_told_with_what_works(folder, changes, told):
    edit_config(folder, **changes)
    assert told in refusal(folder)
    assert "BERT, DistilBERT, RoBERTa, ModernBERT" in refusal(folder)


@pytest.mark.parametrize("spoil", [lambda data: data[:-100], lambda data: data[:5], lambda data: b"x" * len(data)])
def test_damaged_weights_are_told(folder, spoil):
    path = folder / "model.safetensors"
    path.write_bytes(spoil(path.read_bytes()))
    assert "is damaged or was copied in part" in refusal(folder)


def test_weights_without_any_tensor_are_told(folder):
    save_file({}, folder / "model.safetensors")
    assert "holds no weights" in refusal(folder)


def test_a_tokenizer_without_pieces_is_told(folder):
    table = json.loads((folder / "tokenizer.json").read_bytes())
    table["model"]["vocab"], table["added_tokens"], table["post_processor"] = {}, [], None
    (folder / "tokenizer.json").write_text(json.dumps(table))
    edit_config(folder, vocab_size=None)
    assert "has no pieces" in refusal(folder)


def test_the_mark_that_some_editors_put_first_does_no_harm(folder):
    path = folder / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert json.loads(read_encoder(folder).config)["model_type"] == "bert"


def test_the_tokenizer_of_another_model_is_told(folder, made):
    shutil.copy(made["roberta"] / "tokenizer.json", folder)
    assert "is of another model" in refusal(folder)
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": "none"}}))
    assert "cannot be read" in refusal(folder)


def test_weights_that_are_elsewhere_are_told(made):
    files = read_encoder(made["bert"], "mine")
    away = type(files)(files.name, files.config, files.tokenizer, files.sha256)
    with pytest.raises(ModelError, match="the weights of the encoder mine are not at hand"):
        away.tensors()


@pytest.mark.parametrize("package", ["transformers", "tokenizers"])
def test_who_lacks_the_extra_is_told_how_to_have_it(made, monkeypatch, package):
    lack_package(package, monkeypatch)
    with pytest.raises(SettingsError, match=rf"needs the package {package}: run `pip install 'memgrow\[encoders\]'`"):
        read_encoder(made["bert"])


def test_packages_that_do_not_go_together_are_told():
    told = r"needs packages that go together \(tokenizers>=0.23 is required\): run `pip install"
    with pytest.raises(SettingsError, match=told), encoders_extra():
        raise ImportError("tokenizers>=0.23 is required\nTry: pip install -U")


def test_a_huge_file_of_weights_is_told_by_its_size_and_a_long_error_in_short(folder):
    path = folder / "model.safetensors"
    content = path.read_bytes()
    os.truncate(path, 1 << 40)  # sparse: it takes no room
    assert "is damaged or was copied in part" in refusal(folder)
    path.write_bytes(content.replace(b'"F32"', b'"' + b"F" * 3 + b'"', 1))
    assert len(refusal(folder)) < 500
