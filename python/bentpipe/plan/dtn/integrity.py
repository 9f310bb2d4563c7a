"""Signatures of bundles and their verification at each node (``IntegritySpec``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from bentpipe.scenario.errors import ScenarioError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from bentpipe.plan.spec.run_spec import DtnSpec, IntegritySpec
    from bentpipe.scenario.dtn.integrity import Integrity

__all__ = ["integrity_spec", "key_mismatches"]


def integrity_spec(integrity: Integrity, nodes: Collection[str], key: str) -> IntegritySpec:
    """Build the ``IntegritySpec`` of a bundle node.

    Args:
        integrity: the table of the scenario.
        nodes: names of all nodes.
        key: key of the table, for errors.

    Raises:
        ScenarioError: the node verifies the bundles of an unknown node.
    """
    for name in integrity.check:
        if name not in nodes:
            raise ScenarioError([(f"{key}.check", unknown_name(name, nodes, "node"))])
    spec: dict[str, object] = {
        "check": [{"node": name, "key": secret} for name, secret in integrity.check.items()],
        "checks_forwarded": integrity.at == "every-hop",
        "unsigned": integrity.unsigned,
        "other_sources": integrity.others,
    }
    if integrity.sign is not None:
        scope = {part: part in integrity.scope for part in ("primary", "target", "security")}
        spec["sign"] = {"key": integrity.sign, "sha": str(integrity.sha), "scope": scope}
    return cast("IntegritySpec", spec)


def key_mismatches(dtn: DtnSpec) -> Iterator[tuple[str, str]]:
    """Yield key and message for each node that deletes all bundles of a node that it verifies."""
    by_node = {node["name"]: node.get("integrity") or {} for node in dtn["nodes"]}
    for name, integrity in by_node.items():
        for check in integrity.get("check", ()):
            sign = by_node[check["node"]].get("sign")
            key, pair = f"dtn.node.{name}.integrity.check", f'{check["node"]} = "{check["key"]}"'
            if sign is not None and sign["key"] != check["key"]:
                yield key, f'found {pair}, which signs with "{sign["key"]}": its bundles are deleted there'
            elif sign is None and integrity.get("unsigned") == "delete":
                yield key, f"found {pair}, which signs nothing: its bundles are deleted there"
