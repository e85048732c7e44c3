"""What importing memgrow loads, what it works without, and its messages."""

import json
import subprocess
import sys

import pytest

from memgrow.errors import SettingsError, brief, counted, json_text, listed, printable
from memgrow.training.progress import NoProgress, PlainProgress, Step, find_progress

WITHOUT = """
import sys
class Wall:
    finders = list(sys.meta_path)
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent!r}:
            return None
        return next((spec for finder in self.finders if (spec := finder.find_spec(name, path, target))), None)
sys.meta_path[:] = [Wall()]
import torch
torch.set_num_threads(1)
import memgrow
settings = memgrow.ModelSettings(embedding=6, hidden=5, slots=4, perceptron=16)
training = memgrow.TrainingSettings(epochs=1, batch=16)
learner = memgrow.Learner.create(model=settings, training=training, device="cpu")
learner.learn(memgrow.synthetic_stream(domains=2, train=24, validation=6, test=6))
learner.save(sys.argv[1])
again = memgrow.Learner.load(sys.argv[1], device="cpu")
assert again.predict([("a", "b")]) == learner.predict([("a", "b")])
"""
ABSENT = ["click", "datasets", "fastapi", "huggingface_hub", "matplotlib", "onnx", "pandas", "pyarrow"]
ABSENT += ["pydantic", "ray", "rich", "scipy", "sklearn", "starlette", "tokenizers", "transformers", "typer", "yaml"]


def run(program: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_learning_needs_no_optional_package(tmp_path):
    # torch itself may import jinja2 while it compiles; nothing here does.
    run(WITHOUT.format(absent=ABSENT), str(tmp_path / "model"))


def test_memgrow_is_imported_without_torch_and_the_learner_without_kernels_service_or_commands(monkeypatch):
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    show = "import os, sys, json, memgrow\nfound = [os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules]\n"
    spins, has_torch, *loaded = json.loads(
        run(f"{show}from memgrow import Learner\nprint(json.dumps([*found, *sorted(sys.modules)]))")
    )
    assert spins is not None  # threads that wait give up their core
    assert not has_torch
    parts = ("memgrow.nn.kernels.cuda", "memgrow.serve", "memgrow.cli", "memgrow.sklearn", "research")
    assert [name for name in loaded if name.startswith(parts)] == []
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")  # unless the user decides
    assert json.loads(run(f"{show}print(json.dumps(found))")) == [None, False]


def test_moved_modules_can_be_imported_with_a_warning(monkeypatch):
    monkeypatch.delitem(sys.modules, "memgrow.defaults", raising=False)
    from memgrow.training import settings as training_settings

    with pytest.warns(DeprecationWarning, match=r"memgrow\.training\.settings"):
        from memgrow.defaults import FINE_TUNING

    assert FINE_TUNING is training_settings.FINE_TUNING


def test_messages_are_short_and_safe_to_print():
    assert listed([f"n{number}" for number in range(20)]).endswith("and 8 more")
    assert (counted(1, "row"), counted(1200, "row")) == ("1 row", "1,200 rows")
    assert brief(ValueError("first\nsecond")) == "ValueError: first"
    assert printable("a\x1b[31mb\n") == "a\\x1b[31mb\\n"
    assert json.loads(json_text({"a": "\x1b"})) == {"a": "\x1b"}
    assert "\x1b" not in json_text({"a": "\x1b"})


def test_progress_is_an_object_or_a_default(capsys):
    assert isinstance(find_progress(None), NoProgress)
    assert isinstance(find_progress(True), PlainProgress)
    find_progress(True).step(Step("books", 1, 2, 3, 3, loss=0.5, accuracy=0.5))
    assert "books: epoch 1/2" in capsys.readouterr().err
    with pytest.raises(SettingsError, match="step and note"):
        find_progress("yes")
