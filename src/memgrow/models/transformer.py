"""A pretrained Transformer as an encoder, with memories in its residual stream."""

import copy
import inspect
import json
import math
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from typing import Any, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from memgrow.data.batches import Encoded, by_length, collate, token_mask
from memgrow.data.disk import stored_shapes
from memgrow.errors import MemgrowError, ModelError, SettingsError, brief
from memgrow.models.base import CAUSAL, Encoder, PretrainedSettings
from memgrow.models.hub import WORKS, EncoderFiles, encoders_extra, unfit
from memgrow.models.tokenizer import tokenizer_of
from memgrow.nn import Growth, MemoryBank, ResidualMemory
from memgrow.nn.device import multiplies_bfloat16

TESTED = ("bert", "distilbert", "roberta", "modernbert")  # families that are tested against transformers
CHECKED_LENGTH = 600  # pieces, at most, with which other families are checked: more than most have positions
# Families in which every layer attends to all positions and takes a mask (R, 1, T, T) as it is.
FULL_ATTENTION = ("bert", "distilbert", "roberta", "xlm-roberta", "camembert", "electra")
# Kin of RoBERTa, whose positions begin after the number of the padding.
AFTER_PADDING = ("camembert", "data2vec-text", "esm", "ibert", "longformer", "luke", "mpnet", "xmod")
# The names that families of encoders have for the probability of dropout.
DROPOUTS = (
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "dropout", "attention_dropout"),
    *("embedding_dropout", "mlp_dropout"),
)
# On a GPU none of cuDNN's kernels, which are planned anew for each shape, and shapes are many.
ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
# Pieces in a batch without gradients: as many as keep a GPU busier than Python, and as few as stay in a CPU's caches.
TOKENS_AT_ONCE = {"cuda": 1 << 16, "cpu": 768}
HAS_ONEDNN = bool(torch._C._has_mkldnn) and platform.machine() in ("x86_64", "AMD64")
FIRST_TEXTS = 256  # of a domain, whose queries its slots start at


