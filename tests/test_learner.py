"""What a learner does, and what it says when it cannot."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
import torch

from memgrow.data import Domain, Example
from memgrow.errors import DataError, MemgrowError, ModelError, SettingsError
from memgrow.learner import Learner
from memgrow.methods import MethodSettings
from memgrow.models import ModelSettings
from memgrow.training.checks import check_stage, weak_scores
from memgrow.training.settings import TrainingSettings, advice_for, defaults_for, sizes_line


def make(tiny, short, method: str = "finetune+slots+vocab", **settings) -> Learner:
    return Learner.create(method, model=tiny, training=short, device="cpu", **settings)


@pytest.fixture(scope="module")
def reviews() -> Domain:
    """Single texts: good things and bad things."""
    good, bad = ("fine", "lovely", "superb"), ("awful", "dull", "broken")
    rows = [
        Example(f"a {word} {thing}", None, label)
        for label, words in (("good", good), ("bad", bad))
        for word in words
        for thing in ("lamp", "chair", "kettle", "radio", "clock")
    ]
    return Domain("reviews", *[tuple(rows)] * 3)


def test_a_text_classifier_learns_single_texts(reviews):
    settings = ModelSettings(embedding=16, hidden=16, slots=8, perceptron=16)
    learner = Learner.create(model=settings, training=TrainingSettings(rate=0.01, epochs=30, patience=30), device="cpu")
    learner.adapt(reviews)
    assert learner.task == "text"
    assert learner.labels == ("bad", "good")
    assert learner.evaluate(reviews)["reviews"] == 1.0
    assert [p.label for p in learner.predict(["a superb clock", "a dull lamp"])] == ["good", "bad"]


def test_history_tells_of_each_stage(tiny, short, stream):
    learner = make(tiny, short)
    history = learner.learn(stream)
    assert history.domains == stream.names
    assert [stage.learned for stage in history.stages] == [(name,) for name in stream.names]
    assert history.stages[1].grew.slots == 4
    assert history.stages[1].grew.words > 0
    assert history.stages[1].parameters == sum(p.numel() for p in learner.trained().parameters()) - (
        2 * 4 * (5 + 5) + 6 * history.stages[2].grew.words
    )
    assert all(stage.seconds > 0 for stage in history.stages)
    assert [set(row.scores) for row in history.matrix.rows] == [set(stream.names)] * 3
    assert history.summary()["average"] == pytest.approx(sum(history.matrix.rows[-1].scores.values()) / 3)


def test_multi_task_asks_openly_for_earlier_data(tiny, short, stream):
    learner = make(tiny, short, "multi-task")
    learner.adapt(stream[0])
    with pytest.raises(SettingsError, match=r"give the data of kitchen again"):
        learner.adapt(stream[1])
    learner.learn(stream[:2])  # a stream trains once, on all of it
    assert [stage.learned for stage in learner.history.stages] == [("kitchen",), ("kitchen", "harbour")]
    learner.adapt(stream[2], earlier=stream[:2])
    assert learner.history.stages[-1].learned == stream.names
    assert learner.history.stages[-1].examples == 3 * 48


def test_another_method_may_go_on_with_a_model_unless_it_needed_to_be_there_from_the_start(tiny, short, stream):
    learner = make(tiny, short, "finetune+slots+vocab")
    learner.adapt(stream[0])
    learner.use("finetune+vocab")
    learner.adapt(stream[1])
    assert [stage.method for stage in learner.history.stages] == ["finetune+slots+vocab", "finetune+vocab"]
    with pytest.raises(SettingsError, match=r"ewc needs statistics of every domain.* start a new model with ewc"):
        learner.use("ewc")


def test_words_join_only_where_the_method_says_so_and_only_often_enough(tiny, stream):
    sizes = {}
    for min_count in (1, 3):
        learner = make(tiny, TrainingSettings(epochs=1, min_count=min_count), "finetune+vocab")
        learner.adapt(stream[0])
        learner.adapt(stream[1])
        sizes[min_count] = len(learner.vocabulary)
    assert sizes[3] < sizes[1]


def test_word_vectors_come_from_a_file_for_first_and_for_new_words(tiny, short, stream, tmp_path):
    words = ["the", "stew", "anchor", "sailor", "boat"]
    file = tmp_path / "vectors.txt"
    file.write_text("".join(f"{word} {' '.join(str(n + 0.5) for _ in range(6))}\n" for n, word in enumerate(words)))
    rates = TrainingSettings(rate=1e-12, epochs=1)
    learner = make(tiny, rates)
    learner.adapt(stream[0], vectors=file)
    learner.adapt(stream[1], vectors=file)
    found = [(n, word) for n, word in enumerate(words) if word in learner.vocabulary]
    assert len(found) >= 2
    for number, word in found:
        row = learner.trained().encoder.embedding.weight[learner.vocabulary.encode([word])[0]]
        torch.testing.assert_close(row, torch.full((6,), number + 0.5))
    with pytest.raises(SettingsError, match=r"have 6 numbers"):
        make(ModelSettings(embedding=7, hidden=5, slots=4), rates).adapt(stream[0], vectors=file)


class Told:
    """Takes what a training has to say."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def step(self, step: object) -> None:
        return

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)


