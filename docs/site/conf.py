"""Sphinx's settings for the site. `docs/site/build.py` gathers the pages and calls Sphinx."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import docstrings
from docutils import nodes
from sphinx.transforms import SphinxTransform

from memgrow import __version__

SHORT = 28  # letters of a word in code that fit a line on a phone
SENTENCES = 60  # letters of a cell that would be a tall column on a phone
ICON = "../../src/memgrow/serve/page/icon.svg"  # that of the service

project = "memgrow"
author = "The memgrow authors"
project_copyright = "The memgrow authors, MIT licence"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_files"]
root_doc = "index"
nitpicky = False  # types of torch and numpy lead nowhere, as nothing is fetched

myst_heading_anchors = 4  # the same names as on GitHub

autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # what torch says of its modules is in a markup of its own
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
add_module_names = False
toc_object_entries = False  # each has a heading
maximum_signature_line_length = 90

html_theme = "pydata_sphinx_theme"
html_title = "memgrow"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_favicon = ICON
html_theme_options = {
    "logo": {"text": "memgrow", "image_light": ICON, "image_dark": ICON},
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def mark_sentences(app, page) -> None:  # type: ignore[no-untyped-def]
    """Mark the cells that hold sentences, so that they get some width beside columns of figures (site.css)."""
    for cell in page.findall(nodes.entry):
        if len(cell.astext()) > SENTENCES:
            cell["classes"].append("sentences")


def open_in_full(app, page) -> None:  # type: ignore[no-untyped-def]
    """Make each picture a link to its file, as Sphinx does where a picture has a size."""
    for picture in page.findall(nodes.image):
        picture["scale"] = 100


class RepliesAsTheyAre(SphinxTransform):
    """Leave the quotes of replies in tables alone, where words stand apart as a model says them: he 's."""

    default_priority = 740  # before SphinxSmartQuotes

    def apply(self, **kwargs: object) -> None:
        for table in self.document.findall(nodes.table):
            for text in table.findall(nodes.Text):
                if re.search(r"\w '\w", text.astext()):
                    text.parent["support_smartquotes"] = False


def between_words(app, name, template, context, page) -> None:  # type: ignore[no-untyped-def]
    """Let a line end within code or a heading behind a slash, a dot or an underscore, and not within an option.

    A place in a word that fits a line anyway is marked: it counts in a table on a phone alone (site.css).
    """
    names = re.compile(r'(?<=<span class="pre">)[^<]+|(?<=<h2>)\w+')
    code = re.compile(r'<span class="pre">[^<]+|<pre>.*?</pre>', flags=re.DOTALL)
    body = context.get("body", "")

    def places(found: re.Match[str]) -> str:
        mark = '<wbr class="short">' if len(found[0]) <= SHORT else "<wbr>"
        return re.sub(r"(?<=[a-zA-Z])[/._](?=[a-zA-Z])", rf"\g<0>{mark}", found[0])

    body = names.sub(places, body)
    option = r'<span class="option">\g<0></span>'
    context["body"] = code.sub(lambda found: re.sub(r"(?<=[\s>\[])--[a-z][\w-]*", option, found[0]), body)


def setup(app) -> None:  # type: ignore[no-untyped-def]
    app.connect("autodoc-process-docstring", docstrings.as_restructured_text)
    app.connect("autodoc-process-signature", docstrings.without_addresses)
    app.add_transform(RepliesAsTheyAre)
    app.connect("doctree-read", open_in_full)
    app.connect("doctree-read", mark_sentences)
    app.connect("html-page-context", between_words)
