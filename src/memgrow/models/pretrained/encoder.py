"""A pretrained Transformer as an encoder: how texts are read and made vectors of, and in which precision."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from memgrow.data import Example
from memgrow.data.batches import Tokenized, token_mask
from memgrow.errors import MemgrowError, ModelError, brief
from memgrow.models.encoder import ENCODERS, ModelSettings
from memgrow.models.pretrained.backbone import (
    FrozenCopies,
    HalfCopy,
    build_backbone,
    config_of,
    layers_of,
    load_backbone,
    longest_of,
    trained_in_bfloat16,
)
from memgrow.models.pretrained.files import WORKS, EncoderFiles
from memgrow.models.pretrained.memories import WithMemories
from memgrow.models.pretrained.settings import CELL, PretrainedSettings
from memgrow.models.pretrained.tokenizer import tokenizer_of
from memgrow.nn.device import multiplies_bfloat16

TRIED = ("bert", "distilbert", "roberta", "modernbert")  # families that the tests hold against transformers
LONG = 600  # pieces, at most, with which other families are tried: more than most have positions
# Families in which every layer attends to all places and takes a mask (R, 1, T, T) as it is.
FULL_ATTENTION = ("bert", "distilbert", "roberta", "xlm-roberta", "camembert", "electra")
ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
# Pieces in a batch without gradients: as many as keep a GPU busier than Python, and as few as stay in a CPU's caches.
AT_ONCE = {"cuda": 1 << 16, "cpu": 768}


class PretrainedEncoder(WithMemories):
    """A Transformer of the library transformers (`backbone`), pooling, and `memories` after some of its layers."""

    grows = frozenset(("slots",))
    is_pretrained = True
    unit = "word pieces"
    usual_slots = 256
    stored_once = True

    def __init__(self, settings: ModelSettings, backbone: nn.Module, files: EncoderFiles) -> None:
        """`settings` may ask for slots: they are the first domain's, and `create` adds them."""
        nn.Module.__init__(self)
        self.settings = cast(PretrainedSettings, settings)
        self.files, self.backbone = files, backbone
        config: Any = backbone.config
        self.width, self.longest = int(config.hidden_size), longest_of(config)
        self.dropout = nn.Dropout(settings.dropout)
        self.reads_pairs_as_one = self.settings.pairs == "one"
        self._half_copy, self._frozen = HalfCopy(), FrozenCopies()
        self._add_memories(layers_of(backbone, files.name))
        has_types = getattr(config, "type_vocab_size", 0) > 1
        self._separator = tokenizer_of(files).separator() if has_types else None  # where the second text has its type
        padding = int(getattr(config, "pad_token_id", None) or 0)
        self.padding = padding if 0 < padding < self.vocabulary_size else 0  # what is masked may be any piece
        # Elsewhere the library looks in each batch whether a mask is needed at all, for which a GPU waits.
        self.masks_itself = config.model_type in FULL_ATTENTION and config._attn_implementation == "sdpa"

    @classmethod
    def create(
        cls, settings: ModelSettings, words: int, domain: str | None = None, files: EncoderFiles | None = None
    ) -> Self:
        assert files is not None
        if files.weights is None:
            try:
                files = settings.resolved()[1] or files
            except MemgrowError as error:
                raise type(error)(
                    "a new model starts from the encoder as it came, which the old model's folder does not hold: say "
                    f"where it is with --encoder ({error})"
                ) from error
        new = cls(settings, load_backbone(files, settings), files)
        if cast(Any, new.backbone).config.model_type not in TRIED:
            new.try_out()
        new.check_reading()
        if settings.slots:
            new._grow(settings.slots, domain)
        return new

    @classmethod
    def tokenized(
        cls, settings: ModelSettings, examples: Sequence[Example], max_words: int, files: EncoderFiles | None = None
    ) -> Tokenized:
        assert files is not None
        limit = cls.limit(settings, max_words, files)
        return tokenizer_of(files).tokenized(examples, limit, cast(PretrainedSettings, settings).pairs == "one")

    @classmethod
    def limit(cls, settings: ModelSettings, max_words: int, files: EncoderFiles | None = None) -> int:
        assert files is not None
        return min(max_words, longest_of(config_of(files.config)))

    @classmethod
    def spelled(cls, tokenized: Tokenized, files: EncoderFiles | None = None) -> list[tuple[list[str], ...]]:
        assert files is not None
        tokenizer = tokenizer_of(files)
        return [tuple(tokenizer.pieces(row) for row in rows) for rows in tokenized.texts]

    # Reading

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        there = token_mask(words, lengths)
        full = lengths.device.type == "cpu" and bool((lengths == words.shape[1]).all())  # nobody waits for a GPU
        return self.pooled(words, there, full)

    def pooled(self, words: Tensor, there: Tensor, full: bool = False) -> Tensor:
        """A vector for each row of pieces (R, T), of which only some are there, or `full` all."""
        vectors: Tensor = self.dropout(self._pool(self.states(words, there, full), there))
        return vectors

    def states(self, words: Tensor, there: Tensor, full: bool = False) -> Tensor:
        given: dict[str, Tensor] = {}
        if self._separator is not None:
            separators = words.eq(self._separator).long()
            given["token_type_ids"] = ((separators.cumsum(1) - separators) > 0).long() * there
        pieces = words.masked_fill(~there, self.padding)
        with self._in_precision() as backbone, self._attention():
            mask = None if full else self._mask(there)
            return cast(Tensor, backbone(input_ids=pieces, attention_mask=mask, **given)[0])

    def _mask(self, there: Tensor) -> Tensor:
        if not self.masks_itself:
            return there.long()
        # In numbers, as every layer would make them of truth values anew.
        rows, places = there.shape
        kind = torch.bfloat16 if self._half else next(self.backbone.parameters()).dtype
        mask = torch.zeros(rows, 1, 1, places, dtype=kind, device=there.device)
        return mask.masked_fill(~there[:, None, None, :], -torch.inf).expand(rows, 1, places, places)

    def _pool(self, states: Tensor, there: Tensor) -> Tensor:
        if self.settings.pooling == "first":
            return states[:, 0].float()
        inside = there.unsqueeze(-1)
        return (states * inside).sum(1, dtype=torch.float32) / inside.sum(1)

    def _in_precision(self) -> AbstractContextManager[nn.Module]:
        """The backbone as texts are read by it: itself, or with weights of bfloat16."""
        if not self._half or next(self.backbone.parameters()).dtype == torch.bfloat16:
            return nullcontext(self.backbone)
        if not torch.is_grad_enabled():
            return self._half_copy.within(self.backbone)  # answers may be asked for by several threads
        if next(self.backbone.parameters()).device.type != "cpu":
            return trained_in_bfloat16(self.backbone)
        table = cast(nn.Embedding, cast(Any, self.backbone).get_input_embeddings())
        return trained_in_bfloat16(self.backbone, table, self._frozen)

    @property
    def _half(self) -> bool:
        """Whether weights and states are of bfloat16 while a text is read; weights are kept as they are."""
        if self.settings.precision == "auto":
            return multiplies_bfloat16(next(self.backbone.parameters()).device.type)
        return self.settings.precision == "bfloat16"

    def _attention(self) -> AbstractContextManager[Any]:
        """On a GPU none of cuDNN's kernels, which are planned anew for each shape, and shapes are many."""
        return sdpa_kernel(ATTENTION) if next(self.backbone.parameters()).is_cuda else nullcontext()

    @property
    def tokens_at_once(self) -> int:
        return AT_ONCE.get(next(self.backbone.parameters()).device.type, AT_ONCE["cpu"])

    def train(self, mode: bool = True) -> Self:
        """As of any module; at a change of mode, copies of frozen weights go: nobody tells of writes to `.data`."""
        if mode != self.training:
            self._frozen.clear()
        return super().train(mode)

    def prepared(self) -> AbstractContextManager[object]:
        """Weights are cast once, and not in each batch."""
        return self._half_copy.within(self.backbone) if self._half else nullcontext()

    @torch.no_grad()
    def check_reading(self) -> None:
        was_training = self.training
        self.eval()
        words = torch.zeros(1, 2, dtype=torch.long, device=next(self.parameters()).device)
        try:
            states = self.states(words, torch.ones_like(words, dtype=torch.bool))
            if tuple(states.shape) != (1, 2, self.width):
                raise ModelError(f"its states have the shape {tuple(states.shape)}")
        except Exception as error:  # of any family
            raise ModelError(
                f"{self.files.name} cannot read a text, as its config.json has it ({brief(error)}); copy or fetch the "
                "encoder again"
            ) from error
        finally:
            self.train(was_training)

    @torch.no_grad()
    def try_out(self) -> None:
        """Read a long text and a short one, and refuse an encoder whose states are not what is asked for."""
        self.eval()
        long = min(self.longest, LONG)
        there = torch.arange(long) < torch.tensor([[long], [2]])
        words = torch.full(there.shape, self.padding + 1).clamp(max=self.vocabulary_size - 1)
        reason = "padding changes what it makes of a text"
        try:
            with self.memory_inputs() as inputs:
                both = self.states(words, there)
                alone = self.states(words[1:, :2], there[1:, :2])
            count = len(self.memories)
            shapes = [tuple(states.shape[:2]) for states in (both, *inputs[:count], alone, *inputs[count:])]
            if shapes != [(2, long)] * (1 + count) + [(1, 2)] * (1 + count) or both.shape[2] != self.width:
                reason = "its layers do not keep to one state for each piece"
            elif torch.allclose(both[1, :2].float(), alone[0].float(), atol=1e-2):
                return
        except Exception as error:  # of any family
            reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        kind = cast(Any, self.backbone).config.model_type
        raise ModelError(f"{self.files.name} ({kind}) cannot be read here, as {reason}; {WORKS}")

    @property
    def sizes(self) -> list[int]:
        return [self.width]

    @property
    def vocabulary_size(self) -> int:
        return int(cast(Any, self.backbone).config.vocab_size)

    def pretrained_parameters(self) -> Iterable[nn.Parameter]:
        return self.backbone.parameters()

    @property
    def layers(self) -> nn.ModuleList:
        """Those of the Transformer, one after another."""
        return layers_of(self.backbone, self.files.name)

    # In a checkpoint

    def shape(self) -> dict[str, Any]:
        return {"memory": self.memories[0].growths}  # all memories grow together

    @classmethod
    def rebuild(cls, settings: ModelSettings, shape: Mapping[str, Any], files: EncoderFiles | None = None) -> Self:
        assert files is not None
        new = cls(settings, build_backbone(files, settings), files)
        tokenizer_of(files).check(cast(Any, new.backbone).get_input_embeddings().num_embeddings)
        for memory in new.memories:
            memory.restore(shape["memory"], torch.empty)
        return new


ENCODERS[CELL] = PretrainedEncoder
