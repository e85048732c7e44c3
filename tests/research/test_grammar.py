"""The encoder that comes as an int8 ONNX file: every weight comes back as it was quantized."""

import numpy as np
import pytest
import torch

from memgrow.errors import ModelError
from research.encoders.grammar import TAGGER, distilbert_from_onnx, read_distilbert


def quantised(array):
    """Numbers of eight bits, their scale and their zero."""
    low, high = min(array.min(), 0), max(array.max(), 0)
    scale = np.float32((high - low) / 255)
    zero = np.int8(np.round(-128 - low / scale))
    return np.clip(np.round(array / scale) + zero, -128, 127).astype(np.int8), scale, zero


def back(array):
    numbers, scale, zero = quantised(array)
    return (numbers.astype(np.float32) - np.float32(zero)) * scale


def export(model, path):
    """Write the graph as onnxruntime's quantiser does: weights of products without their names, and turned round."""
    from onnx import TensorProto, helper, numpy_helper, save

    stored, nodes = [], []

    def store(name, array):
        stored.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def dequantised(name, array):
        values = zip(("quantized", "scale", "zero_point"), quantised(array), strict=True)
        parts = [store(f"{name}_{part}", value) for part, value in values]
        nodes.append(helper.make_node("DequantizeLinear", parts, [f"{name}_DequantizeLinear_Output"]))
        return f"{name}_DequantizeLinear_Output"

    for number, (name, parameter) in enumerate(model.named_parameters()):
        array, layer = (
            parameter.detach().numpy(),
            name.removesuffix(".weight").replace(".", "/").replace("layer/", "layer."),
        )
        if array.ndim == 1:
            store(f"distilbert.{name}", array)
        elif "embeddings" in name:
            inputs = [dequantised(f"distilbert.{name}", array), "input_ids"]
            nodes.append(helper.make_node("Gather", inputs, [f"{name}_out"], name=f"/distilbert/{layer}/Gather"))
        else:
            inputs = [f"before_{number}", dequantised(f"onnx::MatMul_{number}", array.T)]
            nodes.append(helper.make_node("MatMul", inputs, [f"{name}_out"], name=f"/distilbert/{layer}/MatMul"))
    # What is there besides: a product of two activations, a quantised activation, the tagger
    nodes.append(
        helper.make_node("MatMul", ["q", "k"], ["scores"], name="/distilbert/transformer/layer.0/attention/MatMul")
    )
    nodes.append(helper.make_node("DequantizeLinear", ["act", "act_scale", "act_zero"], ["act_back"]))
    head = dequantised("onnx::MatMul_999", np.ones((64, 5), dtype=np.float32))
    nodes.append(helper.make_node("MatMul", ["last", head], ["logits"], name="/classifier/MatMul"))
    store("classifier.bias", np.zeros(5, dtype=np.float32))
    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "seq"])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "seq", 5])
    save(helper.make_model(helper.make_graph(nodes, "tagger", [ids], [logits], stored)), str(path))


@pytest.fixture
def model():
    from transformers import DistilBertConfig, DistilBertModel

    torch.manual_seed(0)
    config = DistilBertConfig(vocab_size=50, dim=64, n_heads=1, n_layers=2, hidden_dim=96, max_position_embeddings=32)
    return DistilBertModel(config).eval()


def test_every_weight_comes_back_as_it_was_quantised(model, tmp_path):
    pytest.importorskip("onnx")
    from transformers import AutoModel

    export(model, tmp_path / TAGGER)
    distilbert_from_onnx(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "model.safetensors"]
    again, report = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    for name, parameter in model.named_parameters():
        array = parameter.detach().numpy()
        expected = array if array.ndim == 1 else back(array)
        np.testing.assert_array_equal(again.get_parameter(name).detach().numpy(), expected, err_msg=name)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.from_numpy(back(parameter.numpy())))
        ids = torch.arange(12).view(2, 6)
        assert torch.equal(again.eval()(ids).last_hidden_state, model(ids).last_hidden_state)


def test_a_file_that_is_no_onnx_is_told(tmp_path):
    pytest.importorskip("onnx")
    (tmp_path / TAGGER).write_bytes(b"\xff" * 100)
    with pytest.raises(ModelError, match=r"tagger\.onnx cannot be read as ONNX"):
        read_distilbert(tmp_path / TAGGER)
