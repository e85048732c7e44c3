"""`memgrow methods`: the methods and additions to them."""

from typing import TYPE_CHECKING, Any

from memgrow.cli import options as opt
from memgrow.cli.app import console, write_json
from memgrow.errors import SettingsError

if TYPE_CHECKING:
    from memgrow.methods import MethodSpec


def methods(as_json: opt.AsJson = False) -> None:
    """List the methods, the defaults first.

    Example: memgrow methods
    """
    from memgrow.evaluation.tables import Column, Table

    known = list_methods()
    if as_json:
        write_json(known, 1)
        return
    rows = []
    for one in known["methods"]:
        about = f"{one['default']}: {one['about']}" if one["default"] else one["about"]
        rows.append((one["name"], one["forgets"], one["encoder"], about))
    title = "forgets: if a new domain contradicts earlier ones, or has new labels"
    columns = [*(Column(name, wrap=False) for name in ("method", "forgets", "encoder")), Column("what it does")]
    defaults = sum(one["default"] is not None for one in known["methods"])
    console.print(Table(title, columns, rows, lines_above=[defaults]))
    additions = [(one["name"], one["letter"], one["encoder"], one["about"]) for one in known["letters"]]
    header = ["addition", "letter", "encoder", "what it does"]
    console.print(Table("additions to a method, as in finetune+vocab+average or F+V+A", header, additions))


def list_methods() -> dict[str, Any]:
    """Methods and letters as JSON, the defaults first."""
    from memgrow.methods import ADDITIONS, METHODS, RECOMMENDED_FOR_REPLIES, MethodSettings, find_method
    from memgrow.models import ModelSettings, PretrainedSettings
    from memgrow.training.settings import defaults_for

    plain, tuned = defaults_for(ModelSettings()), defaults_for(PretrainedSettings())
    defaults = {
        tuned.method: "the default",
        plain.method: "the default of lstm",
        RECOMMENDED_FOR_REPLIES: "the default for replies",
    }
    changed = {name: getattr(tuned.options, name) for name in sorted(find_method(tuned.method).reads())}
    usual = MethodSettings()
    return {
        "encoder_settings": {name: value for name, value in changed.items() if value != getattr(usual, name)},
        "methods": [
            {
                "name": method.name,
                "default": defaults.get(method.name),
                "grows": list(method.grows),
                "sees": "all data" if method.joint else "+ old rows" if method.keeps_rows else "new data",
                "keeps_rows": method.keeps_rows,
                "forgets": _forgets(method),
                "encoder": _with_encoder(method),
                "about": method.about,
            }
            for method in map(find_method, dict.fromkeys([*defaults, *METHODS]))
        ],
        "letters": [
            {
                "name": name,
                "letter": one.letter,
                "encoder": "no" if one.grows and one.grows not in PretrainedSettings.grows else "yes",
                "about": one.about,
            }
            for name, one in ADDITIONS.items()
        ],
    }


def _forgets(method: "MethodSpec") -> str:
    """How much of earlier domains is forgotten where a new one contradicts them, or has other labels."""
    if method.keeps_labels or method.joint:
        return "hardly"
    return "all" if method.reinit else "less" if method.parts else "much"


def _with_encoder(method: "MethodSpec") -> str:
    """Whether a method works with a pretrained encoder: yes, no, or only with one."""
    from memgrow.models import ModelSettings, PretrainedSettings

    works = []
    for settings in (PretrainedSettings(slots=1), ModelSettings()):
        try:
            method.check(settings)
            works.append(True)
        except SettingsError:
            works.append(False)
    return "no" if not works[0] else "yes" if works[1] else "only"
