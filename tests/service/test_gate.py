"""Who may ask for what and how much; what is hostile gets a sentence, and nothing gets further than it may."""

import json
import sys
from collections.abc import Iterator
from io import StringIO

import pytest

from memgrow.service.gate import Access
from memgrow.service.limits import Limits
from memgrow.service.logs import Log
from memgrow.service.server import access_for, is_loopback
from tests.service.conftest import PAIR, Serve

JSON = {"content-type": "application/json"}
CHANGING = ("/adapt", "/rollback", "/jobs/1/publish", "/jobs/1/discard")
BODIES = {
    "empty": b"",
    "no JSON": b"{",
    "no UTF-8": b'{"inputs": ["\xff\xfe"]}',
    "no object": b"[1, 2]",
    "deep": b"[" * 100_000,
    "a number that is none": b'{"inputs": [NaN]}',
    "nothing to answer": b'{"inputs": []}',
    "a null": b'{"inputs": [null]}',
    "an empty text": b'{"inputs": ["\t"]}',
    "one text of two": b'{"inputs": ["one text"]}',
    "half a character": b'{"inputs": ["\\ud800\\tb"]}',
    "half a character in a field": b'{"inputs": [{"premise": "\\ud800", "hypothesis": "b"}]}',
    "half a character as a field": b'{"inputs": [{"\\ud800": "a"}]}',
    "a field too many": b'{"inputs": ["a\\tb"], "path": "/etc/passwd"}',
    "strange fields": b'{"inputs": [{"a": "b"}]}',
    "a field of another kind": b'{"inputs": [{"premise": 1, "hypothesis": []}]}',
    "too many": json.dumps({"inputs": ["a\tb"] * 257}).encode(),
    "too long": json.dumps({"inputs": ["a" * 20_001 + "\tb"]}).encode(),
    "too large": json.dumps({"inputs": ["a\tb" + " " * (1 << 20)]}).encode(),
}


def test_hostile_bodies_get_a_sentence(serve: Serve) -> None:
    client = serve().client
    for what, body in BODIES.items():
        for path in ("/predict", "/explain", "/rollback"):
            answer = client.post(path, content=body, headers=JSON)
            assert 400 <= answer.status_code < 500, (what, path, answer.text)
            detail = answer.json()["detail"]
            assert isinstance(detail, str), (what, path)
            assert detail, (what, path)
    assert client.post("/predict", content=BODIES["too large"], headers=JSON).status_code == 413
    assert client.post("/predict", json={"inputs": [PAIR]}).status_code == 200


def test_a_body_without_a_length_is_not_read_to_its_end(serve: Serve) -> None:
    read = 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        for _ in range(1000):
            read += 1
            yield b" " * (1 << 16)

    answer = serve().client.post("/predict", content=endless(), headers=JSON)
    assert answer.status_code == 413
    assert "larger than" in answer.json()["detail"]


def test_every_answer_forbids_frames_and_foreign_scripts(serve: Serve) -> None:
    client = serve().client
    for answer in (client.get("/"), client.get("/nowhere"), client.post("/predict", content=b"{")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_changing_the_model_needs_the_token(serve: Serve) -> None:
    client = serve(access=Access("secret", None)).client
    for path in CHANGING:
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": "secret"},
            {"authorization": "Bearer "},
        ):
            answer = client.post(path, headers=headers)
            assert answer.status_code == 401, (path, headers)
            assert "token" in answer.json()["detail"]
        assert client.post(path, headers={"authorization": "Bearer secret"}).status_code != 401
    assert client.post("/predict", json={"inputs": [PAIR]}).status_code == 200


def test_a_page_of_another_site_can_change_nothing(serve: Serve) -> None:
    client = serve().client
    foreign = client.post("/rollback", json={}, headers={"origin": "http://evil.example"})
    assert foreign.status_code == 403
    rebound = client.get("/model", headers={"host": "evil.example"})
    assert rebound.status_code == 403
    assert client.get("/model", headers={"host": "localhost:8000"}).status_code == 200
    own = client.post("/rollback", json={}, headers={"origin": "http://127.0.0.1"})
    assert own.json() == {"version": 1}


def test_a_token_is_made_where_others_can_call() -> None:
    for host in ("127.0.0.1", "::1", "localhost"):
        assert is_loopback(host)
        assert access_for(host, None) == (Access(None, access_for(host, None)[0].hosts), False)
    access, made = access_for("0.0.0.0", "")
    assert made
    assert len(access.token or "") >= 32
    assert access_for("0.0.0.0", "mine")[0].token == "mine"


def test_a_service_that_only_reads_changes_nothing(serve: Serve) -> None:
    client = serve(read_only=True).client
    assert client.post("/rollback", json={}).status_code == 403
    assert client.post("/adapt", files={"file": ("a.jsonl", b"x")}).status_code == 403
    assert client.get("/jobs").json() == {"jobs": [], "read_only": True}
    assert client.post("/predict", json={"inputs": [PAIR]}).status_code == 200


def test_a_file_that_is_too_large_is_refused(serve: Serve) -> None:
    client = serve(limits=Limits(upload=1000)).client
    answer = client.post("/adapt", files={"file": ("a.jsonl", b"x" * 1001)})
    assert answer.status_code == 413
    answer = client.post("/adapt", files={"file": ("a.jsonl", b"x" * (3 << 20))})
    assert answer.status_code == 413


@pytest.mark.parametrize("error", [None, "closed"], ids=["none", "closed"])
def test_a_service_without_standard_error_stops_at_nothing(monkeypatch: pytest.MonkeyPatch, error: str | None) -> None:
    stream = StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", error and stream)  # None: `memgrow serve model/ 2>&-`
    Log().write("job", state="queued")


def test_the_log_tells_of_requests_without_their_texts(serve: Serve) -> None:
    served = serve()
    served.client.post("/predict", json={"inputs": [PAIR]})
    served.client.post("/predict", json={"inputs": ["a secret word"]})
    lines = [json.loads(line) for line in served.log.getvalue().splitlines()]
    assert [(line["path"], line["status"]) for line in lines] == [("/predict", 200), ("/predict", 422)]
    assert lines[0]["version"] == 2
    assert "soup" not in served.log.getvalue()
    assert "secret" not in served.log.getvalue()
    talkative = serve(log_texts=True)
    talkative.client.post("/predict", json={"inputs": [PAIR]})
    assert "soup" in talkative.log.getvalue()


def test_figures_are_told_as_prometheus_reads_them(serve: Serve) -> None:
    client = serve().client
    client.post("/predict", json={"inputs": [PAIR]})
    client.get("/nowhere/else")
    text = client.get("/metrics").text
    assert 'memgrow_requests_total{route="/predict",method="POST",status="200"} 1' in text
    assert 'memgrow_requests_total{route="other",method="GET",status="404"} 1' in text
    assert 'memgrow_request_seconds_count{route="/predict"} 1' in text
    assert "memgrow_batch_requests_count 1" in text
    assert "memgrow_model_version 2" in text
    assert 'memgrow_jobs{state="queued"} 0' in text
    assert "nowhere" not in text
