"""The Transformer itself, as the library transformers builds or loads it from an encoder's files."""

import copy
import inspect
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any, cast

import torch
from torch import Tensor, nn

from memgrow.errors import MemgrowError, ModelError
from memgrow.models.encoder import ModelSettings
from memgrow.models.pretrained.files import EncoderFiles, encoders_extra
from memgrow.nn.dropout import take_cheaper_dropout

LONGEST_REASON = 160  # characters of what transformers says
# The names that families of encoders have for the probability of dropout; those of heads that are not used are no harm.
DROPOUTS = (
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "dropout",
    "attention_dropout",
    "embedding_dropout",
    "mlp_dropout",
)
# Kin of RoBERTa, whose positions begin after the number of the padding.
AFTER_PADDING = ("camembert", "data2vec-text", "esm", "ibert", "longformer", "luke", "mpnet", "xmod")


@lru_cache(maxsize=4)
def config_of(text: str) -> Any:
    """The configuration that transformers reads from config.json."""
    with encoders_extra():
        from transformers import AutoConfig
    values = json.loads(text)
    with _sentences("the encoder"):
        return AutoConfig.for_model(values.pop("model_type"), **values)


def longest_of(config: Any) -> int:
    """The number of pieces that an encoder reads at most."""
    positions = int(getattr(config, "max_position_embeddings", 512))
    kind = config.model_type
    return positions - (config.pad_token_id + 1 if "roberta" in kind or kind in AFTER_PADDING else 0)


def _options(files: EncoderFiles, settings: ModelSettings) -> dict[str, Any]:
    """What the encoder is built with: its configuration with our dropout, and no layer that only its own heads use."""
    from transformers import AutoModel

    config = copy.deepcopy(config_of(files.config))
    for name in DROPOUTS:
        if hasattr(config, name):
            setattr(config, name, settings.dropout)
    try:
        kind: Any = AutoModel._model_mapping[type(config)]
    except KeyError as error:
        raise ModelError(f"{files.name} ({config.model_type}) is no encoder that transformers can build") from error
    pooling = "add_pooling_layer" in inspect.signature(kind).parameters
    return {"config": config, **({"add_pooling_layer": False} if pooling else {})}


def build_backbone(files: EncoderFiles, settings: ModelSettings) -> nn.Module:
    """The encoder with weights that are still to be filled in."""
    with encoders_extra():
        from transformers import AutoModel
    with torch.random.fork_rng(devices=[]), quiet_transformers(), _sentences(files.name):
        model: nn.Module = cast(Any, AutoModel).from_config(**_options(files, settings), dtype=torch.float32)
    take_cheaper_dropout(model)
    return model


def load_backbone(files: EncoderFiles, settings: ModelSettings) -> nn.Module:
    """The encoder with the weights of its files."""
    with encoders_extra():
        from transformers import AutoModel
    assert files.weights is not None
    with torch.random.fork_rng(devices=[]), quiet_transformers(), _sentences(files.name):
        backbone, told = AutoModel.from_pretrained(
            files.weights.parent,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # told of below
            dtype=torch.float32,
            **_options(files, settings),
        )
    mismatched = (key if isinstance(key, str) else key[0] for key in told["mismatched_keys"])
    wrong = sorted({*told["missing_keys"], *mismatched})
    if wrong:
        raise ModelError(
            f"the weights of {files.name} do not fit its config.json: {len(wrong)} tensors are missing or of another "
            f"size, such as {wrong[0]}; fetch the encoder again"
        )
    take_cheaper_dropout(backbone)
    return cast(nn.Module, backbone)


