"""The protocol's streams and runs: they are those of the page, and go from data to figures, tables and a picture."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from memgrow.data.domain import Stream
from memgrow.data.files import write_jsonl
from memgrow.data.synthetic import synthetic_stream
from memgrow.data.synthetic_dialogue import synthetic_dialogue
from memgrow.errors import DataError, SettingsError
from memgrow.experiments.encoders.study import Material as StudyMaterial
from memgrow.experiments.store import Store
from memgrow.experiments.which_method.candidates import FAMILIES
from memgrow.experiments.which_method.figures import found_in, write_figures
from memgrow.experiments.which_method.streams import PARTS, TRIALS, Settings, TrialStream, trial_called, trials
from memgrow.experiments.which_method.trial import Material, Trial
from memgrow.models import ModelSettings
from memgrow.report.encoder_picture import checksum
from memgrow.report.which_method import choice_page
from memgrow.report.which_method_picture import draw_choice, far_off
from memgrow.training.settings import TrainingSettings

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/which-method.md").read_text(encoding="utf-8")
TINY = Settings(
    ModelSettings(embedding=4, hidden=4, slots=2, perceptron=4), TrainingSettings(epochs=1, rate=1e-2, max_words=20)
)
FEW = {
    "bilstm": replace(FAMILIES["bilstm"], candidates=tuple(FAMILIES["bilstm"].called(["F+V", "F+V+A auto", "F+V+E"]))),
    "replies": replace(FAMILIES["replies"], candidates=tuple(FAMILIES["replies"].called(["F+V", "F+V+E"]))),
}
TINY_REPLIES = replace(TINY, model=ModelSettings(cell="gru", embedding=4, hidden=4, slots=2, bidirectional=False))


def test_the_page_names_the_streams_and_their_domains_in_order():
    for trial in TRIALS.values():
        listed = next((line for line in PAGE.splitlines() if f"| {trial.part} | {trial.name} |" in line), PAGE)
        if "from last to first" not in listed:
            assert ", ".join(trial.domains) in re.sub(r"\s+", " ", listed)


def test_the_page_names_the_candidates_in_order():
    for family, line in zip(
        FAMILIES.values(), re.findall(r"^\| (?:BiLSTM|encoder|replies) \|.*", PAGE, re.M)[:3], strict=True
    ):
        listed = line.split("|")[3].split(";")
        methods = [re.match(r"\s*(\S+)", one)[1].rstrip(",") for one in listed]
        assert methods == [one.method for one in family.candidates]
        assert line.split("|")[2].strip() == family.baseline


def test_choosing_and_checking_share_no_seed_and_no_review():
    for family in FAMILIES:
        first, second = (trials(part, family) for part in PARTS[:2])
        assert not {seed for one in first for seed in one.seeds} & {seed for one in second for seed in one.seeds}
    for one in trials("choosing", "bilstm"):
        assert one.source != "reviews" or not set(one.domains) & set(TRIALS["other-reviews"].domains)


def test_what_is_not_known_is_refused_in_a_sentence():
    with pytest.raises(SettingsError, match="there is no stream 'x'; there are sentiment"):
        trial_called("x")
    with pytest.raises(SettingsError, match="there is no candidate 'x' for encoder; there are ridge"):
        FAMILIES["encoder"].called(["F", "x"])


def test_the_records_of_the_study_of_encoders_serve_for_choosing():
    study = {one.stream: one for one in StudyMaterial.all_in(ROOT / "results/encoders/runs")}
    store, family = Store(ROOT / "results/encoders/runs"), FAMILIES["encoder"]
    for name, expected in {"sentiment": 5, "reviews": 2}.items():
        one, trial = study[name], TRIALS[name]
        model = {"encoder": "minilm", "weights": one.weights}
        prints = ({name: found[name] for name in trial.domains} for found in (one.data, one.held_out))
        about = (trial.part, trial.domains, tuple(trial.seeds), {}, *prints, model, one.training, "minilm")
        found = found_in(Material("encoder", name, *about), store, family.called(["F", "F+A auto", "frozen+M"]))
        assert {name: len(runs) >= expected for name, runs in found.items()} == dict.fromkeys(found, True)
        assert len(found) == 3


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_jsonl(synthetic_stream(2, 24, 9, 9), folder / "made")
    write_jsonl(Stream(synthetic_dialogue(2, 24, 8, 8)), folder / "made-replies")
    return folder


def tiny(name, part, family, source="made", domains=("kitchen", "harbour")):
    settings = TINY_REPLIES if family == "replies" else TINY
    return TrialStream(name, part, source, domains, {family: settings}, seeds=range(2))


def made(family, trial, data, runs):
    opened = Trial.open(FAMILIES[family], trial, data, runs)
    some = opened.runs(FEW[family].candidates, trial.seeds)
    return opened, opened.run(some, opened.grid("cpu", workers=1))


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, part in {"sentiment": "choosing", "made": "checking"}.items():
        _, outcome = made("bilstm", tiny(name, part, "bilstm"), data, folder)
        assert not outcome.failures
    _, outcome = made("replies", tiny("desks", "choosing", "replies", "made-replies"), data, folder)
    assert not outcome.failures
    return folder


def test_records_become_figures_tables_and_a_picture(runs, tmp_path):
    paths = write_figures(runs, tmp_path, list(TRIALS), FEW)
    assert [path.name for path in paths] == ["bilstm.json", "replies.json"]
    found = json.loads(paths[0].read_text())
    assert list(found["streams"]) == ["sentiment", "made"]
    rows = found["streams"]["sentiment"]["rows"]
    assert list(rows) == list(found["candidates"])
    assert rows["F+V+A auto"]["kept"] is not None
    assert rows["F+V"]["kept"] is None
    assert found["choice"]["streams"] == ["sentiment"]
    assert not found["check"]["enough"]
    for path in paths:
        page = choice_page(json.loads(path.read_text()))
        assert "| F+V+E |" in page
    assert "perplexity at the end" in page
    assert "more seeds" not in choice_page(found)
    found["streams"]["made"]["more_seeds"] = found["streams"]["made"]["rows"]
    assert "With ten more seeds" in choice_page(found)
    draw_choice(tmp_path, tmp_path / "picture.png")
    with Image.open(tmp_path / "picture.png") as picture:
        assert picture.text["Description"] == checksum(tmp_path)


def test_only_who_is_out_and_far_from_all_others_is_left_to_words():
    def far(**away: float) -> set[str]:
        return far_off(
            {"choice": {"out": {"a": "s", "b": "s"}, "winner": "c"}}, {n: ((x, 0), []) for n, x in away.items()}
        )

    assert far(a=-9.0, b=4.0, c=1.0) == {"a"}
    assert far(a=-9.0, b=5.0, c=1.0) == set()
    assert far(c=-9.0, a=1.0) == set()
    assert far(a=1.0) == set()


def test_a_second_run_makes_nothing_again_and_other_data_is_refused(runs, data):
    trial = tiny("sentiment", "choosing", "bilstm")
    opened = Trial.open(FAMILIES["bilstm"], trial, data, runs)
    assert not opened.jobs(opened.runs(FEW["bilstm"].candidates, trial.seeds))
    other = Trial.open(FAMILIES["bilstm"], replace(trial, domains=("harbour", "kitchen")), data, runs)
    with pytest.raises(SettingsError, match="is of runs on other data"):
        other.material.save(runs)


def test_records_of_another_folder_are_taken_once(runs, data, tmp_path):
    trial = tiny("sentiment", "choosing", "bilstm")
    opened = Trial.open(FAMILIES["bilstm"], trial, data, tmp_path)
    some = opened.runs(FEW["bilstm"].candidates, trial.seeds)
    assert opened.take(some, Store(runs)) == 2 * (1 + len(FEW["bilstm"].candidates))
    assert opened.take(some, Store(runs)) == 0
    assert not opened.jobs(some)


def test_a_material_comes_back_as_it_was_and_a_damaged_one_is_told(runs, tmp_path):
    for one in Material.all_in(runs):
        one.save(tmp_path)
    assert Material.all_in(tmp_path) == Material.all_in(runs)
    (tmp_path / "bilstm-made.json").write_text("{}")
    with pytest.raises(DataError, match=r"bilstm-made.json is damaged"):
        Material.all_in(tmp_path)


def test_streams_that_start_with_vectors_ask_for_their_file(data, tmp_path):
    trial = replace(tiny("genres", "choosing", "bilstm"), settings={"bilstm": replace(TINY, vectors=True)})
    with pytest.raises(SettingsError, match="--vectors"):
        Trial.open(FAMILIES["bilstm"], trial, data, tmp_path)
