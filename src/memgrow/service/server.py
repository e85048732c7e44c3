"""Running the web server: where it listens, who may call it, how it ends."""

import ipaddress
import logging
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from memgrow.errors import MissingExtraError, ModelError, SettingsError
from memgrow.locking import hold
from memgrow.service.gate import LOOPBACK, Access
from memgrow.service.logs import LogHandler
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
    made = not token and not is_loopback(host)
    token = secrets.token_urlsafe(24) if made else token or None  # an empty one would be known to all
    return Access(token, (*LOOPBACK, host) if is_loopback(host) else None), made


def serve(service: Service, access: Access, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    """Answer requests until SIGTERM or Ctrl-C; then finish those that are under way.

    `on_ready` is told the address, once calls to it are heard.
    """
    with serve_extra():
        import uvicorn

        from memgrow.service.app import create_app
        from memgrow.service.connections import patient

    limits = service.limits
    logging.getLogger("uvicorn").addHandler(LogHandler(service.log))
    with _alone(service), _listening(host, port) as listener:
        name, number = listener.getsockname()[:2]
        on_ready(f"http://{f'[{name}]' if ':' in name else name}:{number}/")
        config = uvicorn.Config(
            create_app(service, access),
            log_config=None,
            access_log=False,
            server_header=False,
            http=patient(limits.head_s),
            limit_concurrency=limits.connections,
            timeout_graceful_shutdown=int(limits.shutdown_s),
        )
        uvicorn.Server(config).run(sockets=[listener])


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        said = getattr(error, "strerror", None) or error
        raise SettingsError(
            f"nobody can listen on {host}, port {port} ({said}): choose another --host or --port"
        ) from None
    with listener:
        yield listener


@contextmanager
def _alone(service: Service) -> Iterator[None]:
    """Let no second service work off the same trainings."""
    if service.queue is None:
        yield
        return
    with ExitStack() as stack:
        try:
            stack.enter_context(hold(service.queue.folder))
        except ModelError as error:
            raise ModelError(f"{error}; or start this one with --read-only, or with --jobs elsewhere") from None
        yield


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
