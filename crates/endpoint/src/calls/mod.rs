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
pub use plan::{AnswerPlan, CallPlan};

/// Seconds that a call lasts at the most.
const MOST_SECONDS: u64 = 3600;

/// What either side of a call sends at the most, bit/s: forty live streams of high definition.
const MOST_BIT_S: u64 = 200_000_000;
