"""Certificate of a node, signed by the authority of a lab (``bentpipe dtn keygen``)."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.dtn.node_config import EID
from bentpipe.dtn.node_plan import node_id
from bentpipe.lab.bundle_node import issue_certificate
from bentpipe.metrics.format import CommandOutput
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from bentpipe.lab.process_plans import IssuePlan

__all__ = ["make"]

FILE = r"[\w.-]{1,64}"
"""Pattern of a name that is a valid file name."""


def make(name: str, folder: Path, eid: str | None = None, days: int = 365) -> CommandOutput:
    """Create a key and a certificate for a node.

    Args:
        name: name of the node.
        folder: directory of the files.
        eid: node id; None: derived from the name.
        days: days of validity.

    Raises:
        ScenarioError: invalid name or node id; existing files.
    """
    if not re.fullmatch(FILE, name) or name.startswith(".") or name == "authority":
        text = f'found "{name}", expected a node\'s name of letters, digits, - and _, other than "authority"'
        raise ScenarioError([("NODE", text)])
    eid = eid or node_id(name)
    if not re.fullmatch(EID, eid):
        raise ScenarioError([("--eid", f'found "{eid}", expected ipn:NUMBER.0 or dtn://NAME/')])
    plan: IssuePlan = {
        "eid": eid,
        "name": name,
        "folder": str(folder),
        "days": days,
        "now_unix_s": int(time.time()),
    }
    created = issue_certificate(plan)
    authority = "a new authority" if created["authority_is_new"] else "the authority"
    text = f"certificate of {name} ({created['eid']}): {created['certificate']}, signed by {authority} "
    text += f"({created['authority']}); key: {created['key']}"
    return CommandOutput({"node": name, **created}, (text, f"pin: {created['pin']}"))
