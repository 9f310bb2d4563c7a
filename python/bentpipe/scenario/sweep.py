"""Dotted keys of ``--set`` and ``[sweep]``, and the cells of a sweep.

The keys are ``path.SEGMENT.KEY``, ``path.PROXY.KEY``, ``flow.NAME.KEY``, ``graph.LINK.KEY``, ``quic.KEY``,
``tcp.KEY``, ``trace.KEY``, ``dtn.KEY``, ``dtn.node.NAME.KEY``, ``duration`` and ``sample_interval``. Further dots
select keys of inner tables. A key of a direction directly below a segment (``path.satellite.rate``) sets both
directions.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from bentpipe.scenario.errors import ScenarioError, one_table, unknown_name
from bentpipe.scenario.input_file import MOST_DEPTH, parse_toml
from bentpipe.scenario.link.direction import Direction
from bentpipe.scenario.presets import PRESET
from bentpipe.scenario.quantity_text import nearest
from bentpipe.scenario.sweep_columns import LABELS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "axes_of",
    "cells",
    "describe_cell",
    "expand_directions",
    "format_override",
    "is_scenario_key",
    "overrides",
    "parse_override",
    "parse_sweep",
    "set_key",
    "swept_keys",
]

MOST_CELLS = 100_000
"""Largest number of cells of a sweep."""

_ROOTS = (
    "path",
    "flow",
    "graph",
    "orbit",
    "quic",
    "tcp",
    "udp",
    "page",
    "trace",
    "dtn",
    "limits",
    "duration",
    "sample_interval",
    "seeds",
    "title",
    "sweep",
)
_BARE_VALUE_KEYS = {
    "congestion": "name",
    "server_congestion": "name",
    "aqm": "name",
    "scheduler": "name",
    "loss": "probability",
    "load": "pico_perf",
    "call": "codec",
    "cbr": "rate",
    "delay": "constant",
    "rate": "constant",
    "size": "fixed",
    "page": "named",
    "loss_detection": "name",
    "delayed_ack": "timeout",
    "handover": "rule",
    "constellation": "preset",
    "bundles": "layer",
}
"""Keys whose bare value is a table with one key; see ``as_table`` in the tables."""

_DIRECTION_KEYS = frozenset(Direction.model_fields) - {"delay"}
"""Keys that a segment sets for both directions."""


def set_key(data: dict[str, Any], key: str, value: object) -> None:
    """Set ``key`` of parsed TOML in place.

    Args:
        data: the scenario.
        key: the dotted key.
        value: the new value.

    Raises:
        ScenarioError: no such member, or a key with too many parts. Validation finds other unknown keys.
    """
    parts = key.split(".")
    if len(parts) > MOST_DEPTH:
        first = ".".join(parts[:3])
        raise ScenarioError([(first, f"found a key of {len(parts):,} parts, expected at most {MOST_DEPTH}")])
    if parts[0] not in _ROOTS:
        raise ScenarioError([(key, _unknown_root(data, parts))])
    if len(parts) == 1:
        data[key] = value
        return
    if parts[:2] == ["dtn", "node"] and len(parts) > 2:
        _set_inner_key(_bundle_node(data, parts, key), parts[3:], value, key)
        return
    if parts[0] not in ("path", "flow", "graph"):
        _set_inner_key(data, parts, value, key)
        return
    member = _member(data, parts, key)
    rest = parts[2:]
    if not rest:
        raise ScenarioError(
            [(key, f'expected a key of "{parts[1]}" after it, such as "{key}.{_example_key(parts[0])}"')]
        )
    if parts[0] != "flow" and rest[0] in _DIRECTION_KEYS:
        for side in ("up", "down"):
            _set_inner_key(member, [side, *rest], copy.deepcopy(value), key)
    else:
        _set_inner_key(member, rest, value, key)


def _unknown_root(data: Mapping[str, Any], parts: Sequence[str]) -> str:
    """Return the message for an unknown first part of a key, which may be the name of a segment, link or flow."""
    for root in ("path", "graph", "flow"):
        try:
            _member(data, [root, *parts], ".".join([root, *parts]))
        except ScenarioError:
            continue
        return f'no key "{parts[0]}"; did you mean "{".".join([root, *parts])}"?'
    return unknown_name(parts[0], _ROOTS)


def _example_key(root: str) -> str:
    return "congestion" if root == "flow" else "delay"


def _member(data: Mapping[str, Any], parts: Sequence[str], key: str) -> dict[str, Any]:
    """Return the segment, proxy, link, node or flow that ``parts`` name. Raises ScenarioError."""
    root = parts[0]
    list_keys = {"path": ("segment", "proxy", "handover"), "graph": ("link", "node", "handover")}.get(root)
    top: Any = data.get(root)
    lists = {root: top}
    if list_keys is not None:
        lists = {f"{root}.{key}": top.get(key) for key in list_keys} if isinstance(top, dict) else {}
    if single := next((key for key, tables in lists.items() if isinstance(tables, dict)), None):
        raise ScenarioError([(single, one_table(single))])
    members = [
        member
        for tables in lists.values()
        if isinstance(tables, list)
        for member in tables
        if isinstance(member, dict)
    ]
    names = [str(member.get("name")) for member in members]
    for member, name in zip(members, names, strict=True):
        if name == parts[1]:
            return member
    kind = {"path": "segment", "graph": "link", "flow": "flow"}[root]
    if (root, nearest(parts[1], ["preset"], cutoff=0.7)) == ("path", "preset"):
        raise ScenarioError([(key, f'no segment "{parts[1]}"; did you mean "{PRESET}"?')])
    raise ScenarioError([(key, unknown_name(parts[1], names, kind))])


def _bundle_node(data: dict[str, Any], parts: Sequence[str], key: str) -> dict[str, Any]:
    """Return the table of a bundle node, created if missing. Validation checks later that the node exists."""
    if len(parts) == 3:
        text = f'expected a key of "{parts[2]}" after it, such as "{key}.store"'
        raise ScenarioError([(key, text)])
    dtn = data.setdefault("dtn", {})
    nodes = dtn.setdefault("node", []) if isinstance(dtn, dict) else None
    if not isinstance(nodes, list):
        single = "dtn" if nodes is None else "dtn.node"
        raise ScenarioError([(single, one_table(single))])
    for node in nodes:
        if isinstance(node, dict) and node.get("name") == parts[2]:
            return node
    node = {"name": parts[2]}
    nodes.append(node)
    return node


def _set_inner_key(table: dict[str, Any], parts: Sequence[str], value: object, key: str) -> None:
    """Set the key ``parts`` of ``table``; create inner tables and convert bare values to tables."""
    for part in parts[:-1]:
        inner = table.get(part)
        if inner is None:
            inner = {}
        elif not isinstance(inner, dict):
            if part not in _BARE_VALUE_KEYS or isinstance(inner, list):
                raise ScenarioError([(key, f'"{part}" is not a table, so it has no key "{parts[-1]}"')])
            inner = {_BARE_VALUE_KEYS[part]: inner}
        table[part] = inner
        table = inner
    table[parts[-1]] = value


def parse_override(
    text: str, option: str = "--set", example: str = "path.satellite.delay=15 ms"
) -> tuple[str, object]:
    """Return key and value of ``KEY=VALUE``; the value is TOML, or text if it is not valid TOML.

    Args:
        text: the argument of the option.
        option: the option, for the message.
        example: a valid argument, for the message.

    Raises:
        ScenarioError: no ``=``.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ScenarioError([("", f'found "{text}", expected KEY=VALUE such as "{example}"')], option)
    try:
        return key.strip(), parse_toml(f"value = {value}")["value"]
    except ValueError:
        return key.strip(), value.strip()


