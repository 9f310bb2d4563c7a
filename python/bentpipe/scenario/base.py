"""Base class of all scenario tables: unknown keys, quantities as text, bare values as tables."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    StrictStr,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from bentpipe.scenario.errors import from_pydantic, is_name, unknown_name
from bentpipe.scenario.network.places import Place
from bentpipe.scenario.quantities import (
    Angle,
    Distance,
    Duration,
    Probability,
    QueueSize,
    Rate,
    Size,
    WindowSize,
)
from bentpipe.scenario.quantity_text import format_value
from bentpipe.scenario.radio_quantities import Decibel, Frequency, Speed, SymbolRate


def text_schema(example: str, meaning: str) -> WithJsonSchema:
    """Return the JSON schema of a quantity that is written as text."""
    return WithJsonSchema({"type": "string", "examples": [example], "description": meaning})


DurationText = Annotated[Duration, PlainValidator(Duration.parse), text_schema("250 ms", "a duration")]
RateText = Annotated[Rate, PlainValidator(Rate.parse), text_schema("10 Mbit/s", "a rate above 0")]
SizeText = Annotated[Size, PlainValidator(Size.parse), text_schema("5.3 MB", "a number of bytes")]
ProbabilityText = Annotated[
    Probability, PlainValidator(Probability.parse), text_schema("0.01 %", "a probability")
]
DistanceText = Annotated[Distance, PlainValidator(Distance.parse), text_schema("550 km", "a distance")]
DecibelText = Annotated[Decibel, PlainValidator(Decibel.parse), text_schema("7 dB", "a ratio")]
FrequencyText = Annotated[
    Frequency, PlainValidator(Frequency.parse), text_schema("2.2 GHz", "a frequency above 0")
]
SpeedText = Annotated[Speed, PlainValidator(Speed.parse), text_schema("60 km/h", "a speed above 0")]
SymbolRateText = Annotated[
    SymbolRate, PlainValidator(SymbolRate.parse), text_schema("27.5 Mbaud", "symbols per second, above 0")
]
AngleText = Annotated[Angle, PlainValidator(Angle.parse), text_schema("25 deg", "an angle")]
QueueText = Annotated[
    QueueSize, PlainValidator(QueueSize.parse), text_schema("1 BDP", "the bound of a queue")
]
WindowText = Annotated[WindowSize, PlainValidator(WindowSize.parse), text_schema("10 packets", "a window")]


def parse_positive_duration(found: object) -> Duration:
    """Return a duration above 0. Raises ValueError."""
    value = Duration.parse(found)
    if value.ns == 0:
        raise ValueError(f'found {found!r}, expected a duration above 0 such as "10 s"'.replace("'", '"'))
    return value


Ordered = TypeVar("Ordered", Decibel, Distance, Duration, Rate, Size)

PositiveText = Annotated[
    Duration, PlainValidator(parse_positive_duration), text_schema("10 s", "a duration above 0")
]


@dataclass(frozen=True)
class as_table:  # noqa: N801 - used like a function, in annotations
    """Validator that reads a bare text or number as a table with the key ``key``.

    A number is an error that has ``example``, a table, if it is given.
    """

    key: str
    example: str = ""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return a schema that converts a bare value before the table is validated."""
        return core_schema.no_info_before_validator_function(self._to_table, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return a JSON schema that accepts both forms."""
        return {"anyOf": [{"type": ["string", "number"]}, handler(schema)]}

    def _to_table(self, found: object) -> object:
        if self.example and isinstance(found, (int, float)):
            raise ValueError(f"found {format_value(found)}, expected a table such as {self.example}")
        return found if isinstance(found, (Mapping, BaseModel)) else {self.key: found}


def check_options(name: str, given: Collection[str], options: Mapping[str, Collection[str]]) -> None:
    """Check that each given option belongs to the member ``name``.

    Args:
        name: the member that the table selects.
        given: the keys that the table sets.
        options: for each option, the members that have it.

    Raises:
        ValueError: an option of another member.
    """
    for option, names in options.items():
        if option in given and name not in names:
            raise ValueError(f'found {option} beside "{name}", expected it with {" or ".join(names)}')


def check_required(key: str, table: BaseModel, required: Mapping[str, Collection[str]]) -> None:
    """Check that a table has each option that its member requires.

    Args:
        key: the key of the member's name.
        table: the table.
        required: for each member, the options that it requires.

    Raises:
        ValueError: an option is missing.
    """
    member = getattr(table, key)
    for option in required.get(member, ()):
        if getattr(table, option) is None:
            raise ValueError(f'found no {option}, which {key} = "{member}" needs')


def check_range(key: str, value: Ordered | None, minimum: Ordered | None, maximum: Ordered | None) -> None:
    """Check that ``minimum <= value <= maximum``; None is no bound, or an absent value. Raises ValueError."""
    if value is None:
        return
    if minimum is not None and value < minimum:
        raise ValueError(f"{key}: found {value}, expected at least {minimum}")
    if maximum is not None and value > maximum:
        raise ValueError(f"{key}: found {value}, expected at most {maximum}")


def require_one(table: BaseModel, keys: tuple[str, ...], meaning: str) -> None:
    """Check that a table has exactly one of ``keys``. Raises ValueError with the ``meaning`` of the keys."""
    given = [key for key in keys if getattr(table, key) is not None]
    if len(given) != 1:
        found = " and ".join(given) if given else "none"
        raise ValueError(f"found {found}, expected exactly one of {', '.join(keys)} for {meaning}")


class Table(BaseModel):
    """Table of a scenario. It rejects unknown keys and suggests the nearest known key."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    hints: ClassVar[Mapping[str, str]] = {}
    """Messages for wrong keys that need more than the nearest known key."""
    example: ClassVar[str] = ""
    """Table for messages about a value in its place; required keys if empty."""

    if not TYPE_CHECKING:  # type checkers derive the arguments from the fields

        def __init__(self, /, **keys: Any) -> None:
            """Create a table from its keys. Raises ScenarioError."""
            __tracebackhide__ = True
            try:
                super().__init__(**keys)
            except ValidationError as error:
                raise from_pydantic(error, keys, type(self).__name__) from None

        # pydantic validates nested tables without __init__ only if it has this mark, as BaseModel.__init__ has
        __init__.__pydantic_base_init__ = True

    def __repr_args__(self) -> Iterable[tuple[str, Any]]:
        """Return the given keys and their values."""
        return self.to_dict().items()

    @model_validator(mode="before")
    @classmethod
    def _check_known_keys(cls, found: object) -> object:
        if isinstance(found, Mapping):
            keys = _keys(cls)
            for key in found:
                if key not in keys:
                    error = cls.hints.get(str(key)) or unknown_name(str(key), keys)
                    raise PydanticCustomError("scenario", "{error}", {"error": error, "at": str(key)})
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the given keys as a TOML table, with quantities as text."""
        given = [name for name in type(self).model_fields if name in self.model_fields_set]
        fields = {type(self).model_fields[name].alias or name: getattr(self, name) for name in given}
        return {
            key: to_toml_value(value)
            for key, value in (fields | (self.model_extra or {})).items()
            if value is not None
        }


@cache
def _keys(table: type[Table]) -> tuple[str, ...]:
    """Return the keys of a table as a scenario spells them."""
    return tuple(field.alias or name for name, field in table.model_fields.items())


QUANTITIES = (
    Angle, Decibel, Distance, Duration, Frequency, Place, Probability, QueueSize, Rate, Size, Speed, SymbolRate,
    WindowSize,
)  # fmt: skip


def to_toml_value(value: object) -> Any:
    """Return ``value`` as plain TOML data: tables as dictionaries, quantities as text, at any depth."""
    if isinstance(value, Table):
        return value.to_dict()
    if isinstance(value, QUANTITIES):
        return str(value)
    if isinstance(value, Mapping):
        return {key: to_toml_value(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_toml_value(inner) for inner in value]
    return value


TableT = TypeVar("TableT", bound=Table)
ModelT = TypeVar("ModelT", bound=BaseModel)


def construct_table(table: type[ModelT], **keys: Any) -> ModelT:
    """Return a table with ``keys``, without validation.

    Validation would build a validator of this table at import time, which takes 3 to 40 ms.
    """
    return table.model_construct(**keys)


def merge_tables(table: TableT, defaults: TableT) -> TableT:
    """Return the given keys of ``table`` over those of ``defaults``, a table of the same kind."""
    if not table.model_fields_set:
        return defaults
    if not defaults.model_fields_set and type(table) is type(defaults):
        return table
    return defaults.model_copy(update={name: getattr(table, name) for name in table.model_fields_set})


def _parse_name(found: object) -> str:
    if not isinstance(found, str) or not is_name(found):
        raise ValueError(f'found "{found}", expected a name: a letter, then letters, digits, _ or -')
    composed = unicodedata.normalize("NFC", found)
    if composed != found:  # otherwise two names that look the same would differ
        raise ValueError(f'found "{found}" with decomposed accents, expected "{composed}" (NFC)')
    return found


Name = Annotated[
    str,
    PlainValidator(_parse_name),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^[^\s\d_.-][^\s.]*$",
            "description": "a name: a letter of any alphabet, then letters, digits, _ or -",
        }
    ),
]


class Congestion(Table):
    """Congestion controller: its name and options. A bare text is ``name``."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: StrictStr

    @model_validator(mode="before")
    @classmethod
    def _check_known_keys(cls, found: object) -> object:
        return found

    @property
    def options(self) -> dict[str, Any]:
        """Options of the controller."""
        return dict(self.model_extra or {})
