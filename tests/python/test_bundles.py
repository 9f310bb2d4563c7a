"""Bundles as pyD3TN sees them: it reads what the engine builds, and what it builds itself is what the engine's tests read."""

from pathlib import Path

import pytest
from pyd3tn import bundle7

ORACLES = Path(__file__).parents[2] / "crates/bundle/tests/suite/oracles"
OURS = (ORACLES / "ours.txt").read_text().split()

# A name is the payload: what the engine's test expects of the bundle (crates/bundle/tests/suite/oracles/mod.rs).
THEIRS = {
    "plain": {},
    "hops": {"hop_limit": 30, "hop_count": 2},
    "age": {"bundle_age": 12},
    "previous": {"previous_node_eid": "ipn:9.0"},
    "hops-age-previous": {"hop_limit": 30, "bundle_age": 12, "previous_node_eid": "dtn://there/"},
    "part": {"flags": bundle7.BundleProcFlag.IS_FRAGMENT, "fragment_offset": 10, "total_adu_length": 100},
    "crc16": {"crc_type_primary": bundle7.CRCType.CRC16, "crc_type_canonical": bundle7.CRCType.CRC32},
    "unchecked": {"crc_type_canonical": bundle7.CRCType.NONE},
}


@pytest.mark.parametrize("text", OURS, ids=range(len(OURS)))
def test_it_reads_what_the_engine_builds_and_says_the_same(text: str) -> None:
    data = bytes.fromhex(text)
    read = bundle7.Bundle.parse(data)
    # It checks the CRCs of all that it writes again.
    assert bytes(read) == data
    assert read.primary_block.version == 7
    assert read.primary_block.crc_type is not bundle7.CRCType.NONE


def test_the_engine_reads_its_output() -> None:
    made = [
        bundle7.serialize_bundle7(
            "ipn:1.1",
            "dtn://earth/perf",
            name.encode(),
            report_to_eid="ipn:3.1000",
            creation_timestamp=1_800_000_000,
            sequence_number=7,
            **options,
        ).hex()
        for name, options in THEIRS.items()
    ]
    lines = [f"{name} {data}" for name, data in zip(THEIRS, made, strict=True)]
    assert (ORACLES / "pyd3tn.txt").read_text().splitlines() == lines
