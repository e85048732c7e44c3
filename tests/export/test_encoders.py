"""Pretrained encoders as ONNX graphs, held against the model in onnxruntime; tracing takes seconds each."""

import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from memgrow.data import Example, synthetic_stream
from memgrow.errors import ModelError
from memgrow.export import export_huggingface, export_onnx
from memgrow.export.encoder_graph import Labelling, encoder_graph
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import PretrainedSettings
from memgrow.training.defaults import FINE_TUNING
from tests.export.conftest import example, run_alone, sharpened
from tests.support.tiny_encoder import FAMILIES, make_encoder

FAST = replace(FINE_TUNING, epochs=1, batch=16, warm_up=2, rate=1e-3)
SETTINGS = {  # by the name of a case: the method, and what is set of the model
    "slots": ("frozen+M", {"slots": 6, "best": 2}),
    "LoRA": ("LoRA", {"pairs": "two", "perceptron": 8}),
    "adapters": ("frozen+M", {"slots": 6, "memory": "adapter", "pooling": "first"}),
    "one domain read": ("frozen+M", {"slots": 6, "domains_read": 1}),
    "ridge": ("ridge", {}),
}
WORDS = "the a soup boat ward was not very sharp thick calm late ill [SEP] <unk> é 中 \U0001f600"


@pytest.fixture(scope="module")
def tokenizers():
    return pytest.importorskip("tokenizers", reason="tokenizers is not installed: pip install 'memgrow[encoders]'")


def learnt(folder: Path, method: str, family: str = "bert", single: bool = False, **settings) -> Learner:
    encoder = make_encoder(folder / "encoder", family)
    model = PretrainedSettings(encoder=str(encoder), precision="float32", **settings)
    learner = Learner.create(method, model=model, training=FAST, options=MethodSettings(slots=6), device="cpu")
    for domain in synthetic_stream(domains=3, train=24, validation=8, test=8, seed=3):
        if single:
            parts = {
                name: tuple(Example(f"{one.text} {one.pair}", label=one.label) for one in getattr(domain, name))
                for name in ("train", "validation", "test")
            }
            domain = replace(domain, **parts)
        learner.adapt(domain)
    chance = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for memory in learner.classifier().encoder.memories:
            memory.bank.values.normal_(generator=chance)  # they start at zero, and would add nothing
    # The first piece of a random encoder hardly tells one text from another.
    head = sharpened(learner.classifier().heads[-1], 60.0 if model.pooling == "first" else 3.0)
    data = learner.encode(
        [Example(text) if single else Example(*text) for text in texts_of(20, pairs=not single)], labelled=False
    )
    head[-1].bias.data -= learner.classifier().logits(data).mean(0)  # no label is the answer to all of them
    return learner


def texts_of(count: int, pairs: bool) -> list:
    chance = np.random.default_rng(0)

    def text() -> str:
        return " ".join(chance.choice(WORDS.split(), int(chance.integers(1, 40))))

    return [(text(), text()) if pairs else text() for _ in range(count)]


def probabilities_of(folder: Path, texts: list, tokenizers, runtime) -> np.ndarray:
    about = json.loads((folder / "memgrow-export.json").read_bytes())
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.encode_special_tokens = True
    rows = [text for each in zip(*texts, strict=True) for text in each] if about["pairs"] == "two" else texts
    read = tokenizer.encode_batch(rows)
    inputs = {"input_ids": [one.ids for one in read], "attention_mask": [one.attention_mask for one in read]}
    session = runtime.InferenceSession(str(folder / "model.onnx"))
    return session.run(None, {name: np.array(rows, np.int64) for name, rows in inputs.items()})[0]


def check(learner: Learner, folder: Path, texts: list, tokenizers, runtime, for_domain: str | None = None) -> None:
    export_onnx(learner, folder, for_domain)
    answers = learner.predict(texts, for_domain)
    expected = np.array([list(one.probabilities.values()) for one in answers])
    found = probabilities_of(folder, texts, tokenizers, runtime)
    assert expected.std(0).max() > 1e-3  # texts differ by more than the graph may
    assert np.abs(found - expected).max() < 1e-4
    labels = json.loads((folder / "memgrow-export.json").read_bytes())["labels"]
    assert [labels[best] for best in found.argmax(1)] == [one.label for one in answers]


