"""Classifiers that answer differently to different texts without any training, and the examples of docs/leaving.md."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import pytest
import torch
from torch import nn

from memgrow.models import Classifier, ModelSettings, build

PAGE = Path(__file__).resolve().parents[2] / "docs/leaving.md"
WITHOUT = (
    "import sys\nassert not {'memgrow', 'torch', 'transformers'} & set(sys.modules), 'it needs more than it says'\n"
)
LABELS = 3

Module = TypeVar("Module", bound=nn.Module)


@pytest.fixture(scope="session")
def runtime():
    """onnxruntime, or a sentence."""
    return pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'memgrow[onnx]'")


def classifier(task: str, words: int = 30, **settings) -> Classifier:
    """A random recurrent classifier, to be grown."""
    torch.manual_seed(1)
    sizes = {"embedding": 6, "hidden": 5, "slots": 4, "perceptron": 8, **settings}
    model = build(task, ModelSettings(**sizes), words, LABELS, "one")
    assert isinstance(model, Classifier)
    return model


def sharpened(model: Module, times: float = 3.0) -> Module:
    """The same with answers that are far apart."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(times)
    return model.eval()


def example(language: str) -> str:
    """The code of docs/leaving.md in that language: `python` is a recurrent network's, the first `py` an encoder's."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)[0]


def run_alone(code: str, folder: Path, environment: Mapping[str, str]) -> str:
    """The output of a script in a process of its own that has no memgrow to import."""
    script = folder / "alone.py"
    script.write_text(code + WITHOUT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], cwd=folder, env=dict(environment), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
