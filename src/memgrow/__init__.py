"""One text model that learns domain after domain: recurrent networks with a memory bank that grows."""

from memgrow.data import Domain, Example, Stream, synthetic_stream
from memgrow.errors import ForgettingError, MemgrowError
from memgrow.learner import Learner, Prediction
from memgrow.methods import METHODS, MethodSettings
from memgrow.models import ModelSettings, PretrainedSettings
from memgrow.nn import MemoryBank, MemoryGRU, MemoryLSTM, MemoryRNN, matching_hidden
from memgrow.training.loop import TrainingSettings
from memgrow.version import __version__
from memgrow.versions import undo

__all__ = [
    "METHODS",
    "Domain",
    "Example",
    "ForgettingError",
    "Learner",
    "MemgrowError",
    "MemoryBank",
    "MemoryGRU",
    "MemoryLSTM",
    "MemoryRNN",
    "MethodSettings",
    "ModelSettings",
    "Prediction",
    "PretrainedSettings",
    "Stream",
    "TrainingSettings",
    "__version__",
    "matching_hidden",
    "synthetic_stream",
    "undo",
]