def test_much_forgetting_is_told_with_a_remedy(tiny):
    rows = [Example(f"a {word} {n}", label=word) for n in range(8) for word in ("good", "bad")]
    swapped = [replace(one, label={"good": "bad", "bad": "good"}[one.label]) for one in rows]
    learner, told = make(tiny, TrainingSettings(rate=0.02, epochs=30, patience=30)), Told()
    books, films = Domain("books", *[tuple(rows)] * 3), Domain("films", *[tuple(swapped)] * 3)
    learner.learn([books, films], progress=told)
    (sentence,) = (note for note in told.notes if note.startswith("Forgotten: books fell"))
    assert "memgrow undo" in sentence


def test_a_domain_of_mostly_new_labels_names_a_method_that_keeps_the_old_ones(tiny, short):
    def domain(name, labels):
        return Domain(name, *[tuple(Example(f"{one} {n}", label=one) for n in range(4) for one in labels)] * 3)

    for method, count in (("finetune", 1), ("finetune+memory", 0)):
        learner, told = make(tiny, short, method), Told()
        learner.learn([domain("a", "xyz"), domain("b", "zuvw"), domain("c", "zu")], progress=told)
        assert sum(" shares " in note for note in told.notes) == count


def test_where_nothing_is_shown_it_is_a_warning_at_the_line_that_asked(tiny, stream):
    learner = make(tiny, TrainingSettings(rate=1e-12, epochs=1))
    with pytest.warns(UserWarning, match="^kitchen: test accuracy is 33.3% on 24 rows.* too few") as told:
        learner.learn(stream[:1])
    assert [one.filename for one in told] == [__file__]


def test_that_nothing_was_learned_is_said_of_enough_test_rows_and_with_advice_that_was_not_followed_yet(tiny):
    def advised(rows, epochs):
        examples = tuple(Example(f"a {n}", label="ab"[n % 2]) for n in range(rows))
        config = make(tiny, TrainingSettings()).config
        stage = check_stage([Domain("books", *[examples] * 3)], None, None)
        (sentence,) = weak_scores(stage, 0.5, {"books": 0.5}, advice_for(config, epochs))
        return "learned nothing of use" in sentence, "more epochs" in sentence

    assert advised(10, 5) == (False, True)
    assert advised(200, 60) == (True, False)


def test_a_new_model_says_how_long_it_trains_first_and_later():
    usual = defaults_for("minilm")
    assert "75 epochs for 64 rows, and 5 for a later" in sizes_line(usual.model, usual.training, 64)
    assert usual.training.resolve(2, 8, first=True).epochs == 75
    assert "5 epochs for 64,000 rows" in sizes_line(usual.model, usual.training, 64000)
    assert "epoch" not in sizes_line(usual.model, usual.training, 64, closed_form=True)


def test_why_a_model_has_no_drift_statistics_is_told(tiny, stream):
    for drift, why in ((True, "fewer than 100 different"), (False, "drift=false")):
        learner = make(tiny, TrainingSettings(epochs=1, drift=drift))
        learner.adapt(stream[0])
        assert why in learner.drift_monitor().report().sentence


