"""Jobs on a cluster: what goes to a node and what comes back, on a stand-in whose nodes see nothing of the store."""

import socket
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from memgrow.data import Stream, synthetic_stream
from memgrow.errors import MissingExtraError, SettingsError
from memgrow.experiments import on_ray
from memgrow.experiments.cluster import NEEDS, Packages, device_of
from memgrow.experiments.grid import Grid, Outcome
from memgrow.experiments.on_ray import RayBackend, find_backend
from memgrow.experiments.run import Run
from memgrow.experiments.store import Store
from memgrow.experiments.workers import ThisMachine
from memgrow.methods import MethodSettings
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings
from tests.support.stand_in_cluster import OnStandIn, StandIn
from tests.support.witness import Witness, without_seconds

MODEL = ModelSettings(embedding=4, hidden=3, slots=2, perceptron=4)
TRAINING = TrainingSettings(rate=0.01, batch=12, epochs=1)
OPTIONS = MethodSettings(fisher_examples=4)


@pytest.fixture(scope="module")
def stream() -> Stream:
    return synthetic_stream(domains=2, train=12, validation=6, test=6, seed=3)


@pytest.fixture(scope="module")
def runs(stream) -> list[Run]:
    return [Run(method, stream.names, seed, MODEL, TRAINING, OPTIONS) for method in ("F", "EWC") for seed in range(2)]


@pytest.fixture(scope="module")
def alone(stream, runs, tmp_path_factory) -> Outcome:
    """What this process makes of them."""
    return Grid(stream, Store(tmp_path_factory.mktemp("alone")), device="cpu", workers=1).run(runs)


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path / "runs")


@pytest.fixture
def grid(stream, store) -> Callable[..., Grid]:
    def make(cluster: StandIn, witness: Witness | None = None, **options: Any) -> Grid:
        return Grid(stream, store, progress=witness, backend=OnStandIn(cluster), **options)

    return make


def test_a_cluster_gives_what_one_process_gives_and_all_of_it_is_in_the_store(grid, runs, alone, store, stream):
    cluster, witness = StandIn(), Witness()
    outcome = grid(cluster, witness).run(runs)
    assert without_seconds(outcome) == without_seconds(alone)
    assert len(cluster.shared) == 1, "the data is put where nodes can get it once"
    assert cluster.most == cluster.capacity(NEEDS["cpu"]) == 3
    assert set(Counter(witness.made).values()) == {1}
    assert {result.where for result in witness.ended} == {"a", "b"}
    assert set(witness.places.values()) == {"a", "b"}
    assert not any(store.model("").iterdir()), "models that nobody needs are gone"
    again = Grid(stream, Store(store.folder), device="cpu", workers=1, progress=witness).run(runs)
    assert again.records == outcome.records
    assert len(witness.begun) == 1


def test_a_job_of_a_lost_node_is_done_by_another_and_told(grid, runs, alone):
    witness = Witness()
    outcome = grid(StandIn(loses=lambda number: number in (0, 3)), witness).run(runs)
    assert without_seconds(outcome) == without_seconds(alone)
    assert any("lost with its node a, and begins again on c" in note for note in witness.notes)


def test_a_job_that_the_cluster_gives_up_fails_alone_and_the_same_command_makes_it(grid, runs, alone):
    witness = Witness()
    first = grid(StandIn(kills=lambda number: number == 1), witness).run(runs)
    assert {failure.reason for failure in first.failures} == {"its process died four times"}
    assert first.records
    finished = {result.job for result in witness.ended if result.reason is None}
    witness.ended.clear()
    assert without_seconds(grid(StandIn(), witness).run(runs)) == without_seconds(alone)
    assert not finished & {result.job for result in witness.ended}, "what is finished is not made again"


def test_at_most_as_many_jobs_as_were_asked_for_run_at_once(grid, runs):
    cluster = StandIn()
    grid(cluster, workers=2).run(runs[:2])
    assert cluster.most == 2


def test_a_node_with_other_packages_is_refused_with_a_sentence(grid, runs):
    outcome = grid(StandIn(packages=Packages("0.0.1", "1.0"))).run(runs[:1])
    (failure,) = outcome.failures
    assert "the others have memgrow 0.0.1 and torch 1.0: install the same on every node (on a)" in failure.reason


def test_what_is_under_way_when_the_command_ends_is_given_up(grid, runs):
    cluster, witness = StandIn(), Witness()

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    witness.on_end = stop
    with pytest.raises(KeyboardInterrupt):
        grid(cluster, witness).run(runs)
    assert cluster.stopped


def test_what_cannot_be_written_fails_one_job_with_a_sentence(grid, runs, store, monkeypatch):
    def full(self, key, files):
        raise OSError(28, "No space left on device", str(self.model(key)))

    cluster = StandIn()
    made = grid(cluster)
    folder, put = store.folder, Store.put_model
    monkeypatch.setattr(Store, "put_model", lambda self, *a: (full if self.folder == folder else put)(self, *a))
    outcome = made.run(runs[:1])
    assert "No space left on device" in outcome.failures[0].reason


def test_a_gpu_is_used_where_a_node_has_one():
    with_gpu, without = ({"CPU": 4.0, "GPU": 1.0}, {"CPU": 4.0})
    for nodes, asked, device in (
        ([with_gpu, without], "auto", "cuda"),
        ([with_gpu], "cuda", "cuda"),
        ([with_gpu], "cpu", "cpu"),
        ([without], "auto", "cpu"),
    ):
        cluster = StandIn(nodes={str(number): node for number, node in enumerate(nodes)})
        assert device_of(asked, cluster.capacity) == device
    assert StandIn(nodes={"a": with_gpu}).capacity(NEEDS["cuda"]) == 4
    with pytest.raises(SettingsError, match="no node of the Ray cluster has a GPU"):
        device_of("cuda", StandIn().capacity)
    with pytest.raises(SettingsError, match="no device 'tpu'"):
        device_of("tpu", StandIn().capacity)


def test_places_for_runs_are_known_by_their_names(monkeypatch):
    assert isinstance(find_backend("local"), ThisMachine)
    for on in ("mars", "ray://", "http://a:1", "ray:// a:1"):
        with pytest.raises(SettingsError, match="no place for runs"):
            find_backend(on)
    monkeypatch.setattr(on_ray.importlib.util, "find_spec", lambda name: None)
    for on in ("ray", "ray://head:10001", "10.0.0.1:6379", "[::1]:6379"):
        with pytest.raises(MissingExtraError, match=r"pip install 'memgrow\[ray\]'"):
            find_backend(on)


@pytest.mark.parametrize("kind", ["", "ray://"])
def test_a_cluster_that_is_not_there_is_a_sentence_at_once(kind):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]  # which nobody listens at once the block has ended
    for address in (f"{kind}127.0.0.1:{port}", f"{kind}127.0.0.1:99999"):
        with pytest.raises(SettingsError, match=f"no Ray cluster to be reached at {address}"), RayBackend(address):
            pass
