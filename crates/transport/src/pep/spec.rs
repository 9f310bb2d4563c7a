//! A splitting proxy in a resolved run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tcp::TcpSpec;

/// A proxy at a node of the path. Every TCP connection whose packets cross the node is split there;
/// both addresses stay as they are (a transparent proxy). Everything else passes as through a router.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ProxySpec {
    /// Name of its node, of kind `proxy`.
    pub node: String,
    /// How the way onward is set up.
    pub setup: Setup,
    /// Bytes held per connection and direction between its two sockets; a full buffer closes the
    /// window of the socket that fills it.
    pub buffer_bytes: u64,
    /// The socket towards the client.
    pub client_side: SocketSpec,
    /// The socket towards the server.
    pub server_side: SocketSpec,
}

/// One of a proxy's two sockets.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct SocketSpec {
    /// TCP options.
    pub tcp: TcpSpec,
    /// Its controller by name.
    pub congestion: String,
    /// The controller's options.
    #[serde(default)]
    pub options: serde_json::Value,
}

/// How a proxy answers a SYN and goes on towards the server.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Setup {
    /// The SYN goes on, and is answered when the answer has come back: the set-up takes as long as
    /// without a proxy.
    Relayed,
    /// The SYN is answered at once and goes on at the same time; data waits for the onward handshake.
    Early,
    /// The SYN is answered at once; the way to the next proxy is an established connection out of a
    /// pool, which carries data at once. Needs a proxy at its far end.
    Pooled,
}
