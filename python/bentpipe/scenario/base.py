"""What every table of a scenario is made of: refused unknown keys, quantities as text, bare values for tables."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    StrictStr,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from bentpipe.scenario.errors import is_name, unknown_name
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
from bentpipe.scenario.radio_quantities import Decibel, Frequency, Speed, SymbolRate


def described(example: str, meaning: str) -> WithJsonSchema:
    """JSON schema of a quantity that is written as text."""
    return WithJsonSchema({"type": "string", "examples": [example], "description": meaning})


DurationText = Annotated[Duration, PlainValidator(Duration.parse), described("250 ms", "a duration")]
RateText = Annotated[Rate, PlainValidator(Rate.parse), described("10 Mbit/s", "a rate above 0")]
SizeText = Annotated[Size, PlainValidator(Size.parse), described("5.3 MB", "a number of bytes")]
ChanceText = Annotated[Probability, PlainValidator(Probability.parse), described("0.01 %", "a probability")]
DistanceText = Annotated[Distance, PlainValidator(Distance.parse), described("550 km", "a distance")]
AngleText = Annotated[Angle, PlainValidator(Angle.parse), described("25 deg", "an angle")]
QueueText = Annotated[QueueSize, PlainValidator(QueueSize.parse), described("1 BDP", "the bound of a queue")]
WindowText = Annotated[WindowSize, PlainValidator(WindowSize.parse), described("10 packets", "a window")]


def positive(found: object) -> Duration:
    """A duration above 0. Raises ValueError."""
    value = Duration.parse(found)
    if value.ns == 0:
        raise ValueError(f'found {found!r}, expected a duration above 0 such as "10 s"'.replace("'", '"'))
    return value


Ordered = TypeVar("Ordered", Duration, Rate, Size)

PositiveText = Annotated[Duration, PlainValidator(positive), described("10 s", "a duration above 0")]


@dataclass(frozen=True)
class as_table:  # noqa: N801 - used like a function, in annotations
    """A bare text or number stands for a table with that one key."""

    key: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Widens before the table is read."""
        return core_schema.no_info_before_validator_function(self._widen, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Either form."""
        return {"anyOf": [{"type": ["string", "number"]}, handler(schema)]}

    def _widen(self, found: object) -> object:
        return found if isinstance(found, (Mapping, BaseModel)) else {self.key: found}


def goes_with(name: str, given: Collection[str], options: Mapping[str, Collection[str]]) -> None:
    """Raises ValueError for an option that is ``given`` and of which ``name`` is none of those that have it."""
    for option, names in options.items():
        if option in given and name not in names:
            raise ValueError(f'found {option} beside "{name}", expected it with {" or ".join(names)}')


def in_range(key: str, value: Ordered, least: Ordered | None, most: Ordered | None) -> None:
    """Raises ValueError for a quantity outside ``least`` to ``most``."""
    if least is not None and value < least:
        raise ValueError(f"{key}: found {value}, expected at least {least}")
    if most is not None and value > most:
        raise ValueError(f"{key}: found {value}, expected at most {most}")


def only_one(table: BaseModel, keys: tuple[str, ...], what: str) -> None:
    """Exactly one of ``keys`` is given. Raises ValueError."""
    given = [key for key in keys if getattr(table, key) is not None]
    if len(given) != 1:
        found = " and ".join(given) if given else "none"
        raise ValueError(f"found {found}, expected exactly one of {', '.join(keys)} for {what}")


class Table(BaseModel):
    """A table of the scenario; unknown keys are refused with the nearest right one."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    hints: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, found: object) -> object:
        if isinstance(found, Mapping):
            words = _words(cls)
            for key in found:
                if key not in words:
                    error = cls.hints.get(str(key)) or unknown_name(str(key), words)
                    raise PydanticCustomError("scenario", "{error}", {"error": error, "at": str(key)})
        return found

    def to_dict(self) -> dict[str, Any]:
        """The table of TOML that says the same: the keys that were given, with quantities as text."""
        given = [name for name in type(self).model_fields if name in self.model_fields_set]
        found = {type(self).model_fields[name].alias or name: getattr(self, name) for name in given}
        return {
            key: to_toml_value(value)
            for key, value in (found | (self.model_extra or {})).items()
            if value is not None
        }


@cache
def _words(table: type[Table]) -> tuple[str, ...]:
    """The keys of a table, as they are written."""
    return tuple(field.alias or name for name, field in table.model_fields.items())


QUANTITIES = (
    Angle, Decibel, Distance, Duration, Frequency, Place, Probability, QueueSize, Rate, Size, Speed, SymbolRate,
    WindowSize,
)  # fmt: skip


def to_toml_value(value: object) -> Any:
    """``value`` as a scenario writes it, and tables and quantities anywhere in it; what is plain stays as it is."""
    if isinstance(value, Table):
        return value.to_dict()
    if isinstance(value, QUANTITIES):
        return str(value)
    if isinstance(value, Mapping):
        return {key: to_toml_value(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_toml_value(inner) for inner in value]
    return value


Some = TypeVar("Some", bound=Table)
Of = TypeVar("Of", bound=BaseModel)


def where_silent(table: type[Of], **keys: Any) -> Of:
    """A table of which nothing but ``keys`` is said. It is not checked: for that a validator of this table alone would
    be built whenever bentpipe is imported, in 3 to 40 ms."""
    return table.model_construct(**keys)


def merged(own: Some, other: Some) -> Some:
    """The keys of ``own``, with those of ``other``, of the same sort, where it is silent."""
    if not own.model_fields_set:
        return other
    if not other.model_fields_set and type(own) is type(other):
        return own
    return other.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})


def _name(found: object) -> str:
    if not isinstance(found, str) or not is_name(found):
        raise ValueError(f'found "{found}", expected a name: a letter, then letters, digits, _ or -')
    composed = unicodedata.normalize("NFC", found)
    if composed != found:  # two names that look the same would be two
        raise ValueError(
            f'found "{found}" with accents apart from their letters, expected "{composed}" (NFC)'
        )
    return found


Name = Annotated[
    str,
    PlainValidator(_name),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^[^\s\d_.-][^\s.]*$",
            "description": "a letter of any alphabet, then letters, digits, _ or -",
        }
    ),
]


class Congestion(Table):
    """A congestion controller: its name and its own options. A bare word is ``name``."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: StrictStr

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, found: object) -> object:
        return found

    @property
    def options(self) -> dict[str, Any]:
        """The controller's own keys."""
        return dict(self.model_extra or {})
