"""Whatever is killed, the next service finds a model to serve, and goes on with what was asked for."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest

from memgrow.checkpoint import find_faults
from memgrow.learner import Learner
from memgrow.service.published import Publisher
from memgrow.service.trainer import Order, train
from memgrow.versions import undo
from tests.service.conftest import PAIR, Serve, is_cleared, left, wait
from tests.support.breaking import Plug, PulledPlug

KILLS = 12


@pytest.mark.parametrize("state", ["queued", "training"])
def test_a_training_that_was_not_finished_goes_on(
    serve: Serve, third: bytes, at_once: None, folder: Path, state: str
) -> None:
    place = left(folder, third, state)
    client = serve().client
    assert wait(client, place.place.name)["state"] == "published"
    assert client.get("/model").json()["version"] == 3
    assert is_cleared(place.place)


@pytest.mark.parametrize("publish", [True, False], ids=["published", "ready"])
def test_a_training_that_was_not_finished_begins_again_from_the_version_before(
    serve: Serve, third: bytes, at_once: None, folder: Path, monkeypatch: pytest.MonkeyPatch, publish: bool
) -> None:
    place = left(folder, third, "training", publish)
    with monkeypatch.context() as patch:
        patch.setattr("memgrow.training.loop.REPORT_EVERY_S", -1.0)
        patch.setattr("memgrow.service.trainer.FileProgress", lambda file: Plug(4))  # in the second epoch
        with pytest.raises(PulledPlug):
            train(place.place, Order(str(folder), "new", ".jsonl", "cpu"))
    assert (place.place / "model.adapting").is_dir()
    undo(folder)
    client = serve().client
    told = wait(client, place.place.name)
    assert (told["state"], told["error"]) == ("published" if publish else "ready", None)
    assert client.get("/model").json()["version"] == (2 if publish else 1)


@pytest.mark.parametrize("published", [False, True], ids=["before", "after"])
def test_a_kill_around_a_publication_publishes_once(serve: Serve, third: bytes, folder: Path, published: bool) -> None:
    place = left(folder, third, "ready")
    train(place.place, Order(str(folder), "new", ".jsonl", "cpu"))
    if published:
        Publisher(folder, "cpu").publish(place.candidate)
    client = serve().client
    assert wait(client, place.place.name)["version"] == 3
    assert client.get("/model").json()["version"] == 3
    assert is_cleared(place.place)


def test_nothing_is_left_of_uploads_that_were_not_accepted_and_of_jobs_that_have_ended(
    serve: Serve, third: bytes, folder: Path
) -> None:
    never, over = left(folder, third, "queued"), left(folder, third, "discarded")
    waits = left(folder, third, "ready", publish=False)
    (never.place / "job.json").unlink()
    client = serve().client
    told = {job["id"]: job["state"] for job in client.get("/jobs").json()["jobs"]}
    assert told == {over.place.name: "discarded", waits.place.name: "ready"}
    assert not never.place.exists()
    assert is_cleared(over.place)
    refused = client.post(f"/jobs/{waits.place.name}/publish")  # it has no trained model, whoever took it away
    assert refused.status_code == 409


class Server:
    """A true service in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.log = folder, folder.with_name("log")
        start = [sys.executable, "-c", "from memgrow.cli import main; main()", "serve", str(folder)]
        options = ["--port", "0", "--device", "cpu", "--threads", "1", "--keep-versions", "9"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*start, *options], stdout=subprocess.DEVNULL, stderr=log)
        self.client = httpx.Client(base_url=self._address(), timeout=60)

    def _address(self) -> str:
        until = time.monotonic() + 120
        while (found := re.search(r"http://127\S+:\d+", self.log.read_text(errors="replace"))) is None:
            if self.process.poll() is not None or time.monotonic() > until:
                self.process.kill()
                raise AssertionError(f"the service did not start: {self.log.read_text(errors='replace')}")
            time.sleep(0.02)
        return found.group()

    @property
    def trainer(self) -> int | None:
        with suppress(OSError, IndexError, ValueError):
            return int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])
        for thread in Path(f"/proc/{self.process.pid}/task").glob("*"):
            with suppress(OSError, IndexError, ValueError):
                return int((thread / "children").read_text().split()[0])
        return None

    def kill(self, number: int = signal.SIGKILL) -> int:
        self.client.close()
        with suppress(ProcessLookupError):
            self.process.send_signal(number)
        return self.process.wait(60)


