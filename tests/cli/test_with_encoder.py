"""The commands on a pretrained encoder: a model that goes on with it, moves without it, and every refusal."""

import errno
import importlib.metadata
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from memgrow.data.synthetic_dialogue import synthetic_dialogue
from memgrow.learner import Learner
from tests.support.stored import stored
from tests.support.tiny_encoder import edit_config, make_encoder

QUICK = ("--set", "epochs=1", "--set", "batch=16", "--device", "cpu")


@pytest.fixture(scope="session")
def encoder(tmp_path_factory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoders") / "tiny")


@pytest.fixture(scope="session")
def other(tmp_path_factory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoders") / "other", "roberta", seed=1)


@pytest.fixture(scope="session")
def taught(memgrow, data, encoder, tmp_path_factory) -> Path:
    """A model of pairs that has learnt two domains with slots. Not to be changed."""
    folder = tmp_path_factory.mktemp("taught") / "model"
    words = ("--method", "frozen+M", "--set", "options.slots=8", "--set", "memory_layers=1,2")
    memgrow.done("adapt", folder, data["kitchen"], data["harbour"], "--encoder", encoder, *QUICK, *words)
    return folder


@pytest.fixture
def model(taught, tmp_path) -> Path:
    return Path(shutil.copytree(taught, tmp_path / "models" / "model"))


def config(folder: Path) -> dict:
    return json.loads((stored(folder) / "config.json").read_text())


def test_a_new_model_takes_the_encoder_and_its_defaults(memgrow, data, encoder, tmp_path):
    out = memgrow.done("adapt", tmp_path / "m", data["kitchen"], data["harbour"], "--encoder", encoder, *QUICK)
    assert re.search(r"kitchen: 48 examples, 1 epoch, \d s; validation \S+%; grew a head", out)
    assert "does not use" not in out
    made = config(tmp_path / "m")
    assert (made["method"], made["options"]["smooth"], made["options"]["keep"]) == ("F+E", "auto", "auto")
    assert json.loads((stored(tmp_path / "m") / "history.json").read_text())["stages"][1]["note"]["kept"] in (
        "mean",
        "last",
    )
    assert made["model"]["encoder"] == str(encoder)
    assert (made["training"]["rate"], made["training"]["epochs"]) == (5e-5, 1)
    assert json.loads((stored(tmp_path / "m") / "vocabulary.json").read_text()) == [
        "<pad>",
        "<unk>",
    ]  # no word of the data


def test_it_goes_on_without_being_told_the_encoder_and_predicts(memgrow, data, model, encoder):
    memgrow.done("adapt", model, data["clinic"], "--watch", data["kitchen"])
    assert memgrow.learnt(model) == [("kitchen",), ("harbour",), ("clinic",)]
    (answer,) = memgrow.done("predict", model, "a boat", "the boat sails").splitlines()
    assert set(json.loads(answer)["probabilities"]) == {"contradiction", "entailment", "neutral"}
    scores = json.loads(memgrow.done("evaluate", model, data["clinic"], "--json"))
    assert 0 <= scores["clinic"] <= 1


def test_the_same_encoder_may_be_named_again_wherever_it_lies(memgrow, data, model, encoder, tmp_path, monkeypatch):
    monkeypatch.chdir(encoder.parent)
    memgrow.done("adapt", model, data["clinic"], "--encoder", "tiny")
    copied = shutil.copytree(encoder, tmp_path / "copy")
    memgrow.done("adapt", model, data["clinic"], "--encoder", copied, "--again")
    assert config(model)["model"]["encoder"] == str(encoder)


def test_a_method_that_starts_afresh_is_told_where_the_encoder_is_now(memgrow, data, encoder, tmp_path):
    gone = shutil.copytree(encoder, tmp_path / "gone")
    memgrow.done("adapt", tmp_path / "m", data["kitchen"], "--encoder", gone, "--method", "in-domain", *QUICK)
    gone.rename(tmp_path / "moved")
    told = memgrow.refused("adapt", tmp_path / "m", data["harbour"])
    assert told.startswith("a new model starts from the encoder as it came, which the old model's folder does not hold")
    assert "say where it is with --encoder (there is no encoder" in told
    memgrow.done("adapt", tmp_path / "m", data["harbour"], "--encoder", tmp_path / "moved")
    assert memgrow.learnt(tmp_path / "m") == [("kitchen",), ("harbour",)]
    assert config(tmp_path / "m")["model"]["encoder"] == str(gone)


def test_another_encoder_is_refused_for_a_model_that_has_one(memgrow, data, model, other):
    told = memgrow.refused("adapt", model, data["clinic"], "--encoder", other)
    assert re.search(r"was made with the encoder .*tiny.*leave --encoder out, or start a model of another name", told)


def test_a_model_keeps_its_encoder_when_that_changes_or_goes(memgrow, data, tmp_path):
    folder, encoder = tmp_path / "m", make_encoder(tmp_path / "encoder")
    words = (data["kitchen"], data["harbour"], "--encoder", encoder, *QUICK)
    memgrow.done("adapt", folder, words[0], *words[2:])
    make_encoder(encoder, seed=1)
    assert "whose weights were others" in memgrow.refused("adapt", folder, *words)
    shutil.rmtree(encoder)
    memgrow.done("adapt", folder, *words)
    memgrow.done("adapt", folder, data["clinic"])
    assert len(memgrow.learnt(folder)) == 3


def test_an_encoder_is_refused_for_a_recurrent_model(memgrow, data, made, encoder, tmp_path):
    model = shutil.copytree(made, tmp_path / "m")
    assert "for a pretrained encoder alone" in memgrow.refused("adapt", model, data["clinic"], "--encoder", encoder)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--set", "hidden=5"), "hidden is a setting of recurrent encoders; "),
        (("--recipe", "small"), "is a setting of recurrent encoders"),
        (("--set", "pooling=last"), "pooling 'last' is not known; there are mean, first"),
        (("--set", "memory_layers=7"), "memory_layers '7': tiny has 2 layers"),
        (("--set", "memory_layers=top"), "is no list of layers"),
        (("--set", "pairs=three"), "pairs 'three' is not known"),
        (("--set", "schedule=cosine"), "schedule 'cosine' is not known"),
        (("--set", "max_words=3"), "max_words 3 leaves no room"),
        (("--method", "F+V"), "F+V adds words, but a pretrained encoder grows by slots alone"),
        (("--method", "Progressive"), "adds columns, but a pretrained encoder"),
        (("--vectors", "vectors.txt"), "word vectors are for words"),
    ],
)
def test_what_does_not_go_with_an_encoder_is_told(memgrow, data, encoder, tmp_path, words, says):
    told = memgrow.refused("adapt", tmp_path / "m", data["kitchen"], "--encoder", encoder, *QUICK, *words)
    assert says in told
    assert not (tmp_path / "m").exists()


