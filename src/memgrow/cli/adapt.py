"""`memgrow adapt`: create a model or go on from it, domain by domain."""

import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memgrow.cli import options as opt
from memgrow.cli.app import console, notice, progress_console, say, say_verdict, set_quiet, split_names, write_json
from memgrow.errors import DataError, MemgrowError, ModelError, SettingsError, counted, listed

if TYPE_CHECKING:
    from memgrow.data import Domain, Stream
    from memgrow.evaluation.history import Stage
    from memgrow.evaluation.progress_bars import Tracking, TrainingBar
    from memgrow.learner import Learner
    from memgrow.models.hub import EncoderFiles


METHOD_HELP = "How to learn a new domain: see memgrow methods."
WATCH_HELP = "Test examples of an earlier domain, or its name in the data; evaluated after each domain."
GATE_HELP = "Keep no domain that costs a watched one more than this."


@opt.grouped
def adapt(
    model: opt.Model,
    data: opt.Files,
    settings: opt.SettingOptions,
    rows: opt.TrainingDataOptions,
    method: str | None = opt.setting(METHOD_HELP, metavar="NAME", autocompletion=opt.method_names),
    watch: list[Path] | None = opt.file_option(WATCH_HELP),
    max_forgetting: float | None = opt.setting(GATE_HELP, metavar="POINTS"),
    keep_versions: int | None = opt.setting("Earlier versions to keep for undo [3]."),
    tensorboard: Path | None = opt.file_option("Log the training to TensorBoard here.", opt.SETTINGS, "FOLDER"),
    again: bool = opt.option("Learn data again that was learned before.", "--again", default=False),
    wait: bool = opt.option("Wait while another process changes the model.", "--wait", default=False),
    as_json: opt.AsJson = False,
) -> None:
    """Learn domains one after another, in a new or an existing model. Run again to resume.

    Example: memgrow adapt model/ books.jsonl dvds.jsonl.gz
    """
    from memgrow.data import Loaded, Stream, load_for_evaluation
    from memgrow.data.remembered import note_test_files
    from memgrow.evaluation.model_tables import verdict_of
    from memgrow.evaluation.progress_bars import Tracking, TrainingBar, check_tracker, find_tracker
    from memgrow.evaluation.tables import matrix_table, measure_of_task, summary_line
    from memgrow.methods import find_method
    from memgrow.nn import distributed
    from memgrow.nn.device import allow_tf32, find_device
    from memgrow.storage.folder import hold
    from memgrow.storage.versions import check_keep_versions, note_keep_versions
    from memgrow.training.settings import sizes_line

    settings = replace(settings, device=distributed.join(settings.device))
    if not distributed.is_first():
        set_quiet(True)
        tensorboard = None
    if tensorboard is not None:
        check_tracker("tensorboard")
    check_keep_versions(keep_versions)
    if max_forgetting is not None and not max_forgetting >= 0:
        raise SettingsError(f"--max-forgetting must be 0 or more points, not {max_forgetting:g}")
    is_new_model = is_new(model)
    with hold(model, *((inf, notice) if wait else ())):
        # Quick checks come first: a long file need not be read for a misspelled method.
        changes = settings.changes()
        allow_tf32(find_device(settings.device))
        if (method := method or changes.method) is not None:
            method = find_method(method).name
        learner = None if is_new_model else open_model(model, settings, changes, method)
        chosen, (watch_files, watch_names) = split_names(rows.domains), _files_and_names(watch or ())
        names = chosen and list(dict.fromkeys([*chosen, *watch_names]))
        loaded = rows.load(data, names)
        stream, watched_too = _split_watched(loaded.stream, chosen or (), watch_names)
        watched = Loaded(Stream(()))
        if watch_files:
            watched = load_for_evaluation(watch_files, rows.columns(), model=model)
        again_tested = _remembered(
            model, [*watch_files, *data, *(rows.test or ())], {*stream.names, *watched.stream.names}
        )
        if learner is None:
            learner = create_model(settings, changes, method, stream)
            count = sum(len(one.train) for one in (stream if learner.method.joint else stream[:1]))
            sizes = sizes_line(learner.settings, learner.training, count, learner.method.closed_form)
            notice(f"{sizes} (--encoder and --set change it)")
        notice(*loaded.notices, *watched.notices)
        if str(settings.vectors) == opt.NO_VECTORS:
            learner.config = replace(learner.config, vectors=None)
        tracker = find_tracker("tensorboard", tensorboard, model.resolve().name) if tensorboard else None
        if tensorboard is not None:
            notice(f"To watch it: tensorboard --logdir {shlex.quote(str(tensorboard))}")
        with TrainingBar(progress_console()) as bar, Tracking(tracker, bar) as tracked:
            stages = _learn(
                learner,
                stream,
                bar,
                tracked,
                folder=model.resolve(),
                watch=[*watched.stream, *watched_too, *again_tested],
                again=again,
                vectors=settings.vectors_file,
                max_forgetting=max_forgetting,
                keep_versions=keep_versions,
                threads=settings.threads,
            )
        if not distributed.is_first():
            return
        try:
            note_test_files(model, loaded.tests, rows.columns(rows.group), rows.limit)
            note_test_files(model, dict.fromkeys(watch_files, False), rows.columns(), None)
        except OSError as error:  # the model is saved
            notice(f"the test files could not be noted ({error.strerror}): give them with --watch next time")
        if keep_versions is not None and not stages:
            note_keep_versions(model, keep_versions)
        console.print(matrix_table(learner.history.matrix, measure_of_task(learner.task)))
        if (verdict := verdict_of(learner)).lost:
            say_verdict(verdict)
        say(summary_line(learner.history, learner.task))
        if as_json:
            found = {"stages": [stage.to_json() for stage in stages], "history": learner.history.to_json()}
            write_json({"model": str(model), **found, "verdict": asdict(verdict)}, indent=1)
        say(f"Saved as {model}." if stages else f"Nothing new to learn: {model} is unchanged.")