@contextmanager
def _sentences(name: str) -> Iterator[None]:
    """Within, a configuration that transformers makes no model of is told of in a sentence."""
    try:
        yield
    except MemgrowError:
        raise
    except Exception as error:  # checks of any family, which are of no common kind
        reason = next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), "")
        if len(reason) > LONGEST_REASON:
            reason = f"{reason[:LONGEST_REASON]}..."
        raise ModelError(
            f"transformers makes no model of the config.json of {name} ({type(error).__name__}: {reason}); copy or "
            "fetch the encoder again"
        ) from error


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Within, transformers shows no bar and no report: what matters of it is a sentence of ours."""
    from transformers.utils import logging as told

    logging: Any = told
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def layers_of(backbone: nn.Module, name: str) -> nn.ModuleList:
    """The layers of the Transformer, one after another."""
    count = cast(Any, backbone).config.num_hidden_layers
    for module in backbone.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return module
    raise ModelError(
        f"the layers of {name} are not where memgrow looks for them, so that no memory can stand between them: "
        "encoders of the BERT, DistilBERT, RoBERTa and ModernBERT families work"
    )


_sharing = Lock()  # not of one `HalfCopy`, as a model is copied and a lock cannot be


class HalfCopy:
    """A copy of a module with its weights in bfloat16, which several threads share while they read texts by it.

    The module keeps its own weights: meanwhile others may save it, or copy it to train the copy.
    """

    def __init__(self) -> None:
        self._users = 0
        self._copy: nn.Module | None = None  # which has weights while there are users
        self._made_of: list[object] = []

    def __reduce__(self) -> tuple[type["HalfCopy"], tuple[()]]:
        return HalfCopy, ()  # nobody reads by a copied model yet

    @contextmanager
    def within(self, module: nn.Module) -> Iterator[nn.Module]:
        with _sharing:
            half = self._filled(module) if self._copy is None or not self._users else self._copy
            self._users += 1
        try:
            yield half.train(module.training) if half.training != module.training else half
        finally:
            with _sharing:
                self._users -= 1
                if not self._users:
                    for parameter in half.parameters():
                        parameter.data = torch.empty(0)

    def _filled(self, module: nn.Module) -> nn.Module:
        """The copy with the weights that the module has now; its structure is copied when that has changed."""
        # Hooks and buffers are shared: what a hook adds or gathers is not of the module.
        hooks = [hook for part in module.modules() for hook in _hooks(part)]
        made_of = [*hooks, *module.buffers(), *module.modules()]
        if self._copy is None or list(map(id, made_of)) != list(map(id, self._made_of)):
            empty = {id(p): nn.Parameter(torch.empty(0), requires_grad=False) for p in module.parameters()}
            shared = {id(one): one for one in (*hooks, *module.buffers())}
            self._copy, self._made_of = copy.deepcopy(module, {**empty, **shared}), made_of
        with torch.inference_mode(False), torch.no_grad():  # others may not be in that mode
            casts = [parameter.to(torch.bfloat16) for parameter in module.parameters()]
            for half, numbers in zip(self._copy.parameters(), casts, strict=True):  # the memory may end before
                half.data = numbers
        return self._copy


def _hooks(part: nn.Module) -> list[object]:
    return [*part._forward_pre_hooks.values(), *part._forward_hooks.values()]


class _InBfloat16(torch.autograd.Function):
    """All weights in bfloat16, and their gradients in the weights' own kind: a kernel or two for each.

    Autocast does that weight by weight, with a kernel each, and casts states from layer to layer.
    """

    @staticmethod
    def forward(ctx: Any, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.kinds = [weight.dtype for weight in weights]
        copies = _copied(weights, [torch.bfloat16] * len(weights))
        frozen = [one for one, trains in zip(copies, ctx.needs_input_grad, strict=True) if not trains]
        ctx.mark_non_differentiable(*frozen)
        return tuple(copies)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        known = [(gradient, kind) for gradient, kind in zip(gradients, ctx.kinds, strict=True) if gradient is not None]
        own = iter(_copied([gradient for gradient, _ in known], [kind for _, kind in known]))
        return tuple(None if gradient is None else next(own) for gradient in gradients)


def _copied(tensors: Sequence[Tensor], kinds: Sequence[torch.dtype]) -> list[Tensor]:
    copies = [torch.empty_like(tensor, dtype=kind) for tensor, kind in zip(tensors, kinds, strict=True)]
    if copies:
        torch._foreach_copy_(copies, list(tensors))
    return copies


class FrozenCopies:
    """Copies in bfloat16 of parameters that do not train, made once and not in each step; a copied model has none.

    A write by `parameter.data.mul_(2)` and the like is not noticed, as torch counts none of `.data`: write within
    `torch.no_grad()`, or go from `eval()` to `train()`, and the encoder makes copies anew. Answers need no copies.
    """

    def __init__(self) -> None:
        self._known: dict[nn.Parameter, tuple[Tensor, int, Tensor]] = {}  # its numbers, their version, the copy

    def __reduce__(self) -> tuple[type["FrozenCopies"], tuple[()]]:
        return FrozenCopies, ()  # also of a copy that is sent to another process

    def of(self, parameter: nn.Parameter) -> Tensor:
        """The copy; made anew when somebody has written to the parameter, or given it other numbers."""
        known = self._known.get(parameter)
        if known is None or known[0].data_ptr() != parameter.data_ptr() or known[1] != parameter._version:
            own = parameter.detach()  # held, so that no other numbers come to lie in their place
            known = self._known[parameter] = own, parameter._version, own.to(torch.bfloat16)
        return known[2]

    def clear(self) -> None:
        self._known = {}


@contextmanager
def trained_in_bfloat16(
    module: nn.Module, table: nn.Embedding | None = None, frozen: FrozenCopies | None = None
) -> Iterator[nn.Module]:
    """Within, copies in bfloat16 stand in the place of a module's parameters, and hand gradients on to them.

    With `frozen`, those that do not train are taken from there. A `table` that trains is not copied: the rows that are
    read of it are cast, which are few, and their gradients are summed in float32. On a CPU both pay.
    For one thread at a time, as the module itself is changed.
    """
    places = [
        (owner, name, parameter)
        for owner in module.modules()
        for name, parameter in owner._parameters.items()
        if parameter is not None
    ]
    own = list(dict.fromkeys(parameter for _, _, parameter in places))  # one may stand in several places
    apart = table
    if table is not None and not (table.weight.requires_grad and sum(p is table.weight for *_, p in places) == 1):
        apart = None
    kept: dict[Tensor, Tensor] = {} if apart is None else {apart.weight: apart.weight}
    if frozen is not None:
        kept |= {parameter: frozen.of(parameter) for parameter in own if not parameter.requires_grad}
    cast_ones = [parameter for parameter in own if parameter not in kept]
    copies = kept | dict(zip(cast_ones, _in_bfloat16(cast_ones), strict=True))
    hook = None if apart is None else apart.register_forward_hook(lambda _, __, rows: rows.to(torch.bfloat16))
    try:
        for owner, name, parameter in places:
            owner._parameters[name] = cast(nn.Parameter, copies[parameter])
        yield module
    finally:
        for owner, name, parameter in places:
            owner._parameters[name] = parameter
        if hook is not None:
            hook.remove()


def _in_bfloat16(weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
    if not weights:
        return ()
    return cast(tuple[Tensor, ...], _InBfloat16.apply(*weights))  # type: ignore[no-untyped-call]