def test_settings_of_encoders_are_refused_without_one(memgrow, data, tmp_path):
    told = memgrow.refused("adapt", tmp_path / "m", data["kitchen"], "--set", "precision=bfloat16")
    assert told.startswith("precision can be set for a pretrained encoder alone")


def test_a_method_that_does_not_go_with_the_model_is_refused_before_others_are_trained(
    memgrow, data, encoder, tmp_path
):
    words = ("compare", *data.values(), "--out", tmp_path / "out", *QUICK)
    told = memgrow.refused(*words, "--encoder", encoder, "--methods", "F+V")
    assert told.startswith("F+V adds words")
    assert memgrow.refused(*words, "--methods", "LoRA").startswith("LoRA")
    assert not (tmp_path / "out").exists()


def test_replies_are_refused(memgrow, encoder, jsonl, tmp_path):
    (domain,) = synthetic_dialogue(domains=1, train=40, validation=8, test=8)
    rows = [{"message": one.text, "response": one.reply} for one in domain.train]
    file = jsonl(tmp_path / "talk.jsonl", rows)
    for words in (("adapt", tmp_path / "m", file), ("compare", file, jsonl(tmp_path / "desk.jsonl", rows))):
        told = memgrow.refused(*words, "--encoder", encoder)
        assert "give rows with labels" in told


@pytest.mark.parametrize("missing", ["transformers", "tokenizers"])
def test_without_the_extra_a_sentence_says_what_to_install(
    memgrow, data, encoder, taught, tmp_path, monkeypatch, missing
):
    monkeypatch.setitem(sys.modules, missing, None)
    install = f"a pretrained encoder needs the package {missing}: run `pip install 'memgrow[encoders]'`"
    for words in (
        ("adapt", tmp_path / "m", data["kitchen"], "--encoder", encoder),
        ("adapt", tmp_path / "m", data["kitchen"], "--encoder", "minilm"),
        ("compare", *data.values(), "--encoder", encoder, "--out", tmp_path / "out"),
    ):
        assert memgrow.refused(*words) == install
    if missing == "transformers":
        assert memgrow.refused("predict", taught, "a", "b") == install


def test_encoders_that_are_not_here_are_told_of(memgrow, data, tmp_path, monkeypatch):
    monkeypatch.setenv("MEMGROW_ENCODERS", str(tmp_path / "none"))
    told = memgrow.refused("adapt", tmp_path / "m", data["kitchen"], "--encoder", "minilm")
    assert told == "the encoder minilm is not here yet; run: memgrow encoder get minilm"
    told = memgrow.refused("adapt", tmp_path / "m", data["kitchen"], "--encoder", "mini")
    assert told.startswith("there is no encoder 'mini' and no such folder; choose minilm or")


