"""Page of the API: the names of `import bentpipe`, for mkdocstrings."""

from __future__ import annotations

import ast
from pathlib import Path

HEAD = """# The API

These are the names of `import bentpipe`, with signatures and docstrings. [From Python](how-to/python.md) has examples.
`bentpipe.scenario` has [the tables of a scenario](reference/scenario.md) as classes. `bentpipe.open_results(directory)`
returns `Results`. `bentpipe.__version__` is the version of the engine.

"""


def page(package: Path) -> str:
    """Return the Markdown of the page, which mkdocstrings completes, from a package's ``__init__.py``."""
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    table = next(ast.literal_eval(node.value) for node in tree.body if _assigns(node, "_EXPORTS"))
    exports = sorted(table.items(), key=lambda item: item[0].lower())
    # open_results is Results: its section would repeat that of the class.
    named = (f"::: {module}.{attribute}\n" for name, (module, attribute) in exports if attribute == name)
    return "\n".join([HEAD, *named])


def _assigns(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == name for target in node.targets
    )
