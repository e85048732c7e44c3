"""Run functions on a Ray cluster: `--on ray`, `--on ray://HOST:PORT` or `--on HOST:PORT`."""

import importlib.util
import os
import re
import signal
import socket
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any

from memgrow import __version__
from memgrow.errors import MissingExtraError, SettingsError, brief

LOCAL, RAY = "local", "ray"
ADDRESS = re.compile(r"(ray://)?(?P<host>[^\s/:]+|\[[0-9a-fA-F:]+\]):(?P<port>\d{1,5})")
PER_GPU = 4  # tasks that share a GPU
# No usage statistics, and a Ray of our own listens on the loopback interface alone. Read when Ray is imported.
ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


def check_place(on: str) -> None:
    """Refuse a place for runs that does not exist, before any data is read."""
    if on not in (LOCAL, RAY) and not ADDRESS.fullmatch(on):
        raise SettingsError(f"--on must be local, ray, ray://HOST:PORT or HOST:PORT, not {on!r}")
    if on != LOCAL and importlib.util.find_spec("ray") is None:
        raise MissingExtraError("Ray is not installed: run `pip install 'memgrow[ray]'`, or leave out --on")


class RayExecutor(Executor):
    """Runs each call as a Ray task on one CPU, or on a share of a GPU; Ray retries tasks of lost nodes."""

    def __init__(self, on: str, device: str = "auto") -> None:
        check_place(on)
        if found := ADDRESS.fullmatch(on):
            try:  # Ray itself would try for minutes
                socket.create_connection((found["host"].strip("[]"), int(found["port"])), 5.0).close()
            except (OSError, OverflowError) as error:
                raise SettingsError(f"no Ray cluster at {on} ({brief(error)}): check the address") from error
        os.environ.update(ENVIRONMENT)
        import ray

        own: dict[str, Any] = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"} if on == RAY else {}
        terminated = signal.getsignal(signal.SIGTERM)
        try:
            with chdir(sys.prefix):  # Ray's workers import modules of the directory that it is started in
                ray.init("local" if on == RAY else on, log_to_driver=False, logging_level="ERROR", **own)
        except (ConnectionError, RuntimeError, ValueError, ImportError) as error:
            raise SettingsError(f"no Ray cluster at {on} ({brief(error)}): check the address") from error
        finally:
            with suppress(ValueError):  # not the main thread
                signal.signal(signal.SIGTERM, terminated)  # Ray installs a handler that exits silently
        self._ray, self._shared = ray, dict[int, tuple[Any, Any]]()
        has_gpu = ray.cluster_resources().get("GPU", 0) > 0
        if device == "cuda" and not has_gpu:
            ray.shutdown()
            raise SettingsError("no node of the Ray cluster has a GPU: use --device cpu or auto")
        self.device = "cuda" if has_gpu and device != "cpu" else "cpu"
        gpus = 1 / PER_GPU if self.device == "cuda" else 0
        self._task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=3)(_call)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn` on a node; an argument that several calls share is sent once."""
        for arg in args:
            if id(arg) not in self._shared:
                self._shared[id(arg)] = (self._ray.put(arg), arg)  # kept, so that its id stays its own
        refs = [self._shared[id(arg)][0] for arg in args]
        future: Future[Any] = self._task.remote(__version__, Path.cwd(), fn, *refs).future()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._ray.shutdown()


def _call(version: str, directory: Path, fn: Callable[..., Any], *args: Any) -> Any:
    if version != __version__:
        raise SettingsError(f"a node has memgrow {__version__}, and this machine {version}: install the same version")
    if directory.is_dir():  # so that relative paths hold
        os.chdir(directory)
    return fn(*args)
