//! LTP against the state diagrams of RFC 5326 (sections 8.1 and 8.2) as tables. For random event sequences the table
//! predicts segments and session events. Two additions: the report on a complete block waits for the store. A
//! checkpoint that responds to an unknown report ends its session, because a restarted receiver has lost its reports.

mod receiver;
mod sender;

use std::collections::BTreeSet;

use bundle::cla::ltp::LtpSpec;

/// The retransmission limit of the RFC.
const LIMIT: u32 = 2;
const SEGMENT: u64 = 500;
const TOTAL: u64 = 3000;

fn spec() -> LtpSpec {
    LtpSpec { segment_bytes: 535, max_retransmissions: LIMIT, ..LtpSpec::default() }
}

/// Converts ranges to bytes.
fn bytes_of(spans: &[(u64, u64)]) -> BTreeSet<u64> {
    spans.iter().flat_map(|(from, to)| *from..*to).collect()
}

/// Converts bytes to ranges.
fn spans_of(bytes: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for one in bytes {
        match spans.last_mut() {
            Some(last) if last.1 == *one => last.1 += 1,
            _ => spans.push((*one, one + 1)),
        }
    }
    spans
}
