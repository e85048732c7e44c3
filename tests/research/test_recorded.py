"""The committed records still give the committed figures, byte for byte, without any corpus."""

import json
import shutil
from pathlib import Path

import pytest

from research.common.runs import Run
from research.common.settings import MethodSettings, ModelSettings, PretrainedSettings, TrainingSettings
from research.common.store import Store
from research.encoders.__main__ import main as encoders
from research.paper.__main__ import main as paper
from research.paper.false_positives import of_records
from research.paper.page import BLOCKS, HOW, write_page
from research.which_method.__main__ import main as which_method

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
ON_MULTINLI = ("table1", "table2", "table3", "table4", "slots", "rates", "tuning", "recommended", "theorem")


def same_figures(made: Path, committed: Path, names: list[str]) -> None:
    for name in names:
        assert (made / f"{name}.json").read_bytes() == (committed / f"{name}.json").read_bytes(), name


@pytest.fixture
def folder(tmp_path):
    """The paper's records, and of its figures only the theorem's, which are not made from records."""
    for name in ("runs", "runs-dialogue"):
        shutil.copytree(RESULTS / "paper" / name, tmp_path / name)
    shutil.copy(RESULTS / "paper/theorem.json", tmp_path)
    return tmp_path


def test_the_papers_tables_on_multinli(folder, capsys):
    paper(["all", "conditions", "--no-runs", "--out", str(folder)])
    same_figures(folder, RESULTS / "paper", [*ON_MULTINLI, "conditions"])
    assert "# Table 4: after five genres" in capsys.readouterr().out
    assert {path.name for path in folder.glob("*.png")} == {"slots.png", "scaling.png", "theorem.png"}


@pytest.mark.slow
def test_the_papers_tables_on_dialogue(folder):
    paper(["table5", "table6", "--no-runs", "--out", str(folder)])
    same_figures(folder, RESULTS / "paper", ["table5", "table6"])


@pytest.mark.slow
def test_the_study_of_encoders(tmp_path):
    encoders(["figures", "--runs", str(RESULTS / "encoders/runs"), "--out", str(tmp_path)])
    same_figures(tmp_path, RESULTS / "encoders", ["sentiment", "reviews", "multinli"])


def test_which_method_is_the_default(tmp_path):
    runs, picture = str(RESULTS / "which-method/runs"), tmp_path / "which.png"
    which_method(["figures", "--runs", runs, "--out", str(tmp_path), "--picture", str(picture)])
    same_figures(tmp_path, RESULTS / "which-method", ["bilstm", "encoder", "replies"])
    assert picture.stat().st_size > 10_000


def test_the_papers_page_shows_the_committed_figures(tmp_path):
    for name in ("README.md", "tables.md"):
        shutil.copy(ROOT / "research/paper" / name, tmp_path)
    shown = write_page(tmp_path / "README.md", RESULTS / "paper")
    text = (ROOT / "research/paper/tables.md").read_text()
    assert set(shown) == {name for name in BLOCKS if f"paper-{name} -->" in text}
    for line in (tmp_path / "tables.md").read_text().splitlines():
        assert line.startswith("![") or line in text


def test_a_new_page_begins_with_all_that_there_is(tmp_path):
    shown = write_page(tmp_path / "new.md", RESULTS / "paper")
    assert set(shown) == set(BLOCKS)
    assert all(f"paper-{name}" in (tmp_path / "new.md").read_text() for name in (HOW, *BLOCKS))


def test_bundling_again_changes_no_byte(tmp_path):
    bundle = RESULTS / "paper/runs/records.jsonl.gz"
    shutil.copy(bundle, tmp_path)
    store = Store(tmp_path)
    record = next(iter(store.records().values()))
    store.put(record)
    assert store.bundle().read_bytes() == bundle.read_bytes()
    assert not list((tmp_path / "records").glob("*.json"))


def test_keys_stay_as_they_are():
    """A key that changes loses every record of such runs."""
    data = {"books": "a", "dvds": "b"}
    plain = Run("F+M+V", ("books", "dvds"), 3, ModelSettings(slots=7), TrainingSettings(rate=1.0), MethodSettings())
    assert plain.key(data) == "6b7e1993938db8fa6e8fc73e"
    assert plain.upto(1).key(data) == "99c15cf777a58abda38f7067"
    encoder = PretrainedSettings(encoder="/anywhere", weights="c0ffee", memory="adapter")
    pretrained = Run("EWC", ("books", "dvds"), 0, encoder, TrainingSettings(), MethodSettings(strength=10.0))
    assert pretrained.key(data) == "8a9c2d3f83de40914df8a9db"
    assert pretrained.upto(1).key(data) == pretrained.upto(1).key({**data, "dvds": "c"})


def test_how_often_seeds_of_one_method_get_an_arrow():
    committed = json.loads((RESULTS / "paper/false-positives.json").read_text())
    assert of_records(RESULTS / "paper/runs") == committed["between_seeds"]
