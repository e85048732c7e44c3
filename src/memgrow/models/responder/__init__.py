"""What answers a message with a reply."""

from memgrow.models.responder.output import END
from memgrow.models.responder.rebuilding import rebuild_responder
from memgrow.models.responder.responder import ReplyLoss, Responder, Shares

__all__ = ["END", "ReplyLoss", "Responder", "Shares", "rebuild_responder"]
