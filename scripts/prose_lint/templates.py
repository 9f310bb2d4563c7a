"""Texts of a Jinja template of an HTML page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

from prose_lint.text import Text

BRANCH = re.compile(r"\{%-? *(?:else|elif)\b.*?%\}", re.DOTALL)
STATEMENT = re.compile(r"\{%.*?%\}|\{#.*?#\}", re.DOTALL)
VALUE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
INLINE = frozenset(["a", "abbr", "b", "bdi", "em", "i", "span", "strong", "sub", "sup", "u"])
HEADINGS = frozenset(["h1", "h2", "h3", "h4", "summary", "caption"])
NO_PROSE = frozenset(["script", "style", "pre"])


def template_texts(source: str) -> Iterator[Text]:
    """Yield the texts between the tags of a page. A value is one word; a branch of a condition ends a text."""
    parser = _Parser()
    for pattern, tag in ((BRANCH, "<br>"), (STATEMENT, ""), (VALUE, "<code></code>")):
        source = pattern.sub(lambda match, tag=tag: tag + "\n" * match[0].count("\n"), source)
    parser.feed(source)
    parser.close()
    yield from parser.texts


class _Parser(HTMLParser):
    """Collector of texts."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[Text] = []
        self._open: list[str] = []
        self._begins = True

    def handle_starttag(self, tag: str, _: object) -> None:
        if tag == "code":
            self._text().add_code("")
        elif tag not in INLINE:
            self._begins = True
        if tag not in ("br", "img", "meta", "link", "input", "hr"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass
        self._begins = self._begins or tag not in INLINE | {"code"}

    def handle_data(self, data: str) -> None:
        if NO_PROSE.isdisjoint(self._open) and "code" not in self._open:
            self._text().add(data)

    def _text(self) -> Text:
        """Return the present text, or a new one after a tag of a block."""
        if self._begins:
            kind = "sentence" if HEADINGS.isdisjoint(self._open) else "heading"
            self.texts.append(Text("head" if "th" in self._open else kind, self.getpos()[0]))
            self._begins = False
        return self.texts[-1]
