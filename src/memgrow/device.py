"""Where a model lives and works."""

import torch

from memgrow.errors import SettingsError


def find_device(name: str) -> torch.device:
    """auto: the GPU if there is one."""
    if name not in ("auto", "cpu", "cuda"):
        raise SettingsError(f"there is no device {name!r}; there are auto, cpu and cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise SettingsError("torch finds no CUDA device on this machine: use the device cpu or auto")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and torch.cuda.is_available()) else "cpu")


def allow_tf32(device: torch.device) -> None:
    """Let a GPU round factors to ten bits, in all of this process: nobody reads the fourth digit of a weight."""
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
