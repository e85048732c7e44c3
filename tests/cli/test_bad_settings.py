"""Settings that do not exist or cannot be: one sentence that names what can, and every model as it was."""

import time

import pytest

SETTINGS = [
    (("--method", "G+X"), "there is no method 'G+X'; there are F, F+V, F+M"),
    (("--device", "tpu"), "there is no device 'tpu'; there are auto, cpu and cuda"),
    (("--set", "hiden=5"), "there is no setting 'hiden'; did you mean hidden? there are model.cell, "),
    (("--set", "slots=5"), "--set slots may be model.slots or options.slots: say which"),
    (("--set", "method=F"), "--set knows no 'method': give it as --method"),
    (("--set", "hidden"), "--set 'hidden' has no '=': write a name and a value, such as hidden=64"),
    (("--set", "hidden=0"), "hidden must be at least 1, not 0"),
    (("--set", "hidden=-3"), "hidden must be at least 1, not -3"),
    (("--set", "hidden=many"), "--set hidden must be a whole number, not 'many'"),
    (("--set", "hidden=2.5"), "--set hidden must be a whole number, not 2.5"),
    (("--set", "hidden=[5"), "--set 'hidden=[5' cannot be read"),
    (("--set", "hidden=&a [*a]"), "--set 'hidden=&a [*a]' cannot be read"),
    (("--set", "rate=inf"), "rate must be a finite number, not inf"),
    (("--set", "strength=inf"), "strength must be a finite number, not inf"),
    (("--set", "hidden=99999999999"), "--set hidden is too large (99999999999)"),
    (("--set", "rate=nan"), "--set rate must be a number, not 'nan'"),
    (("--set", "rate=0"), "rate must be above 0"),
    (("--set", "keep=half"), "--set keep must be a number or auto, not 'half'"),
    (("--set", "keep=1.5"), "keep is a share from 0 to 1 or auto, not 1.5"),
    (("--set", "cell=transformer"), "cell 'transformer' is not known; there are lstm, gru, rnn"),
    (("--set", "epochs=0"), "epochs must be at least 1"),
    (("--recipe", "nowhere.yaml"), "there is no recipe nowhere.yaml: it is a file, or one of demo, "),
]


@pytest.mark.parametrize(("words", "says"), SETTINGS)
def test_nothing_comes_of_a_setting_that_cannot_be(memgrow, data, never_made, words, says):
    assert says in memgrow.refused("adapt", never_made, data["kitchen"], *words)


@pytest.mark.parametrize(("words", "says"), SETTINGS)
def test_an_old_model_stays_as_it_was(memgrow, data, untouched, words, says):
    assert says in memgrow.refused("adapt", untouched, data["clinic"], *words)


def test_settings_are_checked_before_long_files_are_read(memgrow, data, never_made, monkeypatch):
    monkeypatch.setattr("memgrow.data.load_stream", lambda *_, **__: pytest.fail("the data was read"))
    memgrow.refused("adapt", never_made, data["kitchen"], "--method", "G+X")


RECIPES = [
    ("model: [hidden: 5", "recipe.yaml, line 1: this is not YAML"),
    ("model:\n\thidden: 5\n", "recipe.yaml, line 2: this is not YAML"),
    ("just words", "recipe.yaml: a recipe has some of method, seed, model, training, options"),
    ("", "recipe.yaml: a recipe has some of method"),
    ("modell: {hidden: 5}", "recipe.yaml: 'modell' is not known; a recipe has some of method"),
    ("model: {hiden: 5}", "recipe.yaml: model has no setting 'hiden'; it has cell, embedding, hidden"),
    ("model: {hidden: five}", "recipe.yaml: model.hidden must be a whole number, not 'five'"),
    ("model: {bidirectional: 1}", "recipe.yaml: model.bidirectional must be true or false, not 1"),
    ("model: {slot_size: x}", "recipe.yaml: model.slot_size must be a whole number or null, not 'x'"),
    ("training: 5", "recipe.yaml: training must hold names and values, such as rate, not 5"),
    ("method: 5", "recipe.yaml: method must be a word, not 5"),
    ("seed: true", "recipe.yaml: seed must be a whole number, not True"),
    ("method: G+X", "there is no method 'G+X'"),
    ("model: &a\n  hidden: *a", "recipe.yaml, line 2: this is not YAML (aliases are not allowed)"),
    ("training: {new_rate: .inf}", "new_rate must be a finite number, not inf"),
    ("- a\n" * (1 << 15), "recipe.yaml has more than 64 kB, and is no recipe"),
]


