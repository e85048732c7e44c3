"""The outermost layer of the application: access, size limits, security headers, one log line per request.

It wraps the framework, so that a request is refused before its body is read.
"""

import asyncio
import hmac
import time
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memgrow.serve.logs import log
from memgrow.serve.service import Service
from memgrow.serve.settings import MIB

LOOPBACK = ("127.0.0.1", "localhost", "::1")
READING = ("/predict", "/explain", "/stream")  # POST requests that change nothing
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
HEADERS = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service, self._settings = app, service, service.settings

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
            self._check_access(scope)
            await self._app(scope, self._limited(scope, receive), send_with_headers)
        except HTTPException as error:
            response = JSONResponse({"detail": error.detail}, error.status_code, error.headers)
            await response(scope, receive, send_with_headers)
        finally:
            seconds, method = time.perf_counter() - started, scope["method"]
            route = getattr(scope.get("route"), "path", "other")
            self._service.requests.labels(route, method if method in METHODS else "other", status).inc()
            self._service.seconds.labels(route).observe(seconds)
            ms, path = round(seconds * 1e3, 2), scope["path"][:200]
            answered = state.get("logged") or self._service.publisher.current.identity
            log("request", method=method, path=path, status=status, ms=ms, **answered)

    def _check_access(self, scope: Scope) -> None:
        settings, headers = self._settings, Headers(scope=scope)
        host = headers.get("host", "")
        # A foreign page may point its own name to this machine (DNS rebinding) and would then be of the same origin.
        is_foreign = settings.is_local and _host_name(host) not in (*LOOPBACK, settings.host)
        if is_foreign and settings.token is None:
            raise HTTPException(403, f"call this service as {' or '.join(LOOPBACK)}, or start it with a token")
        if not is_foreign and (scope["method"] in ("GET", "HEAD", "OPTIONS") or scope["path"] in READING):
            return
        # Browsers send forms of any page anywhere, and name the page's origin.
        origin = headers.get("origin")
        if origin and origin.partition("://")[2] != host:
            raise HTTPException(403, "a page of another site may not change the model")
        given = headers.get("authorization", "").encode()
        if settings.token and not hmac.compare_digest(given, f"Bearer {settings.token}".encode()):
            what = "another name than this machine's" if is_foreign else "changing the model"
            message = f"{what} needs the token: send `Authorization: Bearer TOKEN`"
            raise HTTPException(401, message, {"www-authenticate": "Bearer"})

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """Receives the body of a request, which is limited in bytes and seconds."""
        settings = self._settings
        limit = settings.max_upload + MIB if scope["path"] == "/adapt" else settings.max_body  # a form around the file
        size, complete = 0, False
        deadline = asyncio.get_running_loop().time() + settings.body_seconds

        async def receive_limited() -> Message:
            nonlocal size, complete
            try:
                async with asyncio.timeout_at(None if complete else deadline):  # then only a disconnect can follow
                    message = await receive()
            except TimeoutError:
                late = f"the request did not arrive within {settings.body_seconds:g} seconds"
                raise HTTPException(408, late, {"connection": "close"}) from None
            size += len(message.get("body", b""))
            if size > limit:
                raise HTTPException(413, f"the request is larger than {limit:,} bytes", {"connection": "close"})
            complete = not message.get("more_body", False)
            return message

        return receive_limited


def _host_name(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None
