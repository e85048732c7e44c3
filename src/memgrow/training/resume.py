"""Training that may be killed at any moment keeps its state in a folder beside the model, and goes on from it."""

import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from memgrow.errors import ModelError
from memgrow.storage import load_tensors, pack_json, pack_tensors, read_folder, write_folder

FILES = ("state.safetensors", "state.json")


@dataclass
class Position:
    """Where training stands, in numbers."""

    epoch: int = 0
    batch: int = 0  # of this epoch, done
    loss: float = 0.0  # summed over this epoch's examples so far
    correct: float = 0.0
    seen: int = 0
    best: float = -1.0  # validation accuracy
    best_epoch: int = 0
    seconds: float = 0.0


class ResumeFolder:
    """The state of one training. `key` names the training: a folder of another one is refused."""

    def __init__(self, folder: Path | None, stage: int, key: Mapping[str, str], every: float) -> None:
        self.folder = folder
        self.stage = stage  # how many domains had been learnt before this training
        self.key = dict(key)
        self.every = every
        self._saved = time.monotonic()

    @classmethod
    def beside(cls, model: str | Path | None, stage: int, key: Mapping[str, str], every: float) -> "ResumeFolder":
        """The folder FOLDER.adapting of a model's folder; where that is None, nothing is kept."""
        if model is None:
            return cls(None, stage, key, every)
        model = Path(os.path.realpath(model))
        return cls(model.with_name(model.name + ".adapting"), stage, key, every)

    def due(self) -> bool:
        return self.folder is not None and time.monotonic() - self._saved >= self.every

    def save(
        self, position: Position, model: nn.Module, best: Mapping[str, Tensor], optimiser: torch.optim.Optimizer
    ) -> None:
        if self.folder is None:
            return
        tensors = {f"model/{name}": tensor for name, tensor in model.state_dict().items()}
        tensors |= {f"best/{name}": tensor for name, tensor in best.items()}
        for name, parameter in model.named_parameters():
            moments = optimiser.state.get(parameter, {})
            tensors |= {f"optimiser/{kind}/{name}": tensor for kind, tensor in moments.items()}
        tensors["chance/cpu"] = torch.get_rng_state()
        if next(model.parameters()).is_cuda:
            tensors["chance/cuda"] = torch.cuda.get_rng_state()
        state = {"stage": self.stage, "key": self.key, "position": asdict(position)}
        write_folder(self.folder, dict(zip(FILES, (pack_tensors(tensors), pack_json(state)), strict=True)))
        self._saved = time.monotonic()

    def restore(self, model: nn.Module, optimiser: torch.optim.Optimizer) -> tuple[Position, dict[str, Tensor]] | None:
        """Put a saved state into the model and the optimiser; None if there is none."""
        if self.folder is None or not self.folder.exists():
            return None
        if {path.name for path in self.folder.iterdir()} <= set(FILES):  # removed or copied in part: it is of no use
            self.clear()
            return None
        files = read_folder(self.folder)
        state = json.loads(files["state.json"])
        if state["stage"] < self.stage:  # that training ended and was saved; only its state was not cleared in time
            self.clear()
            return None
        for name, ours in self.key.items():
            if state["key"].get(name) != ours:
                raise ModelError(
                    f"{self.folder} holds an unfinished adaptation with another {name}: finish that one first "
                    "(run it again as it was), or remove the folder to give it up"
                )
        tensors = load_tensors(files, "state.safetensors")
        part = {kind: _under(tensors, kind) for kind in ("model", "best", "optimiser", "chance")}
        model.load_state_dict(part["model"])
        for name, parameter in model.named_parameters():
            kinds = {key.split("/", 1)[0] for key in part["optimiser"] if key.split("/", 1)[1] == name}
            if kinds:
                moments = {kind: part["optimiser"][f"{kind}/{name}"].to(parameter.device) for kind in kinds}
                optimiser.state[parameter].update(moments)
        torch.set_rng_state(part["chance"]["cpu"])
        if "cuda" in part["chance"]:
            torch.cuda.set_rng_state(part["chance"]["cuda"])
        device = next(model.parameters()).device
        return Position(**state["position"]), {name: t.to(device) for name, t in part["best"].items()}

    def clear(self) -> None:
        """The training has ended and its result is saved."""
        if self.folder is not None and self.folder.exists():
            hidden = self.folder.with_name(f".{self.folder.name}.done")
            shutil.rmtree(hidden, ignore_errors=True)
            self.folder.rename(hidden)  # at once, so that no half of it is ever found
            shutil.rmtree(hidden, ignore_errors=True)


def _under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix + "/"): t for name, t in tensors.items() if name.startswith(prefix + "/")}
