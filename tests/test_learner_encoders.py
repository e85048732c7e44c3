"""All that a learner does, on a pretrained encoder: learn, answer, save, move, resume, and refuse in sentences."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from memgrow.data import Domain, Example, Stream, synthetic_stream
from memgrow.errors import MemgrowError, ModelError, SettingsError
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import ModelSettings, PretrainedSettings
from memgrow.models.hub import read_encoder
from memgrow.storage.checkpoint import find_faults
from memgrow.training.progress import NoProgress
from memgrow.training.settings import FINE_TUNING, TrainingSettings
from research.common.dialogues import synthetic_dialogue
from tests.support.breaking import FIRST, LAST, Plug, PulledPlug, keep_epoch
from tests.support.new_labels import with_label
from tests.support.stored import change, read_stored, stored
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


class Told(NoProgress):
    """Takes what a training has to say."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def note(self, text: str) -> None:
        self.notes.append(text)


def bits(learner: Learner) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in learner.trained().state_dict().items()}


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


# Learning


@pytest.mark.parametrize(
    "method", ["finetune+ema", "frozen+slots", "ridge"]
)  # every method: tests/methods/test_conformance.py
def test_a_method_learns_and_predicts_the_same_after_it_was_saved(encoder, stream, method, tmp_path):
    learner = make(encoder, method)
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
    assert learner.training == replace(FINE_TUNING, epochs="auto")
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


@pytest.mark.parametrize(("method", "advised"), [("frozen", True), ("ridge", False)])
def test_whoever_has_too_few_rows_to_train_on_is_told_of_the_method_that_trains_nothing(encoder, method, advised):
    rows = tuple(Example(f"a thing, number {n}", label=("good", "bad")[n % 2]) for n in range(8))
    wrong = tuple(replace(one, label=("bad", "good")[n % 2]) for n, one in enumerate(rows))
    told: list[str] = []
    learner = make(encoder, method, training=replace(FAST, rate=1e-12, new_rate=1e-12))
    learner.adapt(Domain("things", rows, rows, (*rows, *wrong)), progress=Told(told))
    (sentence,) = (note for note in told if "it has learned nothing of use" in note)
    assert ("--method ridge" in sentence) == advised


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


@pytest.mark.parametrize(("method", "epochs"), [("F+E", 4), ("F+A", 2), ("frozen+M", 2), ("F+M", 2), ("F", "auto")])
@pytest.mark.parametrize(("kept", "reports"), [(LAST, 1), (FIRST, 1), pytest.param(LAST, 2, marks=pytest.mark.slow)])
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


def test_long_texts_are_noted_with_the_limit_that_holds(encoder):
    rows = tuple(Example("a boat " * 100, None, label) for label in ("no", "yes") for _ in range(2))
    domain, plug = Domain("long", rows, rows, ()), Plug()
    make(encoder).adapt(domain, progress=plug)
    assert plug.notes == ["long: only the first 64 word pieces are read of 4 texts"]


# Reading


def test_reading_tells_of_each_bank_whose_slots_a_text_reads(encoder, stream):
    learner = make(encoder, "finetune+slots", model=PretrainedSettings(encoder=str(encoder), memory_layers="1,2"))
    learner.learn(stream[:2])
    example = stream[1].test[0]
    pieces = learner.tokens(example)
    assert [row[0] for row in pieces] == ["[CLS]"]
    banks = learner.attention(example)
    assert [list(bank) for bank in banks] == [[stream.names[1]]] * 2
    assert all(share.shape == (1, len(pieces[0])) for bank in banks for share in bank.values())
    assert all(0 <= float(share.max()) <= 1 + 1e-6 for bank in banks for share in bank.values())


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


def test_a_folder_that_is_whole_but_was_written_without_the_encoders_settings_is_refused(encoder, stream, tmp_path):
    make(encoder, "finetune").learn(stream[:1], folder=tmp_path / "model")
    change(tmp_path / "model", "encoder.json", None)
    with pytest.raises(ModelError, match=r"encoder\.json is missing"):
        Learner.load(tmp_path / "model", "cpu")


@pytest.mark.parametrize(("task", "pairs", "least"), [("pair", "one", 4), ("pair", "two", 3), ("text", "one", 3)])
def test_verify_and_loading_refuse_a_folder_whose_texts_have_no_room_for_a_word(
    encoder, stream, reviews, task, pairs, least, tmp_path
):
    learner = make(encoder, "finetune", model=PretrainedSettings(pairs=pairs))
    learner.learn([stream[0] if task == "pair" else reviews[0]], folder=tmp_path / "model")
    folder = tmp_path / "model"
    training = read_stored(folder, "config.json")["training"]
    for most in range(1, least + 1):
        change(folder, "config.json", {"training": training | {"max_words": most}})
        if most < least:
            said = f"max_words must be at least {least}"
            with pytest.raises(ModelError, match=said):
                Learner.load(folder, "cpu")
            (fault,) = find_faults(folder)
            assert re.search(said, fault)
    assert find_faults(folder) == []
    assert Learner.load(folder, "cpu").predict([("a", "b") if task == "pair" else "a"])


def test_no_words_of_the_data_stand_in_the_folder(encoder, reviews, tmp_path):
    learner = make(encoder, "finetune+slots")
    learner.learn(reviews, folder=tmp_path / "model")
    assert PLANTED in reviews[0].train[6].text
    for path in (tmp_path / "model").rglob("*.*"):
        assert PLANTED.encode() not in path.read_bytes(), path


# Creating


def test_an_encoder_is_a_name_a_folder_or_a_path(encoder, monkeypatch):
    by_path, by_text = (Learner.create(encoder=one, device="cpu") for one in (encoder, str(encoder)))
    assert by_path.settings == by_text.settings
    monkeypatch.setenv("MEMGROW_ENCODERS", str(encoder.parent / "none"))
    with pytest.raises(MemgrowError, match=r"minilm is not here yet; run: memgrow encoder get minilm"):
        Learner.create(encoder="minilm")


def test_settings_and_an_encoder_go_together_if_they_agree(encoder):
    settings = PretrainedSettings(slots=3)
    learner = Learner.create(encoder=encoder, model=settings, device="cpu")
    assert (learner.settings.encoder, learner.settings.slots) == (str(encoder), 3)
    with pytest.raises(SettingsError, match=r"must be PretrainedSettings"):
        Learner.create(encoder=encoder, model=ModelSettings(hidden=5))


def test_a_method_that_adds_words_is_refused(encoder):
    with pytest.raises(SettingsError, match="adds words"):
        make(encoder, "finetune+vocab")


def test_replies_are_refused_before_anything_is_learnt(encoder):
    learner = make(encoder)
    with pytest.raises(SettingsError, match=r"has replies"):
        learner.learn(synthetic_dialogue(domains=1, train=8, validation=4, test=4))
    assert learner.model is None


def test_word_vectors_are_refused(encoder, stream, tmp_path):
    with pytest.raises(SettingsError, match=r"word vectors out"):
        make(encoder).adapt(stream[0], vectors=tmp_path / "vectors.txt")


def test_training_settings_of_fine_tuning_are_checked():
    for wrong, sentence in (
        ({"new_rate": 0.0}, "new_rate must be above 0"),
        ({"warm_up": -1}, "warm_up must be 0 or more steps"),
        ({"schedule": "cosine"}, "schedule 'cosine' is not known; there are constant, linear"),
    ):
        with pytest.raises(SettingsError, match=sentence):
            TrainingSettings(**wrong)
