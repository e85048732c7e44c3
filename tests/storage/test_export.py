"""Exports: an ONNX graph of an encoder predicts the same, a hub folder loads anywhere, a card holds no text."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from memgrow import Learner, MethodSettings, PretrainedSettings
from memgrow.data import Example, synthetic_stream
from memgrow.errors import ModelError
from memgrow.storage.export import export_huggingface, export_onnx
from memgrow.training.settings import FINE_TUNING
from tests.storage.conftest import SHORT, SMALL, answers, load
from tests.support.canaries import leaks, planted, rare_words
from tests.support.tiny_encoder import make_encoder

FAST = replace(FINE_TUNING, epochs=1, batch=16, warm_up=2, rate=1e-3)
WORDS = ("the", "a", "soup", "boat", "was", "not", "sharp", "late", "[SEP]", "<unk>", "é", "中", "😀")


def trained_on_encoder(folder: Path, method: str, family: str, paired: bool, **settings) -> Learner:
    model = PretrainedSettings(encoder=str(make_encoder(folder / "encoder", family)), precision="float32", **settings)
    learner = Learner.create(method, model=model, training=FAST, options=MethodSettings(slots=6), device="cpu")
    for domain in synthetic_stream(domains=2, train=24, validation=8, test=8, seed=3):
        if not paired:
            parts = ("train", "validation", "test")
            rows = {name: [Example(one.text, label=one.label) for one in getattr(domain, name)] for name in parts}
            domain = replace(domain, **{name: tuple(some) for name, some in rows.items()})
        learner.adapt(domain)
    with torch.no_grad():  # so that texts get different answers, and slots matter
        for memory in getattr(learner.classifier().encoder, "memories", ()):
            memory.bank.values.normal_(generator=torch.Generator().manual_seed(0))
        for parameter in learner.classifier().heads[-1].parameters():
            parameter.mul_(4 if parameter.dim() > 1 else 0)
    return learner


@pytest.mark.extras
@pytest.mark.parametrize(
    ("method", "family", "pairs", "settings"),
    [
        ("frozen+M", "bert", True, {"slots": 6, "best": 2}),
        ("LoRA", "distilbert", True, {"pairs": "two", "perceptron": 8}),
        ("ridge", "roberta", False, {}),
        ("F", "modernbert", False, {}),
    ],
)
def test_an_onnx_graph_predicts_the_same(tmp_path, method, family, pairs, settings) -> None:
    runtime, tokenizers = pytest.importorskip("onnxruntime"), pytest.importorskip("tokenizers")
    learner = trained_on_encoder(tmp_path, method, family, pairs, **settings)
    export_onnx(learner, tmp_path / "out")
    about = json.loads((tmp_path / "out/memgrow-export.json").read_bytes())
    chance = np.random.default_rng(0)
    texts = [" ".join(chance.choice(WORDS, int(chance.integers(1, 40)))) for _ in range(48)]
    asked = list(zip(texts[:24], texts[24:], strict=True)) if pairs else texts
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "out/tokenizer.json"))
    tokenizer.encode_special_tokens = True
    rows = tokenizer.encode_batch(texts if about["pairs"] == "two" or not pairs else asked)
    inputs = {"input_ids": [row.ids for row in rows], "attention_mask": [row.attention_mask for row in rows]}
    session = runtime.InferenceSession(str(tmp_path / "out/model.onnx"))
    (found,) = session.run(None, {name: np.array(values, np.int64) for name, values in inputs.items()})
    expected = np.array([list(one.probabilities.values()) for one in learner.predict(asked)])
    assert expected.std(0).max() > 1e-3
    assert np.abs(found - expected).max() < 1e-4
    assert str(tmp_path).encode() not in (tmp_path / "out/model.onnx").read_bytes()


def test_only_classifiers_on_encoders_become_onnx(stages, tmp_path) -> None:
    with pytest.raises(ModelError, match="only classifiers on a pretrained encoder"):
        export_onnx(stages[3], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def in_hub_cache(folder: Path, cache: Path) -> Path:
    """A snapshot as huggingface_hub keeps it: links to blobs."""
    (cache / "blobs").mkdir(parents=True)
    snapshot = cache / "snapshots" / "abc"
    for number, path in enumerate(path for path in folder.rglob("*") if path.is_file()):
        shutil.copy(path, cache / "blobs" / str(number))
        link = snapshot / path.relative_to(folder)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(cache / "blobs" / str(number))
    return snapshot


def test_a_hub_folder_loads_from_a_cache_and_goes_on(stages, domains, tmp_path) -> None:
    export_huggingface(stages[2], tmp_path / "soups")
    snapshot = in_hub_cache(tmp_path / "soups", tmp_path / "cache")
    assert answers(load(snapshot)) == answers(stages[2])
    load(snapshot).adapt(domains[2], folder=snapshot)
    assert load(snapshot).history.domains == tuple(domain.name for domain in domains)
    assert (snapshot / "README.md").is_file()
    with pytest.raises(ModelError, match="replaces nothing"):
        export_huggingface(stages[2], tmp_path / "soups")
    with pytest.raises(ModelError, match="inside the model"):
        export_huggingface(stages[2], tmp_path / "soups" / "again")


def test_a_card_tells_the_history_without_texts(tmp_path) -> None:
    learner = Learner.create("F+M+V", model=SMALL, training=replace(SHORT, min_documents=2), device="cpu")
    stream = planted(synthetic_stream(domains=2, train=24, validation=8, test=8, seed=3))
    learner.learn([replace(domain, name=f"<b>{domain.name}|![](//x.y/z)") for domain in stream])
    export_huggingface(learner, tmp_path / "soups")
    card = (tmp_path / "soups/README.md").read_text(encoding="utf-8")
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["model-index"][0]["name"] == "soups"
    assert len(front["model-index"][0]["results"]) == 2
    assert "<b>" not in card.split("---\n", 2)[2]
    assert "![](" not in card.split("---\n", 2)[2]
    rows = [line.replace("\\|", "") for line in card.splitlines() if line.startswith("|")]
    assert [row.count("|") for row in rows] == [4] * 4
    assert not list(leaks(tmp_path / "soups", rare_words(2)))
