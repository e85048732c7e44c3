"""A causal language model (Llama, Qwen, SmolLM, GPT-2, ...) that learns replies to messages.

The pretrained weights stay as they are, and low-rank additions train (LoRA), unless the method trains everything. With
a domain memory each domain keeps its additions, and a router finds those of a message by its vector in the model
without additions.
"""

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar, NamedTuple, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memgrow.data.batches import Batch, Encoded, by_length, by_tokens, collate, token_mask
from memgrow.data.disk import Shapes
from memgrow.errors import ModelError, SettingsError, brief
from memgrow.models.base import CausalSettings, Encoder, Model, StepOutput, Tally
from memgrow.models.domain_memory import DomainMemory
from memgrow.models.generate import Reply
from memgrow.models.hub import EncoderFiles
from memgrow.models.tokenizer import chat_of
from memgrow.models.transformer import TOKENS_AT_ONCE, build_backbone, load_backbone, max_length
from memgrow.nn import Growth, MemoryBank
from memgrow.nn.device import multiplies_bfloat16
from memgrow.nn.lora import AdditionHook, LowRank

TRAINED_AT_ONCE = {"cuda": 1 << 14, "cpu": 512}  # tokens, with padding, whose gradients are computed together
REPLIES_AT_ONCE = {"cuda": 128, "cpu": 8}  # that are written together
SCORED_AT_ONCE = {"cuda": 1 << 14, "cpu": 768}  # tokens that are scored together: each has a number for every token


