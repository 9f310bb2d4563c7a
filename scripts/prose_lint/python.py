"""Texts of a Python file: docstrings, messages and comments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from prose_lint.plain import QUOTED_OR_CODE, add_masked, comments, docstring_texts, is_message
from prose_lint.text import Text

NO_MESSAGE = frozenset([
    "compile", "match", "fullmatch", "search", "sub", "split", "findall", "finditer", "execute", "sql", "query",
    "scalars", "Literal", "format_map", "transform_filter", "transform_calculate", "mark_text", "mark_point", "_types",
])  # fmt: skip
"""Functions whose texts are patterns, SQL, expressions or lists of names."""
CODE_TEXT = re.compile(
    r"\A\s*(?:SELECT|select|WITH|CREATE|CASE|import|from \w+ import)\b"
    r"|\A#!|\A(?:[^\n]*\n){2}.*(?:\$\w|\(\) \{|\|\| true)",
    re.DOTALL,
)
"""Strings that are SQL, Python or a shell script of several lines."""
COMMENT = re.compile(r"(?m)(?:^|\s)#")
LEAVES = (ast.Name, ast.Load, ast.Store, ast.alias)


def python_texts(source: str, messages: bool = True) -> Iterator[Text]:
    """Yield docstrings, messages and comments."""
    tree = ast.parse(source)
    yield from _docstrings(tree.body)
    if messages:
        yield from _messages(tree)
    if COMMENT.search(source):
        yield from comments(source)


def _docstrings(body: list[ast.stmt]) -> Iterator[Text]:
    """Yield the texts of the strings that are statements."""
    for node in body:
        match node:
            case ast.Expr(value=ast.Constant(value=str(docstring))):
                margin = "\n" + " " * node.col_offset
                yield from docstring_texts(node.lineno, docstring.replace(margin, "\n"))
            case (
                ast.FunctionDef()
                | ast.AsyncFunctionDef()
                | ast.ClassDef()
                | ast.If()
                | ast.Try()
                | ast.With()
            ):
                yield from _docstrings(node.body)


def _messages(tree: ast.Module) -> Iterator[Text]:
    """Yield the strings within expressions of a module. ``ast.walk`` takes twice the time."""
    nodes: list[ast.AST] = [tree]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Constant):
            yield from _message([node], node.lineno)
            continue
        if isinstance(node, ast.JoinedStr):
            yield from _message(node.values, node.lineno)
            nodes += [part for part in node.values if not isinstance(part, ast.Constant)]
            continue
        if isinstance(node, ast.Call) and _name(node.func) in NO_MESSAGE:
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        for field in node._fields:
            value = getattr(node, field)
            if isinstance(value, list):
                nodes += [part for part in value if isinstance(part, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, LEAVES):
                nodes.append(value)


def _name(function: ast.expr) -> str:
    return getattr(function, "attr", "") or getattr(function, "id", "")


def _message(parts: list[ast.expr], line: int) -> Iterator[Text]:
    """Yield a string of several words that is no code. A value within it is one word."""
    if any(
        CODE_TEXT.search(part.value)
        for part in parts
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ):
        return
    text = Text("message", line)
    for part in parts:
        if isinstance(part, ast.FormattedValue):
            text.add_code(ast.unparse(part.value))
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            # The lines of a message are not the lines of the file.
            words = part.value if "\n" not in part.value else re.sub(r"\s*\n\s*(?=\S)", " ", part.value)
            if " " in words:
                add_masked(text, words, QUOTED_OR_CODE)
            else:
                text.add(words)
    if is_message(text):
        yield text
