"""A real service in its own process: random kills, and SIGTERM under load."""

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

import httpx
import pytest

from memgrow.learner import Learner
from tests.serve.conftest import PAIR, is_pending, soon

pytestmark = pytest.mark.extras
COMMAND = [sys.executable, "-c", "from memgrow.cli import main; main()", "serve"]


class Server:
    """`memgrow serve` in a process."""

    def __init__(self, folder: Path) -> None:
        self.log = folder.with_name("log")
        options = ["--port", "0", "--device", "cpu", "--threads", "1", "--keep-versions", "9"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*COMMAND, str(folder), *options], stderr=log)
        assert soon(lambda: bool(self.address) or self.process.poll() is not None, 120)
        self.client = httpx.Client(base_url=self.address, timeout=60)

    @property
    def address(self) -> str:
        found = re.search(r"http://127\S+:\d+", self.log.read_text(errors="replace"))
        return found.group() if found else ""

    @property
    def trainer(self) -> int | None:
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
def servers() -> Iterator[list[Server]]:
    started: list[Server] = []
    yield started
    for server in started:
        if server.process.poll() is None:
            server.kill()


def is_gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")
def test_random_kills_of_trainer_and_server_leave_a_servable_model(
    folder: Path, third: bytes, servers: list[Server]
) -> None:
    rng, version = random.Random(os.environ.get("MEMGROW_SEED", "7")), 2
    servers.append(Server(folder))
    for number in range(int(os.environ.get("MEMGROW_KILLS", "12"))):
        server = servers[-1]
        if not any(map(is_pending, server.client.get("/jobs").json()["jobs"])):
            content, name = third + third[: third.index(b"\n") + 1] * number, f"new{number}.jsonl"
            assert (
                server.client.post("/adapt?publish=true", files={"file": (name, BytesIO(content))}).status_code == 202
            )
        time.sleep(rng.uniform(0.0, 8.0))
        victim, trainer = rng.choice(("trainer", "server", "both")), server.trainer
        if victim != "server" and trainer is not None:
            with suppress(ProcessLookupError):
                os.kill(trainer, signal.SIGKILL)
        if victim != "trainer":
            server.kill()
            Learner.load(folder, "cpu")
            assert trainer is None or soon(lambda: is_gone(trainer)), "a trainer outlived its server"  # noqa: B023
            servers.append(Server(folder))
        client = servers[-1].client
        assert client.post("/predict", json={"inputs": [PAIR]}).status_code == 200
        assert version <= (version := client.get("/model").json()["version"])  # what was published stays
    assert soon(lambda: not any(map(is_pending, client.get("/jobs").json()["jobs"])), 300)
    jobs = client.get("/jobs").json()["jobs"]
    assert all(job["state"] == "published" or job["error"] for job in jobs), jobs
    published = sorted(job["version"] for job in jobs if job["state"] == "published")
    assert published == list(range(3, 3 + len(published)))
    assert len(Learner.load(folder, "cpu").history.stages) == 2 + len(published)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_finishes_running_requests_and_a_second_service_is_refused(
    folder: Path, servers: list[Server], number: signal.Signals
) -> None:
    servers.append(Server(folder))
    again = subprocess.run([*COMMAND, str(folder), "--port", "0"], capture_output=True, text=True, timeout=120)
    assert again.returncode == 2
    assert "--read-only" in again.stderr
    server, answers = servers[-1], list[int]()

    def ask(_: int) -> None:
        with httpx.Client(base_url=server.address, timeout=60) as client, suppress(httpx.TransportError):
            while True:  # until the service accepts no more
                answers.append(client.post("/predict", json={"inputs": [PAIR] * 100}).status_code)

    with ThreadPoolExecutor(8) as pool:
        asking = pool.map(ask, range(8))
        assert soon(lambda: len(answers) >= 20)
        assert server.kill(number) == 143
        list(asking)
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]
    assert set(answers) == {200}
    assert [line["status"] for line in lines if line["event"] == "request"] == answers
