"""A domain is uploaded, trained, published and rolled back while others send requests; kills and full disks."""

import errno
import json
import os
import shutil
import threading
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from memgrow.data import Domain, Stream, write_jsonl
from memgrow.errors import DataError, MemgrowError, ModelError, SettingsError
from memgrow.learner import Learner
from memgrow.serve import trainer
from memgrow.serve.jobs import MAX_ENDED, Job, JobQueue
from memgrow.serve.logs import error_message, without_folders
from memgrow.serve.model import Publisher
from memgrow.serve.service import Service
from memgrow.serve.settings import ServeSettings
from memgrow.storage.versions import undo
from tests.serve.conftest import PAIR, Serve, soon, upload, wait
from tests.support.breaking import Plug, PulledPlug


def jobs_of(folder: Path) -> Path:
    return folder.with_name("model.jobs")


def leave(folder: Path, content: bytes, state: str = "queued", publish: bool = True) -> Path:
    """What a killed service left of a job in that state."""
    job = Job.model_validate({"domain": "new", "suffix": ".jsonl", "publish": publish, "state": state})
    place = jobs_of(folder) / job.id
    jobs_of(folder).mkdir(0o700, exist_ok=True)
    place.mkdir(0o700)
    (place / "data.jsonl").write_bytes(content)
    (place / "job.json").write_text(job.model_dump_json())
    return place


def is_cleared(place: Path) -> bool:
    """Whether only the record of a job is left."""
    return soon(lambda: [path.name for path in place.iterdir()] == ["job.json"])


def order(folder: Path) -> trainer.Order:
    return trainer.Order(str(folder), "new", ".jsonl", "cpu")