class PretrainedEncoder(Encoder):
    """A Transformer of the library transformers (`backbone`), pooling, and `memories` after some of its layers."""

    settings: PretrainedSettings

    def __init__(self, settings: PretrainedSettings, backbone: nn.Module, files: EncoderFiles) -> None:
        """Without slots, whatever `settings` say: `create` adds them."""
        super().__init__()
        self.settings, self.files, self.backbone = settings, files, backbone
        config: Any = backbone.config
        self.width, self.longest = int(config.hidden_size), max_length(config)
        self.dropout = nn.Dropout(settings.dropout)
        for module in backbone.modules():
            if type(module) is nn.Linear:
                module.__class__ = FastLinear
        self._add_memories()
        has_types = getattr(config, "type_vocab_size", 0) > 1
        self._separator = tokenizer_of(files).separator() if has_types else None  # before the second text of a pair
        padding = int(getattr(config, "pad_token_id", None) or 0)
        self.padding = padding if 0 < padding < self.vocabulary_size else 0  # what is masked may be any piece
        # Elsewhere the library looks in each batch whether a mask is needed at all, for which a GPU waits.
        self.masks_itself = config.model_type in FULL_ATTENTION and config._attn_implementation == "sdpa"

    def _add_memories(self) -> None:
        settings, layers = self.settings, self.layers
        positions = settings.memory_positions(len(layers))
        if positions[-1] >= len(layers):
            raise SettingsError(f"memory_layers {settings.memory_layers!r}: {self.files.name} has {len(layers)} layers")
        self.memory_layers = tuple(position + 1 for position in positions)  # counted from 1
        memories = [ResidualMemory(self.width, key_size=settings.key_size, best=settings.best) for _ in positions]
        self.memories = cast(list[ResidualMemory], nn.ModuleList(memories))
        self._hooks = [_MemoryHook(memory) for memory in self.memories]
        for position, hook in zip(positions, self._hooks, strict=True):
            layers[position].register_forward_hook(hook)

    @classmethod
    def create(cls, settings: PretrainedSettings, files: EncoderFiles, domain: str | None = None) -> Self:
        """A new encoder with the weights of its files."""
        if files.weights is None:  # a saved model's, which starts anew from the original encoder
            files = settings.resolve()[1] or files
        new = cls(settings, load_backbone(files, settings), files)
        new.check()
        if settings.slots:
            growth = Growth()
            new.plan(growth, slots=settings.slots, domain=domain)
            growth.commit()
        return new

    @classmethod
    def rebuild(cls, settings: PretrainedSettings, files: EncoderFiles, shape: Mapping[str, Any]) -> Self:
        """An encoder of a shape, its weights to be filled in."""
        new = cls(settings, build_backbone(files, settings), files)
        tokenizer_of(files).check(cast(Any, new.backbone).get_input_embeddings().num_embeddings)
        for memory in new.memories:
            memory.restore(shape["memory"], torch.empty)
        return new

    # Reading

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        full = lengths.device.type == "cpu" and bool((lengths == words.shape[1]).all())  # no waiting for a GPU
        return self.pooled(words, token_mask(words, lengths), full)

    def pooled(self, words: Tensor, mask: Tensor, full: bool = False) -> Tensor:
        """A vector for each row of pieces (R, T), of which those in the mask are read, or `full` all."""
        vectors: Tensor = self.dropout(self._pool(self.states(words, mask, full), mask))
        return vectors

    def states(self, words: Tensor, mask: Tensor, full: bool = False) -> Tensor:
        """The states of the last layer (R, T, width) at pieces (R, T)."""
        given: dict[str, Tensor] = {}
        if self._separator is not None:
            separators = words.eq(self._separator).long()
            given["token_type_ids"] = ((separators.cumsum(1) - separators) > 0).long() * mask
        pieces = words.masked_fill(~mask, self.padding)
        kernels = sdpa_kernel(ATTENTION) if words.is_cuda else nullcontext()
        half = torch.autocast(words.device.type, torch.bfloat16) if self._half else nullcontext()
        with half, kernels:
            attended = None if full else self._attention_mask(mask)
            return cast(Tensor, self.backbone(input_ids=pieces, attention_mask=attended, **given)[0])

    def _attention_mask(self, mask: Tensor) -> Tensor:
        if not self.masks_itself:
            return mask.long()
        # In numbers, as every layer would make them of truth values anew.
        rows, length = mask.shape
        dtype = torch.bfloat16 if self._half else next(self.backbone.parameters()).dtype
        numbers = torch.zeros(rows, 1, 1, length, dtype=dtype, device=mask.device)
        return numbers.masked_fill(~mask[:, None, None, :], -torch.inf).expand(rows, 1, length, length)

    def _pool(self, states: Tensor, mask: Tensor) -> Tensor:
        if self.settings.pooling == "first":
            return states[:, 0].float()
        inside = mask.unsqueeze(-1)
        return (states * inside).sum(1, dtype=torch.float32) / inside.sum(1)

    @property
    def _half(self) -> bool:
        """Whether matrix products are in bfloat16; parameters are kept as they are."""
        if self.settings.precision == "auto":
            return multiplies_bfloat16(next(self.backbone.parameters()).device.type)
        return self.settings.precision == "bfloat16"

    def convert_matrices(self) -> None:
        """Keep matrices as they are multiplied, for an encoder that is never trained or saved: the same output."""
        if self._half:
            for module in self.backbone.modules():
                if isinstance(module, nn.Linear):
                    module.to(torch.bfloat16)

    @property
    def tokens_at_once(self) -> int:
        return TOKENS_AT_ONCE.get(next(self.backbone.parameters()).device.type, TOKENS_AT_ONCE["cpu"])

    @torch.no_grad()
    def check(self) -> None:
        """Read a long text and a short one, and refuse an encoder whose states are not as expected."""
        was_training, kind = self.training, cast(Any, self.backbone).config.model_type
        self.eval()
        length = 2 if kind in TESTED else max(2, min(self.longest, CHECKED_LENGTH))
        device = next(self.parameters()).device
        mask = (torch.arange(length) < torch.tensor([[length], [2]])).to(device)
        words = torch.full(mask.shape, self.padding + 1, device=device).clamp(max=self.vocabulary_size - 1)
        reason = "padding changes its output"
        try:
            with self.memory_inputs() as inputs:
                both, alone = self.states(words, mask), self.states(words[1:, :2], mask[1:, :2])
            count = len(self.memories)
            shapes = [tuple(states.shape[:2]) for states in (both, *inputs[:count], alone, *inputs[count:])]
            if shapes != [(2, length)] * (1 + count) + [(1, 2)] * (1 + count) or both.shape[2] != self.width:
                reason = "its layers do not have one state for each piece"
            elif kind in TESTED or torch.allclose(both[1, :2].float(), alone[0].float(), atol=5e-2):
                return
        except Exception as error:  # of any family
            reason = brief(error)
        finally:
            self.train(was_training)
        raise ModelError(f"{self.files.name} ({kind}) cannot be used ({reason}): choose another encoder; {WORKS}")

    @property
    def sizes(self) -> list[int]:
        return [self.width]

    @property
    def vocabulary_size(self) -> int:
        return int(cast(Any, self.backbone).config.vocab_size)

    @property
    def layers(self) -> nn.ModuleList:
        """Those of the Transformer, one after another."""
        count = cast(Any, self.backbone).config.num_hidden_layers
        for module in self.backbone.modules():
            if isinstance(module, nn.ModuleList) and len(module) == count:
                return module
        raise ModelError(f"the layers of {self.files.name} cannot be found, to add a memory to them; {WORKS}")

    @property
    def word_table(self) -> nn.Parameter:
        """The vectors of all word pieces (pieces, width)."""
        return cast(nn.Parameter, cast(Any, self.backbone).get_input_embeddings().weight)

    # Memories

    @property
    def banks(self) -> Sequence[MemoryBank]:
        return [memory.bank for memory in self.memories]

    @torch.no_grad()
    def attention(self, words: Tensor, lengths: Tensor) -> list[Tensor]:
        mask, inputs = self._read_memories(words, lengths)
        pairs = zip(self.memories, inputs, strict=True)
        return [memory.weights(states) * mask.unsqueeze(-1) for memory, states in pairs]

    def _read_memories(self, words: Tensor, lengths: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The mask of pieces (R, T), and the states (R, T, width) that each memory reads."""
        mask = token_mask(words, lengths)
        with self.memory_inputs() as inputs:
            self.states(words, mask)
        return mask, [states.float() for states in inputs]

    @contextmanager
    def memory_inputs(self) -> Iterator[list[Tensor]]:
        """Within, the list gets the states (R, T, width) that the memories read, one after another."""
        inputs: list[Tensor] = []
        for hook in self._hooks:
            hook.inputs = inputs
        try:
            yield inputs
        finally:
            for hook in self._hooks:
                hook.inputs = None

    @torch.no_grad()
    def start_slots(self, domain: str, data: Encoded) -> None:
        """Let the keys of the domain's newest slots start at queries of its texts."""
        was_training = self.training
        self.eval()
        device = next(self.parameters()).device
        chosen = data.some(torch.randperm(len(data))[:FIRST_TEXTS].tolist())
        asked: list[list[Tensor]] = [[] for _ in self.memories]
        for indices in by_length(chosen, 32):
            batch = collate(chosen, indices, device)
            mask, inputs = self._read_memories(batch.words, batch.lengths)
            for queries, memory, states in zip(asked, self.memories, inputs, strict=True):
                queries.append(memory.queries(states[mask], domain))
        for queries, memory in zip(asked, self.memories, strict=True):
            memory.start_keys(domain, torch.cat(queries))
        self.train(was_training)

    def plan(self, growth: Growth, *, hidden: int = 0, words: Tensor | None = None, **memory: Any) -> None:
        if hidden or (words is not None and len(words)):
            raise SettingsError("a pretrained encoder grows by slots only: use another method, such as F")
        for one in self.memories:
            one.plan(growth, **memory)

    def shape(self) -> dict[str, Any]:
        return {"memory": self.memories[0].growths}  # all memories grow together

    def pretrained_parameters(self) -> Iterable[nn.Parameter]:
        return self.backbone.parameters()


class FastLinear(nn.Linear):
    """A linear layer that is faster in prediction on a CPU.

    bfloat16 weights are kept between batches, where autocast would convert them each time. In float32 the product is
    oneDNN's: MKL, which torch takes, is half as fast on AMD's processors.
    """

    _kept: tuple[tuple[int, ...], Tensor | None, Tensor | None] = (), None, None  # what they were made of

    def forward(self, x: Tensor) -> Tensor:
        usual = self.training or torch.is_grad_enabled() or torch.compiler.is_compiling() or self.weight.is_inference()
        if usual or x.device.type != "cpu":
            return super().forward(x)
        if not torch.is_autocast_enabled("cpu"):
            if not HAS_ONEDNN or not x.dtype == self.weight.dtype == torch.float32:
                return super().forward(x)
            return cast(Tensor, torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], ""))
        own = (self.weight,) if self.bias is None else (self.weight, self.bias)
        state = tuple(number for one in own for number in (one.data_ptr(), one._version))
        state_of_kept, weight, bias = self._kept
        if weight is None or state_of_kept != state:
            weight, bias = self.weight.bfloat16(), None if self.bias is None else self.bias.bfloat16()
            self._kept = state, weight, bias
        return F.linear(x, weight, bias)

    def train(self, mode: bool = True) -> Self:
        if mode:  # a fused optimizer changes weights without a new version
            self._kept = (), None, None
        return super().train(mode)


