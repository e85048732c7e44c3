"""Ways out of memgrow: a model as a folder that other programs read, or that a hub takes."""

from memgrow.export.huggingface_folder import export_huggingface
from memgrow.export.onnx_folder import export_onnx

__all__ = ["export_huggingface", "export_onnx"]
