"""Domains that bring labels which earlier ones did not have."""

from dataclasses import replace

from memgrow.data import Domain, Example

NEW = "another"  # which stands after the old ones, though not in the alphabet


def with_label(domain: Domain, old: str = "neutral", new: str = NEW, every: int = 2) -> Domain:
    """The domain with another label in place of one of its own, in every second of its examples, or all (`every=1`)."""

    def renamed(part: tuple[Example, ...]) -> tuple[Example, ...]:
        chosen = [example for example in part if example.label == old][::every]
        return tuple(replace(example, label=new) if example in chosen else example for example in part)

    return Domain(domain.name, renamed(domain.train), renamed(domain.validation), renamed(domain.test))
