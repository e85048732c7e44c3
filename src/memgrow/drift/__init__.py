"""Whether texts are still like those that a model has learnt: a summary of each domain, tests, a running window."""

from memgrow.drift.monitor import ALPHA, WINDOW, DriftMonitor, DriftReport, in_words, together
from memgrow.drift.reference import DomainReference, Reference, Shares, summarise
from memgrow.drift.two_sample import Verdict

__all__ = [
    "ALPHA",
    "WINDOW",
    "DomainReference",
    "DriftMonitor",
    "DriftReport",
    "Reference",
    "Shares",
    "Verdict",
    "in_words",
    "summarise",
    "together",
]
