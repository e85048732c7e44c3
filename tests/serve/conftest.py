"""A tiny model of pairs that is served to a client in the same process."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from starlette.testclient import TestClient

from memgrow.data import Domain, Stream, write_jsonl
from memgrow.learner import Learner
from memgrow.models import ModelSettings
from memgrow.serve import trainer
from memgrow.serve.app import create_app
from memgrow.serve.jobs import Job, JobQueue
from memgrow.serve.logs import LOGGER, JsonFormatter
from memgrow.serve.service import Service
from memgrow.serve.settings import ServeSettings
from memgrow.training.settings import TrainingSettings

PAIR = {"premise": "the soup was cold", "hypothesis": "there was a soup"}


@pytest.fixture(scope="session")
def two_domains(
    stream: Stream, tiny: ModelSettings, short: TrainingSettings, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A model that has learned two domains and keeps the version before; not to be changed."""
    folder = tmp_path_factory.mktemp("served") / "model"
    learner = Learner.create("finetune+slots+vocab", model=tiny, training=short, device="cpu")
    for domain in list(stream)[:2]:
        with pytest.MonkeyPatch.context() as patch:  # so few texts have no drift statistics otherwise
            patch.setattr("memgrow.evaluation.drift.EXACT_TEXTS", 1)
            patch.setattr("memgrow.evaluation.drift.MIN_TEXTS", 30)
            learner.adapt(domain, folder=folder)
    return folder


@pytest.fixture
def folder(two_domains: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    return Path(copytree(two_domains, tmp_path / "model"))


@pytest.fixture(scope="session")
def third(stream: Stream, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file of a third domain."""
    last = list(stream)[2]
    whole = Domain("new", train=[*last.train, *last.validation])
    (file,) = write_jsonl(Stream([whole]), tmp_path_factory.mktemp("upload"))
    return file.read_bytes()


@dataclass
class Served:
    service: Service
    client: TestClient
    log: StringIO


Serve = Callable[..., Served]


@pytest.fixture
def serve(folder: Path) -> Iterator[Serve]:
    """Serve the folder; the options are those of `ServeSettings`."""
    with ExitStack() as stack:

        def start(**options: Any) -> Served:
            log = StringIO()
            handler = logging.StreamHandler(log)
            handler.setFormatter(JsonFormatter())
            LOGGER.addHandler(handler)
            stack.callback(LOGGER.removeHandler, handler)
            service = Service(folder, ServeSettings(device="cpu", **options))
            client = TestClient(create_app(service), "http://127.0.0.1", raise_server_exceptions=False)
            return Served(service, stack.enter_context(client), log)

        yield start


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train in this process, which saves its start."""

    def run(queue: JobQueue, job: Job) -> None:
        model = str(queue._publisher.folder)
        trainer.run(queue.folder / job.id, trainer.Order(model, job.domain, job.suffix, "cpu", columns=job.columns))

    monkeypatch.setattr(JobQueue, "run_trainer", run)


def upload(client: TestClient, content: bytes, name: str = "new.jsonl", publish: str = "true", **form: str) -> Any:
    return client.post("/adapt", files={"file": (name, BytesIO(content))}, params={"publish": publish}, data=form)


def soon(condition: Callable[[], bool], seconds: float = 30) -> bool:
    """Whether it becomes true within some seconds."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def is_pending(job: dict[str, Any]) -> bool:
    return job["state"] in ("queued", "training") or (job["state"] == "ready" and job["publish"] and not job["error"])


def wait(client: Any, job: str, seconds: float = 60) -> dict[str, Any]:
    """The job when it has ended."""
    assert soon(lambda: not is_pending(client.get(f"/jobs/{job}").json()), seconds)
    found: dict[str, Any] = client.get(f"/jobs/{job}").json()
    return found
