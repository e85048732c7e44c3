"""Bad inputs: every file and text gives a result or an error of one line."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from memgrow import Learner, MemgrowError
from memgrow.cli.options import read_settings
from memgrow.data import load_stream
from torture.models import Kind

EXAMPLES = 1500
SECTIONS = ("method", "seed", "model", "training", "options")
COLUMNS = ("text", "label", "split", "premise", "hypothesis", "message", "response", "gold_label", "", "a")
LOOSE = settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))

texts = st.text(max_size=20) | st.sampled_from(("good", "bad", "train", "3", " ", "\x00", "\ufeff", "x" * 5000))
plain = st.none() | st.booleans() | st.integers() | st.floats() | texts
values = st.recursive(plain, lambda part: st.lists(part, max_size=3) | st.dictionaries(texts, part, max_size=3))
json_rows = st.lists(st.dictionaries(st.sampled_from(COLUMNS), texts | values, max_size=5), max_size=8)
table_rows = st.lists(st.lists(st.sampled_from(COLUMNS) | texts, min_size=1, max_size=5), min_size=1, max_size=8)
splices = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 20), st.binary(max_size=8)), max_size=2)


def json_lines(rows: Sequence[object]) -> str:
    return "\n".join(json.dumps(row, ensure_ascii=len(rows) % 2 == 0) for row in rows)


def table(rows: list[list[str]], delimiter: str = ",") -> str:
    writer = csv.writer(text := io.StringIO(), delimiter=delimiter, escapechar="\\")
    writer.writerows(rows)
    return text.getvalue()


FILES: dict[str, st.SearchStrategy[str]] = {
    "data.jsonl": json_rows.map(json_lines),
    "data.csv": table_rows.map(table),
    "data.tsv": table_rows.map(lambda rows: table(rows, "\t")),
    "recipe.yaml": st.dictionaries(texts | st.sampled_from(SECTIONS), values, max_size=4).map(json.dumps) | st.text(),
}


def one_line(work: Callable[[], object]) -> None:
    try:
        work()
    except MemgrowError as error:
        message = str(error)
        if "\n" in message or len(message) > 1000:
            pytest.fail(f"no line: {message[:2000]}")


@pytest.mark.parametrize("name", FILES)
def test_files(name: str, tmp_path: Path, request: pytest.FixtureRequest, count: Callable[[str, int], None]) -> None:
    """Files of their kind, some with bytes replaced, some compressed."""

    @seed(request.config.getoption("--seed"))
    @LOOSE
    @given(FILES[name], splices, st.booleans())
    def check(text: str, splices: list[tuple[int, int, bytes]], packed: bool) -> None:
        content = text.encode(errors="surrogatepass")
        for start, length, new in splices:
            content = content[:start] + new + content[start + length :]
        path = tmp_path / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(content, 1) if packed else content)
        one_line(lambda: read_settings(path) if name == "recipe.yaml" else load_stream([path]))

    check()
    count("files", EXAMPLES)


@pytest.mark.parametrize("kind", ["BiLSTM, F+M+V", "encoder, F+E"])
def test_texts(
    kind: str, kinds: dict[str, Kind], tmp_path: Path, request: pytest.FixtureRequest, count: Callable[[str, int], None]
) -> None:
    learner = Learner.load(kinds[kind].make(tmp_path / "m", domains=1), device="cpu")

    @seed(request.config.getoption("--seed"))
    @LOOSE
    @given(st.text() | values)
    def check(text: object) -> None:
        one_line(lambda: learner.predict([(text, "it is so")]))  # type: ignore[list-item]

    check()
    count("texts", EXAMPLES)
