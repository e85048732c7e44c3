"""Files of a new domain that strangers send: stored under a name of ours, read within bounds, checked before training.

The name of an upload is only a label, for the domain and for sentences; no path is ever made of it.
"""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from memgrow.data import Domain, load_stream
from memgrow.errors import DataError, MemgrowError, ModelError, SettingsError, quoted
from memgrow.learner import Learner
from memgrow.service.limits import RefusedError
from memgrow.storage import flush
from memgrow.training.checks import check_stage, domains_of_stage

STORED = "data"  # the name of the file, whatever its sender calls it
SUFFIXES = (".jsonl", ".csv", ".tsv")  # formats without compression, so that no file becomes larger than it is
NAME = re.compile(r"\w[\w .+-]{0,63}")


def suffix_of(file_name: str | None) -> str:
    """The format of a file, by its sender's name for it."""
    found = next((suffix for suffix in SUFFIXES if (file_name or "").lower().endswith(suffix)), None)
    if found is None:
        raise DataError(f"the file is called {quoted(file_name or '')}: its name must end in {', '.join(SUFFIXES)}")
    return found


def domain_name(name: str | None, file_name: str | None) -> str:
    """What the domain is to be called: the name that is given or, without one, that of the file."""
    found = (name if name is not None else (file_name or "")[: -len(suffix_of(file_name))]).strip()
    if not NAME.fullmatch(found):
        raise DataError(
            f"{quoted(found)} cannot be the name of a domain: give up to 64 letters, digits, spaces or any of _ . + -, "
            "the first a letter or a digit"
        )
    return found


def store(content: BinaryIO, place: Path, most: int) -> None:
    """Write an upload to the disk, if it is no larger than it may be."""
    content.seek(0, 2)
    if content.tell() > most:
        raise RefusedError(413, f"the file is larger than {most:,} bytes: send less, or use memgrow adapt")
    content.seek(0)
    with place.open("xb") as file:
        shutil.copyfileobj(content, file)
        flush(file)


def load_upload(place: Path, domain: str) -> Domain:
    """The domain that is in a file which `store` wrote."""
    try:
        (found,) = load_stream([place]).stream
    except MemgrowError as error:
        raise DataError(str(error).replace(str(place), domain).replace(place.name, domain)) from None
    return replace(found, name=domain)


def check_upload(place: Path, domain: str, learner: Learner) -> None:
    """Refuse a file from which this learner cannot learn, or has learnt already; an error says why."""
    found = load_upload(place, domain)
    try:
        domains = domains_of_stage(learner.method, learner.history.domains, found, ())
        stage = check_stage(domains, learner.task, learner.labels)
    except MemgrowError as error:
        kind = DataError if isinstance(error, DataError) else SettingsError
        raise kind(str(error).replace(place.name, domain)) from None
    if learner.history.find(stage.fingerprint):
        raise ModelError(f"the model has learnt {domain} from this very data already")
