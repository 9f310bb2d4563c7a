//! Untrusted input of a media call: the lines of its negotiation, and datagrams.

use programs::test_support::{
    CallAnswer, CallOffer, DirectionReport, LineReader, MAX_DELAY, MAX_OFFER_BYTES,
    MAX_REPORT_BYTES, RemoteReport, exercise_offer,
};
use serde::de::DeserializeOwned;
use transport::media::{MEDIA_HEADER_BYTES, MediaHeader, ReceiverStats};
use units::Time;

/// Processes untrusted input of a call, selected by the first byte: an offer, an answer or a report in two pieces, or
/// datagrams. No input may cause a panic or long work.
pub fn exercise(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let (one, other) = rest.split_at(rest.len() / 2);
    let now = Time(60_000_000_000);
    match kind % 4 {
        0 => {
            if let Some(ask) = read_in_pieces::<CallOffer>(MAX_OFFER_BYTES, [one, other]) {
                exercise_offer(&ask, now);
            }
        }
        1 => drop(read_in_pieces::<CallAnswer>(MAX_OFFER_BYTES, [one, other])),
        2 => {
            if let Some(report) = read_in_pieces::<RemoteReport>(MAX_REPORT_BYTES, [one, other]) {
                report.up.with_sent(report.sent);
            }
        }
        _ => {
            let mut stats = ReceiverStats::default();
            for datagram in rest.chunks(MEDIA_HEADER_BYTES) {
                if let Some(head) = MediaHeader::read(datagram)
                    && head.due.nanos().abs_diff(now.nanos()) < MAX_DELAY.nanos()
                {
                    stats.on_datagram(now, &MediaHeader { due: head.due.min(now), ..head });
                }
            }
            let report = DirectionReport::from_stats(&stats);
            let received: u64 = report.windows.iter().map(|window| window.received_packets).sum();
            assert!(received <= (rest.len() / MEDIA_HEADER_BYTES) as u64);
        }
    }
}

fn read_in_pieces<T: DeserializeOwned>(max_bytes: usize, pieces: [&[u8]; 2]) -> Option<T> {
    let mut line = LineReader::new(max_bytes);
    pieces.into_iter().find_map(|piece| line.push(piece).ok().flatten())
}
