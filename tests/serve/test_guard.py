"""Access, limits, the log and the metrics; hostile requests get a message."""

import json
import re
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError

from memgrow.serve.app import PAGE, create_server
from memgrow.serve.schemas import PredictRequest
from memgrow.serve.service import Service
from memgrow.serve.settings import ServeSettings
from tests.serve.conftest import PAIR, Serve

JSON = {"content-type": "application/json"}
CHANGING = ("/adapt", "/rollback", "/jobs/1/publish", "/jobs/1/discard")
BODIES = {
    "empty": b"",
    "no JSON": b"{",
    "no UTF-8": b'{"inputs": ["\xff\xfe"]}',
    "deep": b"[" * 100_000,
    "no inputs": b'{"inputs": []}',
    "empty text": b'{"inputs": ["\t"]}',
    "one text of two": b'{"inputs": ["one text"]}',
    "half a character": b'{"inputs": ["\\ud800\\tb"]}',
    "unknown field": b'{"inputs": ["a\\tb"], "path": "/etc/passwd"}',
    "top_k of 0": b'{"inputs": ["a\\tb"], "top_k": 0}',
    "too many": json.dumps({"inputs": ["a\tb"] * 257}).encode(),
    "too long": json.dumps({"inputs": ["a" * 20_001 + "\tb"]}).encode(),
    "too large": json.dumps({"inputs": ["a\tb" + " " * (1 << 20)]}).encode(),
}


def test_hostile_bodies_get_a_message(serve: Serve) -> None:
    client = serve().client
    for what, body in BODIES.items():
        for path in ("/predict", "/explain", "/stream", "/rollback"):
            answer = client.post(path, content=body, headers=JSON)
            assert 400 <= answer.status_code < 500, (what, path, answer.text)
            detail = answer.json()["detail"]
            assert isinstance(detail, str), (what, path)
            assert detail, (what, path)
    assert client.post("/predict", content=BODIES["too large"], headers=JSON).status_code == 413
    assert client.post("/predict", json={"inputs": [PAIR]}).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"inputs": [1] * 50_000},
        {"inputs": [{str(number): 1 for number in range(50_000)}]},
        {"inputs": ["a"], **{str(number): 1 for number in range(50_000)}},
    ],
    ids=["inputs", "fields of an input", "fields"],
)
def test_the_first_error_of_a_body_is_enough(body: dict[str, object]) -> None:
    """Half a million errors took 1.4 GB and kept all other requests waiting for seconds."""
    with pytest.raises(ValidationError) as refused:
        PredictRequest.model_validate(body)
    assert refused.value.error_count() == 1


def test_an_endless_body_and_a_large_file_are_refused(serve: Serve) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(1000):
            yield b" " * (1 << 16)

    client = serve(max_upload=1000).client
    assert client.post("/predict", content=endless(), headers=JSON).status_code == 413
    for size in (1001, 3 << 20):
        assert client.post("/adapt", files={"file": ("a.jsonl", b"x" * size)}).status_code == 413


