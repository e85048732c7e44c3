"""The documented Python names import, and take the parameters that README and docs/python.md showed.

`api.json` holds them as they were in memgrow 0.2, without what 1.0 removes. A renamed one stays as a deprecated alias.
"""

import inspect
import json
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from memgrow import Learner

API = json.loads((Path(__file__).parent / "api.json").read_text(encoding="utf-8"))
MODEL = Path(__file__).parent / "models" / "pair"


def find(name: str) -> Any:
    """The object of a name such as memgrow.data:Domain.from_rows."""
    module, _, attributes = name.partition(":")
    found = import_module(module)
    for attribute in attributes.split("."):
        found = getattr(found, attribute)
    return found


@pytest.mark.parametrize("name", API["names"])
def test_a_documented_name_is_there_and_takes_its_parameters(name: str) -> None:
    if name.startswith("memgrow.sklearn"):
        pytest.importorskip("sklearn")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found = find(name)
    if (parameters := API["names"][name]) is None:
        return
    taken = inspect.signature(found).parameters
    if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken.values()):
        assert set(parameters) <= set(taken)


def test_documented_attributes_are_there() -> None:
    learner = Learner.load(MODEL, device="cpu")
    stage = learner.history.stages[0]
    found = {
        "learner": learner,
        "history": learner.history,
        "matrix": learner.history.matrix,
        "row": learner.history.matrix.rows[0],
        "stage": stage,
        "growth": stage.grew,
        "curve": stage.curve,
        "prediction": learner.predict([("a pan", "a pot")])[0],
    }
    missing = [
        f"{kind}.{name}" for kind, names in API["attributes"].items() for name in names if not has(found[kind], name)
    ]
    assert not missing


def has(owner: object, name: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return hasattr(owner, name)
