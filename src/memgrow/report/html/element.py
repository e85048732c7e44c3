"""Elements of HTML and SVG: whatever is not an element already is text, and escaped."""

from html import escape

from memgrow.errors import printable

Child = str | None
VOID = frozenset({"meta", "br", "hr"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: str) -> Html:
    """Text of anybody's: what a page would take as HTML is escaped, what would not be seen is written out."""
    return value if isinstance(value, Html) else Html(escape(printable(value), quote=True))


def element(tag: str, /, *children: Child, **attributes: str | float | None) -> Html:
    """An element; of `class_`, `for_` and the like the underscore at the end goes, and others are hyphens."""
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    written = "".join(f' {key}="{text(_number(value))}"' for key, value in given.items())
    if tag in VOID:
        return Html(f"<{tag}{written}>")
    return Html(f"<{tag}{written}>{joined(*children)}</{tag}>")


def joined(*children: Child) -> Html:
    return Html("".join(text(child) for child in children if child is not None))


def _number(value: str | float) -> str:
    """A place in a picture needs no more than a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