def _learn(
    learner: "Learner", stream: "Stream", bar: "TrainingBar", tracked: "Tracking", **arguments: Any
) -> "list[Stage]":
    """Learn each domain that the model has not learned yet; `arguments` are those of `Learner.learn`."""
    from memgrow.evaluation.tables import stage_line
    from memgrow.models import REPLY
    from memgrow.training.settings import defaults_for

    if unread := learner.method.unread(learner.options, defaults_for(learner.settings).options):
        bar.note(f"{learner.method.name} does not use {', '.join(unread)}")
    stages: list[Stage] = []
    bar.replies = learner.task == REPLY or any(domain.has_replies for domain in stream)

    def show(stage: "Stage", new: bool) -> None:
        if not new:
            bar.note(f"{' and '.join(stage.learned)}: skipped, learned from the same data (--again learns it again)")
            return
        bar.clear()
        bar.say(stage_line(stage, learner.task))
        stages.append(stage)
        tracked.stage(learner.history)

    learner.learn(stream, on_stage=show, progress=tracked, **arguments)
    return stages


def is_new(folder: Path) -> bool:
    """Whether a model can be created here; an error if something else is in the way."""
    from memgrow.storage.folder import MANIFEST, foreign_names

    if (folder / MANIFEST).exists():
        return False
    if folder.is_dir() and foreign_names(folder):
        raise ModelError(f"{folder} is not a memgrow model and holds other files: choose another name")
    for place in (folder, *folder.absolute().parents):
        if place.exists() and not place.is_dir():
            raise ModelError(f"{place} is a file, and a model is a folder: choose another name")
    return True


def create_model(
    settings: opt.SettingOptions, changes: opt.SettingChanges, method: str | None, stream: "Stream"
) -> "Learner":
    from memgrow.learner import Learner
    from memgrow.methods import find_method
    from memgrow.models import REPLY
    from memgrow.training.checks import check_stage

    replies = any(domain.has_replies for domain in stream)
    usual = changes.defaults(settings.device, methods=[method], replies=replies, vectors=settings.vectors_file)
    model = changes.model(usual.model, settings.vectors_file)
    find_method(method or usual.method).check(model)
    check_stage(stream[:1], None, None)  # before `create` fetches an encoder
    return Learner.create(
        method or usual.method,
        task=REPLY if replies else None,
        model=model,
        training=changes.section("training", usual.training),
        options=changes.section("options", usual.options),
        seed=changes.seed or 0,
        device=settings.device,
    )


