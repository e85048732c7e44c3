"""Layers that can grow: a memory bank, torch's recurrent layers with one, a Transformer's residual stream with one."""

from memgrow.nn.bank import Growth, MemoryBank, Segment, count_parameters, matching_hidden
from memgrow.nn.recurrent import LAYERS, MemoryGRU, MemoryLSTM, MemoryRecurrent, MemoryRNN
from memgrow.nn.residual_memory import ResidualMemory

__all__ = [
    "LAYERS",
    "Growth",
    "MemoryBank",
    "MemoryGRU",
    "MemoryLSTM",
    "MemoryRNN",
    "MemoryRecurrent",
    "ResidualMemory",
    "Segment",
    "count_parameters",
    "matching_hidden",
]
