"""The picture of a report that leads the README: the page of results/sentiment, as a browser shows it.

    python docs/report_picture.py

needs a Chromium without a window (Debian's package chromium-headless-shell) and writes docs/report.png.
"""

import hashlib
import subprocess
import tempfile
from pathlib import Path

from PIL import Image, PngImagePlugin

from memgrow.evaluation.report import read_results, render

ROOT = Path(__file__).resolve().parents[1]
FIGURES, PICTURE = ROOT / "results/sentiment/compare.json", ROOT / "docs/report.png"
METHOD = "F+V"  # the default of a BiLSTM, with fine-tuning beside it
BROWSER = "chromium-headless-shell"
COLOURS = 256
WIDTH, HEIGHT = 1120, 1525  # of the window, in points: from the verdict to the last of the methods


def checksum() -> str:
    """The checksum of what the picture shows."""
    return hashlib.sha256(FIGURES.read_bytes()).hexdigest()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        page, shot = Path(folder) / "report.html", Path(folder) / "report.png"
        page.write_text(render(read_results(FIGURES, METHOD, shown_as="results/sentiment")), encoding="utf-8")
        options = ("--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}")
        subprocess.run([BROWSER, *options, f"--screenshot={shot}", page.as_uri()], check=True, capture_output=True)
        with Image.open(shot) as taken:
            about = PngImagePlugin.PngInfo()
            about.add_text("Description", checksum())
            # All colours of the page are kept: the rarest, thin lines, would be the first to go.
            kept = taken.convert("RGB").quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
            kept.save(PICTURE, pnginfo=about, optimize=True)
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
