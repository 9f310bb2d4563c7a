"""Expected value of a key, in words: for messages about missing values and bare values in place of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

__all__ = ["describe_expected", "describe_table", "find_model"]

_PLAIN = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


_SHOWN_KEYS = 3
"""Keys of a table without required keys in a message."""


def find_model(name: str) -> type[BaseModel] | None:
    """Return the imported table class of this name; None if there is none, or several."""
    from pydantic import BaseModel

    found: list[type[BaseModel]] = []
    classes: list[type[BaseModel]] = [BaseModel]
    while classes:
        table = classes.pop()
        classes += table.__subclasses__()
        if table.__name__ == name and table.__module__.startswith("bentpipe."):
            found.append(table)
    return found[0] if len(found) == 1 else None


def describe_expected(model: type[BaseModel], location: Sequence[int | str]) -> str | None:
    """Return what the key at ``location`` below ``model`` expects; None if the types do not show it.

    Args:
        model: class of the outermost table.
        location: keys and indices, as pydantic reports them.
    """
    annotation: Any = model
    metadata: list[Any] = []
    for step in location:
        if isinstance(step, int):
            items = [option for option in _options(annotation) if get_origin(_bare(option)) in (list, tuple)]
            if not items:
                return None
            annotation, metadata = get_args(_bare(items[0]))[0], []
            continue
        field = next((found for option in _options(annotation) if (found := _field(option, step))), None)
        if field is None:
            return None
        annotation, metadata = field.annotation, list(field.metadata)
    return _describe(annotation, metadata)


def _options(annotation: Any) -> list[Any]:
    """Return the types of a union, without None; else the type itself."""
    bare = _bare(annotation)
    if get_origin(bare) in (Union, UnionType):
        return [option for option in get_args(bare) if option is not NoneType]
    return [annotation]


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _field(option: Any, key: str) -> FieldInfo | None:
    fields: Mapping[str, FieldInfo] = getattr(_bare(option), "model_fields", {})
    return next((field for name, field in fields.items() if key in (name, field.alias)), None)


def _describe(annotation: Any, metadata: list[Any]) -> str | None:
    options = _options(annotation)
    if len(options) != 1:
        return None
    option = options[0]
    bare = _bare(option)
    for item in [*metadata, *get_args(option)[1:]]:
        schema = getattr(item, "json_schema", None)
        if isinstance(schema, Mapping) and "description" in schema:
            examples = schema.get("examples", [])
            return f"{schema['description']}" + (f' such as "{examples[0]}"' if examples else "")
    if get_origin(bare) is Literal:
        return "one of: " + ", ".join(map(str, get_args(bare)))
    if hasattr(bare, "model_fields"):
        return describe_table(bare)
    if get_origin(bare) is list:
        example = _example(get_args(bare)[0])
        return f'a list such as ["{example}"]' if example else "a list"
    return _PLAIN.get(bare)


def _example(annotation: Any) -> str | None:
    """Return an example of a quantity; None for another type."""
    for item in get_args(annotation)[1:]:
        schema = getattr(item, "json_schema", None)
        if isinstance(schema, Mapping) and schema.get("examples"):
            return str(schema["examples"][0])
    return None


def describe_table(model: type[BaseModel]) -> str:
    """Return a table of this class in words: its example, or else its required keys."""
    example = getattr(model, "example", "")
    if example:
        return f"a table such as {example}"
    required = [field.alias or name for name, field in model.model_fields.items() if field.is_required()]
    if not required:
        keys = [field.alias or name for name, field in model.model_fields.items()]
        return f"a table with keys such as {', '.join(keys[:_SHOWN_KEYS])}" if keys else "a table"
    *first, last = required
    return f"a table with {' and '.join([', '.join(first), last] if first else [last])}"
