"""`memgrow recipes`: the recipes that come with memgrow, by name."""

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from memgrow.cli import options as opt
from memgrow.cli.output import console, say, write_line
from memgrow.errors import SettingsError
from memgrow.printable import json_text
from memgrow.report.table import Column, Table

SHIPPED = {file.stem: file for file in sorted((Path(__file__).parents[1] / "recipes").glob("*.yaml"))}  # by name


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Print this one, to look at or to begin one's own with.",
            show_default=False,
            autocompletion=opt.recipe_names,
        ),
    ] = None,
    as_json: opt.AsJson = False,
) -> None:
    """The recipes by name, for --recipe NAME; or one of them, as YAML.

    Example: memgrow recipes small > mine.yaml
    """
    if name is not None:
        # By its name alone: a file of one's own need not be a recipe, nor text.
        file = SHIPPED.get(name.removesuffix(".yaml"))
        if file is None:
            raise SettingsError(unknown_recipe(name, or_file=False))
        text = file.read_text(encoding="utf-8")
        write_line(json_text({"name": name, "recipe": text}) if as_json else text.rstrip("\n"))
    elif as_json:
        write_line(json_text({name: about(file) for name, file in SHIPPED.items()}, 1))
    else:
        columns = [Column("name", wrap="never"), Column("what it is for", wrap="letters")]
        console.print(Table(None, columns, [(name, about(file)) for name, file in SHIPPED.items()], layout="open"))
        say("Use one with --recipe NAME; --recipe FILE takes one of your own; memgrow recipes NAME prints one.", "dim")


def about(file: Path) -> str:
    """What a recipe is for: the first line of its file."""
    with file.open(encoding="utf-8") as lines:
        return next(lines).removeprefix("# ").strip()


def find_recipe(given: str | Path) -> Path:
    """The file of a recipe: a path, or the name of one that comes with memgrow."""
    path = Path(given)
    # recipes/small.yaml was where a checkout of 0.1.0 had it: the shipped recipe stands in where there is no such file.
    may_be_shipped = path.parent == Path() or (path.parent.name == "recipes" and path.suffix == ".yaml")
    if may_be_shipped and not path.is_file() and path.suffix in ("", ".yaml"):
        return SHIPPED.get(path.stem, path)
    return path


def unknown_recipe(given: str | Path, or_file: bool = True) -> str:
    """A sentence about a recipe that is no name, nor a file where it may be one; with the name that was meant."""
    near = get_close_matches(Path(given).stem.lower(), SHIPPED, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return f"there is no recipe {given}: {meant}it is {'a file, or ' if or_file else ''}one of {', '.join(SHIPPED)}"
