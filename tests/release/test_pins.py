"""What the package promises is what CI tests: the oldest versions, and the versions of Python."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text_of(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_oldest_allowed_versions_are_those_of_test_minimum():
    extras = PROJECT["optional-dependencies"]
    (tested,) = (name for name in extras["dev"] if name.startswith("memgrow["))
    wanted = [*PROJECT["dependencies"], *(one for name in re.findall(r"\w+", tested)[1:] for one in extras[name])]
    pins = dict(re.findall(r"^([\w-]+)==([\d.]+)$", text_of("constraints-minimum.txt"), flags=re.MULTILINE))
    pins |= re.findall(r"^MINIMUM_(TORCH) \?= ([\d.]+)$", text_of("Makefile"), flags=re.MULTILINE)
    pinned = {name.lower(): version for name, version in pins.items()}
    for name, version in re.findall(r"^([\w-]+)>=([\d.]+)", "\n".join(wanted), flags=re.MULTILINE):
        assert f"{pinned.get(name, '')}.0.0".startswith(f"{version}."), name


def test_ci_runs_the_pythons_that_the_package_names():
    named = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r":: Python :: 3\.\d+$", one)]
    workflow = text_of(".github/workflows/ci.yml")
    lists = re.findall(r"^ +python-version: \[(.+)\]$", workflow, flags=re.MULTILINE)
    assert lists
    assert all(re.findall(r"[\d.]+", one) == named for one in lists)
    assert "- run: .ci/run\n" in workflow
