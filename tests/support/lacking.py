"""A Python that lacks a package, though it is installed."""

import builtins
from typing import Any

import pytest


def lack_package(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every import of the package, and of modules in it, fail as where it is not installed."""
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
