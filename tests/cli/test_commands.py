"""Each command from end to end, on tiny data."""

import json
import random
import sys
from pathlib import Path

import pytest

from memgrow import Learner
from memgrow.cli import GROUPS
from memgrow.cli.app import REMOVED_COMMANDS, REMOVED_OPTIONS
from memgrow.cli.options import method_names
from memgrow.data import write_jsonl
from research.common.dialogues import synthetic_dialogue
from tests.support.tiny_encoder import make_encoder

COMMANDS = [name for group in GROUPS.values() for name in group]


@pytest.fixture(scope="module")
def dialogues(tmp_path_factory) -> list[Path]:
    stream = synthetic_dialogue(domains=2, train=40, validation=8, test=8)
    return write_jsonl(stream, tmp_path_factory.mktemp("dialogues"))


@pytest.fixture(scope="module")
def replier(memgrow, dialogues, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("replier") / "model"
    memgrow.done("adapt", folder, *dialogues, "--method", "finetune+slots+vocab", *memgrow.tiny)
    return folder


# adapt


def test_adapt_learns_goes_on_and_skips_what_it_knows(memgrow, data, tmp_path):
    model = tmp_path / "model"
    assert "Saved as" in memgrow.done("adapt", model, data["kitchen"], *memgrow.tiny)
    out = memgrow.done("adapt", model, data["kitchen"], data["harbour"], *("--watch", data["clinic"]))
    assert "kitchen: skipped" in out
    assert memgrow.learnt(model) == [("kitchen",), ("harbour",)]
    assert "Nothing new" in memgrow.done("adapt", model, data["harbour"])
    memgrow.done("adapt", model, data["harbour"], "--again", "--method", "finetune+ema", "--seed", 3)
    learner = Learner.load(model, "cpu")
    assert [stage.method for stage in learner.history.stages][-1] == "finetune+ema"
    assert learner.seed == 3


def test_adapt_takes_a_folder_of_settings(memgrow, data, tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("method: F\nseed: 7\nmodel:\n  hidden: 9\n  embedding: 6\ntraining:\n  rate: 3e-4\n  epochs: 1\n")
    memgrow.done("adapt", tmp_path / "model", data["kitchen"], "--recipe", recipe, "--set", "hidden=8")
    learner = Learner.load(tmp_path / "model", "cpu")
    assert (learner.settings.hidden, learner.settings.embedding, learner.seed) == (8, 6, 7)
    assert (learner.method.name, learner.training.rate) == ("finetune", 3e-4)


def test_adapt_refuses_a_domain_that_costs_too_much(memgrow, data, model, monkeypatch):
    before = memgrow.learnt(model)
    words = ("adapt", model, data["clinic"], "--watch", data["kitchen"], "--max-forgetting", 0)
    monkeypatch.setattr("memgrow.training.adapt.ROUNDING", -1000.0)  # whatever it costs, it is too much
    result = memgrow(*words)
    assert result.exit_code == 3
    assert "not kept" in result.stderr
    assert memgrow.learnt(model) == before


def test_adapt_reads_one_file_by_a_column_and_watches_a_domain_by_name(memgrow, jsonl, reviews, tmp_path):
    rows = [{**row, "shop": shop} for shop in ("north", "south") for row in reviews]
    file = jsonl(tmp_path / "all.jsonl", rows)
    words = ("--by", "shop", "--domains", "north", "--watch", "south", *memgrow.tiny)
    out = json.loads(memgrow.done("adapt", tmp_path / "model", file, *words, "--json"))
    assert out["history"]["stages"][0]["learned"] == ["north"]
    assert set(Learner.load(tmp_path / "model", "cpu").history.matrix.rows[0].scores) == {"north", "south"}


def test_adapt_renames_labels_and_reads_other_columns(memgrow, tmp_path, reviews):
    file = tmp_path / "table.csv"
    lines = [f"{row['text']};{5 if row['label'] == 'good' else 1}" for row in reviews]
    file.write_text("\n".join(["review;stars", *lines]) + "\n", encoding="latin-1")
    words = ("--text", "review", "--label", "stars", "--map-label", "5=good", "--map-label", "1=bad")
    memgrow.done("adapt", tmp_path / "m", file, *words, "--encoding", "latin-1", *memgrow.tiny)
    assert Learner.load(tmp_path / "m", "cpu").labels == ("bad", "good")


def test_adapt_with_an_encoder(memgrow, data, tmp_path):
    encoder = make_encoder(tmp_path / "encoder")
    model = tmp_path / "model"
    memgrow.done("adapt", model, data["kitchen"], "--encoder", encoder, "--set", "epochs=1")
    memgrow.done("adapt", model, data["harbour"], "--encoder", encoder)
    learner = Learner.load(model, "cpu")
    assert learner.method.name == "finetune+ema+memory"
    assert learner.history.domains == ("kitchen", "harbour")
    assert json.loads(memgrow.done("predict", model, "a pan", "a pot").splitlines()[0])["label"] in learner.labels


# predict, evaluate, drift


def test_predict_reads_arguments_files_and_standard_input(memgrow, made_of_texts, jsonl, tmp_path):
    file = jsonl(tmp_path / "texts.jsonl", [{"id": 1, "text": "a fine lamp", "label": "good"}])
    given = memgrow.done("predict", made_of_texts, "a fine lamp")
    answers = [
        json.loads(given),
        json.loads(memgrow.done("predict", made_of_texts, "--file", file)),
        json.loads(memgrow.done("predict", made_of_texts, stdin="a fine lamp\n")),
        json.loads(memgrow.done("predict", made_of_texts, stdin='{"id": 2, "text": "a fine lamp"}\n')),
    ]
    assert len({json.dumps(one["probabilities"]) for one in answers}) == 1
    assert [one.get("id") for one in answers] == [None, 1, None, 2]
    assert answers[1]["given_label"] == "good"


def test_predict_writes_csv(memgrow, made_of_texts, jsonl, tmp_path):
    file = jsonl(tmp_path / "texts.jsonl", [{"id": n, "text": "a fine lamp", "label": "x"} for n in (1, 2)])
    result = memgrow("predict", made_of_texts, "--file", file, "-o", tmp_path / "out.csv")
    assert " ".join(result.stderr.split()).startswith("2 rows written to")
    assert result.stdout == ""
    header, *rows = (tmp_path / "out.csv").read_text().splitlines()
    assert header == "id,text,given_label,label,probability,probability_bad,probability_good"
    assert len(rows) == 2


def test_predict_for_a_domain_answers_with_its_labels(memgrow, jsonl, reviews, tmp_path):
    colours = [{"text": row["text"], "label": {"good": "red", "bad": "blue"}[row["label"]]} for row in reviews]
    files = [jsonl(tmp_path / "marks.jsonl", reviews), jsonl(tmp_path / "colours.jsonl", colours)]
    memgrow.done("adapt", tmp_path / "m", *files, *memgrow.tiny)
    one = json.loads(memgrow.done("predict", tmp_path / "m", "a fine lamp", "--for-domain", "marks"))
    assert set(one["probabilities"]) == {"good", "bad"}
    assert sum(one["probabilities"].values()) == pytest.approx(1)
    assert "no domain" in memgrow.refused("predict", tmp_path / "m", "a", "--for-domain", "moon")


def test_a_model_of_replies_replies(memgrow, replier, dialogues):
    reply = json.loads(memgrow.done("predict", replier, "hello there", "--beam", 2))
    assert set(reply) == {"texts", "reply", "ended"}
    figures = json.loads(memgrow.done("evaluate", replier, *dialogues, "--json"))
    assert all("perplexity" in one for one in figures.values())
    assert "--by-label" in memgrow.refused("evaluate", replier, *dialogues, "--by-label")


def test_evaluate_tells_more_when_asked(memgrow, made, data):
    files = [data["kitchen"], data["harbour"]]
    assert "kitchen" in memgrow.done("evaluate", made, *files)
    figures = json.loads(memgrow.done("evaluate", made, *files, "--by-label", "--calibration", "--json"))
    assert {"accuracy", "temperature", "ece_uncalibrated"} <= set(figures["kitchen"])


def test_watch_reads_a_stream_of_texts(memgrow, jsonl, tmp_path):
    import random

    rng = random.Random(0)
    words = [f"word{number}" for number in range(60)]
    rows = [{"text": " ".join(rng.choices(words, k=8)), "label": rng.choice("ab")} for _ in range(400)]
    memgrow.done("adapt", tmp_path / "m", jsonl(tmp_path / "d.jsonl", rows), *memgrow.tiny)
    texts = "".join(f"other{number % 50} things{number % 7} entirely\n" for number in range(200))
    *_, last = memgrow.done("drift", tmp_path / "m", "--json", stdin=texts).splitlines()
    assert json.loads(last)["due"] is True


# inspect, undo, export, methods


def test_the_version_comes_first(memgrow):
    first, second, *_ = memgrow.done("--version").splitlines()
    assert first.startswith("memgrow 1")
    assert second.startswith("not fetched yet: encoder")


def test_inspect_shows_history_versions_and_attention(memgrow, made):
    text = memgrow.done("inspect", made, "the stew was warm", "it was hot")
    assert "kitchen" in text
    found = json.loads(memgrow.done("inspect", made, "the stew was warm", "it was hot", "--json"))
    assert set(found) == {"about", "history", "verdict", "versions", "reading"}
    assert found["verdict"]["sentence"] in " ".join(text.split())
    assert found["verdict"]["forgetting"] == found["history"]["forgetting"]
    assert len(found["versions"]) == 2


def test_undo_takes_back_the_last_domain(memgrow, model, data):
    before = memgrow.done("predict", model, "the stew", "it was hot")
    (digest, *_) = (one["digest"] for one in json.loads(memgrow.done("inspect", model, "--json"))["versions"])
    memgrow.done("adapt", model, data["clinic"])
    assert f"digest {digest}" in memgrow.done("undo", model)
    assert memgrow.learnt(model) == [("kitchen",), ("harbour",)]
    assert memgrow.done("predict", model, "the stew", "it was hot") == before


def test_verify_finds_a_changed_byte(memgrow, model):
    assert "intact" in memgrow.done("inspect", model, "--verify")
    weights = max(model.rglob("*.safetensors"), key=lambda path: (path.stat().st_size, str(path)))
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    result = memgrow("inspect", model, "--verify")
    assert result.exit_code == 1
    assert weights.name in result.stdout


def test_export_writes_a_folder(memgrow, made_of_texts, tmp_path):
    out = json.loads(memgrow.done("export", made_of_texts, tmp_path / "hub", "--to", "huggingface", "--json"))
    assert out["bytes"] > 0
    assert (tmp_path / "hub" / "README.md").exists()
    memgrow.refused("export", made_of_texts, tmp_path / "hub", "--to", "huggingface")  # nothing is replaced
    assert "no export format" in memgrow.refused("export", made_of_texts, tmp_path / "x", "--to", "pdf")


def test_methods_lists_defaults_first(memgrow):
    found = json.loads(memgrow.done("methods", "--json"))
    assert found["methods"][0]["default"]
    assert method_names() == [one["name"] for one in found["methods"]]  # a copy, so that completion imports no torch
    assert "rehearsal" in memgrow.done("methods")


# report, data, encoder


def test_report_writes_one_page(memgrow, made, data, tmp_path):
    page = tmp_path / "report.html"
    memgrow.done("report", made, data["kitchen"], data["harbour"], "-o", page)
    html = page.read_text(encoding="utf-8")
    assert "kitchen" in html
    assert 'src="http' not in html
    (tmp_path / "mine.html").write_text("my own page")
    memgrow.refused("report", made, "-o", tmp_path / "mine.html")


@pytest.mark.parametrize("command", ["data", "encoder"])
def test_data_and_encoder_list_what_there_is(memgrow, command):
    assert json.loads(memgrow.done(command, "list", "--json"))
    assert memgrow.done(command, "list")
    assert memgrow.done(command, "where").strip()
    memgrow.refused(command, "get", "nothing-of-that-name")


# All commands


def test_help_shows_sixteen_commands_in_four_groups(memgrow):
    text = memgrow.done("--help")
    assert len(COMMANDS) <= 16
    assert len(GROUPS) == 4
    for name in (*COMMANDS, *GROUPS):
        assert name in text
    assert "prune" not in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example_in_eighty_columns(memgrow, command):
    text = memgrow.done(command, "--help")
    assert f"Example: memgrow {command}" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("command", REMOVED_COMMANDS)
def test_a_removed_command_says_what_to_use(memgrow, command):
    assert "no longer exists" in memgrow.refused(command, "model", "--option", "x")


@pytest.mark.parametrize("option", REMOVED_OPTIONS)
def test_a_removed_option_says_why(memgrow, option, data, tmp_path):
    assert "no longer exists" in memgrow.refused("adapt", tmp_path / "m", data["kitchen"], option, "2")


def test_quiet_prints_nothing_and_json_stands_alone(memgrow, data, tmp_path):
    result = memgrow("adapt", tmp_path / "m", data["kitchen"], *memgrow.tiny, "--quiet")
    assert (result.stdout, result.stderr) == ("", "")
    json.loads(memgrow.done("adapt", tmp_path / "m", data["harbour"], "--json"))


@pytest.mark.parametrize("words", [["--help"], ["adapt", "--help"]])
def test_help_imports_nothing_slow(words):
    import subprocess

    program = f"import sys; sys.argv = {['memgrow', *words]}\nfrom memgrow.cli import main\ntry: main()\nfinally: "
    program += "print([name for name in ('torch', 'numpy', 'transformers', 'matplotlib') if name in sys.modules])"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"


def test_test_files_are_remembered_so_that_forgetting_is_always_shown(memgrow, data, tmp_path):
    model, kitchen = tmp_path / "m", tmp_path / "kitchen_test.jsonl"
    kitchen.write_bytes(data["kitchen"].read_bytes())
    memgrow.done("adapt", model, data["harbour"], *memgrow.tiny, "--watch", kitchen)

    def tested(domain):
        memgrow.done("adapt", model, data[domain], "--again")
        history = json.loads(memgrow.done("inspect", model, "--json"))["history"]
        return history["matrix"][-1]["scores"].keys()

    assert "kitchen" in tested("clinic")
    kitchen.write_text(kitchen.read_text() * 2)
    assert "kitchen" not in tested("harbour")
    kitchen.unlink()
    assert "kitchen" not in tested("clinic")


@pytest.fixture
def rows_of_letters(tmp_path):
    """Writes 60 rows that nobody could learn."""

    def write(name):
        rng, path = random.Random(name), tmp_path / f"{name}.jsonl"
        rows = [{"text": f"{rng.random():.9f} x", "label": rng.choice("ab")} for _ in range(60)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


def test_rows_that_were_trained_on_are_never_test_rows(memgrow, rows_of_letters, tmp_path):
    """A file without a split: its test rows are drawn, and the same ones are tested by every later command."""
    files = {name: rows_of_letters(name) for name in ("alpha", "beta")}
    model, copied = tmp_path / "m", tmp_path / "copied.jsonl"
    copied.write_bytes(files["alpha"].read_bytes())
    memgrow.done("adapt", model, files["alpha"], *memgrow.tiny, "--limit", "5")
    result = memgrow("adapt", model, files["beta"])
    assert "differ" not in result.stderr
    memgrow.done("adapt", model, files["beta"], "--again", "--watch", files["alpha"])
    for path in (files["alpha"], copied):
        (found,) = json.loads(memgrow.done("evaluate", model, path, "--calibration", "--json")).values()
        assert found["examples"] == 5
    with files["alpha"].open("a", encoding="utf-8") as file:
        file.write('{"text": "one more", "label": "a"}\n')
    assert "has changed" in memgrow.refused("evaluate", model, files["alpha"])


@pytest.mark.parametrize("given", ["test", "validation"])
def test_rows_of_a_domain_without_test_rows_are_remembered_beside_given_ones(memgrow, rows_of_letters, tmp_path, given):
    files = [rows_of_letters(name) for name in ("alpha", "beta_train", f"beta_{given}")]
    if given == "validation":
        memgrow.done("adapt", tmp_path / "m", *files, *memgrow.tiny)
        tested = {"beta_train"}
    else:
        memgrow.done("adapt", tmp_path / "m", *files[:2], "--test", files[2], *memgrow.tiny)
        tested = {"alpha"}
    for path in files[:2]:
        if path.stem in tested:
            found = json.loads(memgrow.done("evaluate", tmp_path / "m", path, "--calibration", "--json"))
            assert [one["examples"] for one in found.values()] == [6]


def test_domains_of_a_learned_file_are_chosen_by_their_names(memgrow, tmp_path):
    path, model = tmp_path / "all.jsonl", tmp_path / "m"
    rows = [{"text": f"{number} x", "label": "ab"[number % 2], "of": "pq"[number % 4 // 2]} for number in range(80)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    memgrow.done("adapt", model, path, "--by", "of", *memgrow.tiny)
    found = json.loads(memgrow.done("evaluate", model, path, "--by", "of", "--domains", "q,p", "--json"))
    assert list(found) == ["q", "p"]
    assert "no domain r" in memgrow("evaluate", model, path, "--by", "of", "--domains", "r").stderr


def test_a_model_is_saved_also_if_its_test_files_cannot_be_noted(memgrow, data, tmp_path):
    memgrow.done("adapt", tmp_path / "m", data["harbour"], *memgrow.tiny)
    (tmp_path / "m" / "tests.json").unlink()
    (tmp_path / "m" / "tests.json").mkdir()
    result = memgrow("adapt", tmp_path / "m", data["kitchen"])
    assert (result.exit_code, "noted (Is a directory)" in " ".join(result.output.split())) == (0, True), result.output
    assert Learner.load(tmp_path / "m").history.domains == ("harbour", "kitchen")