def test_every_response_has_security_headers(serve: Serve) -> None:
    client = serve().client
    for answer in (client.get("/"), client.get("/nowhere"), client.post("/predict", content=b"{")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_changing_the_model_needs_the_token(serve: Serve) -> None:
    client = serve(host="0.0.0.0", token="secret").client
    for path in CHANGING:
        for given in (None, "Bearer wrong", "secret", "Bearer ", "Bearer w\xf6ng"):
            headers = {} if given is None else {"authorization": given.encode("latin-1")}
            assert client.post(path, headers=headers).status_code == 401, (path, given)  # type: ignore[arg-type]
        assert client.post(path, headers={"authorization": "Bearer secret"}).status_code != 401
    assert client.post("/predict", json={"inputs": [PAIR]}).status_code == 200


def test_pages_of_other_sites_can_change_nothing(serve: Serve) -> None:
    client = serve().client
    assert client.post("/rollback", json={}, headers={"origin": "http://evil.example"}).status_code == 403
    assert client.get("/model", headers={"host": "evil.example"}).status_code == 403
    assert client.get("/model", headers={"host": "localhost:8000"}).status_code == 200
    assert client.post("/rollback", json={}, headers={"origin": "http://127.0.0.1"}).json()["version"] == 1
    client, foreign = serve(token="secret").client, {"host": "evil.example"}
    for path in ("/model", "/jobs", "/health", "/"):  # by a foreign name everything needs the token
        assert client.get(path).status_code == 200
        assert client.get(path, headers=foreign).status_code == 401
    for headers, status in ((foreign, 401), ({**foreign, "authorization": "Bearer secret"}, 200), ({}, 200)):
        assert client.post("/predict", json={"inputs": ["a\tb"]}, headers=headers).status_code == status


def test_every_log_line_and_answer_names_the_digest_of_the_model_and_no_line_has_texts(serve: Serve) -> None:
    served = serve()
    digest = served.service.publisher.current.digest
    for path in ("/model", "/drift", "/jobs", "/health"):
        answer = served.client.get(path).json()
        assert (answer["version"], answer["digest"]) == (2, digest), path
    for inputs, status in (([PAIR], 200), (["a secret word"], 422)):
        assert served.client.post("/predict", json={"inputs": inputs}).status_code == status
    rolled_back = served.client.post("/rollback", json={}).json()
    served.client.get("/nowhere")
    lines = [json.loads(line) for line in served.log.getvalue().splitlines()]
    assert [line["digest"] for line in lines] == [digest] * 6 + [rolled_back["digest"]] * 2
    assert [line["status"] for line in lines] == [200] * 5 + [422, 200, 404]
    assert "soup" not in served.log.getvalue()
    assert "secret" not in served.log.getvalue()
    assert digest != rolled_back["digest"]


def test_slow_connections_lock_nobody_out(serve: Serve, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memgrow.serve.app.CONNECTIONS", 20)
    server = create_server(Service(folder, ServeSettings(device="cpu", read_only=True)))
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as thread:
        running = thread.submit(server.run, [listener])
        address = listener.getsockname()
        head = b"POST /predict HTTP/1.1\r\nhost: localhost\r\n"
        slow = [socket.create_connection(address) for _ in range(60)]
        try:
            for number, one in enumerate(slow):  # an unfinished head, an unfinished body, nothing at all
                one.sendall((head, head + b"content-length: 9\r\n\r\n{", b"")[number % 3])
            for _ in range(3):
                with httpx.Client(base_url="http://{}:{}".format(*address), timeout=5) as client:
                    assert client.post("/predict", json={"inputs": [PAIR]}).status_code == 200
        finally:
            for one in slow:
                one.close()
            server.should_exit = True
            running.result(30)


def test_local_addresses() -> None:
    for host, is_local in (("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("me", False)):
        assert ServeSettings(host=host).is_local == is_local


def test_a_read_only_service_changes_nothing(serve: Serve) -> None:
    client = serve(read_only=True).client
    assert client.post("/rollback", json={}).status_code == 403
    assert client.post("/adapt", files={"file": ("a.jsonl", b"x")}).status_code == 403
    found = client.get("/jobs").json()
    assert (found["jobs"], found["read_only"]) == ([], True)
    assert client.post("/predict", json={"inputs": [PAIR]}).status_code == 200


def test_metrics_for_prometheus(serve: Serve) -> None:
    client = serve().client
    client.post("/predict", json={"inputs": [PAIR]})
    client.get("/nowhere/else")
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    for line in (
        'memgrow_requests_total{method="POST",route="/predict",status="200"} 1.0',
        'memgrow_requests_total{method="GET",route="other",status="404"} 1.0',
        'memgrow_request_seconds_count{route="/predict"} 1.0',
        "memgrow_batch_requests_count 1.0",
        "memgrow_waiting_requests 0.0",
        "memgrow_model_version 2.0",
        'memgrow_jobs{state="queued"} 0.0',
    ):
        assert line in answer.text
    assert "nowhere" not in answer.text


def test_the_page_loads_only_files_of_the_service(serve: Serve) -> None:
    client = serve().client
    page = client.get("/").text
    assert "://" not in page
    assert not re.search(r"<script(?! type=\"module\" src=)|<style|\bstyle=|\bon\w+=", page)
    scripts = {path.name: path.read_text() for path in PAGE.glob("*.js")}
    imported = {f"page/{name}" for text in scripts.values() for name in re.findall(r'from "\./(.+?)"', text)}
    named = {*re.findall(r'(?:src|href)="(page/.+?)"', page), *imported}
    assert named >= {f"page/{name}" for name in scripts}
    for path in named:
        assert client.get(f"/{path}").status_code == 200, path
    for text in scripts.values():  # text is inserted as text, and the token is kept nowhere
        assert not re.search(r"(inner|outer)HTML|insertAdjacentHTML|document\.(write|cookie)|eval\(|\wStorage", text)
