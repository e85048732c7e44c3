"""Methods that freeze what earlier domains have learned."""

from memgrow.data.batches import Encoded
from memgrow.methods.base import WHOLE, Method, Trainable, new_parameters
from memgrow.models import Model


class Frozen(Method):
    """Only new slots, new words and the head train; on the first domain, everything."""

    about = "only the head trains"

    def start_domain(self, old: Model | None, model: Model, data: Encoded) -> Trainable | None:
        return new_parameters(old, model)


class Progressive(Method):
    """Progressive networks: only the newest column and its head train."""

    about = "a new column for each domain that reads the frozen old ones; the newest head predicts (Rusu et al. 2016)"

    def start_domain(self, old: Model | None, model: Model, data: Encoded) -> Trainable | None:
        if old is None:
            return None
        newest = set(map(id, model.newest_parameters()))
        return Trainable({name: WHOLE for name, parameter in model.named_parameters() if id(parameter) in newest})
