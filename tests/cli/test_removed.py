"""Commands that are gone say what to use instead."""

import pytest

from memgrow.cli.app import REMOVED_COMMANDS


@pytest.mark.parametrize("name", REMOVED_COMMANDS)
def test_a_removed_command_says_what_to_use_instead(memgrow, name):
    for words in ((), ("--help",), ("anything", "--at", "all")):
        assert REMOVED_COMMANDS[name] in memgrow.refused(name, *words)
    assert f" {name} " not in memgrow.done("--help")