@pytest.fixture
def servers(folder: Path) -> Iterator[list[Server]]:
    started: list[Server] = []
    yield started
    for server in started:
        if server.process.poll() is None:
            server.kill()


def gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def is_pending(job: dict[str, Any]) -> bool:
    return job["state"] in ("queued", "training") or (job["state"] == "ready" and job["publish"] and not job["error"])


@pytest.mark.extras
def test_random_kills_of_trainer_and_server_leave_a_servable_model(
    folder: Path, third: bytes, servers: list[Server]
) -> None:
    if not Path("/proc/self/task").is_dir():
        pytest.skip("the processes of a server are found in /proc, which this system does not have")
    chance, known = random.Random(os.environ.get("MEMGROW_SEED", "7")), 2
    counts = {"trainer": 0, "server": 0, "both": 0}
    kills = int(os.environ.get("MEMGROW_KILLS", KILLS))
    servers.append(Server(folder))
    for number in range(kills):
        server = servers[-1]
        told = server.client.get("/jobs").json()["jobs"]
        if not any(map(is_pending, told)):
            content, name = third + third[: third.index(b"\n") + 1] * number, f"new{number}.jsonl"
            answer = server.client.post("/adapt", files={"file": (name, BytesIO(content))})
            assert answer.status_code == 202, answer.text
        time.sleep(chance.uniform(0.0, 8.0))
        victim, trainer = chance.choice(list(counts)), server.trainer
        counts[victim] += 1
        if victim != "server" and trainer is not None:
            with suppress(ProcessLookupError):
                os.kill(trainer, signal.SIGKILL)
        if victim != "trainer":
            server.kill()
            assert find_faults(folder) == []
            until = time.monotonic() + 20
            while trainer is not None and not gone(trainer) and time.monotonic() < until:
                time.sleep(0.05)
            assert trainer is None or gone(trainer), "a trainer outlived its server"
            servers.append(Server(folder))
        client = servers[-1].client
        assert client.post("/predict", json={"inputs": [PAIR]}).status_code == 200
        assert known <= (known := client.get("/model").json()["version"])  # what was published stays
    until = time.monotonic() + 300
    while any(map(is_pending, told := client.get("/jobs").json()["jobs"])):
        assert time.monotonic() < until, told
        time.sleep(0.2)
    for job in told:
        assert job["state"] == "published" or job["error"], job
    published = sorted(job["version"] for job in told if job["state"] == "published")
    assert published == list(range(3, 3 + len(published)))
    assert len(Learner.load(folder, "cpu").history.stages) == 2 + len(published)
    print(f"kills: {counts}; trainings: {[job['state'] for job in told]}")
    assert servers[-1].kill(signal.SIGTERM) == 143


@pytest.mark.extras
def test_sigterm_finishes_what_is_under_way_and_a_second_service_is_refused(
    folder: Path, servers: list[Server]
) -> None:
    servers.append(Server(folder))
    again = subprocess.run(
        [sys.executable, "-c", "from memgrow.cli import main; main()", "serve", str(folder), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert again.returncode == 2
    assert "--read-only" in again.stderr
    server, answers = servers[-1], list[int]()

    def ask(_: int) -> None:
        with httpx.Client(base_url=server.client.base_url, timeout=60) as client, suppress(httpx.TransportError):
            while True:  # until no more requests are accepted
                answers.append(client.post("/predict", json={"inputs": [PAIR] * 100}).status_code)

    with ThreadPoolExecutor(8) as pool:
        asking = pool.map(ask, range(8))
        while len(answers) < 20:
            time.sleep(0.01)
        assert server.kill(signal.SIGTERM) == 143
        list(asking)
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]
    begun = [line["status"] for line in lines if line["event"] == "request"]
    assert set(answers) == {200}
    assert begun == answers  # what had begun was answered
