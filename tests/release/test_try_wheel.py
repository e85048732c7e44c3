"""What `make try-wheel` does with the wheel, without the minutes that it takes."""

import re
from pathlib import Path

from release import try_wheel


def test_the_readmes_commands_are_run_in_their_order_and_its_python_twice(tmp_path, monkeypatch):
    done: list[list[str]] = []
    monkeypatch.setattr(try_wheel.Environment, "run", lambda self, name, command: done.append(command))
    try_wheel.steps(try_wheel.Environment(tmp_path, "python3", Path("memgrow-1.whl"), []))
    readme = (try_wheel.ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme.partition("## Start")[2].partition("## What it does")[0]
    expected = re.findall(r"^memgrow (?:data|adapt|predict|report) .*$", shown, flags=re.MULTILINE)
    commands = [command[-1] for command in done if command[0] == "bash"]
    assert [command for command in commands if command in expected] == expected
    assert len(expected) == 5
    codes = [command[-1] for command in done if "-c" in command]
    assert [codes.count(code) for code in codes if "Learner" in code or "MemoryLSTM" in code] == [2, 2, 2, 2]
    installed = [command[-1] for command in done if "pip" in command]
    assert installed == ["memgrow-1.whl", "memgrow-1.whl[serve]"]
