"""A full disk costs the training that it stops, and no more: the queue goes on once there is room."""

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memgrow.service import trainer
from tests.service.conftest import Serve, soon, upload, wait

RUN_TRAINER = "memgrow.service.training_queue.TrainingQueue.run_trainer"


class Disk:
    full = False


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A disk that may be full: then nothing that is written arrives there."""
    found, fsync = Disk(), os.fsync

    def checked(file: int) -> None:
        if found.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(file)

    monkeypatch.setattr(os, "fsync", checked)
    monkeypatch.setattr("memgrow.service.training_queue.AGAIN_S", 0.05)
    return found


@pytest.fixture
def fills_up(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let the disk be full "before" or "after" the first training, which is done in this process."""

    def choose(when: str) -> None:
        began = list[Any]()

        def run(queue: Any, job: Any) -> None:
            began.append(job)
            if len(began) == 1:
                disk.full = when == "before"
            trainer.learn_order(queue.folder / job.id)
            if len(began) == 1:
                disk.full = True

        monkeypatch.setattr(RUN_TRAINER, run)

    return choose


def record(folder: Path, job: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder.with_name("model.jobs") / job / "job.json").read_text())
    return found


def test_a_training_on_a_full_disk_fails_and_the_next_one_is_learnt(
    serve: Serve, third: bytes, disk: Disk, fills_up: Callable[[str], None], folder: Path
) -> None:
    fills_up("before")
    client = serve().client
    first = upload(client, third, "a.jsonl").json()["job"]
    told = wait(client, first)
    assert told["state"] == "failed"
    assert "full" in told["error"]
    assert client.get("/health").status_code == 200
    disk.full = False
    assert wait(client, upload(client, third, "b.jsonl").json()["job"])["state"] == "published"
    assert soon(lambda: record(folder, first)["state"] == "failed")
    assert [path.name for path in (folder.with_name("model.jobs") / first).iterdir()] == ["job.json"]


@pytest.mark.parametrize("publish", ["true", "false"])
def test_a_training_that_ended_as_the_disk_filled_up_is_not_lost(
    serve: Serve, third: bytes, disk: Disk, fills_up: Callable[[str], None], folder: Path, publish: str
) -> None:
    fills_up("after")
    client = serve().client
    job = upload(client, third, publish=publish).json()["job"]
    told = wait(client, job)
    assert told["state"] == "ready"
    assert (told["error"] is not None) == (publish == "true")
    assert record(folder, job)["state"] == "training"
    data = folder.with_name("model.jobs") / job / "data.jsonl"
    assert data.exists()  # the next service would learn it again
    assert client.get("/health").status_code == 200
    assert client.post(f"/jobs/{job}/publish").status_code in (409, 507)
    disk.full = False
    assert soon(lambda: record(folder, job)["state"] == "ready" and not data.exists())
    assert client.post(f"/jobs/{job}/publish").json()["state"] == "published"


def test_a_training_is_discarded_though_the_disk_is_full(
    serve: Serve, third: bytes, disk: Disk, fills_up: Callable[[str], None], folder: Path
) -> None:
    fills_up("after")
    client = serve().client
    job = upload(client, third, publish="false").json()["job"]
    wait(client, job)
    assert client.post(f"/jobs/{job}/discard").json()["state"] == "discarded"
    assert not (folder.with_name("model.jobs") / job / "model").exists()
    disk.full = False
    assert soon(lambda: record(folder, job)["state"] == "discarded")


def test_an_upload_to_a_full_disk_is_refused_with_a_sentence(
    serve: Serve, third: bytes, at_once: None, disk: Disk, folder: Path
) -> None:
    client = serve().client
    disk.full = True
    refused = upload(client, third)
    assert refused.status_code == 507
    assert "disk is full" in refused.json()["detail"]
    assert list(folder.with_name("model.jobs").iterdir()) == []
    disk.full = False
    assert wait(client, upload(client, third).json()["job"])["state"] == "published"


def test_an_upload_that_fills_the_disk_while_it_arrives_is_refused_with_a_sentence(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    client = serve().client
    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", full)
    refused = upload(client, b" " * (2 << 20))
    assert refused.status_code == 507
    assert "disk is full" in refused.json()["detail"]


def test_an_upload_for_which_there_is_no_folder_is_refused_with_a_sentence(
    serve: Serve, third: bytes, folder: Path
) -> None:
    served = serve()
    folder.with_name("model.jobs").write_text("")
    refused = upload(served.client, third)
    assert refused.status_code == 503
    assert "fault" not in refused.json()["detail"]
    assert "FileExistsError" in served.log.getvalue()


def test_a_trainer_that_ends_without_a_result_was_not_killed(
    serve: Serve, third: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memgrow.service.training_queue.sys.executable", shutil.which("false"))
    client = serve().client
    told = wait(client, upload(client, third).json()["job"])
    assert told["state"] == "failed"
    assert "signal" not in told["error"]
    assert "no result" in told["error"]


def test_a_service_whose_queue_has_ended_is_not_healthy(serve: Serve) -> None:
    served = serve()
    assert served.client.get("/health").status_code == 200
    assert served.service.queue is not None
    served.service.queue.stop()
    assert served.client.get("/health").status_code == 503
