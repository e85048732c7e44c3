"""Connections that send nothing, or headers without end, are not kept."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import uvicorn

from memgrow.service.connections import LARGEST_HEAD, patient

HEAD = b"GET / HTTP/1.1\r\nHost: here\r\nX-Long: "
SLOW_S = 0.7


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Answers slowly: who waits for an answer is not hurried."""
    await asyncio.sleep(SLOW_S)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(answer, http=patient(0.2), log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield listener.getsockname()
    server.should_exit = True
    thread.join(10)
    listener.close()


def connect(address: tuple[str, int]) -> socket.socket:
    return socket.create_connection(address, timeout=10)


@pytest.mark.parametrize("sent", [b"", HEAD])
def test_a_connection_on_which_no_request_comes_is_closed(address: tuple[str, int], sent: bytes) -> None:
    with connect(address) as client:
        client.sendall(sent)
        begun = time.monotonic()
        assert client.recv(100) == b""
        assert time.monotonic() - begun < 5


def test_headers_without_end_are_not_read(address: tuple[str, int]) -> None:
    with connect(address) as client:
        sent = 0
        with suppress(OSError):
            while sent < 1000:
                client.sendall(HEAD + b"x" * LARGEST_HEAD)
                sent += 1
        assert sent < 1000


def test_who_waits_for_an_answer_or_asks_again_is_not_hurried(address: tuple[str, int]) -> None:
    with connect(address) as client:
        for _ in range(2):
            client.sendall(HEAD + b"x\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
