"""What a bundle node does for the integrity of bundles (``integrity`` of a node): BIB-HMAC-SHA2 of RFC 9173."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, StrictInt, StrictStr, model_validator

from bentpipe.scenario.base import Table

__all__ = ["Integrity"]

_OF_SIGN = ("sha", "scope")
_OF_CHECK = ("at", "unsigned", "others")


class Integrity(Table):
    """A node signs its own bundles with the key ``sign``, and checks those of the nodes in ``check``, by the keys
    there: where they are delivered, or at every hop.

    ``scope``: what is signed beside the payload. ``unsigned``: what becomes of their bundles without a signature;
    ``others``: of all other nodes' bundles. One with a wrong signature is deleted.
    """

    sign: StrictStr | None = Field(default=None, min_length=1)
    sha: StrictInt = Field(default=384, json_schema_extra={"enum": [256, 384, 512]})
    scope: tuple[Literal["primary", "target", "security"], ...] = ("primary", "target", "security")
    check: dict[StrictStr, StrictStr] = Field(default_factory=dict)
    at: Literal["destination", "every-hop"] = "destination"
    unsigned: Literal["delete", "pass"] = "delete"
    others: Literal["pass", "delete"] = "pass"

    @model_validator(mode="after")
    def _together(self) -> Integrity:
        if self.sign is None and not self.check:
            raise ValueError(
                'found neither sign nor check, expected sign = "KEY", check = { NODE = "KEY" } or both'
            )
        if self.sha not in (256, 384, 512):
            raise ValueError(f"sha: found {self.sha}, expected 256, 384 or 512")
        for needed, keys in (("sign", _OF_SIGN), ("check", _OF_CHECK)):
            if not getattr(self, needed) and (found := [key for key in keys if key in self.model_fields_set]):
                raise ValueError(f"{found[0]}: found without {needed}, expected both or neither")
        return self
