"""Methods that freeze what earlier domains have learned."""

from memgrow.methods.base import WHOLE, Method, Trainable, new_parameters
from memgrow.models import Model


class Frozen(Method):
    """Only new slots, new words and the head train; on the first domain, everything."""

    def trainable(self, old: Model | None, model: Model) -> Trainable | None:
        return new_parameters(old, model)


class Progressive(Method):
    """Progressive networks: only the newest column and its head train."""

    def trainable(self, old: Model | None, model: Model) -> Trainable | None:
        if old is None:
            return None
        newest = set(map(id, model.newest_parameters()))
        return Trainable({name: WHOLE for name, parameter in model.named_parameters() if id(parameter) in newest})
