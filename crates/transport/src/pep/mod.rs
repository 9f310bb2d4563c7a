//! Performance-enhancing proxies that split TCP (RFC 3135 section 2.4): a connection ends at the
//! proxy and another goes on.
//!
//! Reading order: `spec` (the options), `splice` (one connection), `proxy`, `pool`.

mod pool;
mod proxy;
mod spec;
mod splice;
#[cfg(test)]
mod tests;

pub use pool::Pool;
pub use proxy::{Parts, Proxy};
pub use spec::{ProxySpec, Setup, SocketSpec};