def test_other_test_examples_than_before_are_told(tiny, short, stream):
    learner, told = make(tiny, short), Told()
    learner.adapt(stream[0])
    learner.adapt(stream[1], watch=[stream[0]], progress=told)
    assert not any("test examples differ" in note for note in told.notes)
    one_label = [example for example in stream[0].test if example.label == stream[0].test[0].label]
    learner.adapt(stream[2], watch=[replace(stream[0], test=one_label), stream[1]], progress=told)
    (sentence,) = (note for note in told.notes if "test examples differ" in note)
    assert sentence.startswith("kitchen: ")


def test_the_history_has_loss_and_validation_of_each_epoch(tiny, short, stream, tmp_path):
    stage = make(tiny, short).adapt(stream[0], folder=tmp_path / "model")
    assert len(stage.curve.loss) == len(stage.curve.validation) == stage.epochs
    assert stage.curve.validation[stage.best_epoch - 1] == stage.validation == max(stage.curve.validation)
    assert all(loss > 0 for loss in stage.curve.loss)
    assert Learner.load(tmp_path / "model").history.stages[0].curve == stage.curve


def test_texts_without_words_and_endless_texts_have_an_answer(tiny, stream):
    learner = make(tiny, TrainingSettings(epochs=1, max_words=20))
    learner.adapt(stream[0])
    empty, blank, long, cut = learner.predict(
        [
            ("\u200b", "\u200b"),
            ("\ufeff", "\u200b\n"),
            ("stew " * 100_000, "it was warm"),
            ("stew " * 20, "it was warm"),
        ]
    )
    assert empty == blank
    assert long.probabilities == pytest.approx(cut.probabilities, abs=1e-6)


# Mistakes


def refused(learner: Learner, domain: Domain, kind: type[MemgrowError], says: str) -> None:
    with pytest.raises(kind, match=says):
        learner.adapt(domain)
    assert learner.history.stages == []


def test_domains_that_cannot_be_learnt_are_refused_in_a_sentence(tiny, short, stream):
    train, validation = stream[0].train, stream[0].validation
    one = tuple(e for e in train if e.label == "neutral")
    mixed = (*train, Example("alone", None, "neutral", where="notes.jsonl, line 3"))
    learner = make(tiny, short)
    refused(learner, Domain("x"), DataError, "x has 0 rows and no train examples")
    refused(learner, Domain("x", train), DataError, "x has 48 rows and no validation examples")
    refused(learner, Domain("x", train[:1]), DataError, "x has 1 row and no validation examples: give at least 4")
    refused(learner, Domain("x", one, validation), DataError, r"x have the label neutral .*at least two labels")
    refused(learner, Domain("x", mixed, validation), DataError, "notes.jsonl, line 3: this model reads two texts")


def test_an_unknown_label_is_refused_with_its_place(tiny, short, stream):
    learner = make(tiny, short)
    learner.adapt(stream[0])
    strange = Example("a", "b", "perhaps", where="new.csv, line 31417")
    with pytest.raises(DataError, match=r"new.csv, line 31417: unknown label 'perhaps'; known are contradiction, "):
        learner.adapt(Domain("new", stream[1].train, (*stream[1].validation, strange)))
    with pytest.raises(DataError, match="unknown label"):
        learner.evaluate(Domain("new", test=(strange,)))


def test_watched_domains_are_checked_before_the_work_begins(tiny, short, stream):
    learner = make(tiny, short)
    with pytest.raises(DataError, match="example 1: this model reads two texts"):
        learner.adapt(stream[0], watch=[Domain("new", test=(Example("a", None, "neutral"),))])
    with pytest.raises(DataError, match="example 1: there is no label"):
        learner.adapt(stream[0], watch=[Domain("new", test=(Example("a", "b"),))])
    assert learner.model is None


