"""The model card of a model on the Hugging Face hub: README.md with front matter, made from its history alone."""

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from memgrow.errors import counted
from memgrow.learner import Learner
from memgrow.models import REPLY, PretrainedSettings
from memgrow.models.pretrained.catalogue import HUB_NAME, KNOWN, public_name
from memgrow.models.pretrained.files import EncoderFiles
from memgrow.nn import count_parameters
from memgrow.printable import printable
from memgrow.report.history import DAY
from memgrow.report.learner import growth, summary_line
from memgrow.report.measures import Measure, measure_of_task
from memgrow.report.table import MISSING, Table, percent
from memgrow.version import __version__

TAGS = {"text": "text-classification", "pair": "text-classification", REPLY: "text-generation"}
METRICS = {"text": "accuracy", "pair": "accuracy", REPLY: "perplexity"}
KINDS = {"text": "labels texts", "pair": "labels pairs of texts", REPLY: "replies to messages"}
ASKED = {"text": 'predict(["a text"])', "pair": 'predict([("one text", "another")])', REPLY: 'reply(["a message"])'}
LICENCES = {"apache license": "apache-2.0", "mit license": "mit"}  # how the texts of some begin
BEGINNING = 400  # characters of a licence that say which one it is
MANY = 25  # domains, beyond which a matrix is more than a page can show


def model_card(learner: Learner, name: str) -> str:
    """The card of a model that others will know by that name. Of the data it has names, numbers and labels alone."""
    name = printable(name)
    front = yaml.safe_dump(_front_matter(learner, name), sort_keys=False, allow_unicode=True, width=1000)
    return f"---\n{front}---\n\n" + "\n\n".join(_paragraphs(learner, name)) + "\n"


def _front_matter(learner: Learner, name: str) -> dict[str, Any]:
    task = learner.task or "text"
    results = [
        {
            "task": {"type": TAGS[task]},
            "dataset": {"name": printable(domain), "type": "own"},
            "metrics": [{"type": METRICS[task], "value": round(measure_of_task(task).figure(score), 2)}],
        }
        for domain, score in _scores_at_the_end(learner).items()
    ]
    licence, base = licence_of(learner.encoder), base_model(learner)
    return {
        **({"license": licence} if licence else {}),
        "library_name": "memgrow",
        "pipeline_tag": TAGS[task],
        "tags": ["memgrow", "continual-learning", "domain-adaptation"],
        **({"base_model": base, "base_model_relation": "finetune"} if base else {}),
        **({"model-index": [{"name": name, "results": results}]} if results else {}),
    }


def _paragraphs(learner: Learner, name: str) -> Iterator[str]:
    task, history = learner.task or "text", learner.history
    measure = measure_of_task(task)
    yield f"# {name}"
    in_turn = ", one after another" if len(history.domains) > 1 else ""
    yield (
        f"A model that {KINDS[task]}. It has learnt {counted(len(history.domains), 'domain')}{in_turn}: "
        f"{', '.join(map(printable, history.domains))}. It was made with memgrow {__version__} by the method "
        f"{learner.method.name} ({learner.method.about}), and its folder holds no text of the data"
        + (": the rows of the data that its method keeps were left out." if learner.method.keeps_rows else ".")
    )
    if learner.labels and task != REPLY:
        yield f"Labels: {', '.join(f'`{printable(label)}`' for label in learner.labels)}."
    yield "## How to use it"
    extra = "[encoders]" if learner.encoder else ""
    yield f"```shell\npip install 'memgrow{extra}' huggingface_hub\n```"
    yield (
        "```python\nfrom huggingface_hub import snapshot_download\nfrom memgrow import Learner\n\n"
        f'learner = Learner.load(snapshot_download("OWNER/{name}"))\nprint(learner.{ASKED[task]})\n```'
    )
    yield "`Learner.load` reads this folder wherever it is, checks every file by its checksum, and runs no code of it."
    if task != REPLY:
        yield (
            "`AutoModelForSequenceClassification` of transformers cannot read it: the heads of its classes are other "
            "ones than this model's, and know no memory slots. `memgrow export --to onnx` makes a graph of it for "
            "onnxruntime."
        )
    yield "## What it has learnt"
    yield _stages(learner, measure).to_markdown()
    yield f"## {measure.name.capitalize()} after each domain"
    yield f"Of the test examples of each domain: {measure.axis}."
    yield _matrix(learner, measure).to_markdown()
    if summary := summary_line(history) if task != REPLY else "":
        yield f"In percent: {summary}."
    yield from _calibration(learner)
    yield "## What it is made of"
    yield "\n".join(f"- {line}" for line in _made_of(learner))
    yield "## Limits"
    yield (
        "The figures are of examples that whoever made the model held out from the same data: on other texts it may do "
        "worse. It was trained without any guarantee of privacy: weights may have memorised more than a file shows."
    )