@pytest.mark.parametrize(("text", "says"), RECIPES)
def test_a_recipe_that_cannot_be_is_named_with_its_fault(memgrow, data, never_made, tmp_path, text, says):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(text)
    # A setting of the command line does not cover up what is wrong in the file.
    words = ("--recipe", recipe, "--set", "model.hidden=5", "--set", "rate=0.1")
    assert says in memgrow.refused("adapt", never_made, data["kitchen"], *words)


def laughs(depth: int = 9) -> str:
    """Lists within lists by aliases: a few hundred letters that stand for 9 ** depth words."""
    lines = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, depth)]
    return "{" + ", ".join(lines) + "}"


def test_aliases_within_aliases_take_no_time_and_no_long_sentence(memgrow, data, never_made, tmp_path):
    (tmp_path / "recipe.yaml").write_text(laughs())
    for words in (("--recipe", tmp_path / "recipe.yaml"), ("--set", f"hidden={laughs()}")):
        began = time.process_time()
        assert len(memgrow.refused("adapt", never_made, data["kitchen"], *words)) < 200 + len(str(tmp_path))
        assert time.process_time() - began < 2


def test_a_long_value_of_the_wrong_kind_is_not_repeated_whole(memgrow, data, never_made):
    words = ("--set", f"hidden=[{', '.join(['5'] * 9_000)}]")
    assert len(memgrow.refused("adapt", never_made, data["kitchen"], *words)) < 200


def test_a_recipe_that_is_no_text_is_refused(memgrow, data, never_made, tmp_path):
    (tmp_path / "recipe.yaml").write_bytes(b"\xff\xfe\x00")
    words = ("--recipe", tmp_path / "recipe.yaml")
    assert "this is not YAML" in memgrow.refused("adapt", never_made, data["kitchen"], *words)


def test_a_size_beyond_all_memory_is_a_sentence(memgrow, data, never_made):
    for size in (2_000_000, 2_000_000_000):
        sentence = memgrow.refused("adapt", never_made, data["kitchen"], "--set", f"hidden={size}")
        assert sentence == "there is not enough memory: choose a smaller batch, hidden, slots or max_words with --set"


def test_an_old_model_keeps_its_sizes(memgrow, data, untouched):
    sentence = memgrow.refused("adapt", untouched, data["clinic"], "--set", "hidden=9", "--set", "cell=gru")
    assert f"{untouched} was made with cell lstm (not gru), hidden 5 (not 9)" in sentence
    assert "start a model of another name" in sentence


def test_elastic_weights_cannot_be_taken_up_later(memgrow, data, untouched):
    sentence = memgrow.refused("adapt", untouched, data["clinic"], "--method", "EWC")
    assert "EWC takes note of every domain as it is learnt" in sentence
    assert "learnt kitchen, harbour by F+M+V: start a new model with EWC" in sentence


def test_the_demo_refuses_an_unknown_method_before_it_trains(memgrow, tmp_path, monkeypatch):
    monkeypatch.setattr("memgrow.learner.Learner.adapt", lambda *_, **__: pytest.fail("it trained"))
    assert "there is no method 'G'" in memgrow.refused("demo", "--methods", "F,G", "--out", tmp_path / "demo")


def test_the_demo_gives_no_advice_that_it_does_not_take(memgrow, tmp_path):
    (tmp_path / "report.html").write_text("mine")
    said = memgrow.refused("demo", "--out", tmp_path)
    assert said.endswith("is no report of memgrow's: move it away, or choose another place")


def test_the_demo_refuses_a_place_that_is_a_file_before_it_trains(memgrow, tmp_path, monkeypatch):
    monkeypatch.setattr("memgrow.learner.Learner.adapt", lambda *_, **__: pytest.fail("it trained"))
    (tmp_path / "file").write_text("dear")
    assert f"{tmp_path / 'file'}: File exists" in memgrow.refused("demo", "--out", tmp_path / "file")
