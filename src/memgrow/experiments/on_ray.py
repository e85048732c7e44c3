"""Ray as the cluster that jobs are done on: one that is started on this machine, or one that is running already."""

import importlib.util
import os
import re
import signal
import socket
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import astuple, replace
from functools import cache, lru_cache
from typing import Any

from memgrow.errors import MissingExtraError, SettingsError, brief, counted
from memgrow.experiments.cluster import ClusterExecutor, Finished, LostError, Models, Packages, device_of, do_job
from memgrow.experiments.executor import Backend, Executor, Report, set_threads
from memgrow.experiments.job import WorkerContext
from memgrow.experiments.plan import Job
from memgrow.experiments.workers import ThisMachine
from memgrow.models.pretrained.tokenizer import tokens_kept
from memgrow.progress import Step

LOCAL, RAY = "local", "ray"
ADDRESS = re.compile(r"(ray://)?[^\s/:]+:\d{1,5}|(ray://)?\[[0-9a-fA-F:]+\]:\d{1,5}")  # of a cluster
HOW_TO_GET = "Ray is not installed: run `pip install 'memgrow[ray]'`, or leave out --on"
RETRIES = 3  # of a job whose node is lost
# No statistics for Ray's makers; read when it is imported.
SILENT = {"RAY_USAGE_STATS_ENABLED": "0"}
# A Ray of our own listens on the loopback interface alone: Ray puts a public address in the place of 127.0.0.1 unless
# this variable, whose name speaks of other systems, says that there will be no other machines.
OWN = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
LOOPBACK = "127.0.0.1"
CONNECT_S = 5.0  # for a cluster to take a connection


def find_backend(on: str) -> Backend:
    """The machines that words such as local, ray, ray://HOST:PORT and HOST:PORT stand for; nothing is started yet."""
    if on == LOCAL:
        return ThisMachine()
    if on != RAY and not ADDRESS.fullmatch(on):
        raise SettingsError(
            f"--on {on!r} is no place for runs: there are local, ray, and the address of a Ray cluster, as "
            "ray://HOST:PORT or HOST:PORT"
        )
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError(HOW_TO_GET)
    return RayBackend(None if on == RAY else on)


class RayBackend:
    """A Ray cluster by its address; None: a Ray of our own on this machine, which ends with the block."""

    def __init__(self, address: str | None = None) -> None:
        self.address = address
        self._within = ExitStack()
        self._cluster: RayCluster | None = None
        self._devices: dict[str, str] = {}

    def __enter__(self) -> "RayBackend":
        if self.address is not None:
            _reach(self.address)
        os.environ.update(SILENT if self.address else {**SILENT, **OWN})
        import ray

        if not ray.is_initialized():
            terminated = signal.getsignal(signal.SIGTERM)
            try:
                _connect(ray, self.address)
            finally:
                with suppress(ValueError):  # not the main thread, where Ray does not touch it either
                    signal.signal(signal.SIGTERM, terminated)  # Ray's own handler would end the command without a word
            self._within.callback(ray.shutdown)
        self._cluster = RayCluster(ray)
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster = None
        self._within.close()

    @property
    def cluster(self) -> "RayCluster":
        if self._cluster is None:
            raise RuntimeError("a RayBackend is used in a `with`")
        return self._cluster

    @property
    def about(self) -> str:
        nodes = self.cluster.nodes()
        shown = ", ".join(f"{name} ({has})" for name, has in nodes.items())
        return f"On Ray, {counted(len(nodes), 'node')}: {shown}."

    def device(self, asked: str) -> str:
        if asked not in self._devices:  # known also when the block has ended, for who reads what was made in it
            self._devices[asked] = device_of(asked, self.cluster.capacity)
        return self._devices[asked]

    def executor(
        self, context: WorkerContext, report: Report, jobs: int, work: float, workers: int | None = None
    ) -> Executor:
        return ClusterExecutor(self.cluster, context, report, workers)