def open_model(
    folder: Path, settings: opt.SettingOptions, changes: opt.SettingChanges, method: str | None
) -> "Learner":
    """The model of the folder, with the settings that are given."""
    from memgrow.learner import Learner

    learner = Learner.load(folder, settings.device)
    wanted = changes.section("model", learner.settings)
    if changes.encoder is not None and learner.encoder is not None:
        files = _same_encoder(folder, changes.encoder, learner.encoder)
        learner.config = replace(learner.config, encoder=files)
        wanted = replace(wanted, encoder=files.name)
    other = [
        f"{name} {ours} (not {value})"
        for name, value in vars(wanted).items()
        if value != (ours := getattr(learner.settings, name))
    ]
    if other:
        raise SettingsError(f"{folder} has {', '.join(other)}, which cannot change: leave it out, or start a new model")
    training = changes.section("training", learner.training)
    learner.config = replace(
        learner.config, training=training, seed=learner.seed if changes.seed is None else changes.seed
    )
    kept = learner.state.method_state.rows
    learner.use(method or learner.method.name, changes.section("options", learner.options))
    if kept and not learner.method.keeps_rows:
        rows = counted(sum(map(len, kept.values())), "row")
        notice(f"{folder} keeps {rows} of {listed(kept)}: {learner.method.name} drops them with the next save")
    return learner


def _same_encoder(folder: Path, name: str, ours: "EncoderFiles") -> "EncoderFiles":
    """The files of the model's encoder, if the one that is asked for has the same weights."""
    from memgrow.models.hub import KNOWN, find_encoder

    if name == ours.name and name in KNOWN and not KNOWN[name].is_here():
        return ours  # a model has all that it needs
    try:
        found = find_encoder(name)
    except MemgrowError:
        if name != ours.name:
            raise
        return ours  # the encoder is no longer found
    if found.sha256 != ours.sha256:
        raise SettingsError(f"{folder} has the encoder {ours.name} with other weights: leave --encoder out")
    return replace(ours, weights=found.weights)


def _remembered(model: Path, given: Iterable[Path], names: Collection[str]) -> "list[Domain]":
    """Test domains of earlier calls that are not among `names`, from the files of then, if these are as they were."""
    from memgrow.data import load_for_evaluation
    from memgrow.data.disk import sha256_of
    from memgrow.data.remembered import read_test_files

    found: list[Domain] = []
    here = {path.absolute() for path in given}
    for path, one in ((path, one) for path, one in read_test_files(model).items() if path not in here):
        try:
            if sha256_of(path) != one.sha256:
                raise DataError("it has changed")
            again = load_for_evaluation([path], one.columns, limit=one.limit, model=model)
            found += [domain for domain in again.stream if domain.name not in names]
        except (MemgrowError, OSError) as error:
            notice(f"{path.name} was a test file of this model and is not read ({error}): --watch FILE gives one")
    return [one for one in found if one.test]


def _files_and_names(watch: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """--watch takes files and names of domains: a word that is no file and has no file's ending is a name."""
    from memgrow.data.files import is_data_file

    names = [path for path in watch if path.name == str(path) and not is_data_file(path) and not path.exists()]
    return [path for path in watch if path not in names], [str(path) for path in names]


def _split_watched(stream: "Stream", chosen: Sequence[str], watched: Sequence[str]) -> "tuple[Stream, list[Domain]]":
    """The domains to learn, and those that are only watched."""
    from memgrow.data import Domain, Stream

    if unknown := [name for name in watched if name not in stream.names]:
        raise DataError(f"--watch {listed(unknown)} is no file and no domain of the data ({listed(stream.names)})")
    only = [Domain(domain.name, test=domain.test) for domain in stream if chosen and domain.name not in chosen]
    if untested := [domain.name for domain in only if not domain.test]:
        raise DataError(f"--watch {listed(untested)} has no test examples: give some, or leave it out")
    return Stream(domain for domain in stream if not chosen or domain.name in chosen), only
