"""`memgrow adapt`: create a model or go on from it, domain by domain, with a bar and a line for each."""

from dataclasses import replace
from math import inf
from typing import Annotated

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import console, notice, progress_console, say, split_names, write_json
from memgrow.storage.folder import hold


def adapt(
    model: opt.Model,
    data: opt.Files,
    method: opt.Method = None,
    encoder: opt.Encoder = None,
    vectors: opt.Vectors = None,
    recipe: opt.Recipe = None,
    set_: opt.Set = None,
    seed: opt.Seed = None,
    device: opt.Device = "auto",
    text: opt.Text = None,
    pair: opt.Pair = None,
    label: opt.Label = None,
    reply: opt.Reply = None,
    by: opt.By = None,
    domains: opt.Domains = None,
    group: opt.Group = None,
    split_column: opt.SplitColumn = None,
    validation: opt.Validation = None,
    test: opt.Test = None,
    held_out: opt.HeldOut = None,
    watch: opt.Watch = None,
    max_forgetting: Annotated[
        float | None,
        typer.Option(
            metavar="POINTS",
            help="Keep no domain that costs more than this on one that is watched.",
            rich_help_panel=opt.SETTINGS,
        ),
    ] = None,
    keep_versions: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Earlier versions that undo can go back to; 1 at first.", rich_help_panel=opt.SETTINGS
        ),
    ] = None,
    threads: opt.Threads = None,
    track: opt.Track = None,
    track_to: opt.TrackTo = "memgrow-track",
    limit: opt.Limit = None,
    skip_empty: opt.SkipEmpty = False,
    delimiter: opt.Delimiter = None,
    encoding: opt.Encoding = None,
    map_label: opt.MapLabel = None,
    again: Annotated[bool, typer.Option("--again", help="Learn anew what was learnt from the same data.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait while another process changes the model.")] = False,
    as_json: opt.AsJson = False,
) -> None:
    """Learn domains in turn, in a new MODEL or going on from it; resumes if killed.

    Example: memgrow adapt model/ books.jsonl dvds.jsonl.gz --method F+M+V
    """
    from memgrow.cli.learning import (
        files_and_names,
        is_free,
        learn_stream,
        open_or_create,
        parted,
        sizes_note,
        tracking,
    )
    from memgrow.cli.recipe import read_recipe
    from memgrow.data import Loaded, Stream, load_for_evaluation, load_stream
    from memgrow.errors import SettingsError
    from memgrow.report.learner import matrix_title, summary_line
    from memgrow.report.matrix import MatrixTable
    from memgrow.report.progress_bars import TrainingBar
    from memgrow.report.tracking import check_tracker
    from memgrow.storage.versions import check_keep_versions, note_keep_versions

    if track is not None:
        check_tracker(track)
    check_keep_versions(keep_versions)
    if max_forgetting is not None and not max_forgetting >= 0:
        raise SettingsError(f"--max-forgetting must be 0 or more points, not {max_forgetting:g}")
    is_free(model)  # before anything is made beside it
    with hold(model, *((inf, notice) if wait else ())):
        # What is quick to check comes first: a long file need not be read for a misspelt method.
        asked = read_recipe(recipe, set_ or (), encoder)
        forgets, vectors = str(vectors) == opt.NO_VECTORS, opt.vectors_file(vectors)
        learner = open_or_create(model, asked, method, seed, device, vectors)
        columns = opt.columns(
            text=text,
            pair=pair,
            label=label,
            by=by,
            group=group,
            split_column=split_column,
            reply=reply,
            map_label=map_label,
            delimiter=delimiter,
            encoding=encoding,
        )
        chosen, watch_files, watch_names = split_names(domains), *files_and_names(watch or ())
        loaded = load_stream(
            data,
            columns=columns,
            validation=validation or (),
            test=test or (),
            held_out=held_out or (),
            domains=chosen and list(dict.fromkeys([*chosen, *watch_names])),
            limit=limit,
            skip_empty=skip_empty,
        )
        stream, watched_too = parted(loaded.stream, chosen, watch_names)
        watched = (
            load_for_evaluation(watch_files, replace(columns, group=None), skip_empty=skip_empty)
            if watch_files
            else Loaded(Stream(()))
        )
        if learner.model is None and any(domain.has_replies for domain in stream):
            learner = open_or_create(model, asked, method, seed, device, vectors, replies=True)
        if learner.model is None:
            notice(sizes_note(learner, asked, device))
        for sentence in (*loaded.notices, *watched.notices):
            notice(sentence)
        learner.vectors = None if forgets else learner.vectors
        with TrainingBar(progress_console()) as bar, tracking(track, track_to, model, bar) as tracked:
            stages = learn_stream(
                learner,
                stream,
                [*watched.stream, *watched_too],
                folder=model,
                again=again,
                bar=bar,
                tracked=tracked,
                vectors=vectors,
                max_forgetting=max_forgetting,
                keep_versions=keep_versions,
                threads=threads,
            )
        if keep_versions is not None and not stages:
            note_keep_versions(model, keep_versions)
        console.print(MatrixTable(learner.history.matrix, matrix_title(learner.task)))
        say(summary_line(learner.history, learner.task))
        if as_json:
            learnt = [stage.to_json() for stage in stages]
            write_json({"model": str(model), "stages": learnt, "history": learner.history.to_json()}, indent=1)
        say(f"Saved as {model}." if stages else f"There was nothing new to learn: {model} is as it was.")