class RayCluster:
    """A cluster in Ray's words: a job is a task, what all of them need is in the object store."""

    def __init__(self, ray: Any) -> None:
        from ray.util.queue import Queue

        self.ray = ray
        # Beside the head, without which there is no cluster. It takes plain tuples: it should not have to import torch.
        near_head = {"num_cpus": 0, "resources": {"node:__internal_head__": 0.001}, "max_restarts": -1}
        self._reports = Queue(actor_options=near_head)
        self._task = ray.remote(_task)
        self._names: dict[str, str] = {}

    def nodes(self) -> dict[str, str]:
        """The nodes that are alive, by name, and what each has, in words."""
        alive = [node for node in self.ray.nodes() if node["Alive"]]
        return {self.name(node["NodeID"]): _resources(node["Resources"]) for node in alive}

    def name(self, node: str) -> str:
        """The name of a node, alive or not; with the beginning of its id where others have the same name."""
        if node not in self._names:
            known = self.ray.nodes()
            shared = Counter(one["NodeName"] for one in known)
            for one in known:
                name, identity = one["NodeName"], one["NodeID"]
                self._names.setdefault(identity, name if shared[name] == 1 else f"{name}/{identity[:4]}")
        return self._names.get(node, node)

    def capacity(self, needs: Mapping[str, float]) -> int:
        return sum(
            min(int(node["Resources"].get(kind, 0) / amount) for kind, amount in needs.items())
            for node in self.ray.nodes()
            if node["Alive"]
        )

    def share(self, context: WorkerContext) -> Any:
        return self.ray.put(context)

    def start(self, shared: Any, number: int, job: Job, parents: Models, needs: Mapping[str, float]) -> Hashable:
        options = {"num_cpus": needs["CPU"], "num_gpus": needs.get("GPU", 0), "max_retries": RETRIES}
        # In a tuple, what all jobs share is fetched by the task, which has it already after the first.
        task: Hashable = self._task.options(**options).remote(
            (shared,), number, job, parents, self._reports.actor, Packages()
        )
        return task

    def wait(self, under_way: Sequence[Any], seconds: float) -> Sequence[Any]:
        ended, _ = self.ray.wait(list(under_way), num_returns=1, timeout=seconds)
        return list(ended)

    def fetch(self, ended: Any) -> Finished:
        try:
            finished: Finished = self.ray.get(ended)
        except self.ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            raise LostError(f"Ray has given it up after {RETRIES} new attempts at most: {brief(cause)}") from error
        return replace(finished, result=replace(finished.result, where=self.name(finished.result.where)))

    def said(self) -> list[tuple[int, str, Step | None]]:
        with suppress(self.ray.exceptions.RayError):  # what is shown is not worth ending for
            if count := self._reports.qsize():
                said = self._reports.get_nowait_batch(count)
                return [(number, self.name(node), Step(*step) if step else None) for number, node, step in said]
        return []

    def stop(self, under_way: Sequence[Any]) -> None:
        for task in under_way:
            with suppress(self.ray.exceptions.RayError, ValueError):
                self.ray.cancel(task, force=True)


def _resources(has: Mapping[str, float]) -> str:
    return ", ".join(f"{has[kind]:g} {kind}" for kind in ("CPU", "GPU") if has.get(kind)) or "no CPU"


def _connect(ray: Any, address: str | None) -> None:
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        ray.init("local", include_dashboard=False, _node_ip_address=LOOPBACK, **quiet)
        return
    try:
        ray.init(address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, ImportError) as error:
        raise _unreachable(address, error) from error


def _reach(address: str) -> None:
    """Refuse an address that nobody listens at: Ray would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, error) from error


def _unreachable(address: str, error: Exception) -> SettingsError:
    return SettingsError(
        f"there is no Ray cluster to be reached at {address} ({brief(error)}): check the address; HOST:PORT is for a "
        "machine that belongs to the cluster, ray://HOST:PORT for any other"
    )


def _task(shared: tuple[Any], number: int, job: Job, parents: Models, reports: Any, packages: Packages) -> Finished:
    """Runs in a process of Ray's, which does one task after another."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    context = _context(shared[0])
    _prepare(context.device)

    def tell(where: str, step: Step | None) -> None:
        reports.put_nowait.remote((number, where, astuple(step) if step else None))

    return do_job(context, job, parents, node, tell, packages)


@lru_cache(maxsize=1)
def _context(shared: Any) -> WorkerContext:
    import ray

    context: WorkerContext = ray.get(shared)
    return context


@cache
def _prepare(device: str) -> ExitStack:
    """Set this process up, once; what is returned holds until it ends."""
    set_threads(device)
    within = ExitStack()
    within.enter_context(tokens_kept())
    return within
