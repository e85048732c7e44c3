"""`memgrow adapt`: models come into being, go on, and do nothing twice."""

import json

import pytest

from memgrow.methods import RECOMMENDED
from memgrow.storage.folder import ModelFolder
from memgrow.storage.versions import list_versions
from tests.cli.conftest import contents
from tests.support.stored import stored


def same(a, b) -> bool:
    """All that must be the same of two models; history.json holds the seconds, which may differ."""
    a, b = stored(a), stored(b)
    names = [path.name for path in a.iterdir() if path.name not in ("history.json", "checksums.json")]
    assert len(names) >= 3
    return all((a / name).read_bytes() == (b / name).read_bytes() for name in names)


def config(model) -> dict:
    return json.loads((stored(model) / "config.json").read_text())


def test_it_creates_a_model_and_goes_on_from_it(memgrow, data, tmp_path):
    model = tmp_path / "deep" / "model"
    out = memgrow.done("adapt", model, data["kitchen"], *memgrow.tiny)
    assert f"Saved as {model}." in out.replace("\n", "")
    memgrow.done("adapt", model, data["harbour"])
    assert memgrow.learnt(model) == [("kitchen",), ("harbour",)]
    assert config(model)["model"]["hidden"] == 5
    assert config(model)["method"] == RECOMMENDED
    assert [path.name for path in model.parent.iterdir()] == ["model"]


def test_several_files_are_several_domains_in_their_order(memgrow, data, tmp_path):
    memgrow.done("adapt", tmp_path / "m", data["clinic"], data["kitchen"], data["harbour"], *memgrow.tiny)
    assert memgrow.learnt(tmp_path / "m") == [("clinic",), ("kitchen",), ("harbour",)]


def test_domains_one_by_one_or_in_one_command_make_the_same_model(memgrow, data, made, tmp_path):
    memgrow.done("adapt", tmp_path / "m", data["kitchen"], *memgrow.tiny, "--method", "F+M+V")
    memgrow.done("adapt", tmp_path / "m", data["harbour"])
    assert same(tmp_path / "m", made)


def test_the_same_command_again_skips_what_was_learnt(memgrow, data, untouched):
    out = memgrow.done("adapt", untouched, data["kitchen"], data["harbour"], *memgrow.tiny)
    assert out.count("skipped") == 2
    assert "nothing new to learn" in out


def test_again_learns_what_was_learnt_anew(memgrow, data, model):
    out = memgrow.done("adapt", model, data["kitchen"], "--again")
    assert "skipped" not in out
    assert memgrow.learnt(model) == [("kitchen",), ("harbour",), ("kitchen",)]


def test_changed_data_of_a_known_domain_is_learnt(memgrow, data, model, tmp_path):
    changed = tmp_path / "kitchen.jsonl"
    changed.write_text(data["kitchen"].read_text().replace("soup", "broth"))
    memgrow.done("adapt", model, changed)
    assert memgrow.learnt(model)[-1] == ("kitchen",)
    assert len(memgrow.learnt(model)) == 3


def test_multi_task_trains_once_on_all_files_and_not_again(memgrow, data, tmp_path):
    command = ("adapt", tmp_path / "m", data["kitchen"], data["harbour"], "--method", "multi-task", *memgrow.tiny)
    memgrow.done(*command)
    assert memgrow.learnt(tmp_path / "m") == [("kitchen", "harbour")]
    assert "nothing new to learn" in memgrow.done(*command)


def test_multi_task_without_the_old_data_is_refused(memgrow, data, untouched):
    sentence = memgrow.refused("adapt", untouched, data["clinic"], "--method", "multi-task")
    assert "give the data of kitchen, harbour again" in sentence


def test_a_method_is_kept_until_another_is_asked_for(memgrow, data, tmp_path):
    model = tmp_path / "m"
    memgrow.done("adapt", model, data["kitchen"], "--method", "f+v", *memgrow.tiny)
    memgrow.done("adapt", model, data["harbour"])
    memgrow.done("adapt", model, data["clinic"], "--method", "F+M")
    stages = json.loads((stored(model) / "history.json").read_text())["stages"]
    assert [stage["method"] for stage in stages] == ["F+V", "F+V", "F+M"]
    assert [stage["grew"]["slots"] for stage in stages] == [4, 0, 4]


def test_a_recipe_sets_what_words_on_the_command_line_then_change(memgrow, data, tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "method: F\nseed: 7\nmodel: {hidden: 3, embedding: 6, slots: 2, perceptron: 4}\ntraining: {epochs: 1}\n"
    )
    words = ("--recipe", recipe, "--set", "model.slots=3", "--method", "F+M")
    memgrow.done("adapt", tmp_path / "m", data["kitchen"], *words)
    found = config(tmp_path / "m")
    assert (found["method"], found["seed"]) == ("F+M", 7)
    assert (found["model"]["hidden"], found["model"]["slots"]) == (3, 3)


