"""Real Ray clusters, as small as they can be: three nodes on this machine, each with one CPU."""

import json
import os
import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memgrow.data import synthetic_stream, write_jsonl
from memgrow.experiments.grid import Grid
from memgrow.experiments.on_ray import OWN, SILENT, RayBackend
from memgrow.experiments.plan import Job
from memgrow.experiments.run import Run
from memgrow.experiments.store import Store
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings
from tests.support.witness import Witness, without_seconds

pytestmark = [pytest.mark.slow, pytest.mark.extras]

SMALL = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
SIZES = ("hidden=5", "embedding=6", "model.slots=4", "perceptron=16", "epochs=1", "batch=16")
MODEL = ModelSettings(embedding=4, hidden=3, slots=2, perceptron=4)
LONG = TrainingSettings(rate=0.01, batch=12, epochs=150, patience=150)  # some seconds a stage


@pytest.fixture(scope="module")
def cluster_utils() -> Any:
    for name, value in {**SILENT, **OWN}.items():  # before Ray is imported
        os.environ[name] = value
    return pytest.importorskip("ray.cluster_utils", reason="Ray is not installed: pip install 'memgrow[ray]'")


@pytest.fixture
def cluster(cluster_utils) -> Iterator[Any]:
    """Three nodes by Ray's own cluster utility; the first is the head."""
    made = cluster_utils.Cluster(initialize_head=True, head_node_args={**SMALL, "node_name": "head"})
    try:
        made.workers = [made.add_node(**SMALL, node_name=name) for name in ("second", "third")]
        made.wait_for_nodes()
        yield made
    finally:
        made.shutdown()


def records(folder: Path) -> dict[str, Any]:
    """The records of a store, without the time that anything took."""
    found = Store(folder / "runs").records()
    return {key: replace(record, stage=replace(record.stage, seconds=0.0)) for key, record in found.items()}


def figures(folder: Path) -> Any:
    written = json.loads((folder / "compare.json").read_text())
    for method in written["methods"].values():
        del method["seconds"]
    return written


def test_compare_on_three_nodes_gives_what_it_gives_here(cluster, memgrow, tmp_path):
    write_jsonl(synthetic_stream(domains=3, train=24, validation=12, test=12), tmp_path / "data")
    sizes = [word for size in SIZES for word in ("--set", size)]
    words = ("compare", tmp_path / "data", *sizes, "--methods", "F+M+V,EWC", "--seeds", 2, "--device", "cpu")
    memgrow.done(*words, "--out", tmp_path / "here")
    said = memgrow.done(*words, "--out", tmp_path / "there", "--on", cluster.address)
    assert "On Ray, 3 nodes: " in said
    assert all(f", on {name}" in said for name in ("head", "second", "third"))
    assert records(tmp_path / "there") == records(tmp_path / "here")
    assert figures(tmp_path / "there") == figures(tmp_path / "here")
    again = memgrow.done(*words, "--out", tmp_path / "there", "--on", cluster.address)
    assert ": validation" not in again, "what is finished was made again"


def test_a_node_that_is_killed_takes_no_finished_stage_with_it(cluster, tmp_path):
    stream = synthetic_stream(domains=2, train=48, validation=12, test=12, seed=3)
    runs = [Run(method, stream.names, seed, MODEL, LONG) for method in ("F", "F+V") for seed in range(2)]
    here = Grid(stream, Store(tmp_path / "here"), device="cpu", workers=1).run(runs)
    witness, killed = Witness(), []

    def kill(job: Job) -> None:
        """The first node but the head that is in the middle of a second stage."""
        where = witness.places[job]
        if not killed and len(job.run.learns) == 2 and where != "head":
            killed.append(where)
            cluster.remove_node(cluster.workers[("second", "third").index(where)], allow_graceful=False)

    witness.on_step = kill
    with RayBackend(cluster.address) as backend:
        there = Grid(stream, Store(tmp_path / "there"), device="cpu", progress=witness, backend=backend).run(runs)
    assert killed, "no node was killed: stages are too short"
    assert not there.failures
    assert without_seconds(there) == without_seconds(here)
    assert set(Counter(witness.made).values()) == {1}, "a finished stage was made again"
    assert any(f"lost with its node {killed[0]}" in note for note in witness.notes)


def listening() -> set[tuple[str, str]]:
    """The addresses and ports on which this machine's processes listen."""
    return {
        (family, line.split()[1])
        for family in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{family}").read_text().splitlines()[1:]
        if line.split()[3] == "0A"
    }


def is_loopback(family: str, address: str) -> bool:
    words = bytes.fromhex(address.partition(":")[0])
    network = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))  # as the CPU has it
    if family == "tcp":
        return socket.inet_ntop(socket.AF_INET, network).startswith("127.")
    return socket.inet_ntop(socket.AF_INET6, network) in ("::1", "::ffff:127.0.0.1")


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="what listens where is read from Linux's /proc")
def test_a_ray_of_our_own_listens_on_the_loopback_interface_alone_and_tells_nobody(cluster_utils):
    before = listening()
    with RayBackend() as backend:
        assert backend.device("cpu") == "cpu"
        opened = listening() - before
        assert "1 node: 127.0.0.1" in backend.about
        assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert opened
    assert all(is_loopback(*one) for one in opened), opened
