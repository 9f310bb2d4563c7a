//! The page server: HTTP/3 over this project's QUIC driver, HTTP/2 and HTTP/1.1 over kernel TCP.
//!
//! Reading order: `plan`, `site` (responses), `page`, `filler` and `folder` (content), `quic` (HTTP/3), `tcp` (the
//! other versions) with `connection_limiter`, `access_log`, `certificate`, `server`.

pub(crate) mod access_log;
mod certificate;
mod connection_limiter;
pub(crate) mod filler;
mod folder;
mod page;
mod plan;
pub(crate) mod quic;
mod server;
pub(crate) mod site;
mod tcp;

#[doc(hidden)]
pub use folder::open_in_folder;
pub use plan::{
    HttpServerLimits, HttpServerPlan, HttpTcpPlan, HttpTlsPlan, HttpVersion, SiteContent,
};
pub use server::HttpServer;
