//! `bentpipe perf call` and `answer`: calls over real UDP between two machines, with the source and the ear of the
//! simulation.
//!
//! A call is agreed on over TCP, to the port at which the answering side listens: one line of JSON each way says what is
//! sent, where to, and what the clocks show; a last one what the answering side has heard. So nobody is sent datagrams who
//! has not asked for them, by a connection from the address that gets them.
//!
//! Reading order: `plan`, `words` (the lines), `media` (the datagrams), `call`, `answer`, `told` (the result).

mod answer;
mod call;
mod media;
mod plan;
mod told;
mod words;

pub use answer::Answering;
pub use call::call;
pub use plan::{AnswerPlan, CallPlan, Flow};

use transport::calls::{HEAD_BYTES, Head, Heard};
use units::Time;

/// Seconds that a call lasts at the most.
const MOST_SECONDS: u64 = 3600;

/// What either side of a call sends at the most, bit/s: forty live streams of high definition.
const MOST_BIT_S: u64 = 200_000_000;

/// What strangers say of calls, by the first byte: a question, an answer or a result in two pieces, or datagrams. None of
/// it panics or is worked at for long; for fuzzing.
pub fn exercise(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let (one, other) = rest.split_at(rest.len() / 2);
    let now = Time(60_000_000_000);
    match kind % 4 {
        0 => {
            if let Some(ask) = in_pieces::<words::Ask>(words::QUESTION, [one, other]) {
                answer::exercise(&ask, now);
            }
        }
        1 => drop(in_pieces::<words::Answer>(words::QUESTION, [one, other])),
        2 => {
            if let Some(heard) = in_pieces::<words::Heard>(words::RESULT, [one, other]) {
                heard.up.with_sent(heard.sent);
            }
        }
        _ => {
            let mut heard = Heard::default();
            for datagram in rest.chunks(HEAD_BYTES) {
                if let Some(head) = Head::read(datagram)
                    && head.due.nanos().abs_diff(now.nanos()) < media::LATEST.nanos()
                {
                    heard.take(now, &Head { due: head.due.min(now), ..head });
                }
            }
            let told = told::Direction::of(&heard);
            let received: u64 = told.windows.iter().map(|window| window.received_packets).sum();
            assert!(received <= (rest.len() / HEAD_BYTES) as u64);
        }
    }
}

fn in_pieces<T: serde::de::DeserializeOwned>(most: usize, pieces: [&[u8]; 2]) -> Option<T> {
    let mut line = words::Line::new(most);
    pieces.into_iter().find_map(|piece| line.take(piece).ok().flatten())
}