def test_no_request_is_lost_while_a_domain_is_learned_in_another_process(
    serve: Serve, third: bytes, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in (tmp_path, folder):  # neither beside the model nor in the working folder is a module imported
        (place / "torch.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    served = serve()
    seen: list[tuple[int, int, str]] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            answer = served.client.post("/predict", json={"inputs": [PAIR]})
            seen.append((answer.status_code, answer.json()["version"], answer.json()["digest"]))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        number = upload(served.client, third).json()["job"]
        job = wait(served.client, number, 120)
        time.sleep(0.05)
    finally:
        over.set()
        asking.join()
    assert (job["state"], job["version"], job["error"]) == ("published", 3, None)
    assert "new" in job["after"]
    assert set(job["before"]) > {"new"}
    assert {status for status, _, _ in seen} == {200}
    assert [version for _, version, _ in seen] == sorted(version for _, version, _ in seen)
    assert len({(version, digest) for _, version, digest in seen}) == 2
    assert (3, job["digest"]) in {(version, digest) for _, version, digest in seen}
    assert Learner.load(folder, "cpu").history.domains[-1] == "new"
    assert is_cleared(jobs_of(folder) / number)
    assert not (tmp_path / "imported").exists()
    assert "trainer failed" not in served.log.getvalue()  # or it trains twice


def test_a_trained_model_is_published_or_discarded(serve: Serve, third: bytes, in_process: None, folder: Path) -> None:
    client = serve().client
    first, second = (upload(client, third, f"{name}.jsonl", publish="false").json()["job"] for name in "ab")
    assert wait(client, first)["state"] == wait(client, second)["state"] == "ready"
    assert soon(lambda: not list(jobs_of(folder).glob("*/data*")))
    assert client.get("/model").json()["version"] == 2  # nothing is published unasked
    assert client.post(f"/jobs/{first}/publish").json()["state"] == "published"
    assert client.get("/model").json()["version"] == 3
    late = client.post(f"/jobs/{second}/publish")
    assert late.status_code == 409
    assert "has changed since" in late.json()["detail"]
    assert client.post(f"/jobs/{second}/discard").json()["state"] == "discarded"
    assert client.post(f"/jobs/{second}/discard").status_code == 409
    assert [job["id"] for job in client.get("/jobs").json()["jobs"]] == [second, first]
    assert client.get("/jobs/none").status_code == 404


def test_rollback_and_the_digest_of_a_version(serve: Serve, third: bytes, in_process: None, folder: Path) -> None:
    client = serve().client
    before = client.post("/predict", json={"inputs": [PAIR]}).json()
    waiting = upload(client, third, "early.jsonl", publish="false").json()["job"]
    wait(client, upload(client, third).json()["job"])
    digest = client.get("/model").json()["digest"]
    assert client.post("/rollback", json={}).json()["version"] == 2
    assert client.post("/predict", json={"inputs": [PAIR]}).json() == before
    assert Learner.load(folder, "cpu").history.domains[-1] != "new"
    assert client.post("/rollback", json={"version": 9}).status_code == 409
    # It continues the version that is served again; as version 3 it is another model than before.
    published = client.post(f"/jobs/{waiting}/publish").json()
    assert published["version"] == 3
    assert published["digest"] != digest


@pytest.mark.parametrize(
    ("content", "name", "domain", "word"),
    [
        (b"", "new.jsonl", None, "empty"),
        (b"\xff\xfe\x00", "new.csv", None, "utf-8"),
        (b'{"text": "one text"}\n', "new.jsonl", None, "label"),
        (b"not json\n", "new.jsonl", None, "line 1"),
        (b"x", "new.exe", None, ".jsonl"),
        (b"x", "../../etc/passwd.jsonl", None, "name of a domain"),
        (b"x", "new.jsonl", "../up", "name of a domain"),
        (b"x", "new.jsonl", "a\nb", "name of a domain"),
    ],
)
def test_a_bad_file_is_refused_before_it_is_queued(
    serve: Serve, content: bytes, name: str, domain: str | None, word: str, folder: Path
) -> None:
    client = serve().client
    form = {} if domain is None else {"name": domain}
    answer = client.post("/adapt", files={"file": (name, BytesIO(content))}, data=form)
    assert answer.status_code == 422, answer.text
    assert word in answer.json()["detail"]
    assert "model.jobs" not in answer.text
    assert "data.jsonl" not in answer.text
    assert list(jobs_of(folder).iterdir()) == []


def test_forgetting_is_limited_by_watched_domains(
    serve: Serve, folder: Path, third: bytes, stream: Stream, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match="--watch"):
        Service(folder, ServeSettings(device="cpu", max_forgetting=2))
    Service(folder, ServeSettings(device="cpu", max_forgetting=2, read_only=True))
    (file,) = write_jsonl(Stream([Domain(stream[0].name, test=stream[0].test)]), tmp_path / "watched")
    Service(folder, ServeSettings(device="cpu", max_forgetting=2, watch=[file]))
    place = leave(folder, third)
    trainer.run(place, trainer.Order(str(folder), "new", ".jsonl", "cpu", watch=[str(file)], max_forgetting=0))
    result = json.loads((place / "result.json").read_text())
    assert "not kept" in result.get("error", "not kept")
    assert ("error" in result) == (not (place / "model").exists())


def test_a_file_without_a_known_label_needs_confirmation(
    serve: Serve, third: bytes, in_process: None, folder: Path
) -> None:
    client = serve().client
    rows = [json.loads(line) for line in third.splitlines()]
    other = "".join(json.dumps({**row, "label": f"topic {row['label']}"}) + "\n" for row in rows).encode()
    refused = upload(client, other)
    assert refused.status_code == 428
    assert "topic" in refused.json()["detail"]
    assert list(jobs_of(folder).iterdir()) == []
    confirmed = upload(client, other, new_labels="true")
    assert wait(client, confirmed.json()["job"])["state"] == "published"
    assert "new_labels" not in upload(client, third).text, "one shared label is enough"


def test_the_columns_of_an_upload_can_be_chosen(serve: Serve, third: bytes, in_process: None) -> None:
    client = serve().client
    names = {"premise": "one", "hypothesis": "other", "label": "stars"}
    rows = [json.loads(line) for line in third.splitlines()]
    content = "".join(json.dumps({names.get(key, key): value for key, value in row.items()}) + "\n" for row in rows)
    refused = upload(client, content.encode())
    assert refused.status_code == 422
    assert "stars" in refused.json()["detail"]
    assert "--" not in refused.text
    wrong = upload(client, content.encode(), text="one", pair="missing", label="stars")
    assert wrong.status_code == 422
    assert "--" not in wrong.text
    chosen = upload(client, content.encode(), text="one", pair="other", label="stars")
    assert wait(client, chosen.json()["job"])["state"] == "published"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("a.csv has no column 'x' (named by --text); its columns are y", "a.csv has no column 'x'; its columns are y"),
        ("it has no label: name one with --label", "it has no label: choose the column of the label"),
        (
            "line 3 is not valid utf-8; give --encoding (Excel writes cp1252)",
            "line 3 is not valid utf-8; save it as UTF-8",
        ),
        (
            "books lost 9.0 points: not kept. Allow more (--max-forgetting)",
            "books lost 9.0 points: not kept. Allow more",
        ),
        ("it has no earlier version: see --keep-versions of `memgrow adapt`", "it has no earlier version"),
        ("unknown label 'a--b'; known are c", "unknown label 'a--b'; known are c"),
    ],
)
def test_clients_read_of_no_command_line_options(message: str, shown: str) -> None:
    assert error_message(DataError(message)) == shown


