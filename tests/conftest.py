"""Small things that many tests start from."""

import gc
import os
from collections.abc import Iterator

import pytest

# The tests' models are so small that a second thread only gets in the way: of torch, of numpy and of tokenizers.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
os.environ["HF_HUB_OFFLINE"] = "1"  # no encoder is fetched unasked

import torch
from hypothesis import HealthCheck, settings

from memgrow.data import Stream, synthetic_stream
from memgrow.models import ModelSettings
from memgrow.training.settings import TrainingSettings

torch.set_num_threads(1)
# On a busy machine examples take long that take no time elsewhere: that is no failure.
settings.register_profile("busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy machine")


def pytest_collection_finish() -> None:
    """What was imported stays: Python need not look through it again and again for what could go."""
    gc.freeze()


@pytest.fixture(scope="session")
def stream() -> Stream:
    """Three domains that a tiny model gets through in a moment."""
    return synthetic_stream(domains=3, train=48, validation=24, test=24, seed=3)


@pytest.fixture(scope="session")
def tiny() -> ModelSettings:
    return ModelSettings(embedding=6, hidden=5, slots=4, perceptron=16)


@pytest.fixture(scope="session")
def short() -> TrainingSettings:
    return TrainingSettings(rate=0.01, batch=16, epochs=2)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Whatever a test does about threads ends with it: two of them beside another process are many times slower."""
    yield
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def nothing_fetched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What this account has fetched is no matter of the tests, nor do they leave anything there."""
    shelf = tmp_path_factory.mktemp("fetched")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMGROW_DATA", str(shelf / "data"))
        patch.setenv("MEMGROW_ENCODERS", str(shelf / "encoders"))
        yield
    left = [str(path.relative_to(shelf)) for path in shelf.rglob("*") if path.is_file()]
    assert not left, f"tests fetched without a place of their own: {left}"


@pytest.fixture(autouse=True, scope="session")
def nothing_flushed() -> Iterator[None]:
    """To the disk itself: no test cuts the power, and tens of thousands of small files would wait for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def full_precision() -> Iterator[None]:
    """On a CPU: which of them multiply bfloat16 by themselves is no matter of the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memgrow.models.transformer.multiplies_bfloat16", lambda kind: kind == "cuda")
        yield
