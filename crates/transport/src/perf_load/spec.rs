//! The load of a flow, resolved. Loads of every notation (pico-perf strings, plain keys) become these types.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::Direction;

use crate::media::DatagramsSpec;
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
    /// Short flows that arrive as a Poisson process, each on a separate connection.
    Poisson {
        /// Mean time between arrivals.
        mean_interarrival_ns: u64,
        /// Size of each.
        size: SizeSpec,
        /// Direction of the data.
        direction: Direction,
        /// Time after the flow's start at which arrivals end.
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
        /// Rate of the source while on; `None`: as fast as the transport accepts data.
        rate_bit_s: Option<u64>,
        /// Direction of the data.
        direction: Direction,
        /// Time after the flow's start at which the source ends.
        duration_ns: u64,
    },
    /// Datagrams that are sent when they are full: calls, live streams.
    Datagrams(DatagramsSpec),
    /// Loads of a web page.
    Page(Box<WebSpec>),
    /// Traffic of bundle nodes; the two sides are interfaces of those nodes.
    Bundles,
}

/// One stream of the perf protocol.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct StreamSpec {
    /// Client-initiated bidirectional stream id (RFC 9000 section 2.1): a multiple of 4.
    pub stream_id: u64,
    /// The stream after which this one starts.
    pub after: Option<u64>,
    /// Amount of data.
    pub amount: AmountSpec,
}

/// Amount of data of a stream.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub enum AmountSpec {
    /// The client sends `up_bytes` and FIN; the server then sends `down_bytes` and FIN. The first 8 bytes upwards,
    /// big-endian, are the response size.
    Data {
        /// Bytes from the client.
        up_bytes: u64,
        /// Bytes from the server.
        down_bytes: u64,
    },
    /// One side sends at the maximum rate for this time after the stream opens.
    Time {
        /// Duration.
        duration_ns: u64,
        /// Direction of the data.
        direction: Direction,
    },
}

/// Distribution of the size of a short flow.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum SizeSpec {
    /// A constant size.
    Fixed {
        /// Bytes.
        bytes: u64,
    },
    /// Exponential.
    Exponential {
        /// Mean, bytes.
        mean_bytes: u64,
    },
    /// Pareto, truncated at `max_bytes`.
    Pareto {
        /// Shape.
        shape: f64,
        /// Minimum size, bytes.
        min_bytes: u64,
        /// Maximum size, bytes.
        max_bytes: u64,
    },
}
