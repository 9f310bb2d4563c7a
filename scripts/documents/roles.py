"""An extension of griffe that shows Sphinx roles of docstrings, such as :class:`Results`, as code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

ROLE = re.compile(r":\w+:`~?([^`]+)`")


class Roles(Extension):
    """Replaces the roles in every docstring by code."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Change the docstring of an object; griffe calls it for each."""
        if obj.docstring is not None:
            obj.docstring.value = ROLE.sub(r"`\1`", obj.docstring.value)
