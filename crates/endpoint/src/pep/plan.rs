//! What a proxy is asked to do.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::Deserialize;
use transport::pep::{ProxySpec, Setup};

/// Connections at a time where the plan is silent.
const CONNECTIONS: usize = 4096;

/// The plan of one proxy, which runs in the namespace that holds both devices.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The proxy as a resolved run has it.
    pub proxy: ProxySpec,
    /// The device towards the client.
    pub near_device: String,
    /// The device towards the server.
    pub far_device: String,
    /// Where the next proxy takes pooled connections; with [`Setup::Pooled`].
    #[serde(default)]
    pub to_pool: Option<ToPool>,
    /// Where this proxy takes them from the one before it.
    #[serde(default)]
    pub from_pool: Option<FromPool>,
    /// Most connections at a time; those beyond are reset.
    #[serde(default = "connections")]
    pub connections: usize,
    /// Where counters go; none: nowhere.
    #[serde(default)]
    pub counters: Option<CountersPlan>,
}

fn connections() -> usize {
    CONNECTIONS
}

/// The pool towards the next proxy.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToPool {
    /// The next proxy's [`FromPool::listen`].
    pub address: SocketAddr,
    /// Established connections kept in stock.
    pub ready: usize,
}

/// The far end of a pool.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FromPool {
    /// An address of the near device, and a port.
    pub listen: SocketAddr,
    /// The address of the proxy before it: nobody else is let in.
    pub peer: IpAddr,
}

/// Where counters go.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountersPlan {
    /// JSON lines.
    pub file: PathBuf,
    /// Between two of them, ns.
    pub interval_ns: u64,
}

impl Plan {
    /// What does not go together, in words.
    ///
    /// # Errors
    /// That.
    pub fn check(&self) -> Result<(), String> {
        let pooled = self.proxy.setup == Setup::Pooled;
        if pooled != self.to_pool.is_some() {
            let found = if pooled { "missing" } else { "given" };
            return Err(format!(
                "to_pool: {found} beside setup = {:?}; it goes with \"pooled\"",
                self.proxy.setup
            ));
        }
        if self.near_device == self.far_device {
            return Err(format!(
                "near_device and far_device are both {}, expected two",
                self.near_device
            ));
        }
        for (key, device) in [("near_device", &self.near_device), ("far_device", &self.far_device)]
        {
            // What Linux takes for a name (dev_valid_name), less what would have a meaning in a rule.
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
