"""The deployment that docs/service.md shows: replicas of Ray Serve share a model's folder and follow it."""

import importlib.util
import os
import re
import socket
import time
from pathlib import Path

import httpx
import pytest

from memgrow import Learner
from memgrow.evaluation.ray_executor import ENVIRONMENT

PAGE = Path(__file__).resolve().parents[2] / "docs/service.md"


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
@pytest.mark.slow
@pytest.mark.extras
def test_replicas_share_a_folder_and_follow_the_published_version(stream, tiny, short, tmp_path):
    os.environ.update(ENVIRONMENT)
    import ray
    from ray import serve

    folder = tmp_path / "model"
    learner = Learner.create("finetune+vocab", model=tiny, training=short, device="cpu")
    learner.adapt(stream[0], folder=folder)
    (code,) = re.findall(r"^```python network\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    names = {"__name__": "replicas"}
    exec(compile(code, "replicas.py", "exec"), names)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    ray.init("local", num_cpus=3, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        serve.run(names["app"]({"model": str(folder)}))
        (deployment,) = serve.status().applications["default"].deployments.values()
        assert deployment.replica_states == {"RUNNING": 2}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            row = stream[0].test[0]
            inputs = {"inputs": [f"{row.text}\t{row.pair}"]}
            answer = client.post("/predict", json=inputs)
            assert answer.status_code == 200, answer.text
            (expected,) = learner.predict([row])
            assert answer.json()["predictions"][0]["label"] == expected.label
            assert client.post("/rollback", json={}).status_code == 403

            def versions():
                found = [client.get("/health").json() for _ in range(12)]
                return {(one["version"], one["digest"]) for one in found}

            (before,) = versions()
            learner.adapt(stream[1], folder=folder)
            deadline = time.monotonic() + 60
            while before in (now := versions()):
                assert time.monotonic() < deadline, now
            assert [version for version, _ in now] == [2]  # all of them: there is one digest
            assert client.post("/predict", json=inputs).json()["version"] == 2
        assert [path.name for path in tmp_path.iterdir()] == ["model"]  # no folder of trainings
    finally:
        serve.shutdown()
        ray.shutdown()