def parse_sweep(text: str) -> tuple[str, object]:
    """Return ``KEY=A,B`` as the override that sweeps ``KEY``; each value is TOML, or text if it is not valid TOML.

    Raises:
        ScenarioError: no ``=``, no value, or an unknown key.
    """
    key, value = parse_override(text, "--sweep", "flow.main.congestion=cubic,bbr")
    listed = text.partition("=")[2]
    values = (
        value
        if isinstance(value, list)
        else [parse_override(f"{key}={item}")[1] for item in _VALUE.findall(listed)]
    )
    if not values or "" in values:
        raise ScenarioError([("", f'found "{text}", expected values between commas')], "--sweep")
    return f"{SWEEP}{key}", values


SWEEP = "sweep."
"""Prefix of a dotted key of ``[sweep]``."""

_VALUE = re.compile(r"""(?:[^,{\["]|\{[^}]*\}|\[[^\]]*\]|"[^"]*")+""")
"""Value between commas. Commas inside a table, a list or a text do not separate values."""


def format_override(key: str, value: object) -> str:
    """Return ``KEY=VALUE``, the inverse of :func:`parse_override`; text has no quotes if it does not need them."""
    from bentpipe.scenario.toml_writer import inline

    bare = f"{key}={value}"
    if isinstance(value, str) and parse_override(bare) == (key, value):
        return bare
    try:
        return f"{key}={inline(value)}"
    except (ValueError, TypeError):  # no value of a scenario: set_key reports it
        return bare


