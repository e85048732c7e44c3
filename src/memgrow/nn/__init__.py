"""Layers that can grow: a memory bank, and torch's recurrent layers with one."""

from memgrow.nn.bank import MemoryBank, Segment
from memgrow.nn.growth import Growth, count_parameters, matching_hidden
from memgrow.nn.recurrent import LAYERS, MemoryGRU, MemoryLSTM, MemoryRecurrent, MemoryRNN

__all__ = [
    "LAYERS",
    "Growth",
    "MemoryBank",
    "MemoryGRU",
    "MemoryLSTM",
    "MemoryRNN",
    "MemoryRecurrent",
    "Segment",
    "count_parameters",
    "matching_hidden",
]
