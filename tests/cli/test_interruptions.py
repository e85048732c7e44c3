"""Full disks, Ctrl-C and readers that go away: the model is as it was, and the same command goes on."""

import errno
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memgrow import folder_writer
from memgrow.cli import main
from memgrow.cli.errors import hear_sigterm
from memgrow.progress import Step
from memgrow.report.progress_bars import TrainingBar

MAIN = [sys.executable, "-c", "from memgrow.cli import main; main()"]
# The same, but it hangs in the second epoch until somebody interrupts it.
HANGING = [
    sys.executable,
    "-c",
    """
import time
from memgrow.report.progress_bars import TrainingBar
TrainingBar.step = lambda bar, step: time.sleep(3600) if step.epoch == 2 else None
from memgrow.cli import main; main()
""",
]
STOPPED = "memgrow: stopped; what was saved before is unchanged; the same command again goes on from there\n"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def weights(model: Path) -> dict[str, bytes]:
    """All that must be the same; history.json holds the seconds, which may differ."""
    names = ("config.json", "model.safetensors", "vocabulary.json")
    return {name: (model / name).read_bytes() for name in names}


# A full disk


@pytest.mark.parametrize("survives", [0, 1, 3])
def test_a_full_disk_is_a_sentence_at_whichever_file_it_comes(memgrow, data, model, survives, monkeypatch):
    before, plain, written = weights(model), folder_writer.write_file, []

    def full(path, content):
        if len(written) >= survives:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(path)
        return plain(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(folder_writer, "write_file", full)
        sentence = memgrow.refused("adapt", model, data["clinic"])
    assert "could not write" in sentence
    assert "(No space left on device): make room or choose another place" in sentence
    assert weights(model) == before
    assert not (model.parent / f".{model.name}.writing").exists()
    memgrow.done("adapt", model, data["clinic"])
    assert len(memgrow.learnt(model)) == 3


def test_no_new_model_comes_of_a_full_disk(memgrow, data, never_made, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(folder_writer, "write_file", full)
    assert "No space left" in memgrow.refused("adapt", never_made, data["kitchen"], *memgrow.tiny)


@pytest.mark.extras
@pytest.mark.slow
def test_a_file_that_the_system_cuts_short_is_a_sentence(data, untouched):
    def small_files_only() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    command = [*MAIN, "adapt", str(untouched), str(data["clinic"])]
    alone = {**ENVIRONMENT, "PYTHONDONTWRITEBYTECODE": "1"}  # bytecode that is cut short would stay for all others
    done = subprocess.run(command, env=alone, preexec_fn=small_files_only, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "(File too large): make room or choose another place" in done.stderr


# Ctrl-C


@pytest.fixture(scope="module")
def whole(memgrow, data, tmp_path_factory) -> dict[str, bytes]:
    """The model of three domains that nobody broke off."""
    folder = tmp_path_factory.mktemp("whole") / "model"
    memgrow.done("adapt", folder, data["kitchen"], data["harbour"], *memgrow.tiny, "--method", "F+M+V")
    memgrow.done("adapt", folder, data["clinic"], "--set", "epochs=3")
    return weights(folder)


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 2, 4])
def test_after_ctrl_c_the_same_command_ends_with_the_same_bits(memgrow, data, model, whole, monkeypatch, at):
    monkeypatch.setattr("memgrow.training.loop.REPORT_EVERY_S", -1.0)
    command = ("adapt", model, data["clinic"], "--set", "epochs=3")
    before, reports = weights(model), []

    def press(bar: TrainingBar, step: Step) -> None:
        if len(reports) == at:
            raise KeyboardInterrupt
        reports.append(step)

    with monkeypatch.context() as patched:
        patched.setattr(TrainingBar, "step", press)
        result = memgrow(*command)
    assert result.exit_code == 130
    assert result.stderr == STOPPED
    assert weights(model) == before
    memgrow.done(*command)
    assert memgrow.learnt(model)[-1] == ("clinic",)
    assert sorted(path.name for path in model.parent.iterdir()) == ["model"]
    assert weights(model) == whole


def hear_ctrl_c() -> None:
    """Also where the tests run in the background of a shell, which does not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
def test_ctrl_c_in_a_real_process_stops_it_cleanly_and_it_goes_on(memgrow, data, tmp_path):
    command = ("adapt", tmp_path / "broken", data["kitchen"], *memgrow.tiny, "--set", "epochs=3")
    process = subprocess.Popen(
        [*HANGING, *map(str, command)],
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_ctrl_c,
    )
    while not (tmp_path / "broken.adapting").exists():  # the first epoch has been saved
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert said.startswith("memgrow: stopped")
    assert said.count("\n") == 1
    assert not (tmp_path / "broken").exists()
    memgrow.done(*command)
    memgrow.done("adapt", tmp_path / "whole", *command[2:])
    assert weights(tmp_path / "broken") == weights(tmp_path / "whole")


@pytest.fixture
def signals():
    """Handlers are this process's own afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # A shell takes one from what it runs in the background, and an earlier test may have left the other.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_sigterm_stops_it_as_cleanly_and_a_second_signal_is_not_heard(memgrow, data, untouched, monkeypatch, signals):
    monkeypatch.setattr(TrainingBar, "step", lambda bar, step: os.kill(os.getpid(), signal.SIGTERM))
    hear_sigterm()
    result = memgrow("adapt", untouched, data["clinic"])
    os.kill(os.getpid(), signal.SIGINT)
    assert (result.exit_code, result.stderr) == (143, STOPPED)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize(
    "where",
    ["memgrow.cli.app", "memgrow.cli.groups.Commands.make_context", "memgrow.cli.replace_unwritable_signs"],
)
def test_so_does_a_signal_before_the_command_has_begun(number, code, where, monkeypatch, capsys, signals):
    def stop(*_, **__):
        os.kill(os.getpid(), number)

    monkeypatch.setattr(where, stop)
    monkeypatch.setattr(sys, "argv", ["memgrow", "adapt", "m", "d"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (code, STOPPED)


@pytest.mark.parametrize("arrives_as", [RuntimeError, ImportError, SystemError])
def test_so_does_one_that_an_import_makes_another_error_of(arrives_as, monkeypatch, capsys, signals):
    def stop(*_, **__):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt as stopped:
            raise arrives_as("while a class was made") from stopped  # as Python 3.11 does of one in __set_name__

    monkeypatch.setattr("memgrow.cli.app", stop)
    monkeypatch.setattr(sys, "argv", ["memgrow", "adapt", "m", "d"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (143, STOPPED)


def test_a_fault_of_its_own_keeps_its_traceback(monkeypatch, signals):
    def fail(*_, **__):
        raise RuntimeError("a fault")

    monkeypatch.setattr("memgrow.cli.app", fail)
    with pytest.raises(RuntimeError, match="a fault"):
        main()


def test_ctrl_c_elsewhere_makes_no_promise(memgrow, made, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("memgrow.learner.Learner.predict", stop)
    result = memgrow("predict", made, "a", "b")
    assert result.exit_code == 130
    assert result.stderr == "memgrow: stopped; what was saved before is unchanged\n"


# A reader that goes away, and one that has no room


@pytest.mark.slow
def test_a_reader_that_goes_away_hears_no_complaint(made, tmp_path):
    lines = tmp_path / "lines"
    lines.write_text("a soup\tit was cold\n" * 1000)  # far more answers than a pipe holds
    with lines.open("rb") as stdin:
        process = subprocess.Popen(
            [*MAIN, "predict", str(made)], env=ENVIRONMENT, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b'{"texts": ["a soup", ')
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        process.stderr.close()
        process.wait()


@pytest.mark.extras
@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no full device")
def test_answers_that_find_no_room_are_a_mistake(made):
    with Path("/dev/full").open("wb") as full:
        command = [*MAIN, "predict", str(made), "a", "b"]
        done = subprocess.run(command, env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("memgrow: No space left on device")
    assert "Traceback" not in done.stderr
