"""The gate before all routes: who may ask for what and how much, headers that keep a browser safe, and one log line
a request.

It stands outside the framework, so that a request is refused before its body has been read.
"""

import asyncio
import hmac
import json
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from memgrow.service.limits import MIB, Limits, RefusedError
from memgrow.service.logs import Log
from memgrow.service.metrics import Metrics

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
READING = {"/predict", "/explain"}  # requests with a body that change nothing
UPLOAD = "/adapt"
SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
HEADERS = tuple(
    (name.encode(), value.encode())
    for name, value in {
        "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        "object-src 'none'",
        "x-frame-options": "DENY",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-resource-policy": "same-origin",
        "cache-control": "no-store",
    }.items()
)


@dataclass(frozen=True)
class Access:
    """Who may change the model: whoever knows the token or, where there is none, programs of this machine."""

    token: str | None = None
    hosts: Sequence[str] | None = LOOPBACK  # names by which the service may be called; None: any

    def check(self, method: str, path: str, headers: dict[bytes, bytes]) -> None:
        """Refuse who may not do this."""
        host = headers.get(b"host", b"").decode("latin-1")
        # A page of a stranger may have its own name point to this machine, and would then be of the same origin.
        if self.hosts is not None and self.token is None and _without_port(host) not in self.hosts:
            raise RefusedError(
                403,
                f"this service answers to {' and '.join(self.hosts)} alone: call it by that, or start it with a token",
            )
        if method in SAFE_METHODS or path in READING:
            return
        # A browser sends a form of any page anywhere, and says whose page it was.
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and origin.partition("://")[2] != host:
            raise RefusedError(403, "this comes from a page of another site, which may not change the model")
        if self.token is not None:
            self._check_token(headers.get(b"authorization", b""))

    def _check_token(self, given: bytes) -> None:
        assert self.token is not None
        scheme, _, value = given.partition(b" ")
        # The comparison takes as long for a wrong token as for the right one.
        right = hmac.compare_digest(value.strip(), self.token.encode())
        if scheme.lower() != b"bearer" or not right:
            raise RefusedError(401, "this changes the model and needs the token: send `Authorization: Bearer TOKEN`")


class Gate:
    """An ASGI application around another one."""

    def __init__(self, app: App, access: Access, limits: Limits, metrics: Metrics, log: Log) -> None:
        self._app, self._access, self._limits, self._metrics, self._log = app, access, limits, metrics, log
        self._uploads = 0  # that arrive at this moment

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        scope["state"] = state = dict(scope.get("state") or {})
        body = _Body(receive, self._limits)

        async def send_safely(message: Message) -> None:
            nonlocal status
            if body.refused is not None and not status:
                return  # what the framework makes of it: the true reason is sent below
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
            await send(message)

        try:
            headers = dict(scope["headers"])
            self._access.check(scope["method"], scope["path"], headers)
            with self._room(scope["path"]):
                body.expect(headers, upload=scope["path"] == UPLOAD)
                await self._app(scope, body.receive, send_safely)
        except RefusedError as error:
            body.refused = error
        finally:
            if (refused := body.refused) is not None and not status:
                body.refused = None
                await _refuse(refused, send_safely)
            seconds = time.perf_counter() - started
            self._metrics.request(getattr(scope.get("route"), "path", "other"), scope["method"], status, seconds)
            self._log.request(scope, status, seconds, state)

    @contextmanager
    def _room(self, path: str) -> Iterator[None]:
        """Refuse one more upload than may arrive at once: each takes room on the disk."""
        if path == UPLOAD and self._uploads >= self._limits.uploads:
            raise RefusedError(503, "other files are being uploaded: try again in a moment")
        self._uploads += path == UPLOAD
        try:
            yield
        finally:
            self._uploads -= path == UPLOAD


class _Body:
    """The body of a request, of which no more than so many bytes are read, and for no longer than a while."""

    def __init__(self, receive: Receive, limits: Limits) -> None:
        self.refused: RefusedError | None = None
        self._receive, self._limits = receive, limits
        self._got, self._most, self._until, self._whole = 0, limits.body, 0.0, False

    def expect(self, headers: dict[bytes, bytes], upload: bool) -> None:
        """Refuse one that says itself that it is too large."""
        if upload:
            self._most = self._limits.upload + MIB  # what stands around the file
        told = headers.get(b"content-length", b"0")
        if told.isdigit() and int(told[:20]) > self._most:
            raise _too_large(self._most)

    async def receive(self) -> Message:
        if self._whole:  # what comes now is that the client has gone, whenever that may be
            return await self._receive()
        self._until = self._until or time.monotonic() + self._limits.body_s
        try:
            async with asyncio.timeout(self._until - time.monotonic()):
                message = await self._receive()
            self._got += len(message.get("body", b""))
            if self._got > self._most:
                raise _too_large(self._most)
        except TimeoutError:
            self.refused = RefusedError(408, f"the request did not arrive within {self._limits.body_s:g} seconds")
            raise self.refused from None
        except RefusedError as refused:
            self.refused = refused
            raise
        self._whole = not message.get("more_body", False)
        return message


def _too_large(most: int) -> RefusedError:
    return RefusedError(413, f"the request is larger than {most:,} bytes: send less at once")


async def _refuse(refused: RefusedError, send: Send) -> None:
    body = json.dumps({"detail": str(refused)}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refused.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refused.status in (408, 413):  # the rest of it is not read
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _without_port(host: str) -> str:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() and not host.endswith("]") else host
    return name.strip("[]").lower()
