"""A tiny model of pairs that is served to a client within the process."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from io import BytesIO, StringIO
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from starlette.testclient import TestClient

from memgrow.data import Domain, Stream, write_jsonl
from memgrow.learner import Learner
from memgrow.models import ModelSettings
from memgrow.service.app import create_app
from memgrow.service.gate import Access
from memgrow.service.jobs import Job, JobFolder, State
from memgrow.service.logs import Log
from memgrow.service.running import Service
from memgrow.training.settings import TrainingSettings
from tests.support.browser import Look, Page, open_browser, served

PAIR = {"premise": "the soup was cold", "hypothesis": "there was a soup"}


@pytest.fixture(scope="session")
def learnt_two(
    stream: Stream, tiny: ModelSettings, short: TrainingSettings, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of a model that has learnt two domains, and keeps the version before; not to be changed."""
    folder = tmp_path_factory.mktemp("served") / "model"
    learner = Learner.create("F+M+V", model=tiny, training=short, device="cpu")
    for domain in list(stream)[:2]:
        learner.adapt(domain, folder=folder)
    return folder


@pytest.fixture
def folder(learnt_two: Path, tmp_path: Path) -> Path:
    """A copy of it that may be changed."""
    return Path(copytree(learnt_two, tmp_path / "model"))


class Served:
    """A service and a client of it."""

    def __init__(self, service: Service, client: TestClient, log: StringIO) -> None:
        self.service, self.client, self.log = service, client, log


Serve = Callable[..., Served]


@pytest.fixture
def serve(folder: Path) -> Iterator[Serve]:
    """Serve the folder; the options are those of `Service`, and `access`."""
    with ExitStack() as stack:

        def start(access: Access | None = None, log_texts: bool = False, **options: Any) -> Served:
            log = StringIO()
            service = Service(folder, device="cpu", log=Log(log_texts, log), **options)
            app: Any = create_app(service, access)
            client = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
            return Served(service, stack.enter_context(client), log)

        yield start


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    with open_browser() as found:
        yield found


@pytest.fixture
def look(browser: Any) -> Iterator[Look]:
    """Look an address in a new tab, which is closed in the end."""
    with ExitStack() as stack:

        def start(address: str, *options: str) -> Page:
            page = Page(browser, address, *options)
            stack.callback(page.context.close)
            return page

        yield start


@pytest.fixture(scope="session")
def reader(learnt_two: Path, browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service whose model no test changes."""
    with served(Path(copytree(learnt_two, tmp_path_factory.mktemp("read") / "model"))) as address:
        yield address


ENDED = ("ready", "published", "discarded", "failed")


@pytest.fixture(scope="session")
def third(stream: Stream, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file of the third domain."""
    last = list(stream)[2]
    whole = Domain("new", train=[*last.train, *last.validation])
    (file,) = write_jsonl(Stream([whole]), tmp_path_factory.mktemp("upload"))
    return file.read_bytes()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train in this process, which takes no time to start."""

    def run(queue: Any, job: Any) -> None:
        from memgrow.service import trainer

        folder = queue.folder / job.id
        trainer.learn_order(folder)

    monkeypatch.setattr("memgrow.service.training_queue.TrainingQueue.run_trainer", run)


def upload(client: TestClient, content: bytes, name: str = "new.jsonl", **query: str) -> Any:
    return client.post("/adapt", files={"file": (name, BytesIO(content))}, params=query)


def left(folder: Path, content: bytes, state: State = "queued", publish: bool = True) -> JobFolder:
    """What a killed service left of a job in that state."""
    job = replace(Job.new("new", ".jsonl", publish), state=state)
    place = JobFolder(folder.with_name("model.jobs") / job.id)
    place.create()
    place.data(".jsonl").write_bytes(content)
    place.write(job)
    return place


def soon(true: Callable[[], bool]) -> bool:
    """Whether it becomes true within some seconds."""
    until = time.monotonic() + 20
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def is_cleared(job: Path) -> bool:
    """Whether nothing but its record is left of a job; that is so a moment after it has been told to have ended."""
    return soon(lambda: {path.name for path in job.iterdir()} == {"job.json"})


def wait(client: TestClient, job: str, seconds: float = 60) -> dict[str, Any]:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        told: dict[str, Any] = client.get(f"/jobs/{job}").json()
        if told["state"] in ENDED and not (told["state"] == "ready" and told["publish"] and not told["error"]):
            return told
        time.sleep(0.02)
    raise AssertionError(f"it took longer than {seconds} seconds: {told}")
