//! A transparent TCP-splitting proxy over real sockets (RFC 3135 section 2.4), inside a network
//! namespace of its own: what `transport::pep` is in virtual time.
//!
//! Reading order: `plan` (what is asked for), `leg` (what the kernel makes of it), `rules` (how packets
//! come to it), `syn` (how a connection begins), `header` (the first bytes of a pooled one), `socket`,
//! `splice` (one connection), `proxy` (the loop), `counters`.

mod counters;
pub mod header;
mod leg;
mod plan;
mod proxy;
mod rules;
mod socket;
mod splice;
pub mod syn;

pub use leg::{Leg, settings};
pub use plan::{CountersPlan, FromPool, Plan, ToPool};
pub use proxy::run;
