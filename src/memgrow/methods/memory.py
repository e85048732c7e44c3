"""Domain memory (R): every domain keeps the weights that answered for it, which answer where later domains conflict.

Training is that of the method it is added to. `models/domain_memory.py` has the entries and how they are read.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from memgrow.data.batches import Encoded
from memgrow.errors import SettingsError
from memgrow.methods.base import FinishedDomain, Method, option
from memgrow.models import Classifier, Model
from memgrow.models.domain_memory import DomainMemory


@dataclass(frozen=True)
class MemoryOptions:
    entry_rank: int = option(8, least=1)  # of an encoder's differences in an entry of the domain memory
    read_entries: Literal["conflict", "mean", "always"] = option(
        "conflict", words=("conflict", "mean", "always")
    )  # see DomainMemory


class Memory(Method):
    """Adds an entry when a domain has been learned."""

    Options: ClassVar[type] = MemoryOptions
    options: MemoryOptions
    tasks = ("text", "pair")
    finish_order = 2

    def start_domain(self, old: Model | None, model: Model, data: Encoded) -> None:
        if isinstance(old, Classifier) and old.memory is None:
            raise SettingsError(
                "a domain memory starts with the first domain, and this model has learned without one: start a new "
                "model, or use a method without memory"
            )
        if model.settings.is_pretrained and any(len(bank) for bank in model.banks):
            raise SettingsError("a domain memory on an encoder goes with methods without slots, such as finetune")

    def finish_domain(self, domain: FinishedDomain) -> dict[str, Any]:
        model, old = domain.model, domain.old
        assert isinstance(model, Classifier)
        assert old is None or isinstance(old, Classifier)
        name = "+".join(one.name for one in domain.domains)
        model.memory = DomainMemory.grown(
            old,
            model,
            domain=name,
            data=domain.data,
            validation=domain.validation,
            rank=self.options.entry_rank,
            read=self.options.read_entries,
        )
        return {"conflicts": model.memory.newest_conflicts}