def test_a_damaged_folder_is_told_of(memgrow, data, encoder, tmp_path):
    folder = shutil.copytree(encoder, tmp_path / "encoder")
    edit_config(folder, num_attention_heads=3)
    told = memgrow.refused("adapt", tmp_path / "m", data["kitchen"], "--encoder", folder)
    assert "transformers makes no model of the config.json of encoder (ValueError: " in told
    (stored(folder) / "model.safetensors").write_bytes(b"no")
    told = memgrow.refused("adapt", tmp_path / "m", data["kitchen"], "--encoder", folder)
    assert "is damaged or was copied in part" in told


def test_a_recipe_may_name_the_encoder_and_what_it_leaves_open_suits_it(memgrow, data, encoder, other, tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        f"method: F+M\nmodel: {{encoder: {encoder}, memory_layers: 2, pairs: two}}\n"
        "training: {epochs: 1, warm_up: 3}\noptions: {slots: 5}\n"
    )
    memgrow.done("adapt", tmp_path / "m", data["kitchen"], "--recipe", recipe)
    made = config(tmp_path / "m")
    assert made["model"]["encoder"] == str(encoder)
    assert (made["model"]["memory_layers"], made["model"]["pairs"]) == ("2", "two")
    assert (made["training"]["warm_up"], made["training"]["rate"], made["options"]["slots"]) == (3, 5e-5, 5)
    memgrow.done("adapt", tmp_path / "n", data["kitchen"], "--recipe", recipe, "--encoder", other)  # which wins
    assert config(tmp_path / "n")["model"]["encoder"] == str(other)


def test_inspect_shows_the_encoder_in_eighty_columns(memgrow, taught, encoder):
    out = memgrow.done("inspect", taught, "a boat", "the boat sails")
    assert max(map(len, out.replace(str(encoder), "").splitlines())) <= 80
    assert "tiny" in "".join(out.split())
    weights = config(taught)["model"]["weights"]
    assert re.search(rf"^weights +{weights[:16]}… \(SHA-256\)", out, re.MULTILINE)
    assert re.search(r"^memory layers +1, 2", out, re.MULTILINE)
    assert re.search(r"^slots in each bank +harbour 8", out, re.MULTILINE)
    assert not re.search(r"^(words|hidden units) ", out, re.MULTILINE)
    assert re.search(r"layer 1, % +layer 2, % +mean, % +adds, %", out)


def test_inspect_as_json_has_the_pieces_that_were_read(memgrow, taught):
    shown = json.loads(memgrow.done("inspect", taught, "a boat", "the boat sails", "--json"))
    (read,) = shown["reading"]
    assert read["tokens"][0][:3] == ["[CLS]", "a", "b"]
    assert [set(bank) for bank in read["banks"]] == [{"harbour"}] * 2
    assert [set(bank) for bank in read["adds"]] == [{"harbour"}] * 2
    assert all(added > 0 for bank in read["adds"] for added in bank.values())
    assert shown["about"]["memory_layers"] == [1, 2]
    assert shown["about"]["weights"] == config(taught)["model"]["weights"]


def test_long_texts_are_noted_with_the_limit_that_holds(memgrow, taught):
    result = memgrow("predict", taught, "a boat " * 60, "a cook", "a", "b")
    assert result.exit_code == 0
    assert "1 text longer than 64 word pieces: only the beginning is read" in " ".join(result.stderr.split())


def test_the_doctor_says_whether_encoders_can_be_used(memgrow, monkeypatch, tmp_path):
    monkeypatch.setenv("MEMGROW_ENCODERS", str(tmp_path))
    out = " ".join(memgrow.done("doctor").split())
    assert re.search(r"pretrained encoders: transformers \S+ and tokenizers \S+ are installed; none is here yet", out)

    def lacking(name: str) -> str:
        if name == "transformers":
            raise importlib.metadata.PackageNotFoundError(name)
        return "1"

    monkeypatch.setattr("memgrow.cli.machine.version", lacking)
    out = " ".join(memgrow.done("doctor").split())
    assert "pretrained encoders: transformers is not installed; run `pip install 'memgrow[encoders]'`" in out


def test_methods_say_what_goes_with_encoders_and_what_the_defaults_are(memgrow):
    out = memgrow.done("methods")
    for name, goes in (
        ("F", "yes"),
        ("F+V", "no"),
        ("frozen+M", "yes"),
        ("Progressive", "no"),
        ("ridge", "only"),
        ("sparse", "only"),
    ):
        assert re.search(rf"^ +{re.escape(name)} +\S.*data +{goes} ", out, re.MULTILINE), name
    assert re.search(r"^ +V +no ", out, re.MULTILINE)
    taken = "A new model takes F+V, for replies F+V+E; with a pretrained encoder F+E (smooth: auto)"
    assert taken in " ".join(out.split())


