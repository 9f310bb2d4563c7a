//! What a flow sends, resolved: loads of every notation (pico-perf strings, plain keys) come down
//! to these.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Direction;

use crate::calls::DatagramsSpec;
use crate::web::WebSpec;

/// The load of one flow.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LoadSpec {
    /// Streams of the perf protocol over one connection, which closes when all are done.
    Perf {
        /// The streams, by increasing stream id.
        streams: Vec<StreamSpec>,
    },
    /// Short flows that arrive as a Poisson process, each on a connection of its own.
    Poisson {
        /// Mean time between arrivals.
        mean_interarrival_ns: u64,
        /// Size of each.
        size: SizeSpec,
        /// Which way the bytes go.
        send: Direction,
        /// No arrivals from this long after the flow's start.
        duration_ns: u64,
    },
    /// A source that alternates between sending and silence, over one connection and one stream.
    OnOff {
        /// Mean (or fixed) length of an on period.
        on_ns: u64,
        /// Mean (or fixed) length of an off period.
        off_ns: u64,
        /// Periods are exponential, or fixed.
        exponential: bool,
        /// Periods are Pareto of this shape, above 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pareto_shape: Option<f64>,
        /// Rate of the source while on; none: as fast as the transport takes it.
        rate_bit_s: Option<u64>,
        /// Which way the bytes go.
        send: Direction,
        /// The source ends this long after the flow's start.
        duration_ns: u64,
    },
    /// Datagrams that leave when they are full: calls, live streams.
    Datagrams(DatagramsSpec),
    /// Loads of a web page.
    Page(Box<WebSpec>),
    /// What bundle nodes send over it: its two sides are ends of theirs.
    Bundles,
}

/// One stream of the perf protocol.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct StreamSpec {
    /// Client-initiated bidirectional stream id (RFC 9000 section 2.1): a multiple of 4.
    pub stream_id: u64,
    /// The stream whose end this one waits for.
    pub after: Option<u64>,
    /// How much it sends.
    pub amount: AmountSpec,
}

/// How much a stream sends.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub enum AmountSpec {
    /// The client sends `up_bytes` and FIN; the server then sends `down_bytes` and FIN. The first 8
    /// bytes upwards, big-endian, are the response size.
    Data {
        /// Bytes from the client.
        up_bytes: u64,
        /// Bytes from the server.
        down_bytes: u64,
    },
    /// One side sends as fast as it can for this long after the stream opens.
    Time {
        /// How long.
        duration_ns: u64,
        /// Which side sends.
        send: Direction,
    },
}

/// Distribution of the size of a short flow.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum SizeSpec {
    /// Always the same.
    Fixed {
        /// Bytes.
        bytes: u64,
    },
    /// Exponential.
    Exponential {
        /// Mean, bytes.
        mean_bytes: u64,
    },
    /// Pareto, cut off at `most_bytes`.
    Pareto {
        /// Shape.
        shape: f64,
        /// Least size, bytes.
        least_bytes: u64,
        /// Largest size, bytes.
        most_bytes: u64,
    },
}
