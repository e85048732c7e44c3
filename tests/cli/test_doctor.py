"""The doctor says what a layer really does."""

from memgrow.cli.machine import backends, findings, loops


def test_every_cell_has_a_backend_and_a_reason_on_the_cpu():
    found = {cell: (backend, reason) for cell, backend, reason in backends("cpu", hidden=5, slots=4)}
    assert found["lstm"][0] == found["gru"][0] == "stepped"
    assert found["rnn"][0] == "naive"
    assert all(reason for _, reason in found.values())


def test_every_cell_is_trained_by_a_loop_for_a_reason():
    for device, expected in (("cpu", "plain"), ("cuda", "stacked")):
        found = {cell: loop for loop, cells in loops(device).items() for cell in cells}
        assert found["lstm"].name == expected
        assert found["gru"].name == found["rnn"].name == "plain"
        assert all(loop.reason for loop in found.values())
    assert any("lstm classifiers are trained by the plain loop" in sentence for sentence in findings())


def test_the_first_sentence_names_versions():
    assert next(iter(findings())).startswith("memgrow ")
