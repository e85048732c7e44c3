"""Running the web server: where it listens and how it ends."""

import logging
import socket
from collections.abc import Callable
from contextlib import nullcontext

import uvicorn

from memgrow.errors import SettingsError
from memgrow.serve.app import create_app
from memgrow.serve.guard import Access
from memgrow.serve.logs import LogHandler
from memgrow.serve.service import Service


def run_server(service: Service, access: Access, *, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    """Answer requests until SIGTERM or Ctrl-C, then finish those that are running.

    `on_ready` gets the address as soon as the service listens.
    """
    limits = service.limits
    logging.getLogger("uvicorn").addHandler(LogHandler(service.log))
    with service.queue.locked() if service.queue else nullcontext(), _listen(host, port) as listener:
        name, number = listener.getsockname()[:2]
        on_ready(f"http://{f'[{name}]' if ':' in name else name}:{number}/")
        config = uvicorn.Config(
            create_app(service, access),
            log_config=None,
            access_log=False,
            server_header=False,
            limit_concurrency=limits.connections,
            timeout_keep_alive=int(limits.keep_alive_s),
            timeout_graceful_shutdown=int(limits.shutdown_s),
        )
        uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(f"cannot listen on {host}:{port} ({reason}): choose another --host or --port") from None
