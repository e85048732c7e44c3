"""Holds what lies in dist/ against the checkout: nothing of the package is missing, and nothing else came along.

python release/check_dist.py        (or: make dist)
"""

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = "src/"
NEEDED = ("README.md", "LICENSE", "pyproject.toml", "CITATION.cff")  # of the source distribution


def version() -> str:
    found = re.search(r'__version__ = "(.+)"', (ROOT / "src/memgrow/version.py").read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


def package_files() -> set[str]:
    """The files of the package that git knows, by their path in a wheel."""
    listed = subprocess.run(
        ["git", "ls-files", f"{SOURCE}memgrow"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return {name.removeprefix(SOURCE) for name in listed.stdout.splitlines()}


def differences(built: set[str], expected: set[str], where: str) -> Iterator[str]:
    for name in sorted(expected - built):
        yield f"{where} lacks {name}"
    for name in sorted(built - expected):
        yield f"{where} has {name}, which git does not know"


def check_wheel(path: Path) -> Iterator[str]:
    with zipfile.ZipFile(path) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        described = {name.rpartition("/")[2] for name in wheel.namelist() if ".dist-info/" in name}
    yield from differences(names, package_files(), path.name)
    if "LICENSE" not in described:
        yield f"{path.name} lacks the licence"


def check_sdist(path: Path) -> Iterator[str]:
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames() if "." in name}
    package = {name.removeprefix(SOURCE) for name in names if re.match(rf"{SOURCE}memgrow/.*\.\w+$", name)}
    yield from differences(package, package_files(), path.name)
    for name in NEEDED:
        if name not in names:
            yield f"{path.name} lacks {name}"
    for name in sorted(name for name in names if name.startswith("tests/")):
        yield f"{path.name} has {name}, but the tests need the whole repository and stay there"


def check_versions() -> Iterator[str]:
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), flags=re.MULTILINE)
    if cited is None or cited[1] != version():
        yield f"CITATION.cff does not name version {version()}"


def main() -> int:
    wheel = ROOT / f"dist/memgrow-{version()}-py3-none-any.whl"
    sdist = ROOT / f"dist/memgrow-{version()}.tar.gz"
    for path in (wheel, sdist):
        if not path.is_file():
            print(f"there is no {path.relative_to(ROOT)}: run make dist")
            return 1
    wrong = [*check_versions(), *check_wheel(wheel), *check_sdist(sdist)]
    print("\n".join(wrong) or f"{len(package_files())} files of the package are in {wheel.name} and in {sdist.name}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
