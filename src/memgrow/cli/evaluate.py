"""`memgrow evaluate`: how well a model does on files."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import console, count_cut_texts, note_cut_texts, note_to_stderr, split_names, write_json
from memgrow.errors import SettingsError


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
    for_domain: opt.ForDomain = None,
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
    """Accuracy and expected calibration error on every file, or on every value of --by; of replies, several figures.

    Example: memgrow evaluate model/ books_test.jsonl dvds_test.jsonl
    """
    from memgrow.data import Columns, load_for_evaluation
    from memgrow.experiments.reply_records import evaluate_replies
    from memgrow.learner import Learner
    from memgrow.models import REPLY
    from memgrow.report.learner import replies_table, scores_table

    columns = Columns(text=text, pair=pair, label=label, by=by, split=split_column, reply=reply)
    learner = Learner.load(model, device)
    if calibration and learner.task == REPLY:
        raise SettingsError("--calibration is about the probabilities of labels, and this model replies: leave it out")
    loaded = load_for_evaluation(data, columns, split_names(domains), skip_empty=skip_empty)
    if learner.task == REPLY:
        found = {domain.name: evaluate_replies(learner, domain, beam=beam, vectors=vectors) for domain in loaded.stream}
        shown: dict[str, Any] = {name: figures.to_json() for name, figures in found.items()}
        table = replies_table(found)
    else:
        with learner.answering_for(for_domain):
            scores = {one.name: learner.reliability(one) for one in loaded.stream}
            plain = {one.name: learner.reliability(one, temperature=1.0) for one in loaded.stream if calibration}
            at = {"temperature": learner.calibration.temperature}
        shown = {name: one.accuracy for name, one in scores.items()}
        if calibration:
            shown = {name: asdict(one) | at | {"ece_uncalibrated": plain[name].ece} for name, one in scores.items()}
        table = scores_table(scores, plain)
    for notice in loaded.notices:
        note_to_stderr(notice)
    note_cut_texts(sum(count_cut_texts(domain.test, learner) for domain in loaded.stream), learner)
    if as_json:
        write_json(shown)
    else:
        console.print(table)