class _MemoryHook:
    """Adds what a memory reads to the output of a layer. An object, so that a copied model reads its own memory."""

    def __init__(self, memory: ResidualMemory) -> None:
        self.memory = memory
        self.inputs: list[Tensor] | None = None  # a list that gets the layer's output, while `memory_inputs` is used

    def __call__(self, layer: nn.Module, given: Any, output: Any) -> Any:
        states, rest = (output[0], output[1:]) if isinstance(output, tuple) else (output, None)
        if self.inputs is not None:
            self.inputs.append(states)
        if not len(self.memory.bank):
            return None
        states = self.memory(states)
        return states if rest is None else (states, *rest)


# The Transformer, as the library transformers builds or loads it


@lru_cache(maxsize=4)
def config_of(text: str) -> Any:
    values = json.loads(text)
    with quiet_transformers("the encoder") as library:
        return library.AutoConfig.for_model(values.pop("model_type"), **values)


def max_length(config: Any) -> int:
    """The number of pieces that an encoder reads at most."""
    positions = int(getattr(config, "max_position_embeddings", 512))
    kind = config.model_type
    return positions - (config.pad_token_id + 1 if "roberta" in kind or kind in AFTER_PADDING else 0)


def build_backbone(files: EncoderFiles, settings: PretrainedSettings) -> nn.Module:
    with quiet_transformers(files.name) as library:
        return cast(nn.Module, _auto_class(library, settings).from_config(**_options(files, settings)))


