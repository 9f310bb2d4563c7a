"""Dotted keys: how ``--set`` and ``[sweep]`` name a place of a scenario, and the cells of a sweep.

``path.SEGMENT.KEY``, ``path.PROXY.KEY``, ``flow.NAME.KEY``, ``graph.LINK.KEY``, ``quic.KEY``, ``tcp.KEY``,
``trace.KEY``, ``dtn.KEY``, ``dtn.node.NAME.KEY``, ``duration`` and ``sample``; keys go on with dots into
tables. A key of a direction directly below a segment (``path.satellite.rate``) means both directions.
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
from bentpipe.scenario.network.topology import Direction
from bentpipe.scenario.sweep_columns import LABELS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "axes_of",
    "cells",
    "describe_cell",
    "format_override",
    "is_scenario_key",
    "overrides",
    "parse_override",
    "parse_sweep",
    "set_key",
    "swept_keys",
]

MOST_CELLS = 100_000

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
    "sample",
    "seeds",
    "title",
    "sweep",
)
_BARE = {  # what a bare value of these keys stands for; see the tables of ``path`` and ``model``
    "congestion": "name",
    "server_congestion": "name",
    "aqm": "name",
    "scheduler": "name",
    "loss": "probability",
    "load": "pico_perf",
    "call": "codec",
    "live": "rate",
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
_OF_A_DIRECTION = frozenset(Direction.model_fields) - {"delay"}


def set_key(data: dict[str, Any], key: str, value: object) -> None:
    """Sets ``key`` of parsed TOML, in place.

    Raises:
        ScenarioError: a member that is not there, or a key of too many words; wrong last words are found when the
            scenario is read.
    """
    words = key.split(".")
    if len(words) > MOST_DEPTH:
        first = ".".join(words[:3])
        raise ScenarioError([(first, f"found a key of {len(words):,} parts, expected at most {MOST_DEPTH}")])
    if words[0] not in _ROOTS:
        raise ScenarioError([(key, unknown_name(words[0], _ROOTS))])
    if len(words) == 1:
        data[key] = value
        return
    if words[:2] == ["dtn", "node"] and len(words) > 2:
        _descend(_bundle_node(data, words, key), words[3:], value, key)
        return
    if words[0] not in ("path", "flow", "graph"):
        _descend(data, words, value, key)
        return
    member = _member(data, words, key)
    rest = words[2:]
    if not rest:
        raise ScenarioError(
            [(key, f'expected a key of "{words[1]}" after it, such as "{key}.{_example(words[0])}"')]
        )
    if words[0] != "flow" and rest[0] in _OF_A_DIRECTION:
        for side in ("up", "down"):
            _descend(member, [side, *rest], copy.deepcopy(value), key)
    else:
        _descend(member, rest, value, key)


def _example(root: str) -> str:
    return "congestion" if root == "flow" else "delay"


def _member(data: Mapping[str, Any], words: Sequence[str], key: str) -> dict[str, Any]:
    """The segment, proxy, link, node or flow that ``words`` name."""
    root = words[0]
    inner = {"path": ("segment", "proxy", "handover"), "graph": ("link", "node", "handover")}.get(root)
    whole: Any = data.get(root)
    lists = {root: whole}
    if inner is not None:
        lists = {f"{root}.{key}": whole.get(key) for key in inner} if isinstance(whole, dict) else {}
    if single := next((key for key, holder in lists.items() if isinstance(holder, dict)), None):
        raise ScenarioError([(single, one_table(single))])
    members = [
        m for holder in lists.values() if isinstance(holder, list) for m in holder if isinstance(m, dict)
    ]
    names = [str(m.get("name")) for m in members]
    for member, name in zip(members, names, strict=True):
        if name == words[1]:
            return member
    what = {"path": "segment", "graph": "link", "flow": "flow"}[root]
    raise ScenarioError([(key, unknown_name(words[1], names, what))])


def _bundle_node(data: dict[str, Any], words: Sequence[str], key: str) -> dict[str, Any]:
    """The table of a bundle node, which is made where there is none: that there is such a node is found later."""
    if len(words) == 3:
        text = f'expected a key of "{words[2]}" after it, such as "{key}.store"'
        raise ScenarioError([(key, text)])
    dtn = data.setdefault("dtn", {})
    nodes = dtn.setdefault("node", []) if isinstance(dtn, dict) else None
    if not isinstance(nodes, list):
        single = "dtn" if nodes is None else "dtn.node"
        raise ScenarioError([(single, one_table(single))])
    for node in nodes:
        if isinstance(node, dict) and node.get("name") == words[2]:
            return node
    made = {"name": words[2]}
    nodes.append(made)
    return made


def _descend(table: dict[str, Any], words: Sequence[str], value: object, key: str) -> None:
    for word in words[:-1]:
        below = table.get(word)
        if below is None:
            below = {}
        elif not isinstance(below, dict):
            if word not in _BARE or isinstance(below, list):
                raise ScenarioError([(key, f'"{word}" is not a table, so it has no key "{words[-1]}"')])
            below = {_BARE[word]: below}
        table[word] = below
        table = below
    table[words[-1]] = value


def parse_override(
    text: str, option: str = "--set", example: str = "path.satellite.delay=15 ms"
) -> tuple[str, object]:
    """``KEY=VALUE`` of the command line; the value is TOML, or text where it is not.

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
    """``KEY=A,B`` of the command line as the override that sweeps ``KEY``; each value is TOML, or text where it is not.

    Raises:
        ScenarioError: no ``=``, no value, a key that is none of a place.
    """
    key, value = parse_override(text, "--sweep", "flow.main.congestion=cubic,bbr")
    words = text.partition("=")[2]
    values = (
        value
        if isinstance(value, list)
        else [parse_override(f"{key}={word}")[1] for word in _VALUE.findall(words)]
    )
    if not values or "" in values:
        raise ScenarioError([("", f'found "{text}", expected values between commas')], "--sweep")
    return f"{SWEEP}{key}", values


