"""The service goes on serving, and looking, whatever becomes of the model's folder meanwhile."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from memgrow.errors import ModelError
from memgrow.learner import Learner
from memgrow.service.published import Publisher
from memgrow.service.running import Service
from memgrow.versions import list_versions, undo
from tests.service.conftest import PAIR, Serve, Served, soon


def lines(served: Served, event: str) -> list[dict[str, Any]]:
    found = map(json.loads, served.log.getvalue().splitlines())
    return [line for line in found if line["event"] == event]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memgrow.service.running.LOOK_S", 0.02)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: out of memory"),
        FileNotFoundError(2, "No such file or directory"),
        ModelError("damaged"),
    ],
    ids=["memory", "replaced", "damaged"],
)
def test_a_version_that_cannot_be_loaded_now_is_loaded_later(
    serve: Serve, folder: Path, impatient: None, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    served = serve()
    load, tries = Learner.load, list[int]()

    def fails(*args: Any, **options: Any) -> Learner:
        tries.append(1)
        if len(tries) <= 3:
            raise error
        return load(*args, **options)

    monkeypatch.setattr(Learner, "load", fails)
    undo(folder)
    assert soon(lambda: served.client.get("/health").json()["version"] == 1)
    assert served.client.post("/predict", json={"inputs": [PAIR]}).json()["version"] == 1
    assert len(lines(served, "not loaded")) == 1  # and not every second
    assert len(lines(served, "loaded")) == 1


def test_a_folder_that_has_gone_for_a_while_is_served_and_looked_at(
    serve: Serve, folder: Path, impatient: None
) -> None:
    served = serve()
    aside = folder.rename(folder.with_name("aside"))
    time.sleep(0.2)
    assert served.client.post("/predict", json={"inputs": [PAIR]}).status_code == 200
    undo(aside)
    aside.rename(folder)
    assert soon(lambda: served.client.get("/health").json()["version"] == 1)


def test_a_folder_that_goes_while_it_is_loaded_is_told_and_loaded_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher, aside = Publisher(folder, "cpu"), folder.with_name("aside")
    undo(folder)

    def then_gone(path: Path) -> Any:
        found = list_versions(path)
        path.rename(aside)  # between two looks at its manifest
        return found

    with monkeypatch.context() as patch:
        patch.setattr("memgrow.service.published.list_versions", then_gone)
        with pytest.raises(ModelError, match="there is no model at"):
            publisher.refresh()
    aside.rename(folder)
    assert publisher.refresh()
    assert publisher.current.version == 1


def test_a_model_that_is_not_there_is_told_as_by_every_command(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no model at"):
        Service(tmp_path / "nosuch", device="cpu")
