"""Domain memory (R): every domain keeps the weights that answered for it, which answer where later domains conflict.

Training is that of the method it is added to. With `independent` every domain is trained from the original encoder, so
that it can be removed without a trace. `models/domain_memory.py` has the entries and how they are read.
"""

import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

from memgrow.data.batches import Encoded
from memgrow.errors import SettingsError
from memgrow.methods.base import FinishedDomain, Method, option
from memgrow.models import CausalModel, Classifier, Model, PretrainedEncoder
from memgrow.models.domain_memory import DomainMemory


@dataclass(frozen=True)
class IndependentOptions:
    independent: bool = option(False)  # every domain is trained from the original encoder


@dataclass(frozen=True)
class MemoryOptions(IndependentOptions):
    entry_rank: int = option(8, least=1)  # of an encoder's differences in an entry of the domain memory
    read_entries: Literal["auto", "conflict", "mean", "always"] = option(
        "auto", words=("auto", "conflict", "mean", "always")
    )  # see DomainMemory; auto: mean for texts on an encoder, else conflict
    keys: Literal["label", "private"] = option("label", words=("label", "private"))  # see models/router.py


class Memory(Method):
    """Adds an entry when a domain has been learned."""

    about = "each domain's weights are kept and answer its texts where later domains conflict"
    Options: ClassVar[type] = MemoryOptions
    options: MemoryOptions
    tasks = ("text", "pair")  # and replies of a causal language model
    finish_order = 2

    def __init__(self, options: MemoryOptions) -> None:
        super().__init__(options)
        self._base: PretrainedEncoder | None = None  # of a first domain, while it trains

    def start_domain(self, old: Model | None, model: Model, data: Encoded) -> None:
        if isinstance(old, Classifier | CausalModel) and old.memory is None:
            raise SettingsError(
                "a domain memory starts with the first domain, and this model has learned without one: start a new "
                "model, or use a method without memory"
            )
        if isinstance(old, Classifier) and old.memory is not None and old.memory.independent:
            raise SettingsError("this model's domains are independent: go on with --set independent=true")
        if model.settings.is_pretrained and any(len(bank) for bank in model.banks):
            raise SettingsError("a domain memory on an encoder goes with methods without slots, such as finetune")
        if old is None and isinstance(model.encoder, PretrainedEncoder):
            self._base = copy.deepcopy(model.encoder)

    def finish_domain(self, domain: FinishedDomain) -> dict[str, Any]:
        model, old, options = cast(Classifier, domain.model), cast(Classifier | None, domain.old), self.options
        base = self._base if old is None or old.memory is None else old.memory.base
        self._base = None
        name = "+".join(one.name for one in domain.domains)
        known: dict[str, Any] = {"domain": name, "data": domain.data, "rank": options.entry_rank}
        known["private"] = options.keys == "private"
        if options.independent:
            assert base is not None
            model.memory = DomainMemory.alone(model, base=base, added=domain.added, **known)
            return {}
        if isinstance(model, CausalModel):
            encoder = model.encoder.bare() if base is None else base
            model.memory = DomainMemory.grown(old, model, validation=None, base=encoder, read="always", **known)
            return {}
        read = options.read_entries
        if read == "auto":
            is_text = domain.domains[0].train[0].pair is None
            read = "mean" if base is not None and is_text else "conflict"
        model.memory = DomainMemory.grown(old, model, validation=domain.validation, base=base, read=read, **known)
        return {"carried": round(model.memory.newest_carried, 4)}