@pytest.mark.extras
@pytest.mark.parametrize("case", SETTINGS)
def test_the_graph_of_an_encoder_predicts_the_same(runtime, tokenizers, tmp_path, case):
    method, settings = SETTINGS[case]
    learner = learnt(tmp_path, method, **settings)
    check(learner, tmp_path / "out", texts_of(24, pairs=True), tokenizers, runtime)


@pytest.mark.extras
@pytest.mark.parametrize("family", FAMILIES)
def test_a_thousand_texts_get_the_same_labels_in_every_family(runtime, tokenizers, tmp_path, family):
    learner = learnt(tmp_path, "frozen+M", family, single=True, slots=6)
    check(learner, tmp_path / "out", texts_of(1000, pairs=False), tokenizers, runtime)


@pytest.mark.extras
def test_a_graph_whose_own_wrapper_answers_otherwise_is_not_written(runtime, tokenizers, tmp_path, monkeypatch):
    learner = learnt(tmp_path, "frozen+M", single=True, slots=6)
    right = Labelling.forward

    def turned(self: Labelling, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return right(self, input_ids, attention_mask).flip(-1)

    monkeypatch.setattr(Labelling, "forward", turned)
    with pytest.raises(ModelError, match="other probabilities than the model"):
        export_onnx(learner, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_trace_that_fails_is_told_with_its_reason_and_without_colours(monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise RuntimeError("Failed. \x1b[96mThis is step 1/3\x1b[0m. Next steps:") from ValueError(
            "no \x1b[1msuch\x1b[0m op"
        )

    monkeypatch.setattr(torch.onnx, "export", refused)
    backbone = SimpleNamespace(config=SimpleNamespace(model_type="bert"))
    encoder = SimpleNamespace(longest=8, backbone=backbone, files=SimpleNamespace(name="tiny"))
    with pytest.raises(ModelError, match=r"of tiny \(bert; ValueError: no such op\): export it --to huggingface"):
        encoder_graph(SimpleNamespace(model=SimpleNamespace(texts=1, encoder=encoder)))


@pytest.mark.extras
def test_the_graph_of_one_domain_answers_as_that_domain(runtime, tokenizers, tmp_path):
    learner = learnt(tmp_path, "frozen+M", slots=6)
    check(learner, tmp_path / "out", texts_of(24, pairs=True), tokenizers, runtime, learner.history.domains[0])


@pytest.mark.extras
def test_a_process_without_memgrow_and_torch_gives_the_same_labels(runtime, tokenizers, tmp_path):
    """The very code of docs/leaving.md; nothing in the folder tells where it was made."""
    learner = learnt(tmp_path / "secret-place", "F", single=True)
    export_onnx(learner, tmp_path / "books-onnx")
    for path in (tmp_path / "books-onnx").iterdir():
        assert b"secret-place" not in path.read_bytes()
        assert b"memgrow/export" not in path.read_bytes()
    texts = texts_of(50, pairs=False)
    path = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    printed = run_alone(f"{example('py')}\nprint(predict({texts!r}))\n", tmp_path, path)
    assert eval(printed.splitlines()[-1]) == [one.label for one in learner.predict(texts)]


@pytest.mark.extras
def test_an_encoder_goes_to_the_hub_without_the_path_that_it_was_given_by(tmp_path):
    learner = learnt(tmp_path / "secret-place", "ridge")
    export_huggingface(learner, tmp_path / "out")
    for path in (tmp_path / "out").iterdir():
        assert b"secret-place" not in path.read_bytes()
    again, texts = Learner.load(tmp_path / "out", device="cpu"), texts_of(8, pairs=True)
    assert again.predict(texts) == learner.predict(texts)
    assert again.settings.encoder == "encoder"