class CausalEncoder(Encoder):
    """The language model (`backbone`) of the library transformers; as an encoder it reads messages."""

    settings: CausalSettings

    def __init__(self, settings: CausalSettings, backbone: nn.Module, files: EncoderFiles) -> None:
        super().__init__()
        self.settings, self.files, self.backbone = settings, files, backbone
        config = cast(Any, backbone).config
        self.width, self.vocabulary = int(config.hidden_size), int(config.vocab_size)
        self.prefix = len(chat_of(files).before)
        self.takes = frozenset(inspect.signature(backbone.forward).parameters)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        """The mean state (R, width) of each message's tokens, without those that come before all messages."""
        mask = token_mask(words, lengths)
        with self.autocast():
            states = cast(Any, self.backbone).base_model(input_ids=words, attention_mask=mask.long(), use_cache=False)[
                0
            ]
        inside = mask.clone()
        inside[:, : min(self.prefix, int(lengths.min()) - 1)] = False
        return cast(Tensor, (states * inside.unsqueeze(-1)).sum(1, dtype=torch.float32) / inside.sum(1, keepdim=True))

    def next_tokens(self, ids: Tensor, count: int) -> Tensor:
        """The logits (R, count, tokens) of what follows each of the last `count` tokens of rows (R, T).

        Padding comes last: no token before it reads it, so that there is no mask. Padding in front would be positions
        that read nothing, whose gradients are not finite on some GPUs.
        """
        given = {"logits_to_keep": count} if "logits_to_keep" in self.takes else {}
        with self.autocast():
            logits = self.backbone(input_ids=ids, use_cache=False, **given).logits
        return cast(Tensor, logits[:, -count:])

    def autocast(self) -> Any:
        kind, precision = self.device.type, self.settings.precision
        half = multiplies_bfloat16(kind) if precision == "auto" else precision == "bfloat16"
        return torch.autocast(kind, torch.bfloat16) if half else nullcontext()

    @property
    def device(self) -> torch.device:
        return next(self.backbone.parameters()).device

    def bare(self) -> "CausalEncoder":
        """The same parameters without additions."""
        twin = copy.deepcopy(self, {id(one): one for one in self.parameters()})
        for layer in twin.linear_layers().values():
            layer._forward_hooks.clear()
        return twin.eval()

    def linear_layers(self) -> dict[str, nn.Module]:
        """The linear layers of all Transformer layers, by name in the backbone: those that LoRA adapts."""
        config = cast(Any, self.backbone).config
        blocks = (
            (name, module)
            for name, module in self.backbone.named_modules()
            if isinstance(module, nn.ModuleList) and len(module) == config.num_hidden_layers
        )
        prefix, layers = next(blocks, ("", nn.ModuleList()))
        kinds = ("Linear", "Conv1D")
        return {f"{prefix}.{n}": one for n, one in layers.named_modules() if type(one).__name__ in kinds}

    # Tied weights are kept once.

    @property
    def _tied(self) -> dict[str, str]:
        """The name that a tied parameter is kept under, by its other names."""
        names: dict[int, str] = {}
        every = self.named_parameters(remove_duplicate=False)
        return {name: names[id(one)] for name, one in every if names.setdefault(id(one), name) != name}

    def state_dict(self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        found = super().state_dict(destination=destination, prefix=prefix, keep_vars=keep_vars)
        for name in self._tied:
            found.pop(prefix + name, None)
        return found

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        for name, kept in self._tied.items():
            if prefix + kept in state_dict:
                state_dict[prefix + name] = state_dict[prefix + kept]
        super()._load_from_state_dict(state_dict, prefix, *rest)

    # An encoder that does not grow

    @property
    def sizes(self) -> list[int]:
        return [self.width]

    @property
    def vocabulary_size(self) -> int:
        return self.vocabulary

    @property
    def banks(self) -> Sequence[MemoryBank]:
        return []

    def attention(self, words: Tensor, lengths: Tensor) -> list[Tensor]:
        return []

    def plan(self, growth: Growth, *, hidden: int = 0, words: Tensor | None = None, **memory: Any) -> None:
        if hidden or memory.get("slots") or (words is not None and len(words)):
            raise SettingsError("a causal language model does not grow: use another method, such as lora")

    def shape(self) -> dict[str, Any]:
        return {}

    @property
    def tokens_at_once(self) -> int:
        return TOKENS_AT_ONCE.get(self.device.type, TOKENS_AT_ONCE["cpu"])

    def pretrained_parameters(self) -> Iterable[nn.Parameter]:
        return self.backbone.parameters()


class Rows(NamedTuple):
    """Prompts and the replies to them as rows that begin together."""

    ids: Tensor  # (B, T)
    replied: Tensor  # (B, L): which of the last L tokens are of the reply


class CausalModel(Model):
    """A causal language model, and the low-rank `additions` to its linear layers."""

    encoder: CausalEncoder
    only_fisher_variant = "empirical"  # there are too many replies to take an expectation over
    heads: Any
    label_blocks: ClassVar[tuple[int, ...]] = ()

    def __init__(self, encoder: CausalEncoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.heads, self.additions = nn.ModuleList(), nn.ModuleList()
        self.rank = 0
        self.memory: DomainMemory | None = None  # read by `tally` and `reply`, not while a domain trains

    @classmethod
    def create(cls, settings: CausalSettings, files: EncoderFiles) -> Self:
        if files.weights is None:  # a saved model's, which starts anew from the original weights
            files = settings.resolve()[1] or files
        new = cls(CausalEncoder(settings, load_backbone(files, settings), files))
        try:
            with torch.no_grad():
                new.tally(Encoded([([0], [1]), ([0, 1, 2], [1, 2])], [-1, -1], True))
        except Exception as error:  # of any family
            raise ModelError(f"{files.name} cannot be used ({brief(error)}): choose another language model") from error
        return new

    @classmethod
    def rebuild(cls, settings: CausalSettings, files: EncoderFiles, shape: Mapping[str, Any], stored: Shapes) -> Self:
        """A model of a shape, its weights to be filled in."""
        new = cls(CausalEncoder(settings, build_backbone(files, settings), files))
        if shape.get("rank"):
            new.add_low_rank(shape["rank"])
        if "domain_memory" in shape:
            new.memory = DomainMemory.restore(shape["domain_memory"], new.encoder.bare(), stored)
        return new

    def add_low_rank(self, rank: int) -> None:
        """Add low-rank matrices, which begin at zero, to all linear layers; the pretrained weights stay from now on."""
        layers = self.encoder.linear_layers()
        if not layers:
            raise SettingsError(f"{self.encoder.files.name} has no linear layers for LoRA: use --method finetune")
        self.rank = rank
        for layer in layers.values():
            self.additions.append(addition := LowRank(layer, rank))
            layer.register_forward_hook(AdditionHook(addition))

    def additions_by_layer(self) -> dict[str, LowRank]:
        return dict(zip(self.encoder.linear_layers(), cast(Iterable[LowRank], self.additions), strict=True))

    def addition_names(self) -> list[str]:
        return [f"additions.{name}" for name, _ in self.additions.named_parameters()]

    def twin(self) -> "CausalModel":
        """A copy that shares the pretrained weights, and has no domain memory."""
        memory, self.memory = self.memory, None
        try:
            return copy.deepcopy(self, {id(one): one for one in self.encoder.parameters()})
        finally:
            self.memory = memory

    # Training

    def parts(self, batch: Batch) -> list[tuple[Batch, float]]:
        lengths = torch.stack(batch.lengths.chunk(2))  # (2, B)
        whole, tokens = int(lengths[1].sum()), int(lengths.sum(0).max())
        size = max(1, TRAINED_AT_ONCE.get(self.device.type, TRAINED_AT_ONCE["cpu"]) // tokens)
        rows = torch.stack(batch.words.chunk(2))  # (2, B, T)
        found = []
        for first in range(0, lengths.shape[1], size):
            chosen = slice(first, first + size)
            own = lengths[:, chosen]
            words, labels, examples = rows[:, chosen, : int(own.max())], batch.labels[chosen], batch.examples[chosen]
            found.append((Batch(words.flatten(0, 1), own.flatten(), labels, examples), int(own[1].sum()) / whole))
        return found

    def training_step(self, batch: Batch) -> StepOutput:
        losses, _ = self._losses(batch)
        count = int(batch.lengths.chunk(2)[1].sum())
        total = losses.sum()
        return StepOutput(total / count, None, total.detach(), losses.detach().neg().exp().sum(), count)

    def likelihoods(self, batch: Batch, variant: str) -> list[tuple[Tensor, float]]:
        return [(-self._losses(batch)[0].sum(), 1.0)]

    def _losses(self, batch: Batch) -> tuple[Tensor, Rows]:
        """-log p of each token of all replies (tokens), row after row."""
        rows = joined(batch)
        count = rows.replied.shape[1]
        logits = self.encoder.next_tokens(rows.ids[:, :-1], count)
        targets = rows.ids[:, -count:]
        return F.cross_entropy(logits[rows.replied].float(), targets[rows.replied], reduction="none"), rows

    @torch.no_grad()
    def tally(self, data: Encoded) -> Tally:
        self.eval()
        sums, counts = torch.zeros(2, len(data), dtype=torch.double)
        for indices, reader in self.readers(data):
            own = data.some(indices)
            for batch_indices in by_tokens(own, SCORED_AT_ONCE.get(self.device.type, SCORED_AT_ONCE["cpu"])):
                losses, rows = reader._losses(collate(own, batch_indices, self.device))
                spread = torch.zeros(rows.replied.shape, device=self.device).masked_scatter(rows.replied, losses)
                places = [indices[index] for index in batch_indices]
                sums[places] = -spread.double().sum(1).cpu()
                counts[places] = rows.replied.sum(1).double().cpu()
        return Tally(sums, counts, logarithmic=True)

    # The domain memory

    def readers(self, data: Encoded, domain: str | None = None) -> Iterator[tuple[list[int], "CausalModel"]]:
        """The examples, by their numbers, and the model with the additions that answer them."""
        if self.memory is None or (domain is None and not self.memory.routes):
            yield list(range(len(data))), self
            return
        if domain is not None:
            number = self.memory.number(domain)
            yield list(range(len(data))), self.memory.model_for(number, self)
            return
        entries = self.memory.scores(data).argmax(-1).tolist()
        for number in sorted(set(entries), reverse=True):
            indices = [index for index, one in enumerate(entries) if one == number]
            yield indices, self.memory.model_for(number, self)

    # Writing

    @torch.no_grad()
    def reply(
        self, data: Encoded, domain: str | None = None, on_text: Callable[[str], None] | None = None, **generation: Any
    ) -> list[Reply]:
        """A reply to each prompt; `generation` are settings of transformers' `generate`."""
        from transformers import GenerationConfig

        self.eval()
        chat, found = chat_of(self.encoder.files), dict[int, tuple[int, ...]]()
        end, streamer = chat.end, None if on_text is None else TextStreamer(chat.decode, on_text)
        longest = max_length(cast(Any, self.encoder.backbone).config)
        wanted = generation.pop("max_new_tokens")
        for indices, reader in self.readers(data, domain):
            own = data.some(indices)
            for chosen in by_length(own, REPLIES_AT_ONCE.get(self.device.type, REPLIES_AT_ONCE["cpu"])):
                batch = collate(own, chosen, self.device)
                ids, mask = _aligned(batch.words, batch.lengths)
                room = max(1, min(wanted, longest - ids.shape[1]))
                config = GenerationConfig(max_new_tokens=room, eos_token_id=end, pad_token_id=end, **generation)
                with self.encoder.autocast():
                    written = cast(Any, reader.encoder.backbone).generate(
                        ids, attention_mask=mask.long(), generation_config=config, streamer=streamer
                    )
                for index, tokens in zip(chosen, written[:, batch.words.shape[1] :].tolist(), strict=True):
                    said = tokens[: tokens.index(end) + 1] if end in tokens else tokens
                    found[indices[index]] = tuple(said)
        said = Encoded([(data.texts[i][0], found[i] or (end,)) for i in range(len(data))], data.labels, True)
        scores = self.tally(said).sums.tolist() if len(data) else []
        replies = []
        for index, score in enumerate(scores):
            tokens = found[index]
            ended = end in tokens
            replies.append(Reply(tokens[:-1] if ended else tokens, score, ended))
        return replies

    # A model that does not grow

    def _plan(self, growth: Growth, *, hidden: int, words: int, labels: int, **memory: Any) -> None:
        if labels:
            raise SettingsError("a model of replies has no labels: start a new model for labels")

    def add_column(self, hidden: int, slots: int = 0, domain: str | None = None) -> None:
        raise SettingsError("a causal language model has no columns: use another method, such as lora")

    def shape(self) -> dict[str, Any]:
        memory = {"domain_memory": self.memory.shape()} if self.memory is not None else {}
        return {**({"rank": self.rank} if self.rank else {}), **memory}


class TextStreamer:
    """A streamer as transformers' `generate` takes one: hands on the text that each new token adds."""

    def __init__(self, decode: Callable[[Sequence[int]], str], on_text: Callable[[str], None]) -> None:
        self._decode, self._on_text = decode, on_text
        self._tokens: list[int] | None = None  # before the prompt
        self._said = ""

    def put(self, tokens: Tensor) -> None:
        if self._tokens is None:
            self._tokens = []
            return
        self._tokens += tokens.flatten().tolist()
        text = self._decode(self._tokens)
        if not text.endswith("\ufffd") and len(text) > len(self._said):  # of a letter that is not whole yet
            self._on_text(text[len(self._said) :])
            self._said = text

    def end(self) -> None:
        """There is nothing left to hand on."""


def joined(batch: Batch) -> Rows:
    """The prompts and the replies to them, which follow in the batch, as rows that begin together."""
    (words, replies), (prompt, said) = batch.words.chunk(2), batch.lengths.chunk(2)
    at, prompt, ends = torch.arange(int((prompt + said).max())), prompt.unsqueeze(1), (prompt + said).unsqueeze(1)
    replied = (at >= prompt) & (at < ends)
    source = torch.where(at < prompt, at, at - prompt + words.shape[1]).clamp(max=2 * words.shape[1] - 1)
    ids = torch.cat((words, replies), 1).gather(1, source.to(words.device))
    return Rows(ids, replied[:, int(prompt.min()) :].to(words.device))


def _aligned(words: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (R, T) that begin together as rows that end together, and where they have tokens."""
    at = torch.arange(words.shape[1]) - (words.shape[1] - lengths).unsqueeze(1)
    return words.gather(1, at.clamp(min=0).to(words.device)), (at >= 0).to(words.device)
