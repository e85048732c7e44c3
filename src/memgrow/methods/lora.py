"""LoRA: what a later domain teaches is added to the encoder's weights as a product of two thin matrices.

A domain has an addition for each of some layers while it is learnt; then they are merged into the weights. So the model
keeps its shape, and one set of weights holds what all domains have added.
"""

import math
from collections.abc import Iterator
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memgrow.data.batches import Encoded
from memgrow.methods.plugin import MethodSettings, Plugin
from memgrow.models import Model, ModelSettings, PretrainedEncoder

SCALE = 2.0  # of what is added: LoRA's alpha is twice the rank, whatever the rank is
ADDITIONS = "additions"  # the name that they have in a model while it trains
# The layers that get an addition, by their names within a layer of the Transformer: query, value and both layers of the
# perceptron, as the families of encoders call them. Of a family whose attention is not among them all linear ones do.
ADAPTED = frozenset(
    (
        *("attention.self.query", "attention.self.value", "intermediate.dense", "output.dense"),  # BERT, RoBERTa
        *("attention.q_lin", "attention.v_lin", "ffn.lin1", "ffn.lin2"),  # DistilBERT
        *("attn.Wqkv", "mlp.Wi", "mlp.Wo"),  # ModernBERT, where query, key and value are one
        *("attention.attn.q", "attention.attn.v"),  # MPNet; the rest as BERT
        *("attention.self.query_proj", "attention.self.value_proj"),  # DeBERTa, likewise
    )
)


class LowRank(nn.Module):
    """SCALE * up (down x), of which `up` starts at zero: it adds nothing until it has been trained."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        drawn = torch.empty(rank, layer.in_features).uniform_(-1, 1) / math.sqrt(layer.in_features)
        self.down = nn.Parameter(drawn.to(layer.weight))
        self.up = nn.Parameter(layer.weight.new_zeros(layer.out_features, rank))

    def forward(self, states: Tensor) -> Tensor:
        # An encoder whose weights have been cast to bfloat16 hands on states of that kind, and nobody casts these here.
        return F.linear(SCALE * F.linear(states, self.down.to(states)), self.up.to(states))

    def product(self) -> Tensor:
        """What it adds to the layer's weight (out, in)."""
        return SCALE * self.up @ self.down


def adapted_layers(model: Model) -> Iterator[nn.Linear]:
    """The linear layers of the encoder that get an addition."""
    for layer in cast(PretrainedEncoder, model.encoder).layers:
        linear = {name: module for name, module in layer.named_modules() if isinstance(module, nn.Linear)}
        known = {name: module for name, module in linear.items() if name in ADAPTED}
        yield from (known if any(name.startswith("att") for name in known) else linear).values()


class LowRankAdditions(Plugin):
    """Puts an addition beside each of the layers when a later domain arrives, and merges them when it is learnt."""

    reads = ("rank",)

    def __init__(self, settings: MethodSettings) -> None:
        super().__init__(settings)
        self._hooks: list[Any] = []

    def before_training(self, model: Model) -> None:
        pairs = [(layer, LowRank(layer, self.settings.rank)) for layer in adapted_layers(model)]
        model.add_module(ADDITIONS, nn.ModuleList(addition for _, addition in pairs))
        self._hooks = [layer.register_forward_hook(AdditionHook(addition)) for layer, addition in pairs]

    @torch.no_grad()
    def after_training(self, old: Model, new: Model) -> None:
        additions = cast(nn.ModuleList, getattr(new, ADDITIONS))
        for layer, addition in zip(adapted_layers(new), additions, strict=True):
            layer.weight += cast(LowRank, addition).product()
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        delattr(new, ADDITIONS)

    def after_domain(self, model: Model, data: Encoded, device: torch.device) -> dict[str, Any]:
        return {"rank": self.settings.rank}


class AdditionHook:
    """Adds what an addition gives to the output of a layer; an object, so that models can be sent elsewhere with it."""

    def __init__(self, addition: LowRank) -> None:
        self.addition = addition

    def __call__(self, layer: nn.Module, given: tuple[Tensor], output: Tensor) -> Tensor:
        return output + cast(Tensor, self.addition(given[0]))


def needs_linear_layers(settings: ModelSettings) -> str | None:
    """Why a model of these settings has no layers that an addition can stand beside, if so."""
    if settings.kind.is_pretrained:
        return None
    return (
        f"LoRA adds to the weights of a pretrained Transformer, and {settings.cell} is none: "
        "give a pretrained encoder (--encoder), or use another method"
    )
