"""A domain is uploaded, learnt in another process, published and taken back, while others ask."""

import threading
import time
from io import BytesIO
from pathlib import Path

import pytest

from memgrow.data import Domain, Stream, write_jsonl
from memgrow.errors import SettingsError
from memgrow.learner import Learner
from memgrow.service.running import Service
from memgrow.service.trainer import Order, train
from memgrow.versions import undo
from tests.service.conftest import PAIR, Serve, is_cleared, upload, wait


@pytest.mark.parametrize(
    "process", [False, pytest.param(True, marks=pytest.mark.extras)], ids=["within", "another process"]
)
def test_a_domain_is_learnt_and_no_request_is_lost(
    serve: Serve, third: bytes, folder: Path, process: bool, request: pytest.FixtureRequest
) -> None:
    if not process:
        request.getfixturevalue("at_once")
    served = serve()
    seen: list[tuple[int, int]] = []
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            answer = served.client.post("/predict", json={"inputs": [PAIR]})
            seen.append((answer.status_code, answer.json()["version"]))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        job = upload(served.client, third).json()["job"]
        told = wait(served.client, job)
    finally:
        time.sleep(0.05)
        over.set()
        asking.join()
    assert (told["state"], told["version"], told["error"]) == ("published", 3, None)
    assert "new" in told["after"]
    assert set(told["before"]) > {"new"}
    assert {status for status, _ in seen} == {200}
    versions = [version for _, version in seen]
    assert versions == sorted(versions)
    assert set(versions) == {2, 3}
    assert Learner.load(folder, "cpu").history.domains[-1] == "new"
    assert is_cleared(folder.parent / "model.jobs" / job)


def test_a_model_that_waits_is_published_or_discarded(serve: Serve, third: bytes, at_once: None) -> None:
    client = serve().client
    first, second = (upload(client, third, f"{name}.jsonl", publish="false").json()["job"] for name in "ab")
    assert wait(client, first)["state"] == wait(client, second)["state"] == "ready"
    assert client.get("/model").json()["version"] == 2
    assert client.post(f"/jobs/{first}/publish").json()["state"] == "published"
    assert client.get("/model").json()["version"] == 3
    late = client.post(f"/jobs/{second}/publish")
    assert late.status_code == 409
    assert "has changed since" in late.json()["detail"]
    assert client.post(f"/jobs/{second}/discard").json()["state"] == "discarded"
    assert client.post(f"/jobs/{second}/discard").status_code == 409
    assert [job["id"] for job in client.get("/jobs").json()["jobs"]] == [second, first]


def test_a_roll_back_is_served_at_once_and_stays(serve: Serve, third: bytes, at_once: None, folder: Path) -> None:
    client = serve().client
    before = client.post("/predict", json={"inputs": [PAIR]}).json()
    waiting = upload(client, third, "early.jsonl", publish="false").json()["job"]
    wait(client, upload(client, third).json()["job"])
    assert client.get("/model").json()["version"] == 3
    assert client.post("/rollback", json={}).json() == {"version": 2}
    assert client.post("/predict", json={"inputs": [PAIR]}).json() == before
    assert Learner.load(folder, "cpu").history.stages[-1].learned != ("new",)
    assert client.post("/rollback", json={"version": 1}).status_code == 409
    # It went on from the very version that holds again.
    assert client.post(f"/jobs/{waiting}/publish").json()["version"] == 3


def test_what_was_rolled_back_does_not_come_back_with_a_training(serve: Serve, third: bytes, at_once: None) -> None:
    client = serve().client
    waiting = upload(client, third, publish="false").json()["job"]
    wait(client, waiting)
    assert client.post("/rollback", json={"version": 1}).json() == {"version": 1}
    refused = client.post(f"/jobs/{waiting}/publish")
    assert refused.status_code == 409
    assert client.get("/model").json()["version"] == 1


def test_a_change_by_another_command_is_served(serve: Serve, folder: Path) -> None:
    served = serve()
    undo(folder)
    assert served.service.publisher.refresh()
    assert served.client.get("/health").json()["version"] == 1


@pytest.mark.parametrize(
    ("content", "name", "domain", "sentence"),
    [
        (b"", "new.jsonl", None, "empty"),
        (b"\xff\xfe\x00", "new.csv", None, "UTF-8"),
        (b'{"text": "one text"}\n', "new.jsonl", None, "label"),
        (b"not json\n", "new.jsonl", None, "line 1"),
        (b"x", "new.exe", None, ".jsonl"),
        (b"x", "../../etc/passwd.jsonl", None, "name of a domain"),
        (b"x", "new.jsonl", "../up", "name of a domain"),
        (b"x", "new.jsonl", "a\nb", "name of a domain"),
    ],
)
def test_a_file_that_cannot_be_learnt_is_refused_before_it_is_queued(
    serve: Serve, content: bytes, name: str, domain: str | None, sentence: str, folder: Path
) -> None:
    client = serve().client
    form = {} if domain is None else {"name": domain}
    answer = client.post("/adapt", files={"file": (name, BytesIO(content))}, data=form)
    assert answer.status_code == 422, answer.text
    assert sentence in answer.json()["detail"]
    assert "model.jobs" not in answer.text
    assert "data.jsonl" not in answer.text
    assert client.get("/jobs").json()["jobs"] == []
    jobs = folder.parent / "model.jobs"
    assert not jobs.exists() or not list(jobs.iterdir())


def test_a_bound_on_forgetting_without_examples_to_watch_is_refused_at_the_start(
    folder: Path, stream: Stream, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match="--watch"):
        Service(folder, device="cpu", max_forgetting=2)
    Service(folder, device="cpu", max_forgetting=2, read_only=True)  # nothing is learnt that could forget
    first = next(iter(stream))
    (file,) = write_jsonl(Stream([Domain(first.name, test=first.test)]), tmp_path / "watched")
    Service(folder, device="cpu", max_forgetting=2, watch=[file])


def test_learning_the_same_again_and_too_much_at_once_are_refused(
    serve: Serve, third: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memgrow.service.limits import Limits

    never = threading.Event()
    monkeypatch.setattr(
        "memgrow.service.training_queue.TrainingQueue.run_trainer", lambda queue, job: never.wait(0.5) or "stopped"
    )
    client = serve(limits=Limits(jobs=1)).client
    assert upload(client, third).status_code == 202
    more = upload(client, third, "more.jsonl")
    assert more.status_code == 429
    assert "trainings" in more.json()["detail"]
    never.set()


def test_a_trainer_that_was_killed_after_the_end_trains_nothing_again(
    folder: Path, third: bytes, tmp_path: Path
) -> None:
    job = tmp_path / "job"
    job.mkdir()
    (job / "data.jsonl").write_bytes(third)
    order = Order(str(folder), "new", ".jsonl", "cpu")
    first = train(job, order)
    (job / "data.jsonl").write_bytes(third)
    files = {path: path.stat().st_mtime_ns for path in job.rglob("*") if path.is_file()}
    assert train(job, order) == first
    assert files == {path: path.stat().st_mtime_ns for path in job.rglob("*") if path.is_file()}
