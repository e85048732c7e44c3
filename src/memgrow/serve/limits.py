"""Limits of a service: how much one request, and all waiting work together, may ask for."""

from dataclasses import dataclass

from memgrow.errors import SettingsError

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Requests beyond these limits are refused."""

    body: int = MIB  # bytes of a request
    upload: int = 64 * MIB  # bytes of an uploaded file
    inputs: int = 256  # per request
    characters: int = 20_000  # per text
    probabilities: int = 20_000  # in one response: with more, each input gets its most probable labels
    waiting: int = 1024  # requests in the queue
    together: int = 64  # requests per batch; 1 disables batching
    texts: int = 512  # per batch, unless a single request has more
    jobs: int = 8  # trainings that wait, run or are ready
    ended: int = 100  # finished trainings that are still listed
    connections: int = 512
    body_s: float = 60.0  # seconds in which a request must have arrived
    answer_s: float = 30.0  # seconds in which a request is answered
    keep_alive_s: float = 5.0  # seconds after which an idle connection is closed
    shutdown_s: float = 20.0  # seconds in which running requests may finish

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise SettingsError(f"{name} is {value}: give more than 0")