def load_backbone(files: EncoderFiles, settings: PretrainedSettings) -> nn.Module:
    assert files.weights is not None
    with quiet_transformers(files.name) as library:
        with torch.device("meta"):  # a configuration of a few bytes can ask for any amount of memory
            empty = _auto_class(library, settings).from_config(**_options(files, settings))
            needed = sum(one.numel() for one in empty.parameters())
        if needed > (stored := sum(map(math.prod, stored_shapes(files.weights).values()))):
            raise unfit(f"it needs {needed:,} weights, and there are {stored:,}")
        backbone, loaded = _auto_class(library, settings).from_pretrained(
            files.weights.parent,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # refused below
            **_options(files, settings),
        )
    mismatched = (key if isinstance(key, str) else key[0] for key in loaded["mismatched_keys"])
    if wrong := sorted({*loaded["missing_keys"], *mismatched}):
        raise ModelError(f"{files.name}: {wrong[0]} does not fit its config.json; fetch the encoder again")
    return cast(nn.Module, backbone)


def _auto_class(library: Any, settings: PretrainedSettings) -> Any:
    return library.AutoModelForCausalLM if settings.cell == CAUSAL else library.AutoModel


def _options(files: EncoderFiles, settings: PretrainedSettings) -> dict[str, Any]:
    """The configuration with our dropout, and without a layer that only the library's own heads use."""
    from transformers import AutoModel

    config = copy.deepcopy(config_of(files.config))
    for name in DROPOUTS:
        if hasattr(config, name):
            setattr(config, name, settings.dropout)
    kind: Any = AutoModel._model_mapping[type(config)]
    pooling = "add_pooling_layer" in inspect.signature(kind).parameters
    return {"config": config, "dtype": torch.float32, **({"add_pooling_layer": False} if pooling else {})}


@contextmanager
def quiet_transformers(name: str) -> Iterator[Any]:
    """Within, the library transformers shows nothing, leaves random numbers alone, and its errors are ModelErrors."""
    with encoders_extra():
        import transformers
        from transformers.utils import logging as module
    logging: Any = module
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with torch.random.fork_rng(devices=[]):
            yield transformers
    except MemgrowError:
        raise
    except Exception as error:  # checks of any family, which are of no common kind
        raise ModelError(f"transformers cannot build {name} ({brief(error)[:160]}): fetch the encoder again") from error
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
