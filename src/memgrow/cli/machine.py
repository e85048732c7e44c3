"""What this machine has to say of itself: which ways and loops memgrow takes on it."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

import torch

from memgrow.device import allow_tf32
from memgrow.models.pretrained.catalogue import KNOWN
from memgrow.nn import LAYERS
from memgrow.version import __version__


def findings() -> Iterator[str]:
    """Sentences about this machine."""
    yield f"memgrow {__version__}, torch {torch.__version__}, {torch.get_num_threads()} threads on the CPU"
    for device in devices():
        allow_tf32(torch.device(device))  # as a command does that trains
        name = "CPU" if device == "cpu" else f"{device} ({torch.cuda.get_device_name(device)})"
        for cell, backend, reason in backends(device):
            yield f"{name}: {cell} takes the backend {backend}: {reason}"
    yield encoders_finding()


def encoders_finding() -> str:
    """A sentence about pretrained encoders; what they need is not imported for it."""
    try:
        found = " and ".join(f"{name} {version(name)}" for name in ("transformers", "tokenizers"))
    except PackageNotFoundError as error:
        return f"pretrained encoders: {error.name} is not installed; run `pip install 'memgrow[encoders]'`"
    here = ", ".join(name for name, known in KNOWN.items() if known.is_here())
    fetched = (
        f"{here} can be used at once" if here else f"none is here yet; run: memgrow encoder get {next(iter(KNOWN))}"
    )
    return f"pretrained encoders: {found} are installed; {fetched}"


def devices() -> list[str]:
    return ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]


def backends(device: str, hidden: int = 300, slots: int = 500) -> Iterator[tuple[str, str, str]]:
    """(cell, backend, reason) on a device, for a layer of the given size; each is tried with one short sequence."""
    for name, kind in LAYERS.items():
        layer = kind(8, hidden, slots=slots, bidirectional=True, device=device)
        data = torch.randn(3, 2, 8, device=device)
        with torch.no_grad():
            layer(data)  # a GPU's kernels are compiled now, so that what stands in their way is known
        yield name, *layer.backend_for(data)
