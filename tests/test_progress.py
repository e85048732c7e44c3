"""What shows progress where: a bar in a notebook, lines elsewhere."""

import sys
from types import SimpleNamespace

import pytest

from memgrow.training.progress import NotebookProgress, PlainProgress, Step, find_progress


@pytest.fixture
def notebook(monkeypatch):
    """A stand-in for the kernel of a notebook: what its cell shows, in its order."""
    shown: list[str] = []

    def display(what, display_id):
        shown.append(what)
        place = len(shown) - 1
        return SimpleNamespace(update=lambda new: shown.__setitem__(place, new))

    module = SimpleNamespace(HTML=str, display=display)
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell, display=module))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return SimpleNamespace(shown=shown, shell=shell)


def test_a_notebook_has_one_bar_for_each_domain(notebook):
    bar = find_progress(True)
    assert isinstance(bar, NotebookProgress)
    for batch in (1, 2):
        bar.step(Step("<books>", 1, 5, batch, 4, 0.5, 0.5, 0.75))
    bar.step(Step("dvds", 1, 5, 1, 4, 0.5, 0.5))
    assert notebook.shown == [
        "&lt;books&gt; <progress value=2 max=20></progress> epoch 1/5, loss 0.500, best validation score 0.750",
        "dvds <progress value=1 max=20></progress> epoch 1/5, loss 0.500",
    ]


def test_a_terminal_of_ipython_has_lines_as_a_script_has(notebook):
    notebook.shell.kernel = None
    assert type(find_progress(True)) is PlainProgress
