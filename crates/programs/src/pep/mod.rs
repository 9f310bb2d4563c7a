//! A transparent TCP-splitting proxy on real sockets (RFC 3135 section 2.4) in a separate network namespace: the
//! counterpart of `transport::pep` in real time.
//!
//! Reading order:
//! 1. `plan`, `side_options` (the kernel's options), `rules` (redirection of packets);
//! 2. `syn` (start of a connection), `proxy_header` (first bytes of a pooled connection);
//! 3. `socket`, `splice` (one connection), `proxy` (the loop), `counters`.

mod counters;
mod plan;
mod proxy;
pub mod proxy_header;
mod rules;
mod side_options;
mod socket;
mod splice;
pub mod syn;

pub use plan::{CountersPlan, PoolClient, PoolServer, ProxyPlan};
pub use proxy::run;
pub use side_options::{SideSocketOptions, namespace_sysctls};
