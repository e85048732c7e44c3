"""All that a learner does, on a pretrained encoder: learn, answer, save, move, resume, and refuse in sentences."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from memgrow.data import Domain, Example, Stream, synthetic_stream
from memgrow.errors import MemgrowError, SettingsError
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import PretrainedSettings
from memgrow.models.hub import read_encoder
from memgrow.training.settings import FINE_TUNING
from research.common.dialogues import synthetic_dialogue
from tests.support.breaking import FIRST, LAST, Plug, PulledPlug, keep_epoch
from tests.support.new_labels import with_label
from tests.support.stored import stored
from tests.support.tiny_encoder import make_encoder

FAST = replace(FINE_TUNING, epochs=2, batch=16, warm_up=2, rate=1e-3)
OPTIONS = MethodSettings(slots=6, fisher_examples=8, keep="auto", smooth="auto")
PLANTED = "zyqqmog"  # no single piece of any tokenizer


@pytest.fixture(scope="module")
def encoder(tmp_path_factory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoders") / "tiny")


@pytest.fixture(scope="module")
def stream() -> Stream:
    return synthetic_stream(domains=3, train=32, validation=16, test=12, seed=3)


@pytest.fixture(scope="module")
def reviews() -> list[Domain]:
    """Single texts, one of which holds a word that nobody else uses."""

    def domain(name: str, things: tuple[str, ...]) -> Domain:
        good, bad = ("fine", "lovely", PLANTED), ("awful", "dull", "poor")
        rows = [
            Example(f"a {word} {thing}", None, label)
            for label, words in (("good", good), ("bad", bad))
            for word in words
            for thing in things
        ]
        return Domain(name, *[tuple(rows)] * 3)

    return [domain("things", ("lamp", "chair", "clock")), domain("food", ("stew", "soup", "pie"))]


def make(encoder: str | Path, method: str | None = None, **given) -> Learner:
    given = {"training": FAST, "options": OPTIONS, **given}
    return Learner.create(method, encoder=encoder, device="cpu", **given)


def bits(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in learner.trained().state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# Learning


def test_a_method_learns_and_predicts_the_same_after_it_was_saved(encoder, stream, tmp_path):
    """Every method: tests/methods/test_conformance.py."""
    learner = make(encoder, "frozen+slots")
    history = learner.learn(stream[:2], folder=tmp_path / "model")
    assert history.domains == stream.names[:2]
    assert set(history.matrix.rows[-1].scores) == set(stream.names[:2])
    tests = [example for domain in stream for example in domain.test]
    again = Learner.load(tmp_path / "model", "cpu")
    assert again.predict(tests) == learner.predict(tests)
    assert same(bits(again), bits(learner))
    assert again.evaluate(stream) == learner.evaluate(stream)
    assert len(learner.vocabulary) == 2
    again.learn(stream)  # and goes on
    assert again.history.domains[-1] == stream.names[2]


def test_the_defaults_are_for_fine_tuning(encoder):
    learner = Learner.create(encoder=encoder, device="cpu")
    assert learner.method.name == "finetune+ema+memory"
    assert (learner.options.smooth, learner.options.keep) == ("auto", "auto")
    assert learner.training == replace(FINE_TUNING, epochs="auto", select="last")
    assert learner.settings.encoder == str(encoder)
    assert learner.settings.weights is not None


def test_single_texts_are_learnt_and_the_weights_move(encoder, reviews):
    learner = make(encoder, training=replace(FAST, epochs=30, patience=30, rate=5e-3, new_rate=5e-2))
    before = load_file(learner.encoder.weights)
    learner.adapt(reviews[0])
    assert learner.task == "text"
    assert learner.evaluate(reviews[0]) == {"things": 1.0}
    assert [one.label for one in learner.predict(["a lovely clock", "a dull lamp"])] == ["good", "bad"]
    after = learner.trained().encoder.backbone.state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before if name in after)


def test_the_texts_of_pairs_may_be_read_apart(encoder, stream, tmp_path):
    learner = make(encoder, "finetune+slots", model=PretrainedSettings(encoder=str(encoder), pairs="two"))
    learner.learn(stream[:2], folder=tmp_path / "model")
    tests = stream[1].test
    assert Learner.load(tmp_path / "model", "cpu").predict(tests) == learner.predict(tests)
    (bank,) = learner.attention(tests[0])
    assert [len(share) for share in bank.values()] == [2]


def test_the_same_seed_gives_the_same_bits_and_another_others(encoder, stream):
    found = []
    for seed in (1, 1, 2):
        learner = make(encoder, "finetune+slots+average", seed=seed)
        learner.learn(stream[:2])
        found.append(bits(learner))
    assert same(found[0], found[1])
    assert not same(found[0], found[2])


def test_only_the_new_slots_and_the_head_train_with_a_frozen_encoder(encoder, stream):
    learner = make(encoder, "frozen+slots")
    learner.adapt(stream[0])
    first = bits(learner)
    learner.adapt(stream[1])
    second = bits(learner)
    for name, old in first.items():
        assert torch.equal(second[name][tuple(slice(n) for n in old.shape)], old) != name.startswith("heads."), name
    learner.adapt(stream[2])
    third = bits(learner)
    grown = [name for name in second if "memories" in name]
    assert grown
    assert all(torch.equal(third[name][: len(second[name])], second[name]) for name in grown)


@pytest.mark.parametrize(
    ("method", "epochs", "kept", "reports"),
    [("F+E", 4, LAST, 2), ("F+A", 2, FIRST, 1), ("frozen+M", 2, LAST, 1), ("F", "auto", FIRST, 2)],
)
def test_a_killed_run_ends_with_the_same_bits(encoder, stream, method, epochs, kept, reports, tmp_path, monkeypatch):
    keep_epoch(kept, monkeypatch)
    monkeypatch.setattr("memgrow.training.loop.REPORT_EVERY_S", -1.0)
    monkeypatch.setattr("memgrow.training.settings.AUTO_STEPS", 12)  # of a first domain, where epochs are auto
    training = replace(FAST, epochs=epochs, batch=8)  # so that kills fall within epochs as well
    whole, domains = make(encoder, method, training=training), [stream[0], with_label(stream[1])]
    whole.learn(domains)

    folder, kills = tmp_path / "model", 0
    while True:
        learner = (
            Learner.load(folder, "cpu")
            if (folder / "manifest.json").exists()
            else make(encoder, method, training=training)
        )
        try:
            learner.learn(domains, folder=folder, save_every=0.0, progress=Plug(reports))
            break
        except PulledPlug:
            kills += 1
            assert kills < 50
    assert kills >= (3 if reports == 1 else 1)
    assert same(bits(learner), bits(whole))
    assert same(bits(Learner.load(folder, "cpu")), bits(whole))
    tests = stream[0].test
    assert learner.predict(tests) == whole.predict(tests)


# Moving

ELSEWHERE = """
import json, socket, sys
asked = []

