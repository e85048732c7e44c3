"""One text model that learns domain after domain: recurrent networks with a memory bank that grows."""

import os
import sys
import warnings
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from memgrow.errors import ForgettingError, MemgrowError

__version__ = "1.0.0.dev0"

if TYPE_CHECKING:
    from memgrow.data import Domain, Example, Stream, synthetic_stream
    from memgrow.learner import Learner, Prediction
    from memgrow.methods import METHODS, MethodSettings
    from memgrow.models import ModelSettings, PretrainedSettings
    from memgrow.nn import MemoryBank, MemoryGRU, MemoryLSTM, MemoryRNN, matching_hidden
    from memgrow.storage.versions import undo
    from memgrow.training.settings import TrainingSettings

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

SPINS = "1000"  # turns of the loop in which threads wait, some microseconds; libgomp's own are 300,000
SAID = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")  # variables by which somebody says how threads wait

# Threads that wait for each other give up their cores soon. Where another process wants a core, they would keep it from
# the very thread that they wait for: an encoder is then three times as slow. OpenMP reads this as torch is imported.
if "torch" not in sys.modules and not any(name in os.environ for name in SAID):
    os.environ["GOMP_SPINCOUNT"] = SPINS

# Torch takes seconds to import, and neither `memgrow --help` nor its completion needs it: it is loaded with the first
# of these names that is asked for.
_HOMES = {
    "memgrow.data": ("Domain", "Example", "Stream", "synthetic_stream"),
    "memgrow.learner": ("Learner", "Prediction"),
    "memgrow.methods": ("METHODS", "MethodSettings"),
    "memgrow.models": ("ModelSettings", "PretrainedSettings"),
    "memgrow.nn": ("MemoryBank", "MemoryGRU", "MemoryLSTM", "MemoryRNN", "matching_hidden"),
    "memgrow.training.settings": ("TrainingSettings",),
    "memgrow.storage.versions": ("undo",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

# Documented modules that have moved. They can be imported by their old names until 1.1.
MOVED = {
    "memgrow.progress": "memgrow.training.progress",
    "memgrow.device": "memgrow.nn.device",
    "memgrow.versions": "memgrow.storage.versions",
    "memgrow.export": "memgrow.storage.export",
    "memgrow.defaults": "memgrow.training.settings",
    "memgrow.history": "memgrow.evaluation.history",
    "memgrow.metrics": "memgrow.evaluation.history",
    "memgrow.calibration": "memgrow.evaluation.calibration",
    "memgrow.drift": "memgrow.evaluation.drift",
    "memgrow.reading": "memgrow.evaluation.attention",
    "memgrow.report": "memgrow.evaluation",
    "memgrow.report.tracking": "memgrow.evaluation.progress_bars",
}


class _MovedModules(MetaPathFinder, Loader):
    """Imports a module that has moved, with a warning that says where it is now."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        new = MOVED[module.__name__]
        warnings.warn(f"{module.__name__} has moved to {new}", DeprecationWarning, stacklevel=2)
        vars(module).update({name: value for name, value in vars(import_module(new)).items() if name[:2] != "__"})


sys.meta_path.append(_MovedModules())

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _HOME_OF:
            globals()[name] = found = getattr(import_module(_HOME_OF[name]), name)
            return found
        if not name.startswith("_") and find_spec(f"memgrow.{name}") is not None:
            return import_module(f"memgrow.{name}")  # as in memgrow.nn.MemoryGRU
        raise AttributeError(f"module 'memgrow' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
