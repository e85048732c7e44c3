"""Chaos tests: `make torture`, or `pytest torture -n 2 --seed 7`. Counts of what was done go to --counts FILE."""

import json
import os
import platform
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", TERM="dumb", COLUMNS="200")

import pytest
import torch

from torture.models import Kind, make_kinds

torch.set_num_threads(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=0, help="of everything that is drawn")
    parser.addoption("--counts", type=Path, help="write what was done to this JSON file")


def pytest_configure(config: pytest.Config) -> None:
    if (path := config.getoption("--counts")) is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(path, config.getoption("--seed")))


class Recorder:
    """Sums up what tests count (`count`), by module."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.seed = path, seed
        self.parts: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = Path(report.location[0]).stem.removeprefix("test_")
        part = self.parts.setdefault(name, {"counts": Counter(), "seconds": 0.0, "failures": []})
        part["seconds"] += report.duration
        if report.failed:
            part["failures"].append(report.nodeid)
        if report.when == "teardown":
            for what, number in report.user_properties:
                part["counts"][what] += int(str(number))

    def pytest_sessionfinish(self) -> None:
        machine = {"cores": os.cpu_count(), "system": platform.system(), "python": platform.python_version()}
        machine["torch"] = torch.__version__.partition("+")[0]
        parts = {
            name: {**part, "seconds": round(part["seconds"]), "seed": self.seed, **machine}
            for name, part in sorted(self.parts.items())
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps({"command": "make torture", "parts": parts}, indent=1) + "\n")


@pytest.fixture
def count(record_property: Callable[[str, object], None]) -> Callable[[str, int], None]:
    return record_property


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Of its own for each test and seed."""
    return random.Random(f"{request.config.getoption('--seed')} {request.node.name}")


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kind]:
    return make_kinds(tmp_path_factory.mktemp("kinds"))