SWEEP = "sweep."

_VALUE = re.compile(r"""(?:[^,{\["]|\{[^}]*\}|\[[^\]]*\]|"[^"]*")+""")
"""A value between commas; those of a table, a list or a text are its own."""


def format_override(key: str, value: object) -> str:
    """``KEY=VALUE`` for which :func:`parse_override` gives ``key`` and ``value``; words stay bare where they can."""
    from bentpipe.scenario.toml_writer import inline

    bare = f"{key}={value}"
    if isinstance(value, str) and parse_override(bare) == (key, value):
        return bare
    try:
        return f"{key}={inline(value)}"
    except (ValueError, TypeError):  # nothing a scenario can hold, which is said when it is set
        return bare


def _flat(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Unquoted dotted keys of TOML are nested tables; this is what their author wrote."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{above}.{key}" if above else str(key)
        flat |= _flat(value, name) if isinstance(value, dict) else {name: value}
    return flat


def axes_of(sweep: object) -> dict[str, list[Any]]:
    """The values of each key of a sweep, as far as they are lists."""
    found = _flat(sweep) if isinstance(sweep, dict) else {}
    return {key: values for key, values in found.items() if isinstance(values, list)}


def cells(sweep: object, taken: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Every combination of the sweep's values, the last key fastest; one empty cell without a sweep.

    An entry whose values are tables of dotted keys is a tied axis: each table sets its keys together, and
    ``label`` in it names the combination. It is a column beside those of what is measured: ``taken`` has their names,
    without case, and says who has each.

    Raises:
        ScenarioError: not a list, no values, the same value twice, a name that is taken.
    """
    if sweep is None:
        return [{}]
    if not isinstance(sweep, dict):
        raise ScenarioError([("sweep", "expected a table of keys, each with a list of values")])
    axes: list[list[dict[str, Any]]] = []
    for key, values in _flat(sweep).items():
        where = f"sweep.{key}"
        if not isinstance(values, list) or not values:
            shown = "an empty list" if values == [] else json.dumps(values)
            raise ScenarioError([(where, f"found {shown}, expected a list of values")])
        times = Counter(json.dumps(value, sort_keys=True) for value in values)
        twice = next((text for text, count in times.items() if count > 1), None)
        if twice is not None:
            raise ScenarioError([(where, f"found {twice} twice, expected different values")])
        axes.append([_step(key, value, where, taken or {}) for value in values])
    count = math.prod(len(axis) for axis in axes)
    if count > MOST_CELLS:
        raise ScenarioError([("sweep", f"gives {count:,} cells, expected at most {MOST_CELLS:,}")])
    _check_places(swept_keys(sweep))
    combined = []
    for steps in itertools.product(*axes):
        cell: dict[str, Any] = {}
        for step in steps:
            again = next((key for key in step if key in cell), None)
            if again is not None:
                raise ScenarioError([(f"sweep.{again}", "is swept twice, expected once")])
            cell |= step
        combined.append(cell)
    return combined


def _check_places(places: Sequence[str]) -> None:
    """Each place has an effect. Raises ScenarioError."""
    for index, key in enumerate(places):
        if key.startswith(LABELS):
            problem = "a sweep is not swept; expected a key of the path, of a flow..."
            raise ScenarioError([(f"sweep.{key}", problem)])
        later = next((other for other in places[index + 1 :] if overrides(other, key)), None)
        if later is not None:
            raise ScenarioError(
                [(f"sweep.{key}", f'would be lost: "{later}" comes after it, expected before')]
            )


def swept_keys(sweep: object) -> list[str]:
    """The places of the scenario that a sweep sets, in its order."""
    if not isinstance(sweep, dict):
        return []
    places: list[str] = []
    for key, values in _flat(sweep).items():
        tied = (
            [_flat(value) for value in values if isinstance(value, dict)] if isinstance(values, list) else []
        )
        places += [key] if is_scenario_key(key) else dict.fromkeys(name for table in tied for name in table)
    return [place for place in places if is_scenario_key(place)]


def overrides(above: str, below: str) -> bool:
    """Whether setting ``above`` after ``below`` would undo it."""
    first, second = above.split("."), below.split(".")
    if first[0] in ("path", "graph") and first[2:3] and first[2] in _OF_A_DIRECTION:
        return (
            first[:2] == second[:2] and second[2:3] in (["up"], ["down"]) and _begins(first[2:], second[3:])
        )
    return _begins(first, second) and first != second


def _begins(above: Sequence[str], below: Sequence[str]) -> bool:
    """Whether the words of one key begin with those of another."""
    return list(below[: len(above)]) == list(above)


def is_scenario_key(key: str) -> bool:
    """Whether a key of a sweep is a place of the scenario, and not the name of a tied axis."""
    return "." in key or key in ("duration", "sample")


def _step(key: str, value: object, where: str, taken: Mapping[str, str]) -> dict[str, Any]:
    if is_scenario_key(key):
        return {key: value}
    if not isinstance(value, dict):
        raise ScenarioError(
            [
                (
                    where,
                    unknown_name(key, ["path", "flow", "graph", "quic", "tcp", "udp", "duration", "sample"]),
                )
            ]
        )
    tied = _flat({name: inner for name, inner in value.items() if name != "label"})
    if not tied:
        raise ScenarioError(
            [(where, 'expected tables of dotted keys such as { "path.satellite.delay" = "15 ms" }')]
        )
    _check_name(key, where, taken)
    return ({key: value["label"]} if "label" in value else {}) | tied


def _check_name(key: str, where: str, taken: Mapping[str, str]) -> None:
    if (whose := taken.get(key.casefold())) is not None:
        problem = f'a tied axis cannot be called "{key}": {whose} such a column; expected another name'
        raise ScenarioError([(where, problem)])
    if not key or not key.isprintable():
        raise ScenarioError([(where, "found a name that cannot be seen, expected one for the tied axis")])


def settings(cell: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a cell that are places of the scenario (labels of tied axes are not)."""
    return {key: value for key, value in cell.items() if is_scenario_key(key)}


def describe_cell(cell: Mapping[str, Any]) -> str:
    """A cell in one line. Of a long value, such as a contact plan, its beginning."""

    def shown(value: object) -> str:
        text = value if isinstance(value, str) else json.dumps(value)
        return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 3]}..."

    return ", ".join(f"{key} = {shown(value)}" for key, value in cell.items())


_MOST_SHOWN = 60
"""Letters of a value."""
