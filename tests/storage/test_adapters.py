"""Domains of causal language models as adapters of peft; kills, undo and damage of such models."""

import json

import pytest
import torch

from memgrow.errors import MemgrowError
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import CausalSettings
from memgrow.storage.versions import undo
from memgrow.training.settings import TrainingSettings
from research.common.dialogues import synthetic_dialogue
from tests.support.breaking import Plug, PulledPlug
from tests.support.tiny_causal import make_causal

TRAINING = TrainingSettings(rate=2e-2, epochs=2, batch=16, max_words=100)


def learner(folder, method="lora+memory", **options) -> Learner:
    settings = CausalSettings(encoder=str(folder), precision="float32")
    return Learner.create(
        method, model=settings, training=TRAINING, options=MethodSettings(**options), device="cpu", task="reply"
    )


@pytest.fixture(scope="module")
def stream():
    return synthetic_dialogue(domains=2, train=48, validation=16, test=24)


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def trained(request, stream, tmp_path_factory):
    folder = tmp_path_factory.mktemp("base")
    one = learner(make_causal(folder / "tiny", request.param))
    one.learn(stream)
    return folder / "tiny", one


@pytest.mark.parametrize("number", [0, 1])
def test_an_exported_adapter_gives_the_same_logits_in_peft(trained, stream, tmp_path, number):
    peft = pytest.importorskip("peft")
    from transformers import AutoModelForCausalLM

    folder, one = trained
    name = stream[number].name
    one.export_domain(name, tmp_path / "adapter")
    theirs = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager")
    theirs = peft.PeftModel.from_pretrained(theirs, tmp_path / "adapter").eval()
    ours = one.model.memory.model_for(number, one.model).eval()
    ids = torch.randint(0, 300, (3, 20), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = theirs(input_ids=ids).logits
        found = ours.encoder.next_tokens(ids, 20)
        plain = theirs.get_base_model()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    with theirs.disable_adapter(), torch.no_grad():
        assert not torch.allclose(plain(input_ids=ids).logits, expected, atol=1e-2)


def test_an_adapter_is_taken_in_as_a_domain(trained, stream, tmp_path):
    folder, one = trained
    one.export_domain("harbour", tmp_path / "adapter")
    other = learner(folder)
    other.learn(stream[:1])
    before = other.evaluate(stream[0])
    assert other.import_domain(tmp_path / "adapter") == "harbour"
    asked = [example.text for example in stream[1].test]
    assert other.reply(asked, domain="harbour", max_words=4) == one.reply(asked, domain="harbour", max_words=4)
    assert other.reply(asked[:2], domain="kitchen", max_words=4)
    other.save(tmp_path / "model")
    again = Learner.load(tmp_path / "model", device="cpu")
    assert again.history.domains == ("kitchen", "harbour")
    assert again.evaluate(stream) == other.evaluate(stream)
    assert other.model.memory.model_for(0, other.model).score(other.encode(stream[0].test)) == pytest.approx(
        before["kitchen"]
    )
    with pytest.raises(MemgrowError, match="has a domain harbour already"):
        other.import_domain(tmp_path / "adapter")


def test_an_adapter_of_peft_needs_messages(trained, stream, tmp_path):
    folder, one = trained
    one.export_domain("harbour", tmp_path / "adapter")
    (tmp_path / "adapter" / "memgrow.safetensors").unlink()
    other = learner(folder)
    other.learn(stream[:1])
    with pytest.raises(MemgrowError, match="does not say which messages"):
        other.import_domain(tmp_path / "adapter")
    messages = [example.text for example in stream[1].train]
    assert other.import_domain(tmp_path / "adapter", name="port", messages=messages) == "port"
    assert other.history.domains == ("kitchen", "port")


def damaged(folder):
    path = folder / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def renamed(folder):
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "peft_type": "IA3"}))


def of_another_model(folder):
    from memgrow.data.disk import load_tensors, read_metadata, save_tensors

    path = folder / "memgrow.safetensors"
    about = json.loads(read_metadata(path)["memgrow"])
    save_tensors(path, load_tensors(path), {"memgrow": json.dumps({**about, "weights": "0" * 64})})


@pytest.mark.parametrize(
    ("break_it", "said"), [(damaged, "damaged|safetensors"), (renamed, "LoRA"), (of_another_model, "another language")]
)
def test_what_is_no_adapter_of_this_model_is_refused(trained, stream, tmp_path, break_it, said):
    folder, one = trained
    one.export_domain("harbour", tmp_path / "adapter")
    break_it(tmp_path / "adapter")
    other = learner(folder)
    other.learn(stream[:1])
    with pytest.raises(MemgrowError, match=said) as error:
        other.import_domain(tmp_path / "adapter")
    assert "\n" not in str(error.value)
    assert other.history.domains == ("kitchen",)


def test_an_adapter_for_wider_layers_is_refused(trained, stream, tmp_path):
    from memgrow.data.disk import load_tensors, save_tensors

    _, one = trained
    one.export_domain("harbour", tmp_path / "adapter")
    path = tmp_path / "adapter" / "adapter_model.safetensors"
    save_tensors(path, {name: torch.cat((one_, one_), 1) for name, one_ in load_tensors(path).items()})
    with pytest.raises(MemgrowError, match="damaged"):
        one.import_domain(tmp_path / "adapter", name="wide")


# The model's folder


def test_a_run_that_is_killed_resumes_with_the_same_bits(stream, tmp_path):
    folder = make_causal(tmp_path / "tiny")
    whole = learner(folder)
    whole.learn(stream, folder=tmp_path / "whole")
    broken = learner(folder)
    broken.adapt(stream[0], folder=tmp_path / "broken")
    with pytest.raises(PulledPlug):
        broken.adapt(stream[1], folder=tmp_path / "broken", save_every=0, progress=Plug(1))
    again = Learner.load(tmp_path / "broken", device="cpu")
    again.adapt(stream[1], folder=tmp_path / "broken")
    state, expected = again.model.state_dict(), whole.model.state_dict()
    assert state.keys() == expected.keys()
    assert all(torch.equal(state[name], expected[name]) for name in state)


def test_undo_goes_back_to_the_additions_of_before(stream, tmp_path):
    one = learner(make_causal(tmp_path / "tiny"))
    one.adapt(stream[0], folder=tmp_path / "model")
    before = {name: tensor.clone() for name, tensor in one.model.state_dict().items()}
    one.adapt(stream[1], folder=tmp_path / "model")
    undo(tmp_path / "model")
    again = Learner.load(tmp_path / "model", device="cpu").model.state_dict()
    assert all(torch.equal(again[name], tensor) for name, tensor in before.items())


@pytest.mark.parametrize("name", ["model.safetensors", "base.safetensors", "tokenizer_config.json"])
def test_a_damaged_file_is_named_in_one_line(stream, tmp_path, name):
    one = learner(make_causal(tmp_path / "tiny"), "lora")
    one.adapt(stream[0], folder=tmp_path / "model")
    (path,) = (tmp_path / "model").rglob(name)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(MemgrowError, match=name) as error:
        Learner.load(tmp_path / "model", device="cpu")
    assert "\n" not in str(error.value)
