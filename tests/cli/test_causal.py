"""The commands on a causal language model."""

import json
import shutil

import pytest

from memgrow.data import Stream, write_jsonl
from research.common.dialogues import synthetic_dialogue
from tests.support.tiny_causal import make_causal
from tests.support.tiny_encoder import make_encoder


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A language model, another one, two domains of replies, and a text."""
    folder = tmp_path_factory.mktemp("files")
    make_causal(folder / "tiny")
    make_causal(folder / "other", seed=1)
    for domain in synthetic_dialogue(domains=2, train=40, validation=12, test=12):
        write_jsonl(Stream([domain]), folder / domain.name)
    rows = [one.train for one in synthetic_dialogue(domains=2, train=60, validation=1, test=1)]
    for name, some in zip(("kitchen", "harbour"), rows, strict=True):
        lines = [json.dumps({"message": row.text, "response": row.reply}) for row in some]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    (folder / "base.txt").write_text("some words of a text\n" * 30)
    return folder


def test_a_model_is_made_asked_evaluated_and_exported(memgrow, files, tmp_path):
    model = tmp_path / "model"
    made = ("--encoder", files / "tiny", "--device", "cpu", "--set", "epochs=1", "--method", "lora+memory")
    output = memgrow.done("adapt", model, files / "kitchen.jsonl", *made, "--watch", files / "base.txt", "--json")
    assert "texts_before" in json.loads(output)["stages"][0]["note"]
    memgrow.done("adapt", model, files / "harbour.jsonl", "--device", "cpu")
    assert memgrow.learnt(model) == [("kitchen",), ("harbour",)]
    matrix = json.loads(memgrow.done("inspect", model, "--json"))["history"]["matrix"]
    assert set(matrix[1]["scores"]) == {"kitchen", "harbour", "base"}, "files of earlier calls are watched again"
    reply = json.loads(memgrow.done("chat", model, "--max-words", "3", "--json", stdin="where is the lamp"))
    assert set(reply) == {"reply", "ended"}
    rows = memgrow.done("predict", model, "--for-domain", "kitchen", stdin="where\nis it\n").splitlines()
    assert len(rows) == 2
    assert set(json.loads(rows[0])) == {"texts", "reply", "ended"}
    assert "harbour" in json.loads(memgrow.done("evaluate", model, files / "harbour.jsonl", "--json"))
    memgrow.done("domain", "export", model, "kitchen", tmp_path / "adapter")
    assert {one.name for one in (tmp_path / "adapter").iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "memgrow.safetensors",
    }
    assert "is a folder" in memgrow.refused("domain", "export", model, "kitchen", tmp_path / "adapter")
    memgrow.done("domain", "import", model, tmp_path / "adapter", "--name", "again")
    assert memgrow.learnt(model)[-1] == ("again",)
    report = tmp_path / "report.html"
    memgrow.done("report", model, files / "harbour.jsonl", "-o", report)
    assert "harbour" in report.read_text()


def test_another_base_cannot_take_the_place_of_the_models_own(memgrow, files, tmp_path):
    base, model = shutil.copytree(files / "tiny", tmp_path / "tiny"), tmp_path / "model"
    quick = ("--device", "cpu", "--set", "epochs=1")
    memgrow.done("adapt", model, files / "kitchen.jsonl", "--encoder", base, *quick)
    message = memgrow.refused("adapt", model, files / "harbour.jsonl", "--encoder", files / "other", *quick)
    assert "other weights" in message
    shutil.rmtree(base)
    memgrow.done("adapt", model, files / "harbour.jsonl", *quick)
    assert memgrow.learnt(model) == [("kitchen",), ("harbour",)], "a model has all that it needs"


def test_encoders_and_recurrent_networks_keep_their_meaning(memgrow, files, tmp_path):
    encoder = make_encoder(tmp_path / "bert")
    assert "smollm2" in memgrow.refused("adapt", tmp_path / "m", files / "kitchen.jsonl", "--encoder", encoder)
    small = ("--set", "epochs=1", "--set", "hidden=5", "--device", "cpu")
    memgrow.done("adapt", tmp_path / "gru", files / "kitchen.jsonl", "--encoder", "gru", *small)
    assert "plain text" in memgrow.refused(
        "adapt", tmp_path / "gru", files / "harbour.jsonl", "--watch", files / "base.txt", *small
    )
