"""LoRA: a later domain trains low-rank additions to the encoder's weights, which are then merged into them.

The model keeps its shape: one set of weights holds what all domains have added. With the option `independent`, which a
domain memory needs, the first domain trains additions, too: each then starts from the original encoder.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memgrow.data.batches import Encoded
from memgrow.methods.base import WHOLE, FinishedDomain, Method, Trainable, new_parameters, option
from memgrow.methods.memory import IndependentOptions
from memgrow.models import Model, PretrainedEncoder

SCALE = 2.0  # alpha / rank
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


class LowRank(nn.Module):
    """SCALE * up (down x). `up` starts at zero, so that nothing is added before training."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        drawn = torch.empty(rank, layer.in_features).uniform_(-1, 1) / math.sqrt(layer.in_features)
        self.down = nn.Parameter(drawn.to(layer.weight))
        self.up = nn.Parameter(layer.weight.new_zeros(layer.out_features, rank))

    def forward(self, states: Tensor) -> Tensor:
        # Autocast may hand on other dtypes.
        return F.linear(SCALE * F.linear(states, self.down.to(states)), self.up.to(states))

    def factors(self) -> tuple[Tensor, Tensor]:
        """The factors, up @ down, of the matrix that is added to the layer's weight (out, in)."""
        return SCALE * self.up, self.down


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
        if old is None and not self.options.independent:
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
        if hasattr(domain.model, ADDITIONS):
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


class AdditionHook:
    """A forward hook that adds the output of a low-rank module. Unlike a closure it can be copied."""

    def __init__(self, addition: LowRank) -> None:
        self.addition = addition

    def __call__(self, layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> Tensor:
        return output + cast(Tensor, self.addition(inputs[0]))
