"""`memgrow evaluate`: how well a model does on files, and whether it does better than another."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import (
    console,
    count_cut_texts,
    note_cut_texts,
    note_to_stderr,
    picture_format,
    save_picture,
    say,
    split_names,
    write_json,
)
from memgrow.errors import SettingsError

if TYPE_CHECKING:
    from memgrow.data import Stream
    from memgrow.evaluation.metrics import SideBySide
    from memgrow.learner import Learner

ALL = "all of them"  # the row of all domains together


def evaluate(
    model: opt.Model,
    data: opt.Files,
    text: opt.Text = None,
    pair: opt.Pair = None,
    label: opt.Label = None,
    reply: opt.Reply = None,
    by: opt.By = None,
    domains: opt.Domains = None,
    split_column: opt.SplitColumn = None,
    skip_empty: opt.SkipEmpty = False,
    delimiter: opt.Delimiter = None,
    encoding: opt.Encoding = None,
    map_label: opt.MapLabel = None,
    for_domain: opt.ForDomain = None,
    against: Annotated[
        Path | None,
        typer.Option(readable=False, metavar="MODEL", help="Another model, to be held against this one."),
    ] = None,
    by_label: Annotated[
        bool, typer.Option("--by-label", help="Precision, recall and F1 of each label, and the confusion matrix.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(readable=False, metavar="FILE", help="Draw the confusion matrices: .png, .svg or .pdf."),
    ] = None,
    beam: opt.Beam = 1,
    vectors: Annotated[
        Path | None, typer.Option(metavar="FILE", help="word2vec vectors, to compare replies by their meaning.")
    ] = None,
    calibration: Annotated[
        bool, typer.Option("--calibration", help="Say more of how far the probabilities can be believed.")
    ] = False,
    as_json: opt.AsJson = False,
    device: opt.Device = "auto",
) -> None:
    """Accuracy, baseline, F1 and calibration error on every file, or on every value of --by; of replies, other figures.

    The baseline is what whoever always gives the most frequent label gets right.

    Example: memgrow evaluate model/ books_test.jsonl dvds_test.jsonl
    """
    from memgrow.data import load_for_evaluation
    from memgrow.evaluation.calibration import reliability
    from memgrow.evaluation.metrics import confusion_of
    from memgrow.evaluation.replies import evaluate_replies
    from memgrow.learner import Learner
    from memgrow.models import REPLY
    from memgrow.report.confusion import confusion_table, draw_confusions, labels_table, side_by_side_table, verdict
    from memgrow.report.learner import replies_table, scores_table
    from memgrow.storage import check_output

    drawn = None if plot is None else picture_format(plot)
    if plot is not None:
        check_output(plot)
    columns = opt.columns(
        text=text,
        pair=pair,
        label=label,
        by=by,
        split_column=split_column,
        reply=reply,
        map_label=map_label,
        delimiter=delimiter,
        encoding=encoding,
    )
    learner = Learner.load(model, device)
    for_labels = {
        "--calibration": calibration,
        "--by-label": by_label,
        "--plot": plot,
        "--against": against,
        "--for-domain": for_domain,
    }
    if learner.task == REPLY and (asked := [name for name, value in for_labels.items() if value]):
        raise SettingsError(f"{asked[0]} is about models that answer with labels, and this model replies: leave it out")
    for_replies = {"--beam": beam > 1, "--vectors": opt.vectors_file(vectors)}
    if learner.task != REPLY and (asked := [name for name, value in for_replies.items() if value]):
        raise SettingsError(f"{asked[0]} is for replies, and this model answers with labels: leave it out")
    other = None if against is None else Learner.load(against, device)
    if other is not None and other.task == REPLY:
        raise SettingsError(f"{against} replies, and {model} answers with labels: give another model of labels")
    loaded = load_for_evaluation(data, columns, split_names(domains), skip_empty=skip_empty)

    def tell() -> None:  # once there are answers: what is refused is one sentence
        for notice in loaded.notices:
            note_to_stderr(notice)
        note_cut_texts(sum(count_cut_texts(domain.test, learner) for domain in loaded.stream), learner)

    if learner.task == REPLY:
        similar = opt.vectors_file(vectors)
        found = {domain.name: evaluate_replies(learner, domain, beam=beam, vectors=similar) for domain in loaded.stream}
        tell()
        if as_json:
            write_json({name: figures.to_json() for name, figures in found.items()})
        else:
            console.print(replies_table(found))
        return
    answers = {one.name: learner.logits(one) for one in loaded.stream}
    labels, temperature = learner.labels or (), learner.calibration.temperature
    tell()
    scores = {name: reliability(*one, temperature) for name, one in answers.items()}
    plain = {name: reliability(*one) for name, one in answers.items() if calibration}
    confusions = {name: confusion_of(labels, *one) for name, one in answers.items()}
    right = {name: (logits.argmax(-1) == own).tolist() for name, (logits, own) in answers.items()}
    beside: dict[str, SideBySide] = {}
    if other is not None:
        beside = _beside(right, other, loaded.stream)
    if as_json:
        figures: dict[str, Any] = {
            name: one.accuracy
            if not (by_label or calibration or beside)
            else {
                **(confusions[name].to_json() if by_label else {}),
                **(_calibrated(asdict(one), temperature, plain[name].ece) if calibration else {}),
                "accuracy": one.accuracy,
                **({"against": beside[name].to_json()} if beside else {}),
            }
            for name, one in scores.items()
        }
        if ALL in beside:
            of_all = [is_right for one in right.values() for is_right in one]
            figures[ALL] = {"accuracy": sum(of_all) / len(of_all), "against": beside[ALL].to_json()}
        write_json(figures)
    else:
        console.print(scores_table(scores, plain, confusions))
        for name, confusion in confusions.items() if by_label else ():
            console.print(labels_table(name, confusion))
            console.print(confusion_table(name, confusion))
        if beside:
            console.print(side_by_side_table(str(model), str(against), beside))
            say(verdict(str(model), str(against), list(beside.values())[-1]))
    if plot is not None:
        save_picture(plot, lambda file: draw_confusions(confusions, file, f"{model}: labels and answers", drawn))


def _calibrated(figures: dict[str, Any], temperature: float, uncalibrated: float) -> dict[str, Any]:
    return {**figures, "temperature": temperature, "ece_uncalibrated": uncalibrated}


def _beside(right: Mapping[str, list[bool]], other: "Learner", stream: "Stream") -> dict[str, "SideBySide"]:
    """Whether one model does better than another on each domain and, where there are several, on all together."""
    from memgrow.evaluation.metrics import compare_counts, side_by_side

    found = {domain.name: side_by_side(right[domain.name], other.correct(domain)) for domain in stream}
    if len(found) < 2:
        return found
    sums = [sum(getattr(one, name) for one in found.values()) for name in ("examples", "only_first", "only_second")]
    return {**found, ALL: compare_counts(*sums)}
