"""The bounds of a service: how much one request, and all that wait together, may ask for."""

from dataclasses import dataclass

from memgrow.errors import SettingsError

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """How much a service takes on; what is beyond is refused with a sentence."""

    body: int = MIB  # bytes of a request
    upload: int = 64 * MIB  # bytes of a file to learn from
    inputs: int = 256  # of one request
    characters: int = 20_000  # of one text
    waiting: int = 1024  # requests that are not being computed yet
    together: int = 64  # requests that are computed as one batch; 1: each has a forward pass of its own
    texts: int = 512  # of one batch, unless a single request has more
    jobs: int = 8  # trainings that wait or are under way
    ended: int = 100  # trainings that have ended and are still told of
    uploads: int = 2  # that arrive at the same time
    connections: int = 512
    head_s: float = 10.0  # seconds, or up to twice as many, in which the head of a request must have arrived
    body_s: float = 60.0  # seconds in which a request must have arrived
    answer_s: float = 30.0  # seconds in which it is answered
    training_s: float = 24 * 3600.0  # seconds after which a training is stopped
    shutdown_s: float = 20.0  # seconds in which requests that are under way are finished

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise SettingsError(f"{name} is {value}, which would let nothing through: give more than 0")


class RefusedError(Exception):
    """A request that is not taken on; the message says why, and the status is that of HTTP."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
