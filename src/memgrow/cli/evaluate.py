"""`memgrow evaluate` and `drift`: how well a model does on files, and whether texts have drifted."""

import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from memgrow.cli import options as opt
from memgrow.cli.app import (
    console,
    count_cut_texts,
    note_cut_texts,
    note_to_stderr,
    say,
    standard_input,
    write_json,
)
from memgrow.errors import ModelError, SettingsError

if TYPE_CHECKING:
    from memgrow.data import Example, Stream
    from memgrow.learner import Learner


@dataclass
class LabelOptions:
    by_label: bool = opt.option(
        "Precision, recall and F1 of each label, and the confusion matrix.", "--by-label", default=False
    )
    calibration: bool = opt.option("Show calibration in detail.", "--calibration", default=False)


@opt.grouped
def evaluate(
    model: opt.Model,
    data: opt.Files,
    rows: opt.DataOptions,
    shown: LabelOptions,
    beam: int = opt.BEAM,
    device: str = opt.DEVICE,
    as_json: opt.AsJson = False,
) -> None:
    """Accuracy, majority-class baseline, F1 and calibration error on test files; for replies, BLEU-2 and perplexity.

    Example: memgrow evaluate model/ books_test.jsonl dvds_test.jsonl
    """
    from memgrow.evaluation.replies import evaluate_replies
    from memgrow.evaluation.tables import replies_table
    from memgrow.learner import Learner
    from memgrow.models import REPLY

    learner = Learner.load(model, device)
    is_reply = learner.task == REPLY
    for name, value in (vars(shown) if is_reply else {"beam": beam > 1}).items():
        if value:
            option, kind = f"--{name.replace('_', '-')}", "replies" if is_reply else "labels"
            raise SettingsError(f"{option} is not for models of {kind}: leave it out")
    loaded = rows.load_for_evaluation(data, model)
    if is_reply:
        found = {domain.name: evaluate_replies(learner, domain, beam=beam) for domain in loaded.stream}
        if as_json:
            write_json({name: figures.to_json() for name, figures in found.items()})
        else:
            console.print(replies_table(found))
    else:
        _evaluate_labels(learner, loaded.stream, shown, as_json)
    note_to_stderr(*loaded.notices)
    note_cut_texts(sum(count_cut_texts(domain.test, learner) for domain in loaded.stream), learner)


def _evaluate_labels(learner: "Learner", stream: "Stream", shown: LabelOptions, as_json: bool) -> None:
    from memgrow.evaluation import tables
    from memgrow.evaluation.model_tables import score_labels

    found = score_labels(learner, stream, shown.calibration)
    if not as_json:
        console.print(found.table())
        for name, confusion in found.confusions.items() if shown.by_label else ():
            console.print(tables.labels_table(name, confusion), tables.confusion_table(name, confusion))
        return
    figures: dict[str, Any] = {}
    for name, one in found.scores.items():
        details: dict[str, Any] = found.confusions[name].to_json() if shown.by_label else {}
        if shown.calibration:
            temperature, before = learner.calibration.temperature, found.uncalibrated[name].ece
            details |= {**asdict(one), "temperature": temperature, "ece_uncalibrated": before}
        if name in found.given:
            details["accuracy_for_domain"] = found.given[name]
        figures[name] = {**details, "accuracy": one.accuracy} if details else one.accuracy
    write_json(figures)


@opt.grouped
def drift(
    model: opt.Model,
    rows: opt.FileOptions,
    file: opt.TextFile = None,
    window: int = opt.option("Texts that are tested together.", default=opt.WINDOW, metavar="N"),
    alpha: float = opt.option("False alarm rate per window.", default=opt.ALPHA, metavar="SHARE"),
    device: str = opt.DEVICE,
    as_json: opt.AsJson = False,
) -> None:
    """Test whether unlabeled texts have drifted from what the model has learned.

    Prints a line for each window of texts, and a conclusion.

    Example: memgrow drift model/ requests.jsonl
    """
    from memgrow.data.files import line_chunks
    from memgrow.data.rows import in_chunks, inputs_from_file, inputs_from_lines
    from memgrow.evaluation.drift import Verdict, in_words, together
    from memgrow.learner import Learner
    from memgrow.models import REPLY

    learner = Learner.load(model, device)
    monitor = learner.drift_monitor(window, alpha)
    if not learner.reference.domains:
        raise ModelError(f"{model}: {monitor.report().sentence}")
    if file is not None:
        examples: Iterable[Example] = (one.example for one in inputs_from_file(file, rows.columns()))
    else:
        chunks = inputs_from_lines(line_chunks(standard_input()), rows.columns(), learner.task)
        examples = (one.example for chunk in chunks for one in chunk)
    found, texts = list[Verdict](), 0
    for chunk in in_chunks(examples, window):
        confidences = None if learner.task == REPLY else [one.confidence for one in learner.predict(chunk)]
        full = monitor.add(chunk, confidences)
        texts += len(chunk)
        if len(chunk) < window and (rest := monitor.finish()) is not None:
            full.append(rest)
        for verdict in full:
            found.append(verdict)
            if as_json:
                write_json({"until": texts, **vars(verdict), "alarm": verdict.p <= alpha})
            else:
                first = texts - verdict.texts + 1
                say(f"{first:,} to {texts:,}: {in_words(verdict, alpha)}", soft_wrap=True)
        sys.stdout.flush()
    due, sentence = together(found, alpha, texts)
    if monitor.note:
        note_to_stderr(monitor.note)
    if as_json:
        write_json({"texts": texts, "windows": len(found), "due": due, "sentence": sentence, "alpha": alpha})
    else:
        say(sentence, soft_wrap=True)
