"""Examples, domains and streams, and where they come from: files, public corpora, and corpora made by rule."""

from memgrow.data.asked import read_unlabelled
from memgrow.data.columns import Columns
from memgrow.data.domain import Domain, Stream
from memgrow.data.example import Example
from memgrow.data.files import write_jsonl
from memgrow.data.from_python import load_rows
from memgrow.data.load import Loaded, load_for_evaluation, load_stream
from memgrow.data.splits import draw
from memgrow.data.synthetic import synthetic_stream
from memgrow.data.synthetic_dialogue import synthetic_dialogue

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
    "read_unlabelled",
    "synthetic_dialogue",
    "synthetic_stream",
    "write_jsonl",
]
