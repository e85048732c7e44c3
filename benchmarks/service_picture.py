"""The picture of the page of `memgrow serve` in docs/service.md.

    python -m benchmarks.service_picture

Learns four made-up domains with the settings of `memgrow demo`, serves the model, asks it about a pair and takes a
picture of the window. With --model, a folder keeps the model for the next time. It needs playwright and a browser, as
`make test-extras` installs them.
"""

import argparse
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from memgrow.data import synthetic_stream
from memgrow.evaluation.demo import MODEL, TRAINING
from memgrow.learner import Learner
from tests.support.browser import Page, open_browser, served

OUT = Path(__file__).resolve().parents[1] / "docs" / "service.png"
PAIR = ("the chef said that the soup was thick , so the waiter stirred the pot", "it was a thin soup")
LEARNT, TESTED = 4, 5  # domains: the last one is only tested


def train(folder: Path) -> None:
    """Learn the domains, as the demo does, keeping all versions."""
    domains = list(synthetic_stream(domains=TESTED))
    learner = Learner.create("F+M+V", model=MODEL, training=TRAINING, device="cpu")
    learner.learn(domains[:LEARNT], watch=domains, folder=folder, keep_versions=LEARNT)


def picture(folder: Path) -> Image.Image:
    """The part of the page that holds the answer and what the model knows."""
    with open_browser() as browser, served(folder) as address:
        page = Page(browser, address)
        page.ask(*PAIR)
        page.wait("#answer .verdict")
        page.tab.evaluate("document.activeElement.blur()")
        page.tab.evaluate(  # of the shorter column the crop would show a part of the next panel
            "for (const panel of document.querySelectorAll('.column-of-page > section:not(:first-child)'))"
            " panel.style.visibility = 'hidden'"
        )
        bottom = max(box["bottom"] for box in page.boxes(".column-of-page > section:first-child"))
        return Image.open(BytesIO(page.tab.screenshot(full_page=True))).crop((0, 0, 1280, int(bottom) + 16))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a folder that keeps the model, or has it already")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    with TemporaryDirectory() as scratch:
        folder = given.model or Path(scratch) / "demo"
        if not folder.exists():
            print("Learning four domains; this takes some minutes.")
            train(folder)
        found = picture(folder)
    # With a palette the file is small. The colours of lines are rare, and the usual way to choose would lose some.
    found.convert("RGB").quantize(method=Image.Quantize.FASTOCTREE).save(given.out, optimize=True)
    print(f"{given.out}: {given.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