def _stages(learner: Learner, measure: Measure) -> Table:
    rows = [
        (
            str(number),
            printable("+".join(stage.learned)),
            printable(stage.method),
            printable(stage.date or MISSING)[:DAY],
            f"{stage.examples:,}",
            str(stage.epochs or "closed form"),
            measure.shown(stage.validation),
            growth(stage.grew),
        )
        for number, stage in enumerate(learner.history.stages, 1)
    ]
    return Table(None, ("#", "domain", "method", "date", "training examples", "epochs", "validation", "grew"), rows)


def _matrix(learner: Learner, measure: Measure) -> Table:
    """Rows are stages and columns domains; of very many domains a row for each."""
    matrix, learned = learner.history.matrix, learner.history.matrix.learned_at()
    if max(len(matrix.rows), len(matrix.domains)) > MANY:
        rows = [
            (printable(name), *(measure.shown(matrix.score(stage, name)) for stage in (at, -1)))
            for name, at in learned.items()
        ]
        return Table(None, ("domain", "when it was learnt", "at the end"), rows)
    header = ("after learning", *map(printable, matrix.domains))
    table = [
        (printable("+".join(row.learned)), *(measure.shown(row.scores.get(name)) for name in matrix.domains))
        for row in matrix.rows
    ]
    return Table(None, header, table)


def _calibration(learner: Learner) -> Iterator[str]:
    if not learner.calibration.domains:
        return
    errors = ", ".join(
        f"{printable(name)} {percent(one.after.ece)}%" for name, one in learner.calibration.domains.items()
    )
    yield "## Probabilities"
    yield (
        f"They are calibrated by a temperature of {learner.calibration.temperature:.3f}. The expected calibration "
        f"error on each domain's validation examples, when it was learnt: {errors}."
    )


def _made_of(learner: Learner) -> Iterator[str]:
    model, settings = learner.trained(), learner.settings
    if learner.encoder is not None and isinstance(settings, PretrainedSettings):
        known = KNOWN.get(settings.encoder)
        name = printable(public_name(settings.encoder)) + (f" ({known.what})" if known else "")
        yield f"Encoder: {name}; SHA-256 of its weights: `{printable(learner.encoder.sha256)}`"
        yield f"Licence of the encoder: {_licence_in_words(learner.encoder)}"
        if known:
            yield f"Where the encoder is from: {known.origin}"
    else:
        yield (
            f"A recurrent network ({settings.cell}) with {counted(len(learner.vocabulary) - 2, 'word')} in "
            "`vocabulary.json`: words of the training data, chosen by how many documents have them"
        )
    yield f"Parameters: {count_parameters(model):,}"
    if slots := sum(segment.stop - segment.start for segment in (model.banks[0].segments if model.banks else ())):
        yield f"Memory slots in each bank: {slots:,}"
    yield f"Seed: {learner.seed}"


def _licence_in_words(files: EncoderFiles) -> str:
    texts = ", ".join(f"`{printable(name)}`" for name in files.licences)
    return f"{licence_of(files) or 'not known to memgrow: look it up before you share this'}" + (
        f"; its text: {texts}" if texts else ""
    )


def licence_of(files: EncoderFiles | None) -> str | None:
    """The licence of an encoder, as the hub names licences, if that is known."""
    if files is None:
        return None
    if files.name in KNOWN:
        return KNOWN[files.name].licence.lower()
    beginnings = [text[:BEGINNING].lower() for text in files.licences.values()]
    found = {short for start, short in LICENCES.items() if any(start in one for one in beginnings)}
    return found.pop() if len(found) == 1 else None


def base_model(learner: Learner) -> str | None:
    """The name on the hub of the model that this one began as, if it has one."""
    spec = getattr(learner.settings, "encoder", None)
    if spec in KNOWN:
        return KNOWN[spec].hub_name
    return spec if spec is not None and HUB_NAME.fullmatch(spec) and public_name(spec) == spec else None


def _scores_at_the_end(learner: Learner) -> Mapping[str, float]:
    rows = learner.history.matrix.rows
    return rows[-1].scores if rows else {}
