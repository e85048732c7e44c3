"""The log of a service: one JSON object per line, without texts unless they are asked for."""

import errno
import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from memgrow.errors import MemgrowError
from memgrow.nn.device import is_out_of_memory


class Log:
    """Writes events as JSON lines to standard error."""

    def __init__(self, texts: bool = False, stream: TextIO | None = None) -> None:
        """`texts`: log the inputs of each request as well."""
        self.texts, self._stream = texts, stream

    def write(self, event: str, **values: Any) -> None:
        """Write one line. A log that cannot be written to stops nothing."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        try:
            (self._stream or sys.stderr).write(json.dumps({"time": time, "event": event, **values}) + "\n")
        except (OSError, ValueError, AttributeError):  # AttributeError: started without standard error
            return

    def error(self, event: str, error: BaseException, **values: Any) -> None:
        """Write the type of an error and where it was raised; its message may repeat a text."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else None
        self.write(event, **values, error=type(error).__name__, place=place)


class LogHandler(logging.Handler):
    """Sends uvicorn's warnings and errors to the same log."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        level = record.levelname.lower()
        if record.exc_info and (error := record.exc_info[1]) is not None:
            self._log.error("server", error, level=level, sentence="error while handling a request")
        else:
            self._log.write("server", level=level, sentence=record.getMessage())


def is_disk_full(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def error_message(error: BaseException) -> str:
    """What a client may read about an error. The text of an unexpected error may repeat data, so only its type."""
    if isinstance(error, MemgrowError):
        return str(error)
    if is_out_of_memory(error):
        return "not enough memory: send less, or run the service on a larger machine"
    if is_disk_full(error):
        return "the disk of the service is full: free some space and try again"
    if isinstance(error, OSError):
        return f"the operating system refused this ({error.strerror or type(error).__name__}): try again later"
    return f"unexpected error ({type(error).__name__}): see the log of the service, or try `memgrow adapt`"
