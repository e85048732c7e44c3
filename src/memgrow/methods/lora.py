"""LoRA: a later domain trains low-rank additions to the encoder's weights, which are then merged into them.

The model keeps its shape: one set of weights holds what all domains have added. With the option `independent`, which a
domain memory needs, the first domain trains additions, too: each then starts from the original encoder.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
from torch import nn

from memgrow.data.batches import Encoded
from memgrow.methods.base import WHOLE, FinishedDomain, Method, Trainable, new_parameters, option
from memgrow.methods.memory import IndependentOptions
from memgrow.models import CausalModel, Model, PretrainedEncoder
from memgrow.nn.lora import AdditionHook, LowRank

ADDITIONS = "additions"  # name of the submodule while a domain trains
# Layers that are adapted, by their names within a Transformer layer: query, value and both layers of the perceptron.
# In a family whose attention is not listed, all linear layers are adapted.
ADAPTED = frozenset(
    (
        *("attention.self.query", "attention.self.value", "intermediate.dense", "output.dense"),  # BERT, RoBERTa
        *("attention.q_lin", "attention.v_lin", "ffn.lin1", "ffn.lin2"),  # DistilBERT
        *("attn.Wqkv", "mlp.Wi", "mlp.Wo"),  # ModernBERT: query, key and value are one matrix
        *("attention.attn.q", "attention.attn.v"),  # MPNet; the rest as BERT
        *("attention.self.query_proj", "attention.self.value_proj"),  # DeBERTa, likewise
    )
)


@dataclass(frozen=True)
class LoRAOptions(IndependentOptions):
    rank: int = option(8, least=1)  # of the additions to the encoder's weights


def adapted_layers(model: Model) -> Iterator[nn.Linear]:
    """The linear layers of the encoder that are adapted."""
    for layer in cast(PretrainedEncoder, model.encoder).layers:
        linear = {name: module for name, module in layer.named_modules() if isinstance(module, nn.Linear)}
        known = {name: module for name, module in linear.items() if name in ADAPTED}
        yield from (known if any(name.startswith("att") for name in known) else linear).values()


class LoRA(Method):
    """Adds low-rank matrices when a later domain arrives, and merges them when it has been learned."""

    about = "low-rank additions to the encoder's weights, and the head, train; then they are merged (Hu et al. 2022)"
    Options: ClassVar[type] = LoRAOptions
    options: LoRAOptions
    needs_encoder = True

    def __init__(self, options: LoRAOptions) -> None:
        super().__init__(options)
        self._hooks: list[Any] = []

    def start_domain(self, old: Model | None, model: Model, data: Encoded) -> Trainable | None:
        if isinstance(model, CausalModel) or (old is None and not self.options.independent):
            return None
        pairs = [(layer, LowRank(layer, self.options.rank)) for layer in adapted_layers(model)]
        model.add_module(ADDITIONS, nn.ModuleList(addition for _, addition in pairs))
        self._hooks = [layer.register_forward_hook(AdditionHook(addition)) for layer, addition in pairs]
        if old is not None:
            return new_parameters(old, model)
        new = {f"{ADDITIONS}.{name}" for name, _ in getattr(model, ADDITIONS).named_parameters()}
        heads = {name for name, _ in model.named_parameters() if name.startswith("heads.")}
        return Trainable(dict.fromkeys(sorted(new | heads), WHOLE))

    @torch.no_grad()
    def finish_domain(self, domain: FinishedDomain) -> dict[str, Any]:
        if hasattr(domain.model, ADDITIONS) and not isinstance(domain.model, CausalModel):  # which keeps its own
            names = {id(parameter): name for name, parameter in domain.model.named_parameters()}
            additions = cast(nn.ModuleList, getattr(domain.model, ADDITIONS))
            for layer, addition in zip(adapted_layers(domain.model), additions, strict=True):
                up, down = cast(LowRank, addition).factors()
                layer.weight += up @ down
                domain.added[names[id(layer.weight)]] = up, down
            for hook in self._hooks:
                hook.remove()
            self._hooks = []
            delattr(domain.model, ADDITIONS)
        return {"rank": self.options.rank}
