"""`memgrow domain`: export, import, remove."""

import json
from pathlib import Path
from typing import Any

import pytest

from memgrow.errors import ModelError
from memgrow.learner import Learner
from tests.methods.test_domains import create, stream
from tests.support.tiny_encoder import make_encoder


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return make_encoder(tmp_path / "encoder")


def test_commands_export_import_and_remove(memgrow: Any, tiny: Path, tmp_path: Path) -> None:
    model, file, (first, second, third) = tmp_path / "model", tmp_path / "domain", stream()
    create(tiny).learn(stream(), folder=model, keep_versions=5)
    exported = json.loads(memgrow.done("domain", "export", model, second.name, file, "--json"))
    assert exported["bytes"] == file.stat().st_size
    assert "never saw it" in memgrow.done("domain", "remove", model, second.name)
    kept = json.loads(memgrow.done("inspect", model, "--json"))["versions"]
    assert [one["stage"] for one in kept] == [2, 1]  # no version that has the domain
    memgrow.refused("domain", "remove", model, second.name)
    memgrow.done("domain", "import", model, file)
    assert Learner.load(model).history.domains == (first.name, third.name, second.name)
    memgrow.refused("domain", "import", model, file)
    memgrow.done("undo", model)
    assert Learner.load(model).history.domains == (first.name, third.name)
    assert "no longer exists" in memgrow.refused("verify", model)
    chained = tmp_path / "chained"
    create(tiny, independent=False).learn(stream()[:2], folder=chained)
    assert json.loads(memgrow.done("domain", "remove", chained, first.name, "--json"))["leaves_traces"]
    with pytest.raises(ModelError):
        Learner.load(chained).for_domain(first.name)
