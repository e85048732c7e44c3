"""Write requirements.lock: `make lock`, with uv and the packages that pyproject.toml and constraints.txt name."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
EXTRAS = ("arrow", "serve")
TORCH = "https://download.pytorch.org/whl/cpu/torch-{}%2Bcpu-cp311-cp311-manylinux_2_28_x86_64.whl"
COMMENT = """\
# All packages that memgrow runs with (extras {extras}), by hash: Python 3.11, Linux, x86-64, CPU.
#
#     pip install --require-hashes -r requirements.lock && pip install --no-deps --no-build-isolation .
#
# `make lock` writes it from pyproject.toml and constraints.txt.
"""


def main(links: str = "https://download.pytorch.org/whl/cpu/torch/") -> None:
    constraints = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    (torch,) = re.findall(r"^torch==([\d.]+)$", constraints, flags=re.MULTILINE)
    with tempfile.TemporaryDirectory() as place:
        (override := Path(place, "torch.in")).write_text(f"torch=={torch}+cpu\n", encoding="utf-8")
        command = ["uv", "pip", "compile", "pyproject.toml", "--quiet", "--no-annotate", "--no-header"]
        command += [word for name in EXTRAS for word in ("--extra", name)]
        command += ["--constraint", "constraints.txt", "--override", str(override), "--generate-hashes"]
        command += ["--index-url", "https://pypi.org/simple", "--find-links", links]
        command += ["--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_28"]
        done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    pinned = done.stdout.replace(f"torch=={torch}+cpu ", f"torch @ {TORCH.format(torch)} ")
    LOCK.write_text(COMMENT.format(extras=", ".join(EXTRAS)) + pinned, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
