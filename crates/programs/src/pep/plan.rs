//! The plan of a proxy.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::Deserialize;
use transport::pep::{HandshakeMode, ProxySpec};

/// The default limit of concurrent connections.
const CONNECTIONS: usize = 4096;

/// The plan of one proxy, which runs in the namespace with both devices.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProxyPlan {
    /// The proxy in the form of a resolved run.
    pub proxy: ProxySpec,
    /// The device of the client side.
    pub client_device: String,
    /// The device of the server side.
    pub server_device: String,
    /// The pool server of the next proxy; with [`HandshakeMode::Pooled`].
    #[serde(default)]
    pub to_pool: Option<PoolClient>,
    /// The pool server of this proxy, for the previous proxy.
    #[serde(default)]
    pub from_pool: Option<PoolServer>,
    /// The maximum of concurrent connections; more are reset.
    #[serde(default = "connections")]
    pub connections: usize,
    /// The output of counters, `None` for no output.
    #[serde(default)]
    pub counters: Option<CountersPlan>,
}

fn connections() -> usize {
    CONNECTIONS
}

/// The pool towards the next proxy.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolClient {
    /// The [`PoolServer::listen`] of the next proxy.
    pub address: SocketAddr,
    /// The number of established idle connections.
    pub ready: usize,
}

/// The accepting side of a pool.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolServer {
    /// An address of the near device, and a port.
    pub listen: SocketAddr,
    /// The address of the previous proxy: other peers are refused.
    pub peer: IpAddr,
}

/// The output of counters.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountersPlan {
    /// The file of JSON lines.
    pub file: PathBuf,
    /// The interval between two lines in ns.
    pub interval_ns: u64,
}

impl ProxyPlan {
    /// Checks the plan for contradictions.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn validate(&self) -> Result<(), String> {
        let pooled = self.proxy.handshake == HandshakeMode::Pooled;
        if pooled != self.to_pool.is_some() {
            let (found, expected) = if pooled { ("missing", "a pool") } else { ("given", "none") };
            return Err(format!(
                "to_pool: {found}, expected {expected} with handshake = {:?}",
                self.proxy.handshake
            ));
        }
        if self.client_device == self.server_device {
            return Err(format!(
                "client_device and server_device are both {}, expected two",
                self.client_device
            ));
        }
        for (key, device) in
            [("client_device", &self.client_device), ("server_device", &self.server_device)]
        {
            // Names valid in Linux (dev_valid_name), without characters that have a meaning in a rule.
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            if device.is_empty() || device.len() > 15 || !device.chars().all(plain) {
                return Err(format!("{key}: found \"{device}\", expected the name of a device"));
            }
        }
        for (key, side) in
            [("client_side", &self.proxy.client_side), ("server_side", &self.proxy.server_side)]
        {
            if self.proxy.buffer_bytes < u64::from(side.tcp.mss_bytes) {
                return Err(format!(
                    "proxy.buffer_bytes: found {}, expected at least a segment of {key}, {} bytes",
                    self.proxy.buffer_bytes, side.tcp.mss_bytes
                ));
            }
        }
        if self.connections == 0 {
            return Err("connections: found 0, expected at least 1".to_owned());
        }
        if self.to_pool.is_some_and(|pool| pool.ready == 0) {
            return Err("to_pool.ready: found 0, expected at least 1".to_owned());
        }
        if self.counters.as_ref().is_some_and(|counters| counters.interval_ns < 1_000_000) {
            return Err("counters.interval_ns: found less than 1 ms".to_owned());
        }
        Ok(())
    }
}
