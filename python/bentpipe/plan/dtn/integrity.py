"""What bundle nodes sign and check, in the engine's words (``IntegritySpec``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from bentpipe.scenario.errors import ScenarioError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from bentpipe.plan.spec.run_spec import DtnSpec, IntegritySpec
    from bentpipe.scenario.dtn.integrity import Integrity

__all__ = ["integrity_spec", "key_mismatches"]


def integrity_spec(found: Integrity, nodes: Collection[str], key: str) -> IntegritySpec:
    """What a node does for the integrity of bundles.

    Args:
        found: what its table says.
        nodes: all nodes.
        key: that of the table, for messages.

    Raises:
        ScenarioError: it checks the bundles of a node that there is not.
    """
    for name in found.check:
        if name not in nodes:
            raise ScenarioError([(f"{key}.check", unknown_name(name, nodes, "node"))])
    words: dict[str, object] = {
        "check": [{"node": name, "key": secret} for name, secret in found.check.items()],
        "on_the_way": found.at == "every-hop",
        "unsigned": found.unsigned,
        "others": found.others,
    }
    if found.sign is not None:
        scope = {part: part in found.scope for part in ("primary", "target", "security")}
        words["sign"] = {"key": found.sign, "sha": str(found.sha), "scope": scope}
    return cast("IntegritySpec", words)


def key_mismatches(dtn: DtnSpec) -> Iterator[tuple[str, str]]:
    """Whose bundles nobody takes who checks them: the key of the scenario, and why."""
    asked = {node["name"]: node.get("integrity") or {} for node in dtn["nodes"]}
    for name, found in asked.items():
        for one in found.get("check", ()):
            sign = asked[one["node"]].get("sign")
            key, pair = f"dtn.node.{name}.integrity.check", f'{one["node"]} = "{one["key"]}"'
            if sign is not None and sign["key"] != one["key"]:
                yield key, f'found {pair}, which signs with "{sign["key"]}": its bundles are deleted there'
            elif sign is None and found.get("unsigned") == "delete":
                yield key, f"found {pair}, which signs nothing: its bundles are deleted there"
