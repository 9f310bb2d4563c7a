"""Texts of a Markdown file, by markdown-it-py. Code blocks, HTML and comments are no prose."""

from __future__ import annotations

from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

from prose_lint.text import Text

PARSER = MarkdownIt("commonmark").enable("table")
KINDS = {"heading_open": "heading", "th_open": "head", "td_open": "cell", "paragraph_open": "sentence"}


def markdown_texts(source: str, line: int = 1) -> Iterator[Text]:
    """Yield headings, paragraphs, list items and table cells; ``line`` is the number of the first line."""
    kind, row = "sentence", 0
    for token in PARSER.parse(source):
        if token.map:
            row = token.map[0]
        kind = KINDS.get(token.type, kind)
        if token.type == "inline":
            yield inline_text(token, kind, line + row)


def inline_text(token: Token, kind: str, line: int) -> Text:
    """Return the prose of a block. The source of a table cell is on one line."""
    text = Text(kind, line)
    for child in token.children or ():
        match child.type:
            case "text":
                text.add(child.content)
            case "code_inline":
                text.add_code(child.content)
            case "softbreak" | "hardbreak":
                text.add("\n")
            case "image":
                text.add(child.content)
    return text
