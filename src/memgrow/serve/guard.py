"""The outermost layer of the application: access, size limits, security headers, one log line per request.

It wraps the framework, so that a request is refused before its body is read.
"""

import asyncio
import hmac
import ipaddress
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memgrow.serve.limits import MIB, Limits
from memgrow.serve.logs import Log
from memgrow.serve.metrics import Metrics

LOOPBACK = ("127.0.0.1", "localhost", "::1")
READING = ("/predict", "/explain")  # POST requests that change nothing
HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Access:
    """Who may change the model: those who know the token or, without one, programs on this machine."""

    token: str | None = None
    hosts: Sequence[str] | None = LOOPBACK  # names by which the service may be called; None: any

    @classmethod
    def for_host(cls, host: str, token: str | None = None) -> "Access":
        """Access to a service that listens there; if others can call it and no token is given, one is made."""
        if is_loopback(host):
            return cls(token or None, (*LOOPBACK, host))
        return cls(token or secrets.token_urlsafe(24), None)

    def check(self, method: str, path: str, headers: Headers) -> None:
        host = headers.get("host", "")
        # A foreign page may point its own name to this machine (DNS rebinding) and would then be of the same origin.
        if self.hosts is not None and self.token is None and _without_port(host) not in self.hosts:
            raise HTTPException(403, f"call this service as {' or '.join(self.hosts)}, or start it with a token")
        if method in ("GET", "HEAD", "OPTIONS") or path in READING:
            return
        # Browsers send forms of any page anywhere, and name the page's origin.
        origin = headers.get("origin")
        if origin and origin.partition("://")[2] != host:
            raise HTTPException(403, "a page of another site may not change the model")
        scheme, _, token = headers.get("authorization", "").partition(" ")
        right = self.token is None or hmac.compare_digest(token.strip().encode(), self.token.encode())
        if not right or (self.token is not None and scheme.lower() != "bearer"):
            message = "changing the model needs the token: send `Authorization: Bearer TOKEN`"
            raise HTTPException(401, message, {"www-authenticate": "Bearer"})


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, access: Access, *, limits: Limits, metrics: Metrics, log: Log) -> None:
        self._app, self._access, self._limits, self._metrics, self._log = app, access, limits, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500
        scope["state"] = state = dict(scope.get("state") or {})

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            await self._app(scope, self._checked(scope, receive), send_with_headers)
        except HTTPException as error:
            response = JSONResponse({"detail": error.detail}, error.status_code, error.headers)
            await response(scope, receive, send_with_headers)
        finally:
            seconds = time.perf_counter() - started
            self._metrics.request(getattr(scope.get("route"), "path", "other"), scope["method"], status, seconds)
            logged = ("version", "digest", "inputs", *(["texts"] if self._log.texts else []))
            self._log.write(
                "request",
                method=scope["method"],
                path=scope["path"][:200],
                status=status,
                ms=round(seconds * 1e3, 2),
                client=scope["client"][0] if scope.get("client") else None,
                **{name: state[name] for name in logged if name in state},
            )

    def _checked(self, scope: Scope, receive: Receive) -> Receive:
        """Check a request by its headers; its body, limited in bytes and seconds, comes back."""
        headers, seconds = Headers(scope=scope), self._limits.body_s
        self._access.check(scope["method"], scope["path"], headers)
        limit = self._limits.upload + MIB if scope["path"] == "/adapt" else self._limits.body  # a form around the file
        too_large = HTTPException(413, f"the request is larger than {limit:,} bytes", {"connection": "close"})
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > limit:
            raise too_large
        size, complete, deadline = 0, False, time.monotonic() + seconds

        async def receive_limited() -> Message:
            nonlocal size, complete
            if complete:  # only a disconnect can follow, at any time
                return await receive()
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    message = await receive()
            except TimeoutError:
                late = f"the request did not arrive within {seconds:g} seconds"
                raise HTTPException(408, late, {"connection": "close"}) from None
            size += len(message.get("body", b""))
            if size > limit:
                raise too_large
            complete = not message.get("more_body", False)
            return message

        return receive_limited


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can call a server that listens there."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _without_port(host: str) -> str:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() and not host.endswith("]") else host
    return name.strip("[]").lower()