def test_too_many_trainings_and_repeated_data_are_refused(
    serve: Serve, third: bytes, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    release = threading.Event()
    monkeypatch.setattr(JobQueue, "run_trainer", lambda queue, job: release.wait(5) or "stopped")
    client = serve(max_jobs=1).client
    assert upload(client, third).status_code == 202
    assert upload(client, third, "more.jsonl").status_code == 429
    release.set()


# What a killed service left


@pytest.mark.parametrize("state", ["queued", "training"])
def test_an_unfinished_training_continues(
    serve: Serve, third: bytes, in_process: None, folder: Path, state: str
) -> None:
    place = leave(folder, third, state)
    client = serve().client
    assert wait(client, place.name)["state"] == "published"
    assert client.get("/model").json()["version"] == 3
    assert is_cleared(place)


def test_a_training_begins_again_if_the_model_has_changed(
    serve: Serve, third: bytes, in_process: None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = leave(folder, third, "training")
    with monkeypatch.context() as patch:
        patch.setattr("memgrow.training.loop.REPORT_EVERY_S", -1.0)
        patch.setattr(trainer, "FileProgress", lambda file: Plug(4))  # in the second epoch
        with pytest.raises(PulledPlug):
            trainer.train(place, order(folder))
    undo(folder)
    client = serve().client
    assert wait(client, place.name)["state"] == "published"
    assert client.get("/model").json()["version"] == 2


@pytest.mark.parametrize("published", [False, True], ids=["before", "after"])
def test_a_kill_around_publishing_publishes_once(serve: Serve, third: bytes, folder: Path, published: bool) -> None:
    place = leave(folder, third, "ready")
    trainer.train(place, order(folder))
    if published:
        Publisher(folder, ServeSettings(device="cpu")).publish(place / "model")
    client = serve().client
    assert wait(client, place.name)["version"] == 3
    assert client.get("/model").json()["version"] == 3
    assert is_cleared(place)


def test_leftovers_are_removed_and_unknown_records_stay(
    serve: Serve, third: bytes, folder: Path, tmp_path: Path
) -> None:
    over, broken = leave(folder, third, "discarded"), leave(folder, third, "discarded")
    (broken / "job.json").write_text('{"state": "paused"}')
    elsewhere = Path(shutil.move(leave(folder, third, "discarded"), tmp_path))
    (jobs_of(folder) / elsewhere.name).symlink_to(elsewhere)
    never = over.with_name(".incoming-18f-0a1b2c3d")
    never.mkdir()
    served = serve()
    assert [job["id"] for job in served.client.get("/jobs").json()["jobs"]] == [over.name]
    assert not never.exists()
    assert is_cleared(over)
    for name in (broken.name, elsewhere.name):
        assert (jobs_of(folder) / name / "data.jsonl").exists()
        assert name in served.log.getvalue()


def test_more_ended_trainings_than_are_listed_stop_no_service(serve: Serve, folder: Path) -> None:
    for _ in range(2 * MAX_ENDED):
        leave(folder, b"", "discarded")
    assert serve().client.get("/health").status_code == 200


# The folder of trainings


def test_a_folder_that_others_can_write_to_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(jobs: Path) -> None:
        with pytest.raises(MemgrowError, match="--jobs"):
            Service(folder, ServeSettings(device="cpu", jobs=jobs))

    (tmp_path / "file").write_text("")
    for jobs in ("model", "model/jobs", "file", "file/within"):
        refused(tmp_path / jobs)
    wide = tmp_path / "wide"
    wide.mkdir()
    wide.chmod(0o755)
    refused(wide)
    wide.chmod(0o700)
    Service(folder, ServeSettings(device="cpu", jobs=wide))
    monkeypatch.setattr(os, "getuid", lambda: wide.stat().st_uid + 1)
    refused(wide)
    monkeypatch.undo()
    Service(folder, ServeSettings(device="cpu", jobs=tmp_path / "new" / "jobs"))
    assert (tmp_path / "new" / "jobs").stat().st_mode & 0o777 == 0o700


def test_a_second_service_on_the_same_trainings_is_refused(serve: Serve) -> None:
    queue, second = serve().service.queue, serve().service.queue
    assert queue is not None
    assert second is not None
    with queue.locked(), pytest.raises(MemgrowError, match="--read-only"), second.locked():
        pass


# Failures


def test_clients_see_no_absolute_path(
    serve: Serve, third: bytes, in_process: None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ModelError(f"cannot write {folder}/versions (no room): see http://localhost/page/ or {folder}")

    served = serve()
    number = upload(served.client, third, publish="false").json()["job"]
    wait(served.client, number)
    with monkeypatch.context() as patch:
        patch.setattr("memgrow.learner.Learner.save", fails)
        answer = served.client.post(f"/jobs/{number}/publish")
    assert answer.json()["detail"] == "cannot write versions (no room): see http://localhost/page/ or model"
    shown = served.client.get("/jobs").text + served.client.get("/model").text
    assert "no room" in shown
    assert str(folder.parent) not in shown
    assert without_folders("cannot write /home/jane doe/secret plans/model: no") == "cannot write model: no"


class Disk:
    full = False


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """While it is full, nothing that is written arrives."""
    found, fsync = Disk(), os.fsync

    def checked(file: int) -> None:
        if found.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(file)

    monkeypatch.setattr(os, "fsync", checked)
    return found


def test_a_full_disk_costs_one_training_and_the_next_succeeds(
    serve: Serve, third: bytes, disk: Disk, in_process: None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = serve().client
    disk.full = True
    refused = upload(client, third)
    assert refused.status_code == 507
    assert "full" in refused.json()["detail"]
    disk.full = False
    run: Any = JobQueue.run_trainer

    def fills_up(queue: JobQueue, job: Job) -> None:
        disk.full = True
        run(queue, job)

    monkeypatch.setattr(JobQueue, "run_trainer", fills_up)
    first = upload(client, third).json()["job"]
    job = wait(client, first)
    assert job["state"] == "failed"
    assert "full" in job["error"]
    assert client.get("/health").status_code == 200
    disk.full = False
    monkeypatch.setattr(JobQueue, "run_trainer", run)
    assert wait(client, upload(client, third, "b.jsonl").json()["job"])["state"] == "published"
    assert is_cleared(jobs_of(folder) / first)


def test_a_trainer_that_fails_is_reported_with_what_it_said(
    serve: Serve, third: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served = serve()
    broken = tmp_path / "python"  # in place of Python
    broken.write_text(f"#!/bin/sh\nprintf 'first\\n\\033[31mno torch in {tmp_path}/lib%02000d\\n' 0 >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr("memgrow.data.processes.sys.executable", str(broken))
    job = wait(served.client, upload(served.client, third).json()["job"])
    assert job["state"] == "failed"
    assert "exit code 3" in job["error"]
    assert r"\x1b[31mno torch in lib0" in job["error"]
    assert str(tmp_path) not in job["error"]
    assert len(job["error"]) < 400
    assert "\x1b" not in capsys.readouterr().err
    assert "trainer failed" in served.log.getvalue()
    assert served.service.queue is not None
    served.service.queue.stop()
    assert served.client.get("/health").status_code == 503
