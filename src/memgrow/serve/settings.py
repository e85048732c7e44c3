"""Settings of a service, and the limits of its requests."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20


@dataclass(frozen=True)
class ServeSettings:
    """How a model is served. Requests beyond the limits are refused."""

    device: str = "auto"
    host: str = "127.0.0.1"  # the address to listen on
    token: str | None = None  # for requests that change the model
    read_only: bool = False
    jobs: Path | None = None  # the folder of trainings; by default MODEL.jobs
    watch: Sequence[Path] = ()  # files with test examples of earlier domains
    max_forgetting: float | None = None  # accuracy points that a training may cost a watched domain
    keep_versions: int | None = None
    window: int = 100  # texts per drift test

    max_body: int = MIB  # bytes of a request
    max_upload: int = 64 * MIB  # bytes of an uploaded file
    max_inputs: int = 256  # per request
    max_characters: int = 20_000  # per text
    max_probabilities: int = 20_000  # in one response: with more, each input gets its most probable labels
    max_waiting: int = 1024  # requests in the queue
    max_batch: int = 64  # requests per batch; 1 disables batching
    max_batch_texts: int = 512  # texts per batch, unless a single request has more
    max_jobs: int = 8  # trainings that wait, run or are ready
    body_seconds: float = 60.0  # in which a request must have arrived
    answer_seconds: float = 30.0  # in which a request is answered

    @property
    def is_local(self) -> bool:
        """Whether only programs on this machine can call the service."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
