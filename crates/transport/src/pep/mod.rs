//! Performance-enhancing proxies that split TCP (RFC 3135 section 2.4): a connection ends at the proxy, and another
//! continues.
//!
//! Reading order: `spec` (the options), `splice` (one connection), `proxy`, `connection_pool`.

mod connection_pool;
mod proxy;
mod spec;
mod splice;
#[cfg(test)]
mod tests;

pub use connection_pool::ConnectionPool;
pub use proxy::{Proxy, ProxyConfig};
pub use spec::{HandshakeMode, ProxySpec, SocketSpec};
