"""Methods compared on messages and replies: BLEU-2 in the place of accuracy, perplexity beside it."""

import json
import math
import re
from dataclasses import replace

import pytest
from rich.console import Console

from memgrow.cli.recipe import read_recipe
from memgrow.data import Stream, synthetic_dialogue
from memgrow.errors import SettingsError
from memgrow.experiments.comparison import Comparison, Settings, runs_of
from memgrow.experiments.comparison_setup import LABELS, REPLIES, kind_of, suitable
from memgrow.experiments.grid import Outcome
from memgrow.experiments.paper.protocol import DIALOGUES as PAIR
from memgrow.report.comparison import compared_table, digits, domains_table, legend
from tests.support.dialogue_records import record, small_pair

SEEDS = range(2)
# The share of right replies to both domains after the first stage and at the end.
SHARES = {"F": [(0.4, 0.1), (0.1, 0.3)], "F+V": [(0.4, 0.1), (0.2, 0.4)], "multi-task": [(0.4, 0.4)]}
# Perplexities at the end; after earlier stages they are other ones, so that the two are not taken for each other.
PERPLEXITY, EARLIER = {PAIR[0]: 4.0, PAIR[1]: 9.0}, {PAIR[0]: 2.0, PAIR[1]: 5000.0}


def comparison(scale: float = 1.0, ends: dict[str, float] = PERPLEXITY) -> Comparison:
    settings = Settings(REPLIES.model, REPLIES.training)
    runs, records = runs_of(small_pair(), SHARES, SEEDS, settings), {}
    for method, stages in SHARES.items():
        for run in runs[method].values():
            told = [EARLIER] * (len(stages) - 1) + [ends]
            records[run] = tuple(
                record(
                    stage,
                    lambda _, name, shares=shares: scale * shares[PAIR.index(name)],
                    lambda _, name, part, known=known: known[name],
                )
                for stage, shares, known in zip(run.stages(), stages, told, strict=True)
            )
    return Comparison.of(runs, Outcome(records, ()), REPLIES)


def shown(what, width: int = 80) -> str:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(what)
    return capture.get()


def test_scores_are_bleu2_and_forgetting_is_what_was_lost_of_it():
    found = comparison().summary["F"]
    assert found["average"].mean == pytest.approx(0.2)
    assert found["forgetting"].mean == pytest.approx(0.3)
    assert found["parameters"].mean == 2000
    assert comparison().against("F+V").difference == pytest.approx(0.1)
    assert comparison().summary["multi-task"]["forgetting"].mean is None


def test_perplexity_is_the_geometric_mean_over_domains_at_the_end():
    assert comparison().summary["F"]["perplexity"].mean == pytest.approx(math.sqrt(4 * 9), rel=1e-3)
    written = comparison().to_json()["F"]["perplexities"]
    assert written[0] == pytest.approx(PERPLEXITY, rel=1e-3)


@pytest.mark.parametrize(("beyond", "said"), [(math.inf, "inf"), (1.5e308, "1.5e+308"), (1e30, "1.0e+30")])
def test_a_perplexity_beyond_all_bounds_is_null_in_json_and_told_in_the_table(beyond, said):
    made = comparison(ends=dict.fromkeys(PAIR, beyond))
    written = json.loads(json.dumps(made.to_json(), allow_nan=False))["F"]
    for found in (written["perplexity"]["seeds"]["0"], written["perplexities"]["0"][PAIR[0]]):
        assert found is None if beyond == math.inf else found == pytest.approx(beyond, rel=1e-3)
    assert set(written["perplexities"]) == {"0", "1"}
    assert written["average"]["mean"] == pytest.approx(0.2)
    out = shown(compared_table(made, len(SEEDS)))
    assert re.search(rf" {re.escape(said)} ", out)
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_settings_without_bounds_are_json_too():
    settings = Settings(training=replace(REPLIES.training, clip=math.inf))
    assert json.loads(json.dumps(settings.to_json(), allow_nan=False))["training"]["clip"] is None


def test_the_table_has_perplexity_and_fits_even_with_large_numbers():
    for scale in (1.0, 0.05):
        made = comparison(scale)
        out = shown(compared_table(made, len(SEEDS)))
        assert "BLEU-2" in out
        assert "perpl." in out
        assert "6.00" in out
        assert "…" not in out
        assert "%" not in out + shown(domains_table(made))
    assert "unknown words as one" in " ".join(legend(comparison(), 2).split())


def test_small_scores_are_shown_with_a_further_digit():
    assert digits(comparison()) == 1
    assert digits(comparison(0.05)) == 2
    assert "1.00" in shown(domains_table(comparison(0.1)))


def test_the_kind_is_found_in_the_data_and_has_the_sizes_of_a_recipe(stream):
    assert kind_of(stream) is LABELS
    assert kind_of(synthetic_dialogue(train=8, validation=4, test=4)) is REPLIES
    for kind, name in ((LABELS, "small"), (REPLIES, "small-dialogue")):
        recipe = read_recipe(name)
        assert recipe.section("model", type(kind.model)()) == kind.model
        assert recipe.section("training", type(kind.training)()) == kind.training


def test_a_method_that_wants_labels_is_left_out_of_the_usual_ones_and_refused_if_named(stream):
    talk = Stream(small_pair())
    assert suitable(["F", "F+V+D", "F+M+V"], talk, chosen=[]) == ["F", "F+M+V"]
    assert suitable(["F", "F+V+D", "F+M+V"], talk, chosen=["F+M+V"]) == ["F", "F+M+V"]
    with pytest.raises(SettingsError, match=r"F\+V\+D: D holds on to labels"):
        suitable(["F", "F+V+D"], talk, chosen=["F+V+D"])
    assert suitable(["F", "F+V+D"], stream, chosen=["F+V+D"]) == ["F", "F+V+D"]
