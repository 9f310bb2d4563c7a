//! The page server: HTTP/3 over this project's QUIC driver, HTTP/2 and HTTP/1.1 over kernel TCP.
//!
//! Reading order: `plan`, `site` (responses), `page`, `filler` and `folder` (content), `quic` (HTTP/3), `tcp` (the
//! other versions) with `connection_limiter`, `access_log`, `certificate`, `server`.

mod access_log;
mod certificate;
mod connection_limiter;
mod filler;
mod folder;
mod page;
mod plan;
mod quic;
mod server;
mod site;
mod tcp;

#[doc(hidden)]
pub use folder::open_in_folder;
pub use plan::{
    HttpServerLimits, HttpServerPlan, HttpTcpPlan, HttpTlsPlan, HttpVersion, SiteContent,
};
#[doc(hidden)]
pub use quic::exercise_http3;
pub use server::HttpServer;
