"""``bentpipe dtn keygen``: a certificate by which a node proves who it is, signed by a lab's authority."""

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
"""A name that can be a file's."""


def make(name: str, folder: Path, eid: str | None = None, days: int = 365) -> CommandOutput:
    """A key and a certificate for the node ``name``, valid for so many ``days``, in ``folder``.

    Raises:
        ScenarioError: no such name or node id; what is there already.
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
    made = issue_certificate(plan)
    signed = "a new authority" if made["authority_is_new"] else "the authority"
    said = f"{made['certificate']} is the certificate of {name} ({made['eid']}), signed by {signed} "
    said += f"({made['authority']}); {made['key']} is its key."
    return CommandOutput({"node": name, **made}, (said, f"pin: {made['pin']}"))
