"""Docstrings are plain sentences with `code` in single backticks; Sphinx reads reStructuredText.

A dataclass has no docstring for its fields: what the comments beside them say becomes a list.
"""

import ast
import inspect
import re
import textwrap
import tokenize
from dataclasses import fields, is_dataclass
from io import StringIO
from typing import Any

CODE = re.compile(r"(`[^`]+`)")
MARKUP = re.compile(r"([\\*|]|(?<=\w)_(?!\w))")


def as_restructured_text(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Rewrite the lines in place, as the event `autodoc-process-docstring` wants it."""
    written = [_escape(line) for line in lines] if what != "data" else [_value(obj)]
    if what == "class" and is_dataclass(obj):
        written = [*_without_signature(written, obj), "", *_fields(obj)]
    lines[:] = written


def _escape(line: str) -> str:
    """The same words where asterisks, bars and closing underscores mean nothing, and code is code."""
    parts = CODE.split(line)
    return "".join(f"`{part}`" if CODE.fullmatch(part) else MARKUP.sub(r"\\\1", part) for part in parts)


def without_addresses(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """A signature whose defaults are written as names, for `autodoc-process-signature`: Sphinx reads it as Python."""
    if signature is None:
        return None, returned
    made = iter(_made_defaults(obj))
    signature = re.sub(r"<factory>", lambda _: next(made), signature)
    return re.sub(r"<(?:function|class) '?([\w.]+)[^>]*>", r"\1", signature), returned


def _made_defaults(kind: Any) -> list[str]:
    """What a dataclass makes anew for each object, field by field, where `inspect` writes `<factory>`."""
    factories = [one.default_factory for one in (fields(kind) if is_dataclass(kind) else ()) if one.init]
    written = {list: "[]", dict: "{}", tuple: "()"}
    return [written.get(made) or f"{made.__name__}()" for made in factories if callable(made)]


def _value(value: object) -> str:
    """What a constant is, in place of the docstring of its type: the keys of a table, or the value itself."""
    if isinstance(value, dict):
        return "By name: " + ", ".join(f"``{key}``" for key in value) + "."
    return f"``{value!r}``" if isinstance(value, str | int | float | tuple) else ""


def _without_signature(lines: list[str], kind: type) -> list[str]:
    """Nothing where the dataclass has no docstring of its own, since `dataclass` then writes the signature there."""
    return [] if lines and lines[0].startswith(f"{kind.__name__}(") else lines


def _fields(kind: type) -> list[str]:
    """A list item for each of the class's own fields that has a comment; the signature has them all."""
    comments = field_comments(kind)
    shown = [one.name for one in fields(kind) if comments.get(one.name) and not one.name.startswith("_")]
    return [f"* ``{name}``: {_escape(comments[name])}" for name in shown]


def field_comments(kind: type) -> dict[str, str]:
    """The comment of each field that the class itself declares, empty where there is none."""
    source = textwrap.dedent(inspect.getsource(kind))
    comments = {
        token.start[0]: (token.string.lstrip("# "), token.line.lstrip().startswith("#"))
        for token in tokenize.generate_tokens(StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (declared,) = ast.parse(source).body
    assert isinstance(declared, ast.ClassDef)
    found = {}
    for statement in declared.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            beside, _ = comments.get(statement.end_lineno or 0, ("", False))
            above, alone = comments.get(statement.lineno - 1, ("", False))
            found[statement.target.id] = beside or (above if alone else "")
    return found
