"""The commands on messages and replies, without being told that these are such."""

import io
import json
import sys

import pytest

from memgrow import cli
from memgrow.data.synthetic_dialogue import synthetic_dialogue

SIZES = ("embedding=8", "hidden=12", "model.slots=4", "epochs=1", "batch=16", "cell=gru", "bidirectional=false")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dialogues")
    found = []
    for domain in synthetic_dialogue(train=60, validation=16, test=20):
        for part in ("train", "validation", "test"):
            path = folder / f"{domain.name}_{part}.jsonl"
            rows = [{"message": example.text, "response": example.reply} for example in getattr(domain, part)]
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            found.append(path)
    return found


@pytest.fixture(scope="module")
def talker(memgrow, files, tmp_path_factory):
    """A model that has learnt replies. Not to be changed."""
    model = tmp_path_factory.mktemp("talker") / "talker"
    settings = [word for size in SIZES for word in ("--set", size)]
    out = memgrow.done("adapt", model, *files, *settings, "--method", "F+M+V", "--device", "cpu")
    assert "100 / perplexity" in out
    assert "perplexity at the end " in out
    assert "accuracy" not in out
    assert "%" not in out.partition("kitchen: ")[2].replace("(10%)", "")
    return model


def test_a_file_of_messages_and_responses_is_learnt_evaluated_and_answered(memgrow, talker, files):
    tests = [path for path in files if path.stem.endswith("test")]
    figures = json.loads(memgrow.done("evaluate", talker, *tests, "--json"))
    assert set(figures) == {"kitchen", "harbour"}
    assert figures["kitchen"]["perplexity"] > 1
    shown = memgrow.done("evaluate", talker, *tests, "--beam", "2")
    assert "BLEU-2" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert memgrow.done("evaluate", talker, *tests, "--vectors", "none") == memgrow.done("evaluate", talker, *tests)
    assert "--for-domain is about models that answer with labels" in memgrow.refused(
        "evaluate", talker, *tests, "--for-domain", "kitchen"
    )
    lines = memgrow.done("predict", talker, "where is the ladder ?", "hello").splitlines()
    assert [set(json.loads(line)) for line in lines] == [{"texts", "reply", "ended"}] * 2
    assert "kitchen" in memgrow.done("inspect", talker, "where is the ladder ?")


def test_a_chat_answers_every_line_and_says_whose_slots_it_read(memgrow, talker):
    result = memgrow("chat", talker, "--max-words", "4", stdin="where is the ladder ?\nhello\n\nnot read\n")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert len(lines) == 4
    assert all("kitchen" in line and "harbour" in line and "%" in line for line in lines[1::2])
    quiet = memgrow("chat", talker, "--max-words", "4", "--quiet", stdin="where is the ladder ?\nhello\n\nnot read\n")
    assert quiet.stdout.splitlines() == lines[::2]


@pytest.mark.parametrize(
    ("stdin", "sentence"),
    [
        (b"hello\ncaf\xe9\n", "standard input, line 2: this is not UTF-8 text"),
        (b"a" * ((1 << 24) + 1), "standard input, line 1 has a row of more than 16 MB"),
    ],
    ids=["latin-1", "endless"],
)
def test_a_message_that_cannot_be_read_is_a_sentence(memgrow, talker, stdin, sentence):
    assert sentence in memgrow.refused("chat", talker, "--max-words", "2", stdin=stdin)


def test_a_chat_that_nobody_can_hear_is_a_sentence(talker, monkeypatch, capfd):
    monkeypatch.setattr(sys, "argv", ["memgrow", "chat", str(talker)])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hello\n")))
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    assert capfd.readouterr().err == "memgrow: standard output is closed; check that it can be read and written\n"


def test_a_classifier_is_not_chatted_with(memgrow, made):
    result = memgrow("chat", made, stdin="hello\n")
    assert result.exit_code == 2
    assert "answers with labels" in result.stderr


def test_models_of_labels_and_of_replies_are_not_held_against_each_other(memgrow, made, data, talker):
    sentence = memgrow.refused("evaluate", made, data["kitchen"], "--against", talker)
    assert sentence.startswith(f"{talker} replies")


def test_a_pair_file_with_one_column_is_refused(memgrow, tmp_path):
    lonely = tmp_path / "lonely.jsonl"
    lonely.write_text('{"message": "hello"}\n' * 8)
    result = memgrow("adapt", tmp_path / "m", lonely)
    assert result.exit_code == 2
    assert "replies" in result.stderr
    assert not (tmp_path / "m").exists()


def test_what_is_shown_of_a_model_that_replies_is_its_perplexity(memgrow, talker):
    shown = memgrow.done("inspect", talker, "is the soup cold")
    assert "perplexity at the end " in shown
    assert "Its reply: " in shown
    assert "accuracy" not in shown
    (validation,) = {
        stage["validation"] for stage in json.loads(memgrow.done("history", talker, "--json"))["history"]["stages"][:1]
    }
    for command in ("inspect", "history"):
        assert f"{1 / validation:.2f}" in memgrow.done(command, talker, COLUMNS="200"), command
