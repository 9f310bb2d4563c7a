"""Integrity of bundles (``integrity`` of a node): BIB-HMAC-SHA2 of RFC 9173."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, StrictInt, StrictStr, model_validator

from bentpipe.scenario.base import Table

__all__ = ["Integrity"]

_SIGN_KEYS = ("sha", "scope")
"""Keys that require ``sign``."""

_CHECK_KEYS = ("at", "unsigned", "others")
"""Keys that require ``check``."""


class Integrity(Table):
    """Signatures and checks of a node.

    It signs its own bundles with the key ``sign``. It checks the bundles of the nodes in ``check`` with the keys there,
    at the destination or at every hop. A bundle with an invalid signature is deleted.

    ``scope``: signed data beside the payload. ``unsigned``: treatment of unsigned bundles of these nodes. ``others``:
    treatment of the bundles of all other nodes.
    """

    sign: StrictStr | None = Field(default=None, min_length=1)
    sha: StrictInt = Field(default=384, json_schema_extra={"enum": [256, 384, 512]})
    scope: tuple[Literal["primary", "target", "security"], ...] = ("primary", "target", "security")
    check: dict[StrictStr, StrictStr] = Field(default_factory=dict)
    at: Literal["destination", "every-hop"] = "destination"
    unsigned: Literal["delete", "pass"] = "delete"
    others: Literal["pass", "delete"] = "pass"

    @model_validator(mode="after")
    def _check_combination(self) -> Integrity:
        if self.sign is None and not self.check:
            raise ValueError(
                'found neither sign nor check, expected sign = "KEY", check = { NODE = "KEY" } or both'
            )
        if self.sha not in (256, 384, 512):
            raise ValueError(f"sha: found {self.sha}, expected 256, 384 or 512")
        for required, keys in (("sign", _SIGN_KEYS), ("check", _CHECK_KEYS)):
            if not getattr(self, required) and (
                found := [key for key in keys if key in self.model_fields_set]
            ):
                raise ValueError(f"{found[0]}: found without {required}, expected both or neither")
        return self