def test_a_setting_may_change_between_domains_and_is_kept(memgrow, data, model):
    memgrow.done("adapt", model, data["clinic"], "--set", "epochs=2", "--set", "options.slots=7")
    stages = json.loads((stored(model) / "history.json").read_text())["stages"]
    assert stages[-1]["epochs"] == 2
    assert stages[-1]["grew"]["slots"] == 7
    assert config(model)["training"]["epochs"] == 2


def test_settings_that_a_method_does_not_use_are_named(memgrow, data, model):
    words = ("--set", "options.slots=7", "--set", "options.keep=0.3", "--set", "options.smooth=0.9")
    said = memgrow.done("adapt", model, data["clinic"], "--method", "F+V+E", *words)
    assert "F+V+E does not use what is set for slots, keep" in " ".join(said.split())
    said = memgrow.done("adapt", model, data["harbour"], "--method", "F+M+V+A+E")
    assert "does not use" not in said


def test_the_share_that_validation_allows_is_said_and_stands_in_the_history(memgrow, data, model):
    said = memgrow.done("adapt", model, data["clinic"], "--method", "F+V+A", "--set", "keep=auto")
    note = json.loads((stored(model) / "history.json").read_text())["stages"][-1]["note"]
    assert note["keep_chosen"] == config(model)["options"]["keep"] == "auto"
    assert f"went {100 * note['keep']:.0f}% back to the old weights" in " ".join(said.split())


def test_one_seed_one_model(memgrow, data, tmp_path):
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        memgrow.done("adapt", tmp_path / name, data["kitchen"], "--seed", seed, *memgrow.tiny)
    assert same(tmp_path / "a", tmp_path / "b")
    assert not same(tmp_path / "a", tmp_path / "c")


def test_an_old_model_keeps_its_seed_until_another_is_given(memgrow, data, model):
    memgrow.done("adapt", model, data["clinic"], "--seed", 9)
    memgrow.done("adapt", model, data["clinic"], "--again")
    assert config(model)["seed"] == 9


@pytest.mark.parametrize("way", ["model/../model", "link"])
def test_a_model_named_in_a_roundabout_way_is_written_where_it_lies(memgrow, data, model, way):
    link = model.parent / "link"
    link.symlink_to("model", target_is_directory=True)
    memgrow.done("adapt", model.parent / way, data["clinic"])
    assert len(memgrow.learnt(model)) == 3
    assert link.is_symlink()
    assert sorted(path.name for path in model.parent.iterdir()) == ["link", "model"]


def test_the_folder_one_stands_in_may_be_the_model(memgrow, data, model, monkeypatch):
    monkeypatch.chdir(model)
    memgrow.done("adapt", ".", data["clinic"])
    assert len(memgrow.learnt(model)) == 3


def test_an_empty_folder_becomes_the_model(memgrow, data, tmp_path):
    (tmp_path / "m").mkdir()
    memgrow.done("adapt", tmp_path / "m", data["kitchen"], *memgrow.tiny)
    assert memgrow.learnt(tmp_path / "m") == [("kitchen",)]


def test_names_that_look_like_markup_are_names(memgrow, data, tmp_path):
    file = tmp_path / "[red]a[-bold].jsonl"
    file.write_bytes(data["kitchen"].read_bytes())
    out = memgrow.done("adapt", tmp_path / "[m]", file, *memgrow.tiny)
    assert "[red]a[-bold]: 48 examples" in out
    assert "[red]a[-bold]" in memgrow.done("inspect", tmp_path / "[m]", "a", "b")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--keep-versions", 999), "999 earlier versions cannot be kept"),
        (("--max-forgetting", -3), "must be 0 or more points"),
    ],
)
def test_wrong_numbers_are_told_also_where_there_is_nothing_new_to_learn(memgrow, untouched, data, words, says):
    assert says in memgrow.refused("adapt", untouched, data["kitchen"], *words)


def test_how_many_versions_to_keep_is_noted_also_where_there_is_nothing_new_to_learn(memgrow, model, data):
    before = contents(model)
    out = memgrow.done("adapt", model, data["kitchen"], "--keep-versions", 3)
    assert "nothing new to learn" in out
    assert ModelFolder.read(model).keep == 3
    changed = {name for name, content in contents(model).items() if before.get(name) != content}
    assert changed == {"manifest.json"}, "all else is as it was"
    memgrow.done("adapt", model, data["clinic"])
    assert sorted(one.number for one in list_versions(model)[1:]) == [1, 2]
    memgrow.done("adapt", model, data["clinic"], "--keep-versions", 1)
    assert sorted(one.number for one in list_versions(model)[1:]) == [2]
