//! Specification of a splitting proxy in a resolved run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tcp::TcpSpec;

/// A proxy at a node of the path. It splits every TCP connection with packets through the node. Both addresses stay
/// unchanged (a transparent proxy). Other packets pass as through a router.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct ProxySpec {
    /// Name of its node, of kind `proxy`.
    pub node: String,
    /// Set-up of the onward connection.
    pub handshake: HandshakeMode,
    /// Buffer per connection and direction between its two sockets, bytes. A full buffer closes the window of the
    /// socket that fills it.
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
    /// Name of its controller.
    pub congestion: String,
    /// The controller's options.
    #[serde(default)]
    pub options: serde_json::Value,
}

/// Method by which a proxy answers a SYN and connects to the server.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum HandshakeMode {
    /// The proxy forwards the SYN, and answers it when the server has answered. The set-up takes as long as without a
    /// proxy.
    Relayed,
    /// The proxy answers the SYN at once and forwards it at the same time. Data waits for the onward handshake.
    Early,
    /// The proxy answers the SYN at once. It reaches the next proxy over an established connection of a pool, which
    /// carries data at once. Needs a proxy at the far end.
    Pooled,
}
