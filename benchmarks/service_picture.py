"""The pictures of the service's page (docs/service.md) and of a report (README).

    python -m benchmarks.service_picture
    python -m benchmarks.service_picture --report results/sentiment --out docs/report.png

The first learns four made-up domains with the settings of `memgrow demo`, serves the model and asks it about a pair;
with --model, a folder keeps the model for the next time. The second shows results up to the matrix. Both need
playwright and a browser, as `make test-extras` installs them.
"""

import argparse
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from memgrow.data import synthetic_stream
from memgrow.evaluation.demo import MODEL, TRAINING
from memgrow.evaluation.report import find_results, read_results, render
from memgrow.learner import Learner
from tests.support.browser import Page, open_browser, served

OUT = Path(__file__).resolve().parents[1] / "docs" / "service.png"
PAIR = ("the judge disputed the verdict before the bench and found it legal", "the verdict seemed illicit to all")
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
        page.tab.evaluate("document.querySelector('#teach').closest('section').style.visibility = 'hidden'")
        bottom = max(box["bottom"] for box in page.boxes("section:has(#answer), section:has(#versions)"))
        return Image.open(BytesIO(page.tab.screenshot(full_page=True))).crop((0, 0, 1280, int(bottom) + 16))


def report_picture(results: Path) -> Image.Image:
    """The report of results, without its details."""
    with open_browser() as browser, TemporaryDirectory() as scratch:
        found = find_results(results)
        assert found is not None
        page = Path(scratch) / "report.html"
        page.write_text(render(replace(read_results(found), name=str(results))))
        tab = browser.new_page(viewport={"width": 1040, "height": 800})
        tab.goto(page.as_uri())
        tab.evaluate(
            "document.querySelector('section:last-of-type').remove(); document.querySelector('footer').remove()"
        )
        return Image.open(BytesIO(tab.screenshot(full_page=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a folder that keeps the model, or has it already")
    parser.add_argument("--report", type=Path, help="results of compare or demo: draw their report instead")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    with TemporaryDirectory() as scratch:
        folder = given.model or Path(scratch) / "demo"
        if not folder.exists() and not given.report:
            print("Learning four domains; this takes some minutes.")
            train(folder)
        found = report_picture(given.report) if given.report else picture(folder)
    # With a palette the file is small. The colours of lines are rare, and the usual way to choose would lose some.
    found.convert("RGB").quantize(method=Image.Quantize.FASTOCTREE).save(given.out, optimize=True)
    print(f"{given.out}: {given.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
