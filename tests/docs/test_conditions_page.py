"""What docs/paper.md says of the studies of conditions is what their figures say."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIGURES = json.loads((ROOT / "results" / "paper" / "conditions.json").read_text(encoding="utf-8"))


def comparisons():
    for name, study in FIGURES["studies"].items():
        first, second = study["methods"][:2]
        for sheet in study["sheets"]:
            cells = {row["name"]: row["cells"] for row in sheet["rows"]}
            for column, cell in cells[second].items():
                if test := cell.get("tests", {}).get(first):
                    yield (name, sheet["title"], column), test, cell["mean"] - cells[first][column]["mean"]


def test_there_are_ten_studies():
    assert len(FIGURES["studies"]) == 10


def test_no_difference_is_significant_and_without_correction_one_is_in_which_slots_are_behind():
    found = list(comparisons())
    assert all(test["p_holm"] > 0.05 for _, test, _ in found)
    low = [(where, difference) for where, test, difference in found if test["p"] < 0.05]
    assert [where for where, _ in low] == [("patience", "5", "last")]
    assert low[0][1] < 0


def test_accuracy_rises_with_data_by_six_to_twelve_points():
    rises = []
    for name, most in (("pairs", "all and guessed"), ("pairs", "all"), ("data", "all")):
        sheets = {sheet["title"]: sheet["rows"] for sheet in FIGURES["studies"][name]["sheets"]}
        least, much = ({row["name"]: row["cells"]["average"]["mean"] for row in sheets[t]} for t in ("2,000", most))
        rises += [much[method] - least[method] for method in ("F+V", "F+M+V")]
    assert min(rises) > 6
    assert round(max(rises)) == 12


def test_only_the_incremental_methods_of_five_genres_with_guessed_pairs_are_missing():
    missing = [
        (name, sheet["title"], row["name"])
        for name, study in FIGURES["studies"].items()
        for sheet in study["sheets"]
        for row in sheet["rows"]
        if row["cells"]["average"].get("mean") is None
    ]
    assert missing == [("data", "all and guessed", "F+V"), ("data", "all and guessed", "F+M+V")]
