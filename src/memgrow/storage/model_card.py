"""The model card of a model on the Hugging Face hub, from its history alone: names, labels and numbers, no texts."""

import html
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memgrow import __version__
from memgrow.errors import counted, printable
from memgrow.evaluation.history import perplexity_of
from memgrow.models import REPLY
from memgrow.models.hub import HUB_NAME, KNOWN, EncoderFiles, public_name
from memgrow.nn import count_parameters

if TYPE_CHECKING:
    from memgrow.learner import Learner

# By task: the hub's tag, its metric, what the model does, how it is called.
TASKS = {
    "text": ("text-classification", "accuracy", "classifies texts", 'predict(["a text"])'),
    "pair": ("text-classification", "accuracy", "classifies pairs of texts", 'predict([("one text", "another")])'),
    REPLY: ("text-generation", "perplexity", "replies to messages", 'reply(["a message"])'),
}
MAX_DOMAINS = 25  # of a matrix that fits a page


def model_card(learner: "Learner", name: str) -> str:
    """README.md with front matter."""
    import yaml

    front = yaml.safe_dump(_front_matter(learner, printable(name)), sort_keys=False, allow_unicode=True, width=1000)
    return f"---\n{front}---\n\n" + "\n\n".join(_paragraphs(learner, name)) + "\n"


def _front_matter(learner: "Learner", name: str) -> dict[str, Any]:
    tag, metric, *_ = TASKS[learner.task or "text"]
    rows = learner.history.matrix.rows
    results = [
        {
            "task": {"type": tag},
            "dataset": {"name": printable(domain), "type": "own"},
            "metrics": [{"type": metric, "value": round(_figure(learner, score), 2)}],
        }
        for domain, score in (rows[-1].scores if rows else {}).items()
    ]
    licence, base = licence_of(learner.encoder), _base_model(learner)
    return {
        **({"license": licence} if licence else {}),
        "library_name": "memgrow",
        "pipeline_tag": tag,
        "tags": ["memgrow", "continual-learning", "domain-adaptation"],
        **({"base_model": base, "base_model_relation": "finetune"} if base else {}),
        **({"model-index": [{"name": name, "results": results}]} if results else {}),
    }


def _paragraphs(learner: "Learner", name: str) -> Iterator[str]:
    _, metric, does, call = TASKS[learner.task or "text"]
    history, matrix, files = learner.history, learner.history.matrix, learner.encoder
    yield f"# {_safe(name)}"
    yield (
        f"A model that {does}. It has learned {counted(len(history.domains), 'domain')} in this order: "
        f"{', '.join(map(_safe, history.domains))}. It was trained with memgrow {__version__} by the method "
        f"{_safe(learner.method.name)}. It has {count_parameters(learner.trained()):,} parameters."
    )
    if files is not None:
        licence = licence_of(files) or "unknown, look it up before you share this model"
        yield f"Encoder: {_safe(public_name(files.name))}, SHA-256 {_safe(files.sha256)}, licence: {licence}."
    yield (
        f"```shell\npip install 'memgrow{'[encoders]' if files else ''}' huggingface_hub\n```\n\n"
        "```python\nfrom huggingface_hub import snapshot_download\nfrom memgrow import Learner\n\n"
        f'learner = Learner.load(snapshot_download("OWNER/{_safe(name)}"))\nprint(learner.{call})\n```'
    )
    yield f"## Test {metric}"
    domains = matrix.domains[-MAX_DOMAINS:]
    lines = [["after learning", *domains], ["---"] * (len(domains) + 1)]
    for row in matrix.rows[-MAX_DOMAINS:]:
        scores = [row.scores.get(domain) for domain in domains]
        lines.append(["+".join(row.learned), *("" if s is None else f"{_figure(learner, s):.1f}" for s in scores)])
    yield "\n".join("| " + " | ".join(map(_safe, line)) + " |" for line in lines)
    yield (
        "The scores are of held-out examples of the same data; on other texts the model may do worse. It was trained "
        "without a privacy guarantee: the weights may have memorized training texts."
    )


def licence_of(files: EncoderFiles | None) -> str | None:
    """The licence of a known encoder by the hub's name for it."""
    return KNOWN[files.name].licence.lower() if files is not None and files.name in KNOWN else None


def _base_model(learner: "Learner") -> str | None:
    spec = getattr(learner.settings, "encoder", None)
    if spec in KNOWN:
        return KNOWN[spec].hub_name
    return spec if spec is not None and HUB_NAME.fullmatch(spec) and public_name(spec) == spec else None


def _figure(learner: "Learner", score: float) -> float:
    return perplexity_of(score) if learner.task == REPLY else 100 * score


def _safe(text: str) -> str:
    """Text without control characters, HTML, links, images or markup of a table."""
    return re.sub(r"[|\[\]]", r"\\\g<0>", html.escape(printable(text), quote=False).replace("`", "'"))
