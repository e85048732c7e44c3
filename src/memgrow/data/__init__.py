"""Examples, domains and streams, and where they come from: files, rows in memory, public and synthetic corpora."""

from memgrow.data.domain import Domain, Example, Stream
from memgrow.data.files import write_jsonl
from memgrow.data.load import Loaded, draw, load_for_evaluation, load_rows, load_stream
from memgrow.data.rows import Columns
from memgrow.data.synthetic import synthetic_stream

__all__ = [
    "Columns",
    "Domain",
    "Example",
    "Loaded",
    "Stream",
    "draw",
    "load_for_evaluation",
    "load_rows",
    "load_stream",
    "synthetic_stream",
    "write_jsonl",
]
