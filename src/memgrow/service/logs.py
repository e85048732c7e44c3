"""The log of a service: a JSON object a line, one for each request, without the texts unless they are asked for."""

import json
import logging
import sys
import time
from collections.abc import Mapping, MutableMapping
from functools import lru_cache
from typing import Any, TextIO


class Log:
    """Writes what happens as JSON lines."""

    def __init__(self, texts: bool = False, stream: TextIO | None = None) -> None:
        """`texts`: the inputs of each request are logged as well."""
        self._texts, self._stream = texts, stream

    def request(self, scope: MutableMapping[str, Any], status: int, seconds: float, state: Mapping[str, Any]) -> None:
        """One request: what was asked for, never with what words."""
        client = scope.get("client")
        told = {"version": state.get("version"), "inputs": state.get("inputs")}
        if self._texts:
            told["texts"] = state.get("texts")
        self.write(
            "request",
            method=scope["method"],
            path=scope["path"][:200],
            status=status,
            ms=round(seconds * 1e3, 2),
            client=client[0] if client else None,
            **{name: value for name, value in told.items() if value is not None},
        )

    def write(self, event: str, **values: Any) -> None:
        """One line; a log that can no longer be written to stops nothing."""
        line = json.dumps({"time": _now(), "event": event, **values})
        try:
            (self._stream or sys.stderr).write(line + "\n")
        except (OSError, ValueError, AttributeError):  # the last where standard error was closed at the start
            return

    def error(self, event: str, error: BaseException, **values: Any) -> None:
        """One line on an error: of what kind it was, and where. What it says may repeat a text."""
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        place = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where else None
        self.write(event, **values, error=type(error).__name__, place=place)


class LogHandler(logging.Handler):
    """Lets the web server's own sentences stand in the same log."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        level = record.levelname.lower()
        if record.exc_info and (error := record.exc_info[1]) is not None:
            self._log.error("server", error, level=level, sentence="an error within the server")
        else:
            self._log.write("server", level=level, sentence=record.getMessage())


def _now() -> str:
    now = time.time()
    return f"{_second(int(now))}.{int(now % 1 * 1000):03d}Z"


@lru_cache(maxsize=1)
def _second(now: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
