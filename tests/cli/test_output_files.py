"""What `-o` names: a link is written through, a pipe is written to, and a folder is refused before any work."""

import json
import os
import stat
import subprocess

import pytest


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "MODEL", "a", "b", "-o", "OUT.jsonl"),
        ("evaluate", "MODEL", "DATA", "--plot", "OUT.png"),
        ("export-domain", "MODEL", "kitchen", "-o", "OUT.memgrow"),
        ("report", "MODEL", "-o", "OUT.html"),
    ],
    ids=lambda words: words[0],
)
def test_a_folder_is_refused_before_the_model_is_read(memgrow, tmp_path, words):
    out = tmp_path / words[-1]
    out.mkdir()
    places = {"MODEL": tmp_path / "nowhere", words[-1]: out}
    said = memgrow.refused(*(places.get(word, word) for word in words))
    assert f"{out} is a folder: give the name of a file" in said
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_answers_go_through_a_link(memgrow, made, tmp_path):
    (tmp_path / "answers.jsonl").symlink_to("today.jsonl")
    memgrow.done("predict", made, "a", "b", "-o", tmp_path / "answers.jsonl")
    assert (tmp_path / "answers.jsonl").is_symlink()
    assert json.loads((tmp_path / "today.jsonl").read_text())["texts"] == ["a", "b"]


@pytest.mark.parametrize(
    ("words", "begins"),
    [(("predict", "MODEL", "a", "b", "-o", "p.jsonl"), b'{"texts"'), (("report", "MODEL", "-o", "p.html"), b"<!")],
    ids=["predict", "report"],
)
def test_a_pipe_is_written_to(memgrow, made, tmp_path, words, begins):
    place = tmp_path / words[-1]
    os.mkfifo(place)
    with (tmp_path / "read").open("wb") as read, subprocess.Popen(["cat", place], stdout=read) as reader:
        try:
            memgrow.done(*({"MODEL": made, words[-1]: place}.get(word, word) for word in words))
            reader.wait(timeout=10)
        finally:
            reader.kill()
    assert (tmp_path / "read").read_bytes().startswith(begins)
    assert stat.S_ISFIFO(place.stat().st_mode)