def _flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested tables as one table of dotted keys, which TOML parses to nested tables if unquoted."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        flat |= _flatten(value, name) if isinstance(value, dict) else {name: value}
    return flat


def axes_of(sweep: object) -> dict[str, list[Any]]:
    """Return the values of each key of a sweep whose value is a list."""
    axes = _flatten(sweep) if isinstance(sweep, dict) else {}
    return {key: values for key, values in axes.items() if isinstance(values, list)}


def cells(sweep: object, taken: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Return every combination of the values of a sweep, the last key fastest; one empty cell without a sweep.

    An axis whose values are tables of dotted keys is a tied axis. Each table sets its keys together, and its key
    ``label`` names the combination. The label is a column of the results.

    Args:
        sweep: the table ``[sweep]``.
        taken: names of the other columns in lower case, each with the text of its owner for the message.

    Raises:
        ScenarioError: not a list, no values, the same value twice, a name that is taken.
    """
    if sweep is None:
        return [{}]
    if not isinstance(sweep, dict):
        raise ScenarioError([("sweep", "expected a table of keys, each with a list of values")])
    axes: list[list[dict[str, Any]]] = []
    for key, values in _flatten(sweep).items():
        axis_key = f"sweep.{key}"
        if not isinstance(values, list) or not values:
            shown = "an empty list" if values == [] else json.dumps(values)
            raise ScenarioError([(axis_key, f"found {shown}, expected a list of values")])
        counts = Counter(json.dumps(value, sort_keys=True) for value in values)
        duplicate = next((text for text, count in counts.items() if count > 1), None)
        if duplicate is not None:
            raise ScenarioError([(axis_key, f"duplicate value {duplicate}, expected different values")])
        axes.append([_resolve_value(key, value, axis_key, taken or {}) for value in values])
    count = math.prod(len(axis) for axis in axes)
    if count > MOST_CELLS:
        raise ScenarioError([("sweep", f"has {count:,} cells, expected at most {MOST_CELLS:,}")])
    _check_order(swept_keys(sweep))
    combinations = []
    for combination in itertools.product(*axes):
        cell: dict[str, Any] = {}
        for axis_settings in combination:
            repeated = next((key for key in axis_settings if key in cell), None)
            if repeated is not None:
                raise ScenarioError(
                    [(f"sweep.{repeated}", "duplicate key, expected each key once in a sweep")]
                )
            cell |= axis_settings
        combinations.append(cell)
    return combinations


def _check_order(keys: Sequence[str]) -> None:
    """Check that no key of a sweep is overridden by a later one. Raises ScenarioError."""
    for index, key in enumerate(keys):
        if key.startswith(LABELS):
            problem = "a sweep cannot be swept; expected a key of the path, of a flow..."
            raise ScenarioError([(f"sweep.{key}", problem)])
        overriding = next((other for other in keys[index + 1 :] if overrides(other, key)), None)
        if overriding is not None:
            raise ScenarioError(
                [
                    (
                        f"sweep.{key}",
                        f'would have no effect: "{overriding}" follows and sets the whole table; expected it first',
                    )
                ]
            )


def swept_keys(sweep: object) -> list[str]:
    """Return the scenario keys that a sweep sets, in its order."""
    if not isinstance(sweep, dict):
        return []
    keys: list[str] = []
    for key, values in _flatten(sweep).items():
        tied = (
            [_flatten(value) for value in values if isinstance(value, dict)]
            if isinstance(values, list)
            else []
        )
        keys += [key] if is_scenario_key(key) else dict.fromkeys(name for table in tied for name in table)
    return [swept for swept in keys if is_scenario_key(swept)]


def expand_directions(key: str) -> list[str]:
    """Return the keys of both directions that a key of a segment or link sets; any other key alone."""
    parts = key.split(".")
    if parts[0] in ("path", "graph") and parts[2:3] and parts[2] in _DIRECTION_KEYS:
        return [".".join([*parts[:2], side, *parts[2:]]) for side in ("up", "down")]
    return [key]


def overrides(above: str, below: str) -> bool:
    """Return whether setting the key ``above`` after the key ``below`` would undo the latter."""
    first, second = above.split("."), below.split(".")
    if first[0] in ("path", "graph") and first[2:3] and first[2] in _DIRECTION_KEYS:
        return (
            first[:2] == second[:2]
            and second[2:3] in (["up"], ["down"])
            and _is_prefix(first[2:], second[3:])
        )
    return _is_prefix(first, second) and first != second


def _is_prefix(above: Sequence[str], below: Sequence[str]) -> bool:
    """Return whether the parts ``above`` are a prefix of the parts ``below``."""
    return list(below[: len(above)]) == list(above)


def is_scenario_key(key: str) -> bool:
    """Return whether a key of a sweep is a key of the scenario, not the name of a tied axis."""
    return "." in key or key in ("duration", "sample_interval")


def _resolve_value(key: str, value: object, axis_key: str, taken: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of one value of an axis, with the label of a tied axis. Raises ScenarioError."""
    if is_scenario_key(key):
        return {key: value}
    if not isinstance(value, dict):
        raise ScenarioError(
            [
                (
                    axis_key,
                    unknown_name(
                        key, ["path", "flow", "graph", "quic", "tcp", "udp", "duration", "sample_interval"]
                    ),
                )
            ]
        )
    tied = _flatten({name: inner for name, inner in value.items() if name != "label"})
    if not tied:
        raise ScenarioError(
            [(axis_key, 'expected tables of dotted keys such as { "path.satellite.delay" = "15 ms" }')]
        )
    _check_axis_name(key, axis_key, taken)
    return ({key: value["label"]} if "label" in value else {}) | tied


def _check_axis_name(key: str, axis_key: str, taken: Mapping[str, str]) -> None:
    if (owner := taken.get(key.casefold())) is not None:
        problem = (
            f'the tied axis cannot have the name "{key}": {owner} a column with it; expected another name'
        )
        raise ScenarioError([(axis_key, problem)])
    if not key or not key.isprintable():
        raise ScenarioError([(axis_key, "found an invisible name, expected a name for the tied axis")])


def settings(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scenario keys of a cell, without the labels of tied axes."""
    return {key: value for key, value in cell.items() if is_scenario_key(key)}


def describe_cell(cell: Mapping[str, Any]) -> str:
    """Return a cell in one line. Long values, such as contact plans, are truncated."""

    def format_value(value: object) -> str:
        text = value if isinstance(value, str) else json.dumps(value)
        return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 3]}..."

    return ", ".join(f"{key} = {format_value(value)}" for key, value in cell.items())


_MAX_VALUE_LENGTH = 60
"""Characters after which a value is truncated."""
