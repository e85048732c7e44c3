"""`memgrow prune`: what may be lost, to the point, and the files that it reads."""

from dataclasses import replace

from memgrow import pruning


def test_a_loss_of_just_what_is_allowed_is_allowed(memgrow, model, data, monkeypatch):
    """100 * (0.8 - 0.7) is more than 10 in the arithmetic of a computer."""
    plan = pruning.plan_pruning

    def plan_a_loss(*given):
        found = plan(*given)
        domains = {name: replace(one, accuracy=0.8, accuracy_left=0.7) for name, one in found.domains.items()}
        return replace(found, domains=domains)

    monkeypatch.setattr(pruning, "plan_pruning", plan_a_loss)
    words = ("prune", model, "--data", data["kitchen"], "--below", 0.3, "--dry-run", "--max-loss")
    memgrow.done(*words, 10)
    result = memgrow(*words, 9.9)
    assert result.exit_code == 3
    assert "kitchen would lose 10.0 points, and at most 9.9 may be lost" in result.stderr
