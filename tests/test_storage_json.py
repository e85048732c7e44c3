"""What is written as JSON can be read by anybody."""

import json
from math import inf, nan

from memgrow.cli.output import write_json
from memgrow.experiments.paper.figures import write_figures


def strictly(text: str) -> object:
    return json.loads(text, parse_constant=lambda word: (_ for _ in ()).throw(ValueError(word)))


FIGURES = {"perplexity": inf, "rows": [{"mean": nan}, (1.5, -inf)], "name": "F"}
PLAIN = {"perplexity": None, "rows": [{"mean": None}, [1.5, None]], "name": "F"}


def test_a_command_prints_no_infinite_number(capfdbinary):
    write_json(FIGURES)
    import sys

    sys.stdout.flush()
    assert strictly(capfdbinary.readouterr().out.decode()) == PLAIN


def test_a_table_holds_no_infinite_number(tmp_path):
    write_figures(tmp_path, "table5", FIGURES)
    assert strictly((tmp_path / "table5.json").read_text(encoding="utf-8")) == PLAIN
