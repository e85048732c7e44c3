"""The state of a stack of one in a workspace: the very state that the plain loop keeps there, so either can go on."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from memgrow.models import Model
from memgrow.workspace import Position, Workspace

if TYPE_CHECKING:
    from memgrow.lockstep.training import Stepper


class Keeper:
    """Saves and restores a stack that holds one model."""

    def __init__(self, model: Model, workspace: Workspace) -> None:
        self.model, self.workspace = model, workspace
        self._moments = torch.optim.Adam(model.parameters())  # never steps: has moments by the model's own parameters

    def restore(self, stepper: "Stepper", best: dict[str, Tensor]) -> Position | None:
        """Put a saved state into the stepper and the best weights; None if there is none."""
        restored = self.workspace.restore(self.model, self._moments)
        if restored is None:
            return None
        position, kept = restored
        for name, parameter in self.model.named_parameters():
            stepper.stack.parameters[name].detach()[0].copy_(parameter.detach())
            if name in kept:  # an empty bank leaves no trace in a state
                best[name][0].copy_(kept[name])
            moments = self._moments.state.get(parameter)
            if moments:
                own = {kind: value if value.ndim == 0 else value.unsqueeze(0) for kind, value in moments.items()}
                stepper.optimiser.state[stepper.moving[name]] = own
        stepper.running.copy_(torch.tensor([position.loss, position.correct]))
        stepper.seen = position.seen
        return position

    def due(self) -> bool:
        return self.workspace.due()

    def save(self, position: Position, stepper: "Stepper", best: dict[str, Tensor]) -> None:
        if self.workspace.folder is None:
            return
        stepper.stack.write(0, self.model)
        for name, parameter in self.model.named_parameters():
            moments = stepper.optimiser.state.get(stepper.moving[name], {}) if name in stepper.moving else {}
            self._moments.state[parameter] = {
                kind: value if value.ndim == 0 else value[0] for kind, value in moments.items()
            }
        whole = {name: best[name][0] if name in best else own for name, own in self.model.state_dict().items()}
        self.workspace.save(position, self.model, whole, self._moments)