def test_a_learner_that_knows_nothing_says_so(tiny, short, tmp_path):
    learner = make(tiny, short)
    for ask in (lambda: learner.predict(["x"]), lambda: learner.evaluate([]), lambda: learner.save(tmp_path / "m")):
        with pytest.raises(ModelError, match="learned nothing yet"):
            ask()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: Learner.create("G+X"), r"no method 'G\+X'; there are finetune, "),
        (lambda: Learner.create(task="song"), "no task 'song'; there are text, pair"),
        (lambda: Learner.create(device="tpu"), "no device 'tpu'; there are auto, cpu and cuda"),
        (lambda: ModelSettings(cell="transformer"), "cell 'transformer' is not known"),
        (lambda: ModelSettings(pooling="max"), "pooling 'max' is not known"),
        (lambda: ModelSettings(hidden=0), "hidden must be at least 1, not 0"),
        (lambda: ModelSettings(slots=-5), "slots must be 0 or more"),
        (lambda: ModelSettings(dropout=1.0), "dropout must be at least 0 and below 1"),
        (lambda: TrainingSettings(rate=0), "rate must be above 0"),
        (lambda: TrainingSettings(batch=0), "batch must be at least 1"),
        (lambda: MethodSettings(fisher="guess"), "fisher must be exact or sampled or empirical"),
        (lambda: MethodSettings(slots=0), "slots must be at least 1"),
        (lambda: MethodSettings(strength=-1), "at least 0"),
    ],
)
def test_what_does_not_exist_or_cannot_be_names_what_can(wrong, says):
    with pytest.raises(SettingsError, match=says):
        wrong()


@pytest.mark.parametrize(("cell", "pooling"), [("lstm", "last"), ("gru", "mean"), ("rnn", "last")])
def test_every_cell_and_pooling_learns_and_survives_saving(cell, pooling, short, stream, tmp_path):
    settings = ModelSettings(
        cell=cell, pooling=pooling, embedding=6, hidden=5, slots=4, slot_size=3, layers=2, perceptron=16
    )
    learner = make(settings, short)
    learner.learn(stream[:2])
    learner.save(tmp_path / "model")
    again = Learner.load(tmp_path / "model", device="cpu")
    examples = list(stream[1].test)
    assert again.predict(examples) == learner.predict(examples)


def test_a_model_gives_way_only_to_a_later_version_of_itself(tiny, short, stream, tmp_path, monkeypatch):
    model = tmp_path / "model"
    first = make(tiny, short)
    first.adapt(stream[0], folder=model)
    second = Learner.load(model, device="cpu")
    first.adapt(stream[1])
    first.save(model)
    first.save(model)
    for lose_it in (lambda: second.save(model), lambda: make(tiny, short).adapt(stream[2], folder=model)):
        with pytest.raises(ModelError, match=r"has learned kitchen, harbour, and this is no later version of it"):
            lose_it()
    with monkeypatch.context() as patch:
        patch.setattr("memgrow.learner.adapt_model", lambda *_, **__: pytest.fail("it was learnt all the same"))
        with pytest.raises(ModelError, match="no later version"):
            second.adapt(stream[2], folder=model)
    assert Learner.load(model, device="cpu").history.domains == ("kitchen", "harbour")
    second.adapt(stream[2], folder=model, overwrite=True)
    assert Learner.load(model, device="cpu").history.domains == ("kitchen", "clinic")
    first.save(model, overwrite=True)
    assert Learner.load(model, device="cpu").history.domains == ("kitchen", "harbour")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_nobody_else_can_change_a_model_while_it_learns(tiny, short, stream, tmp_path, monkeypatch):
    """From before the first domain until the last one has been saved, also by another thread of the same process."""
    monkeypatch.setattr("memgrow.storage.folder.GRACE_S", 0.0)
    learner, found = make(tiny, short), []

    def try_it(stage, new):
        other = make(tiny, short)
        with ThreadPoolExecutor(1) as thread, pytest.raises(ModelError) as refused:
            thread.submit(other.adapt, stream[2], folder=tmp_path / "model").result()
        found.append(str(refused.value))

    learner.learn(stream[:2], folder=tmp_path / "model", on_stage=try_it)
    assert len(found) == 2
    assert all("is being changed by another process" in sentence for sentence in found)
    assert Learner.load(tmp_path / "model").history.domains == ("kitchen", "harbour")
