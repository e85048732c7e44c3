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


def test_the_lock_has_the_tested_versions_and_a_hash_of_each():
    lock = re.sub(r"^#.*\n", "", text_of("requirements.lock"), flags=re.MULTILINE)
    entries = [entry.split("\\\n") for entry in re.split(r"\n(?! )", lock.strip())]
    for name, *hashes in entries:
        assert hashes, name
        assert all(re.fullmatch(r" +--hash=sha256:[0-9a-f]{64} ?", one) for one in hashes), name
    tested = dict(re.findall(r"^([\w-]+)==([\w.]+)$", text_of("constraints.txt"), flags=re.MULTILINE))
    found = dict(re.findall(r"^([\w-]+)==([\w.]+)", lock, flags=re.MULTILINE))
    found |= re.findall(
        r"^(torch) @ https://download\.pytorch\.org/whl/cpu/torch-([\d.]+)%2Bcpu-", lock, flags=re.MULTILINE
    )
    pinned = {name.replace("_", "-").lower(): version for name, version in tested.items()}
    assert {name: version for name, version in found.items() if pinned.get(name, version) != version} == {}
    extras = PROJECT["optional-dependencies"]
    wanted = [
        *PROJECT["dependencies"],
        *(one for name in ("arrow", "serve") for one in extras[name]),
    ]
    assert {re.match(r"[\w-]+", one)[0].lower() for one in wanted} <= found.keys()


def test_what_is_fetched_to_build_is_pinned_by_content():
    dockerfile, workflow = text_of("Dockerfile"), text_of(".github/workflows/ci.yml")
    assert re.search(r"^FROM \S+@sha256:[0-9a-f]{64}$", dockerfile, flags=re.MULTILINE)
    assert "--require-hashes -r requirements.lock" in dockerfile
    assert all(
        "--no-deps" in line for line in dockerfile.splitlines() if "pip install" in line and "hashes" not in line
    )
    assert "extra-index" not in (dockerfile + workflow).lower().replace("_", "-")
    used = re.findall(r"uses: (\S+)", workflow)
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", one) for one in used)
