//! `bentpipe perf call` and `answer`: media calls over UDP between two machines, by source and receiver of the
//! simulation.
//!
//! A call is negotiated over TCP to the listening port of the callee. One JSON line in each direction contains load,
//! ports and clocks; a last line is the callee's report. Datagrams thus go only to an address that has requested them
//! by a connection.
//!
//! Reading order: `plan`, `signalling` (the lines), `session` (the datagrams), `caller`, `callee`, `report` (the
//! result).

mod callee;
mod caller;
mod plan;
mod report;
mod session;
mod signalling;

pub use callee::Callee;
pub use caller::run_caller;
pub use plan::{CallFlow, CalleePlan, CallerPlan};

use transport::media::{MEDIA_HEADER_BYTES, MediaHeader, ReceiverStats};
use units::Time;

/// The maximum duration of a call in seconds.
const MAX_CALL_SECONDS: u64 = 3600;

/// The maximum rate per side of a call in bit/s: forty live streams of high definition.
const MAX_BIT_S: u64 = 200_000_000;

/// Processes untrusted input of a call, selected by the first byte: an offer, an answer or a report in two pieces, or
/// datagrams. No input may cause a panic or long work; for fuzzing.
pub fn exercise(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let (one, other) = rest.split_at(rest.len() / 2);
    let now = Time(60_000_000_000);
    match kind % 4 {
        0 => {
            if let Some(ask) =
                read_in_pieces::<signalling::CallOffer>(signalling::MAX_OFFER_BYTES, [one, other])
            {
                callee::exercise_offer(&ask, now);
            }
        }
        1 => drop(read_in_pieces::<signalling::CallAnswer>(
            signalling::MAX_OFFER_BYTES,
            [one, other],
        )),
        2 => {
            if let Some(heard) = read_in_pieces::<signalling::RemoteReport>(
                signalling::MAX_REPORT_BYTES,
                [one, other],
            ) {
                heard.up.with_sent(heard.sent);
            }
        }
        _ => {
            let mut heard = ReceiverStats::default();
            for datagram in rest.chunks(MEDIA_HEADER_BYTES) {
                if let Some(head) = MediaHeader::read(datagram)
                    && head.due.nanos().abs_diff(now.nanos()) < session::MAX_DELAY.nanos()
                {
                    heard.on_datagram(now, &MediaHeader { due: head.due.min(now), ..head });
                }
            }
            let told = report::DirectionReport::from_stats(&heard);
            let received: u64 = told.windows.iter().map(|window| window.received_packets).sum();
            assert!(received <= (rest.len() / MEDIA_HEADER_BYTES) as u64);
        }
    }
}

fn read_in_pieces<T: serde::de::DeserializeOwned>(most: usize, pieces: [&[u8]; 2]) -> Option<T> {
    let mut line = signalling::LineReader::new(most);
    pieces.into_iter().find_map(|piece| line.push(piece).ok().flatten())
}
