"""The page of the API: what `import bentpipe` gives, from its docstrings."""

from __future__ import annotations

import ast
from pathlib import Path

HEAD = """# The API

What `import bentpipe` gives, with signatures, from the docstrings; [From Python](manual/python.md) shows it at work.
`bentpipe.scenario` has [the tables of a scenario](manual/scenario.md) as classes; `bentpipe.open_results(directory)`
makes `Results`, `bentpipe.__version__` is the engine's.

"""


def page(package: Path) -> str:
    """Its Markdown, of ``__init__.py`` of a package; mkdocstrings fills it."""
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    homes = next(ast.literal_eval(node.value) for node in tree.body if _sets(node, "_HOME"))
    parts = [HEAD]
    for name, (module, attribute) in sorted(homes.items(), key=lambda one: one[0].lower()):
        if name == "open":
            continue
        if attribute != name:  # map, study: called otherwise where they are
            parts.append(f"## {name}\n\n`bentpipe.{name}` is `{module}.{attribute}`:\n")
        parts.append(f"::: {module}.{attribute}\n")
        if attribute != name:
            parts.append("    options:\n      show_root_toc_entry: false\n      heading_level: 3\n")
    return "\n".join(parts).replace("\n\n    options", "\n    options")


def _sets(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(to, ast.Name) and to.id == name for to in node.targets
    )
