"""Where a model lives, and in which precision a GPU then multiplies."""

import pytest
import torch

from memgrow.cli.adapt import open_or_create
from memgrow.cli.recipe import Recipe
from memgrow.device import allow_tf32


@pytest.fixture
def asked(monkeypatch):
    found = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", found.append)
    return found


def test_tf32_is_for_gpus(asked):
    allow_tf32(torch.device("cpu"))
    assert asked == []
    allow_tf32(torch.device("cuda", 0))
    assert asked == ["high"]


def test_a_command_that_trains_allows_it(asked, monkeypatch, tmp_path):
    monkeypatch.setattr("memgrow.learner.find_device", lambda name: torch.device(name))
    open_or_create(tmp_path / "model", Recipe(), None, None, "cuda")
    assert asked == ["high"]
