"""What `memgrow methods` shows, from the table of methods, written to a file: the table itself needs torch.

python -m memgrow.report.method_rows        after a method or a letter has been added or changed
"""

from typing import Any

from memgrow.data.disk import atomic_write, pack_json
from memgrow.errors import SettingsError
from memgrow.methods import (
    ADDITIONS,
    METHODS,
    RECOMMENDED_FOR_REPLIES,
    MethodSettings,
    MethodSpec,
    find_method,
)
from memgrow.models import ModelSettings, PretrainedEncoder, PretrainedSettings
from memgrow.report.methods import FILE
from memgrow.training.defaults import defaults_for


def method_rows() -> dict[str, Any]:
    """Methods and letters as JSON, the defaults first."""
    plain, tuned = defaults_for(ModelSettings()), defaults_for(PretrainedSettings())
    defaults = {
        plain.method: "the default",
        RECOMMENDED_FOR_REPLIES: "the default for replies",
        tuned.method: "the default with a pretrained encoder",
    }
    read, usual = find_method(tuned.method).reads(), MethodSettings()
    return {
        "encoder_settings": {
            name: value for name in sorted(read) if (value := getattr(tuned.options, name)) != getattr(usual, name)
        },
        "methods": [
            {
                "name": method.name,
                "default": defaults.get(method.name),
                "grows": list(method.grows),
                "sees": "all data" if method.joint else "+ old rows" if method.keeps_rows else "new data",
                "keeps_rows": method.keeps_rows,
                "encoder": _with_encoder(method),
                "about": method.about,
            }
            for method in map(find_method, dict.fromkeys([*defaults, *METHODS]))
        ],
        "letters": [
            {
                "name": name,
                "encoder": "no" if one.grows and one.grows not in PretrainedEncoder.grows else "yes",
                "about": one.about,
            }
            for name, one in ADDITIONS.items()
        ],
    }


def _with_encoder(method: MethodSpec) -> str:
    """Whether a method goes with a pretrained encoder: yes, no, or only with one."""
    if not _goes_with(method, PretrainedSettings(slots=1)):
        return "no"
    return "yes" if _goes_with(method, ModelSettings()) else "only"


def _goes_with(method: MethodSpec, settings: ModelSettings) -> bool:
    try:
        method.check(settings)
    except SettingsError:
        return False
    return True


if __name__ == "__main__":
    atomic_write(FILE, pack_json(method_rows()))
