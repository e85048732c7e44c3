"""What torture holds to be right of a folder that was damaged."""

import pytest

from torture.confined import Outcome
from torture.damage import EARLIER, judged
from torture.mutations import MANIFEST, Damage

WHOLE = "the model as it was"


def verdict(output: str, model: str = WHOLE, file: str = MANIFEST) -> str | None:
    told = {"error": None, "model": model, "answers": None, "code": 1, "output": output}
    return judged(Damage("bits flipped", file), Outcome(told, None, 0.1), WHOLE)[1]


def test_a_manifest_may_be_wrong_of_an_earlier_version_alone():
    assert verdict(f"{EARLIER} 1: model.safetensors is not what was written") is None


@pytest.mark.parametrize(
    ("output", "model"),
    [("model.safetensors is not what was written", WHOLE), (f"{EARLIER} 1: it is not what was written", "another")],
)
def test_what_loads_though_verify_finds_it_wrong_is_a_fault(output, model):
    assert "it loads, and verify says" in verdict(output, model)
