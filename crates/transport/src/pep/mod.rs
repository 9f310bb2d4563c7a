//! Performance-enhancing proxies that split TCP (RFC 3135 section 2.4): a connection ends at the
//! proxy and another goes on.

mod spec;

pub use spec::{ProxySpec, Setup, SocketSpec};
