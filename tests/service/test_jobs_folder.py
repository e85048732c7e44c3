"""A service removes nothing from its folder of trainings but what it made there itself."""

import json
from pathlib import Path

import pytest

from memgrow.errors import MemgrowError
from memgrow.service.jobs import Job, JobFolder
from memgrow.service.running import Service
from tests.service.conftest import Serve, Served, left, upload, wait


def everything(folder: Path) -> dict[str, bytes | None]:
    """All that lies in a folder."""
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def said(served: Served) -> list[str]:
    """Which folders the log says were left alone."""
    lines = map(json.loads, served.log.getvalue().splitlines())
    return [line["job"] for line in lines if line["event"] == "job left alone"]


@pytest.mark.parametrize("names", [["thesis"], ["notes.txt"], ["18f-0a1b2c3d", "thesis"], ["18f-0a1b2c3d4e"]])
def test_a_folder_that_holds_other_things_is_refused_and_unchanged(
    folder: Path, tmp_path: Path, names: list[str]
) -> None:
    jobs = tmp_path / "home"
    for name in names:
        (jobs / name).mkdir(parents=True)
        (jobs / name / "chapter").write_text("one")
    before = everything(jobs)
    with pytest.raises(MemgrowError, match="--jobs"):
        Service(folder, device="cpu", jobs=jobs)
    assert everything(jobs) == before


@pytest.mark.parametrize("where", ["model", "model/jobs", ".", "link"])
def test_a_folder_with_the_model_or_within_it_is_refused(folder: Path, tmp_path: Path, where: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    before = everything(folder)
    with pytest.raises(MemgrowError, match="--jobs"):
        Service(folder, device="cpu", jobs=tmp_path / where)
    assert everything(folder) == before


def test_a_file_in_the_place_of_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("")
    for place in (tmp_path / "jobs", tmp_path / "jobs" / "within"):
        with pytest.raises(MemgrowError, match="is a file"):
            Service(folder, device="cpu", jobs=place)


@pytest.mark.parametrize("kind", ["missing", "far", "empty", "link", "dangling", "volume"])
def test_a_folder_of_its_own_is_taken(
    serve: Serve, third: bytes, at_once: None, folder: Path, tmp_path: Path, kind: str
) -> None:
    jobs, real = tmp_path / "own", tmp_path / "real"
    if kind == "far":
        jobs = jobs / "in" / "there"
    if kind in ("empty", "volume"):
        jobs.mkdir()
    if kind == "volume":  # the root of a file system
        (jobs / "lost+found").mkdir()
        (jobs / ".Trash-0").mkdir()
    if kind == "link":
        real.mkdir()
    if kind in ("link", "dangling"):
        jobs.symlink_to(real)
    client = serve(jobs=jobs).client
    assert wait(client, upload(client, third).json()["job"])["state"] == "published"


def test_an_upload_that_was_never_accepted_is_removed(serve: Serve, third: bytes, folder: Path) -> None:
    never = left(folder, third)
    (never.place / "job.json").rename(never.place / ".job.json.7.writing")
    served = serve()
    assert not never.place.exists()
    assert said(served) == []


@pytest.mark.parametrize("more", ["model", "letters"])
def test_a_folder_without_a_record_that_holds_more_than_an_upload_stays(
    serve: Serve, third: bytes, folder: Path, more: str
) -> None:
    place = left(folder, third).place
    (place / "job.json").unlink()
    (place / more).mkdir()
    served = serve()
    assert (place / more).is_dir()
    assert said(served) == [place.name]


@pytest.mark.parametrize(
    "record",
    [
        "{",
        "[]",
        '{"id": "1"}',
        {"priority": 1},
        {"state": "paused"},
        {"suffix": "/../../letter"},
        {"id": "18f-0a1b2c3d"},
        None,
    ],
    ids=["half", "list", "part", "newer field", "newer state", "path", "copy", "unreadable"],
)
def test_a_training_whose_record_is_not_understood_stays_and_is_told_in_the_log(
    serve: Serve, third: bytes, folder: Path, record: str | dict[str, object] | None
) -> None:
    place = left(folder, third, "ready", publish=False)
    place.candidate.mkdir()
    (place.candidate / "weights").write_text("hours of work")
    file = place.place / "job.json"
    if isinstance(record, dict):
        record = json.dumps({**json.loads(file.read_text()), **record})
    file.unlink()
    if record is None:
        file.mkdir()  # an OSError for whoever reads it, also for root
    else:
        file.write_text(record)
    before = everything(place.place)
    served = serve()
    assert served.client.get("/jobs").json()["jobs"] == []
    assert everything(place.place) == before
    assert said(served) == [place.place.name]


def test_a_link_to_a_folder_elsewhere_is_not_followed(serve: Serve, folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "18f-0a1b2c3d"
    JobFolder(elsewhere).create()
    JobFolder(elsewhere).write(Job("18f-0a1b2c3d", "new", ".jsonl", True, 0.0, "discarded"))
    (elsewhere / "letter").write_text("mine")
    jobs = folder.with_name("model.jobs")
    jobs.mkdir()
    (jobs / "18f-0a1b2c3d").symlink_to(elsewhere)
    served = serve()
    assert (elsewhere / "letter").exists()
    assert said(served) == ["18f-0a1b2c3d"]
