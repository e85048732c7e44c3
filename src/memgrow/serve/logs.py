"""The log of a service: JSON lines on standard error."""

import errno
import json
import logging
import re
import traceback
from datetime import UTC, datetime
from typing import Any

from memgrow.errors import MemgrowError
from memgrow.nn.device import is_out_of_memory

LOGGER = logging.getLogger("memgrow.serve")
ABSOLUTE = re.compile(r"(?<![\w.:/])/[^\n'\"(),;:]*/")  # the folders of an absolute path
# Messages may name options of the command line, which a client does not have: what stands instead.
OPTIONS = (
    (re.compile(r"name (?:it|one) with --(\w+)"), r"choose the column of the \1"),
    (re.compile(r"give --encoding \([^)]*\)"), "save it as UTF-8"),
    (re.compile(r" *\([^()]*--[a-z][^()]*\)"), ""),
    (re.compile(r"[;:,] [^;:,]*--[a-z][^;:]*"), ""),
)
LOGGER.setLevel(logging.INFO)
LOGGER.propagate = False


class JsonFormatter(logging.Formatter):
    """One JSON object per line. An error is logged by type and place, as its message may repeat a text."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"time": time, "event": record.getMessage(), **getattr(record, "fields", {})}
        if record.exc_info and (error := record.exc_info[1]):
            frames = traceback.extract_tb(error.__traceback__)
            line["error"] = type(error).__name__
            line["place"] = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None
        return json.dumps(line)


def write_to_stderr() -> None:
    """Write the log, and uvicorn's warnings, to standard error."""
    logging.raiseExceptions = False  # a log that cannot be written stops nothing
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    for logger in (LOGGER, logging.getLogger("uvicorn")):
        logger.addHandler(handler)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def log(event: str, error: BaseException | None = None, **fields: Any) -> None:
    LOGGER.log(logging.ERROR if error else logging.INFO, event, exc_info=error, extra={"fields": fields})


def is_disk_full(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def without_folders(text: str) -> str:
    """The text with the name alone of each file or folder that it gives the absolute path of."""
    return ABSOLUTE.sub("", text)


def without_options(text: str) -> str:
    for pattern, replacement in OPTIONS:
        text = pattern.sub(replacement, text)
    return text


def error_message(error: BaseException) -> str:
    """What a client may read about an error; of an unexpected one only its type, as its text may repeat data."""
    if isinstance(error, MemgrowError):
        return without_options(without_folders(str(error)))
    if is_out_of_memory(error):
        return "not enough memory: send less, or run the service on a larger machine"
    if is_disk_full(error):
        return "the disk of the service is full: free some space and try again"
    if isinstance(error, OSError):
        return f"the operating system refused this ({error.strerror or type(error).__name__}): try again later"
    return f"unexpected error ({type(error).__name__}): see the log of the service"
