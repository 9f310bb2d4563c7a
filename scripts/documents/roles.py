"""For griffe: docstrings name things as Sphinx does, :class:`Results`; on the page these are code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

ROLE = re.compile(r":\w+:`~?([^`]+)`")


class Roles(Extension):
    """Writes the roles of every docstring as code."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Called for each object that has been read."""
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value)
