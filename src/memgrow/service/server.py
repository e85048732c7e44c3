"""Running the web server: where it listens, who may call it, how it ends."""

import ipaddress
import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from memgrow.errors import MissingExtraError
from memgrow.service.gate import LOOPBACK, Access
from memgrow.service.running import Service


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can call a server that listens there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def access_for(host: str, token: str | None) -> tuple[Access, bool]:
    """Who may change the model; and whether a token was made for that, which must be told."""
    made = token is None and not is_loopback(host)
    token = secrets.token_urlsafe(24) if made else token
    return Access(token, (*LOOPBACK, host) if is_loopback(host) else None), made


def serve(service: Service, access: Access, host: str, port: int) -> None:
    """Answer requests until SIGTERM or Ctrl-C; then finish those that are under way."""
    with serve_extra():
        import uvicorn

        from memgrow.service.app import create_app
        from memgrow.service.logs import LogHandler

    logging.getLogger("uvicorn").addHandler(LogHandler(service.log))
    limits = service.limits
    uvicorn.run(
        create_app(service, access),
        host=host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=int(limits.shutdown_s),
        h11_max_incomplete_event_size=1 << 16,
    )


@contextmanager
def serve_extra() -> Iterator[None]:
    """Around an import of the web server: who lacks it is told what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("memgrow"):
            raise
        raise MissingExtraError(
            f"serving needs the package {error.name}: run `pip install 'memgrow[serve]'`"
        ) from error
