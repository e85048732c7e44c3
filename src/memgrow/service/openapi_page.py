"""The OpenAPI description as one page that needs no script and nothing from elsewhere."""

import json
from collections.abc import Mapping
from html import escape
from typing import Any


def openapi_page(description: Mapping[str, Any]) -> str:
    """What can be asked, as HTML; the description itself is at /openapi.json."""
    info = description["info"]
    parts = [
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['description'])}</p>",
        '<p>For programs: <a href="openapi.json">openapi.json</a>.</p>',
    ]
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2>{method.upper()} {escape(path)}</h2><p>{escape(operation.get('description', ''))}</p>")
            parts += [_parameter(one) for one in operation.get("parameters", ())]
            parts += [_content("Send", operation["requestBody"])] if "requestBody" in operation else []
            parts += [_content(f"{status}:", answer) for status, answer in operation["responses"].items()]
    schemas = description.get("components", {}).get("schemas", {})
    parts += [f'<h2 id="{escape(name)}">{escape(name)}</h2>{_block(schema)}' for name, schema in schemas.items()]
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>memgrow: what can be asked</title>'
    head += '<meta name="viewport" content="width=device-width, initial-scale=1">'
    return f'{head}<link rel="stylesheet" href="page/page.css"><main>{"".join(parts)}</main></html>'


def _parameter(one: Mapping[str, Any]) -> str:
    return f"<p><code>{escape(one['name'])}</code> ({escape(one['in'])}) {escape(one.get('description', ''))}</p>"


def _content(what: str, body: Mapping[str, Any]) -> str:
    kinds = [f"{escape(kind)} {_reference(one.get('schema', {}))}" for kind, one in body.get("content", {}).items()]
    return f"<p>{escape(what)} {escape(body.get('description', ''))} {' or '.join(kinds)}</p>"


def _reference(schema: Mapping[str, Any]) -> str:
    name = schema.get("$ref", "").rpartition("/")[2]
    return f'<a href="#{escape(name)}">{escape(name)}</a>' if name else ""


def _block(value: Any) -> str:
    return f"<pre>{escape(json.dumps(value, indent=1, ensure_ascii=False))}</pre>"