def refuse(*args, **options):
    asked.append(args)
    raise OSError("there is no network")

for name in ("connect", "connect_ex", "sendto"):
    setattr(socket.socket, name, refuse)
socket.create_connection = socket.getaddrinfo = socket.gethostbyname = refuse
from memgrow.learner import Learner
learner = Learner.load(sys.argv[1], "cpu")
answers = learner.predict([tuple(pair) for pair in json.loads(sys.stdin.read())])
assert not asked, f"the network was asked: {asked}"  # also by who goes on without an answer
print(json.dumps([answer.probabilities for answer in answers]))
"""


@pytest.mark.slow
def test_a_folder_moves_to_a_machine_without_network_and_predicts_the_same(stream, tmp_path):
    encoder = make_encoder(tmp_path / "encoder", "modernbert")
    (encoder / "LICENSE").write_text("as you like")
    learner = make(encoder, "finetune+slots", model=PretrainedSettings(encoder=str(encoder), precision="float32"))
    learner.learn(stream[:2], folder=tmp_path / "model")
    expected = [answer.probabilities for answer in learner.predict(stream[0].test)]
    shutil.rmtree(encoder)
    moved = shutil.copytree(tmp_path / "model", tmp_path / "far" / "away")
    shutil.rmtree(tmp_path / "model")
    offline = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")  # with which nobody would even try to ask
    around = {name: value for name, value in os.environ.items() if name not in offline}
    around |= {"HF_HOME": str(tmp_path / "none"), "MEMGROW_ENCODERS": str(tmp_path / "none"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(moved)],
        input=json.dumps([example.texts for example in stream[0].test]),
        env=around,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected
    assert (stored(moved) / "LICENSE").read_text() == "as you like"


def test_a_model_made_with_a_known_encoder_is_loaded_where_nothing_was_fetched(encoder, stream, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("memgrow.models.hub.find_encoder", lambda name: read_encoder(encoder, name))
        learner = make("minilm", "F")
        learner.adapt(stream[0], folder=tmp_path / "model")
    loaded = Learner.load(tmp_path / "model", "cpu")
    assert loaded.settings.encoder == "minilm"
    assert loaded.predict(stream[0].test) == learner.predict(stream[0].test)
    loaded.adapt(stream[1])  # and goes on


def test_a_model_without_its_encoders_folder_goes_on_and_says_so_only_where_it_must_begin_anew(stream, tmp_path):
    encoder = make_encoder(tmp_path / "encoder")
    make(encoder, "finetune").learn(stream[:1], folder=tmp_path / "finetune")
    make(encoder, "in-domain").learn(stream[:1], folder=tmp_path / "in-domain")
    Learner.load(tmp_path / "in-domain", "cpu").adapt(stream[1])  # from the pretrained weights once more
    shutil.move(encoder, tmp_path / "elsewhere")
    Learner.load(tmp_path / "finetune", "cpu").adapt(stream[1])
    with pytest.raises(MemgrowError, match=r"there is no encoder .*/encoder"):
        Learner.load(tmp_path / "in-domain", "cpu").adapt(stream[1])
    make_encoder(encoder, seed=1)
    with pytest.raises(SettingsError, match=r"SHA-256"):
        Learner.load(tmp_path / "in-domain", "cpu").adapt(stream[1])


# Creating


def test_an_encoder_is_a_name_a_folder_or_a_path(encoder, monkeypatch):
    by_path, by_text = (Learner.create(encoder=one, device="cpu") for one in (encoder, str(encoder)))
    assert by_path.settings == by_text.settings
    monkeypatch.setenv("MEMGROW_ENCODERS", str(encoder.parent / "none"))
    with pytest.raises(MemgrowError, match=r"minilm is not on this machine.*`memgrow encoder get minilm`"):
        Learner.create(encoder="minilm")


def test_replies_are_refused_before_anything_is_learnt(encoder):
    learner = make(encoder)
    with pytest.raises(SettingsError, match=r"has replies"):
        learner.learn(synthetic_dialogue(domains=1, train=8, validation=4, test=4))
    assert learner.model is None
