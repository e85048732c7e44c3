"""Two commands that change one model: the second is refused or waits, and no domain is lost."""

import multiprocessing
import os
import subprocess
import sys

import pytest
from memgrow.locking import hold

from memgrow.cli import output

MAIN = [sys.executable, "-c", "from memgrow.cli import main; main()"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def held(untouched, monkeypatch):
    """A model that another process is changing, until the event is set."""
    monkeypatch.setattr("memgrow.locking.DYING_S", 0.0)
    ready, go = FORK.Event(), FORK.Event()

    def work():
        with hold(untouched):
            ready.set()
            go.wait(60)

    process = FORK.Process(target=work)
    process.start()
    assert ready.wait(10)
    yield untouched, process.pid
    go.set()
    process.join()


def test_the_second_is_told_who_has_the_model_before_any_data_is_read(memgrow, data, held, monkeypatch):
    monkeypatch.setattr("memgrow.data.load_stream", lambda *_, **__: pytest.fail("the data was read"))
    model, process = held
    sentence = memgrow.refused("adapt", model, data["clinic"])
    assert f"{model} is being changed by process {process} on " in sentence
    assert "wait for it (`memgrow adapt --wait`) or stop it" in sentence


def test_it_is_read_and_asked_all_the_same(memgrow, data, held):
    model, _ = held
    assert len(memgrow.learnt(model)) == 2
    memgrow.done("predict", model, "a", "b")


def test_with_wait_it_goes_on_from_what_the_first_has_saved(memgrow, data, model, monkeypatch):
    ready, waited_for = FORK.Event(), FORK.Event()

    def notice(sentence):
        output.notice(sentence)
        waited_for.set()

    def work():
        with hold(model):
            ready.set()
            waited_for.wait(60)
            (model / "config.json").rename(model / "gone")  # whoever read it before this would not notice

    monkeypatch.setattr("memgrow.cli.adapt.notice", notice)
    process = FORK.Process(target=work)
    process.start()
    assert ready.wait(10)
    result = memgrow("adapt", model, data["clinic"], "--wait")
    process.join()
    assert f"being changed by process {process.pid} on" in " ".join(result.stdout.split())
    assert "config.json is missing" in result.stderr


@pytest.mark.slow
@pytest.mark.extras  # `make torture` has a crowd of such commands
def test_two_domains_at_once_are_both_learnt(memgrow, data, tmp_path):
    memgrow.done("adapt", tmp_path / "m", data["kitchen"], *memgrow.tiny)
    commands = [[*MAIN, "adapt", str(tmp_path / "m"), str(data[name]), "--wait"] for name in ("harbour", "clinic")]
    works = [subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL) for command in commands]
    assert [work.wait() for work in works] == [0, 0]
    first, *rest = memgrow.learnt(tmp_path / "m")
    assert (first, sorted(rest)) == (("kitchen",), [("clinic",), ("harbour",)])
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
