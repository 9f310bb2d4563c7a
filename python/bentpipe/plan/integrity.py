"""What bundle nodes sign and check, in the engine's words (``IntegritySpec``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from bentpipe.scenario.problems import ScenarioError, unknown_word

if TYPE_CHECKING:
    from collections.abc import Collection

    from bentpipe.plan.spec import IntegritySpec
    from bentpipe.scenario.integrity import Integrity

__all__ = ["integrity_words"]


def integrity_words(found: Integrity, nodes: Collection[str], key: str) -> IntegritySpec:
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
            raise ScenarioError([(f"{key}.check", unknown_word(name, nodes, "node"))])
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
