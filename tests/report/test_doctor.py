"""The doctor says what a layer really does."""

from memgrow.report.doctor import findings, ways


def test_every_cell_has_a_way_and_a_reason_on_the_cpu():
    found = {cell: (way, reason) for cell, way, reason in ways("cpu", hidden=5, slots=4)}
    assert found["lstm"][0] == found["gru"][0] == "stepped"
    assert found["rnn"][0] == "naive"
    assert all(reason for _, reason in found.values())


def test_the_first_sentence_names_versions():
    assert next(iter(findings())).startswith("memgrow ")