@pytest.mark.slow
def test_methods_are_compared_on_an_encoder(memgrow, data, encoder, tmp_path):
    words = ("compare", *data.values(), "--encoder", encoder, "--limit", 16, "--out", tmp_path / "out", *QUICK)
    out = memgrow.done(*words, "--workers", 1, "--seeds", 2)
    for method in ("F", "F+E", "F+A", "multi-task"):
        assert re.search(rf"^ +{re.escape(method)} +\d+\.\d ± \d", out, re.MULTILINE)
    assert max(map(len, out.replace(str(tmp_path), "").replace(str(encoder), "").splitlines())) <= 80
    written = json.loads((tmp_path / "out" / "compare.json").read_text())
    assert written["settings"]["model"]["encoder"] == str(encoder)
    assert written["seeds"] == [0, 1]
    assert not written["failures"]
    again = memgrow.done(*words, "--workers", 1, "--seeds", 2)
    assert ": average" not in again


def test_a_domain_moves_to_another_copy_as_a_file(memgrow, data, taught, model, tmp_path):
    out = " ".join(memgrow.done("export-domain", taught, "harbour", "-o", tmp_path / "harbour.memgrow").split())
    assert "harbour is in" in out
    assert "kB" in out
    memgrow.done("undo", model)
    texts = ("the boat is late", "it is not here")
    plain = memgrow.done("predict", model, *texts)
    out = " ".join(memgrow.done("import-domain", model, tmp_path / "harbour.memgrow", "--as", "port").split())
    assert "has the domain port now, with 8 slots; memgrow undo takes it back." in out
    assert memgrow.done("predict", model, *texts) == plain
    told = memgrow.done("predict", taught, *texts, "--for-domain", "harbour")
    assert memgrow.done("predict", model, *texts, "--for-domain", "port") == told
    scores = memgrow.done("evaluate", taught, data["harbour"], "--for-domain", "harbour", "--json")
    assert scores == memgrow.done("evaluate", model, data["harbour"], "--for-domain", "port", "--json")
    assert memgrow.learnt(model) == [("kitchen",), ("port",)]
    memgrow.done("history", model)
    memgrow.done("verify", model)
    assert "has a domain 'port' already" in memgrow.refused(
        "import-domain", model, tmp_path / "harbour.memgrow", "--as", "port"
    )
    assert "no domain 'ports'" in memgrow.refused("export-domain", model, "ports")
    memgrow.done("undo", model)
    assert memgrow.learnt(model) == [("kitchen",)]
    spaced = memgrow.done("import-domain", model, tmp_path / "harbour.memgrow", "--as", "my port")
    assert "--for-domain 'my port'\n" in spaced, "as a shell takes it"


def test_both_models_answer_for_the_domain_that_is_told(memgrow, data, taught, tmp_path):
    other = Learner.load(taught, "cpu")
    assert other.labels is not None
    other.labels = (*other.labels[1:], other.labels[0])  # it takes each label for another, but not for the kitchen
    other.save(tmp_path / "other")
    words = ("evaluate", taught, data["kitchen"], "--against", tmp_path / "other", "--json")
    plain, told = (
        json.loads(memgrow.done(*words, *more))["kitchen"]["against"] for more in ((), ("--for-domain", "kitchen"))
    )
    assert plain["only_first"] + plain["only_second"] > 0
    assert told["only_first"] + told["only_second"] == 0


def test_pruning_is_told_as_json_once_it_is_written(memgrow, data, model, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    words = ("prune", model, "--data", data["harbour"], "--below", "0.2", "--json")
    with monkeypatch.context() as within:
        within.setattr(Learner, "save", full)
        result = memgrow(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert json.loads(memgrow.done(*words))["written"]


def test_slots_that_nobody_reads_are_pruned_after_the_cost_was_told(memgrow, data, taught, model):
    before = (stored(model) / "model.safetensors").read_bytes()
    words = ("prune", model, "--data", data["harbour"], "--below", "0.2")
    out = " ".join(memgrow.done(*words, "--dry-run").split())
    assert "accuracy, %" in out
    assert "Nothing was written." in out
    assert (stored(model) / "model.safetensors").read_bytes() == before
    out = " ".join(memgrow.done(*words).split())
    assert "slots of each bank are gone from" in out
    assert memgrow.learnt(model) == [("kitchen",), ("harbour",), ("harbour",)]
    memgrow.done("history", model)
    memgrow.done("undo", model)
    assert (stored(model) / "model.safetensors").read_bytes() == before
    assert "give files with --data" in memgrow.refused("prune", model)
    assert "no slots of clinic" in memgrow.refused("prune", model, "--data", data["clinic"])
