"""Runs on Ray: bad addresses are refused, and a Ray of this machine gives what one process gives."""

import importlib.util
import os

import pytest

from memgrow.errors import MissingExtraError, SettingsError
from memgrow.evaluation.compare import Settings, compare
from memgrow.evaluation.ray_executor import RayExecutor, check_place

NEEDS_RAY = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")


def test_only_places_that_exist_are_taken(monkeypatch):
    check_place("local")
    for place in ("mars", "ray://", "host:port", "host:123456"):
        with pytest.raises(SettingsError, match="--on must be"):
            check_place(place)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"memgrow\[ray\]"):
        check_place("ray://head:10001")


@NEEDS_RAY
def test_an_address_without_a_cluster_is_refused():
    with pytest.raises(SettingsError, match=r"no Ray cluster at 127\.0\.0\.1:1 "):
        RayExecutor("127.0.0.1:1")


@NEEDS_RAY
@pytest.mark.slow
@pytest.mark.extras
def test_ray_gives_what_one_process_gives_and_imports_nothing_of_the_working_directory(
    stream, tiny, short, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "planted.py").touch()
    options = {"seeds": [0], "settings": Settings(tiny, short), "device": "cpu"}
    here, there = (
        compare(stream, ["F+V"], folder=tmp_path / on, on=on, workers=1, **options) for on in ("local", "ray")
    )
    for method, results in here.results.items():
        assert there.results[method][0].matrix == results[0].matrix
    with RayExecutor("ray", "cpu") as executor:
        assert executor.submit(importlib.util.find_spec, "planted").result() is None
        with pytest.raises(ZeroDivisionError):
            executor.submit(divmod, 1, 0).result()
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


@NEEDS_RAY
@pytest.mark.slow
@pytest.mark.extras
def test_a_lost_node_loses_no_run_and_a_second_comparison_makes_none(stream, tiny, short, tmp_path):
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    lost, _ = (cluster.add_node(num_cpus=1) for _ in range(2))
    ended = []

    def lose_a_node(run, outcome, number, total):
        ended.append(str(run))
        if number == 2:
            cluster.remove_node(lost, allow_graceful=False)

    options = {"seeds": [0, 1, 2], "settings": Settings(tiny, short), "device": "cpu", "folder": tmp_path}
    try:
        found = compare(stream, ["finetune+vocab"], on=cluster.address, on_run=lose_a_node, **options)
        assert len(cluster.list_all_nodes()) == 2
        assert not found.failures
        assert len(set(ended)) == len(ended) == len(list(tmp_path.glob("*.json")))
        ended.clear()
        assert compare(stream, ["finetune+vocab"], on=cluster.address, on_run=lose_a_node, **options) == found
        assert not ended
    finally:
        cluster.shutdown()
