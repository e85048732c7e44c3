"""A service under load while its model changes: no request fails, and each answer is that of the digest it names."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest

from memgrow import Learner
from memgrow.storage.versions import list_versions
from tests.serve.conftest import wait
from tests.serve.test_processes import Server
from torture.models import Kind

CLIENTS, SECONDS = 200, 60.0
INPUTS = [("the soup was cold", "there was a soup"), ("nobody came", "it was empty"), ("a", "b")]
Shares = list[dict[str, float]]


def test_answers_are_those_of_the_digest_they_name(
    kinds: dict[str, Kind], tmp_path: Path, count: Callable[[str, int], None]
) -> None:
    """200 clients for a minute, while domains are uploaded, published and rolled back."""
    one = kinds["BiLSTM, F+M+V"]
    model = one.make(tmp_path / "models" / "m", domains=1)
    server, until = Server(model), time.monotonic() + SECONDS
    expected: dict[str, Shares] = {}

    def note() -> None:
        learner = Learner.load(model, device="cpu")
        expected[str(list_versions(model)[0].digest)] = [answer.probabilities for answer in learner.predict(INPUTS)]

    def change() -> tuple[int, int]:
        """Publish and roll back in turn; how often."""
        published = rolled_back = 0
        with httpx.Client(base_url=server.address, timeout=60) as client:
            while time.monotonic() < until:
                for data in one.data[1:]:
                    job = client.post(
                        "/adapt?publish=true", files={"file": (data.name, BytesIO(data.read_bytes()))}
                    ).json()["job"]
                    assert wait(client, job)["state"] == "published"
                    note()
                    published += 1
                for _ in one.data[1:]:
                    assert client.post("/rollback", json={}).raise_for_status().json()["digest"] in expected
                    rolled_back += 1
        return published, rolled_back

    async def ask() -> list[tuple[str, int, Shares]]:
        texts = [{"premise": first, "hypothesis": second} for first, second in INPUTS]
        answers: list[tuple[str, int, Shares]] = []

        async def client() -> None:
            while time.monotonic() < until:
                answer = await http.post("/predict", json={"inputs": texts})
                assert answer.status_code == 200, answer.text
                found: dict[str, Any] = answer.json()
                shares = [share["probabilities"] for share in found["predictions"]]
                answers.append((found["digest"], found["version"], shares))

        limits = httpx.Limits(max_connections=CLIENTS, max_keepalive_connections=CLIENTS)
        async with httpx.AsyncClient(base_url=server.address, timeout=60, limits=limits) as http:
            await asyncio.gather(*[client() for _ in range(CLIENTS)])
        return answers

    try:
        note()
        with ThreadPoolExecutor(1) as thread:
            changing = thread.submit(change)
            answers = asyncio.run(ask())
            published, rolled_back = changing.result(300)
        for digest, _, shares in answers:
            for own, right in zip(shares, expected[digest], strict=True):
                assert own == pytest.approx(right, abs=1e-5)
        assert published > 1
        versions = {(digest, version) for digest, version, _ in answers}
        assert len(versions) == len({digest for digest, _ in versions}) > 2
        assert "trainer failed" not in server.log.read_text()  # each domain is trained once
    finally:
        server.kill()
    count("answers to 200 clients", len(answers))
    count("models published meanwhile", published)
    count("rollbacks meanwhile", rolled_back)
