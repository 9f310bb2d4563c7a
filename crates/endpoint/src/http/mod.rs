//! The page server: HTTP/3 over our own QUIC driver, HTTP/2 and HTTP/1.1 over the kernel's TCP.
//!
//! Reading order: `plan`, `site` (what is answered to a request), `page`, `filler` and `folder` (where the
//! answers come from), `quic` (HTTP/3), `tcp` (the others) and its `crowd`, `log`, `certificate`, `server`.

mod certificate;
mod crowd;
mod filler;
mod folder;
mod log;
mod page;
mod plan;
mod quic;
mod server;
mod site;
mod tcp;

#[doc(hidden)]
pub use folder::open;
pub use plan::{Content, Protocol, ServeLimits, ServePlan, TcpPlan, TlsPlan};
#[doc(hidden)]
pub use quic::exercise;
pub use server::Server;
