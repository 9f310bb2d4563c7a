//! Plans of measurements, written by the Python side.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use serde_json::Value;
use transport::perf_load::{
    ControllerRequest, ControllerResponse, MAX_NEGOTIATION_BYTES, RequestedController,
};
use transport::quic::{QuicSpec, RequestedControllerBuilder};
use transport::{ControllerBuilder, StreamSpec};
use units::Span;

use crate::ProgramError;
use crate::media::{CalleePlan, CallerPlan};

/// One side of a measurement.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum PerfPlan {
    /// The perf server.
    Server(PerfServerPlan),
    /// The perf client.
    Client(PerfClientPlan),
    /// The callee of media calls over UDP.
    Callee(CalleePlan),
    /// The caller of media calls.
    Caller(CallerPlan),
}

/// A server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerfServerPlan {
    /// Address and port to listen on.
    pub listen: String,
    /// Whether the server ends after the first connection.
    pub once: bool,
    /// Certificate and key, `None` for a self-signed one for this run.
    pub certificate: Option<CertificateFiles>,
    /// Limits of the server.
    pub limits: PerfServerLimits,
    /// The supported transports.
    pub transport: PerfTransport,
    /// Options of QUIC connections.
    pub quic: QuicSpec,
    /// Options of TCP connections.
    pub tcp: PerfTcpPlan,
    /// The controller of the sent data.
    pub congestion: CongestionPlan,
    /// The controllers that clients can request instead.
    #[serde(default)]
    pub controller_policy: ControllerPolicy,
    /// The output of results.
    pub report: ReportPlan,
}

/// Controllers of a server that its clients can request.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ControllerPolicy {
    /// No controller.
    No,
    /// Controllers that react to congestion, with default options.
    #[default]
    Named,
    /// All controllers, with any options.
    Any,
}

impl ControllerPolicy {
    /// Checks whether a request is permitted.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn check(self, request: &RequestedController) -> Result<(), String> {
        let plain = request.options.as_object().is_none_or(serde_json::Map::is_empty);
        match self {
            ControllerPolicy::Any => Ok(()),
            ControllerPolicy::No => {
                Err("it accepts no controller requests (--client-controllers no)".to_owned())
            }
            ControllerPolicy::Named if !plain => Err(format!(
                "it accepts only controllers without options, found {} (--client-controllers any)",
                request.options
            )),
            ControllerPolicy::Named if request.name == "fixed" => {
                Err("\"fixed\" does not react to congestion (--client-controllers any)".to_owned())
            }
            ControllerPolicy::Named => Ok(()),
        }
    }
}

/// Limits of a server.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerfServerLimits {
    /// Concurrent connections.
    pub connections: usize,
    /// Concurrent handshakes before clients have to validate their address.
    pub handshakes: usize,
    /// Streams per connection over its lifetime.
    pub streams: u64,
}

/// PEM files.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateFiles {
    /// The chain, the certificate of the server first.
    pub certificate: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
}

/// A client.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerfClientPlan {
    /// Name or address of the server.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// The streams to send.
    pub load: Vec<StreamSpec>,
    /// The application protocol.
    pub alpn: String,
    /// The accepted servers.
    pub server_verification: ServerVerificationPlan,
    /// The timeout of the handshake in ns.
    pub timeout_ns: u64,
    /// The transport.
    pub transport: PerfTransport,
    /// Options of a QUIC connection.
    pub quic: QuicSpec,
    /// Options of TCP connections.
    pub tcp: PerfTcpPlan,
    /// The controller of the sent data.
    pub congestion: CongestionPlan,
    /// Whether the client sends its controller name to the server and requests the server's.
    #[serde(default)]
    pub negotiates_controller: bool,
    /// The controller requested from the server, `None` for the server's default.
    #[serde(default)]
    pub requested_controller: Option<RequestedController>,
    /// The output of results.
    pub report: ReportPlan,
}

impl PerfClientPlan {
    /// Builds the controller request of the client, which contains the name of its local controller.
    ///
    /// # Errors
    /// The request is too long.
    pub fn build_controller_request(
        &self,
        local_controller: &str,
    ) -> Result<Option<ControllerRequest>, ProgramError> {
        if !self.negotiates_controller && self.requested_controller.is_none() {
            return Ok(None);
        }
        let question = ControllerRequest {
            client_controller: Some(local_controller.to_owned()),
            requested: self.requested_controller.clone(),
        };
        if question.encode().len() > MAX_NEGOTIATION_BYTES {
            return Err(ProgramError::Input(
                "--congestion: found options that are too long for a request to the server"
                    .to_owned(),
            ));
        }
        Ok(Some(question))
    }

    /// Returns a note if a server has sent `received` bytes without a controller response.
    pub fn missing_response_note(&self, received: u64, has_response: bool) -> Option<String> {
        let request =
            self.requested_controller.as_ref().filter(|_| !has_response && received > 0)?;
        Some(format!(
            "the server does not name its controller: it may not support a request for {}",
            request.name
        ))
    }

    /// Converts a refusal by the server to an error.
    pub fn refusal_error(&self, answer: &ControllerResponse) -> ProgramError {
        let why = answer.refusal_reason.as_deref().unwrap_or_default();
        if answer.refuses_transport {
            let host = &self.host;
            return ProgramError::Run(format!(
                "{host}: the server refuses TCP for its controller: {why}"
            ));
        }
        let name = self.requested_controller.as_ref().map_or("", |request| &request.name);
        ProgramError::Run(format!(
            "--congestion {name}: {} refuses to send with it: {why}",
            self.host
        ))
    }
}

/// The transport of the streams.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum PerfTransport {
    /// QUIC over UDP.
    Quic,
    /// Kernel TCP.
    Tcp,
    /// TLS 1.3 over kernel TCP.
    Tls,
    /// All of them on one port number: for servers alone.
    All,
}

impl PerfTransport {
    /// Returns the name of the transport.
    pub fn name(self) -> &'static str {
        match self {
            PerfTransport::Quic => "quic",
            PerfTransport::Tcp => "tcp",
            PerfTransport::Tls => "tls",
            PerfTransport::All => "all",
        }
    }

    /// Returns whether QUIC is included.
    pub fn has_quic(self) -> bool {
        matches!(self, PerfTransport::Quic | PerfTransport::All)
    }

    /// Returns whether kernel TCP is included.
    pub fn has_tcp(self) -> bool {
        self != PerfTransport::Quic
    }
}

/// Options of kernel TCP sockets.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PerfTcpPlan {
    /// Maximum segment size (TCP_MAXSEG), `None` for the limit of the path.
    pub mss_bytes: Option<u32>,
    /// Send and receive buffer in bytes, `None` for automatic tuning by the kernel.
    pub buffer_bytes: Option<usize>,
    /// The idle timeout of a connection in ns.
    pub idle_timeout_ns: u64,
}

/// The servers that a client accepts.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ServerVerificationPlan {
    /// Any server at a loopback or private address, none elsewhere.
    Private,
    /// Any server.
    Insecure,
    /// The server with this certificate.
    Fingerprint(String),
}

/// A controller by name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CongestionPlan {
    /// The name in the catalogue.
    pub name: String,
    /// The options of the controller.
    #[serde(default)]
    pub options: Value,
}

impl CongestionPlan {
    /// Returns a builder of controllers, each with a separate seed.
    ///
    /// # Errors
    /// The wrong name or option, and the nearest correct one.
    pub fn controller_builder(&self, quic: &QuicSpec) -> Result<ControllerBuilder, ProgramError> {
        let prepared = cc::prepare_controller(&self.name, &self.options)
            .map_err(|error| ProgramError::Input(error.to_string()))?;
        let mut config = cc::ControllerConfig {
            mss: u64::from(quic.mtu_bytes),
            initial_window: quic.initial_window_bytes,
            initial_rtt: Span(quic.initial_rtt_ns),
            seed: 1,
            is_paced: true,
        };
        prepared.build(&config).map_err(|error| ProgramError::Input(error.to_string()))?;
        Ok(Box::new(move || {
            config.seed += 1;
            prepared.build(&config).expect("it was built before")
        }))
    }
}

impl PerfServerPlan {
    /// Returns a builder of controllers that clients request.
    pub fn requested_controller_builder(&self) -> RequestedControllerBuilder {
        let (choose, quic, seed) =
            (self.controller_policy, self.quic.clone(), AtomicU64::new(1 << 32));
        Arc::new(move |request: &RequestedController, mtu: u64| {
            choose.check(request)?;
            let config = cc::ControllerConfig {
                mss: mtu,
                initial_window: quic.initial_window_bytes,
                initial_rtt: Span(quic.initial_rtt_ns),
                seed: seed.fetch_add(1, Ordering::Relaxed),
                is_paced: true,
            };
            cc::build_controller(&request.name, &request.options, &config)
                .map_err(|error| error.to_string())
        })
    }
}

/// The output of results.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportPlan {
    /// The interval between two lines on the screen in ns, `None` for no lines.
    pub interval_ns: Option<u64>,
    /// Lines in a file.
    pub csv: Option<CsvPlan>,
    /// Whether the screen gets the result as JSON alone.
    pub json: bool,
    /// Whether the screen output has colours.
    #[serde(default)]
    pub colour: bool,
    /// Frames for programs.
    #[serde(default)]
    pub frames: Option<FramesPlan>,
    /// A directory for qlog files of QUIC.
    #[serde(default)]
    pub qlog: Option<PathBuf>,
}

/// A file of frames.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FramesPlan {
    /// The path of the file.
    pub file: PathBuf,
    /// The interval between two samples of a connection in ns.
    pub interval_ns: u64,
}

/// A CSV file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CsvPlan {
    /// The path of the file.
    pub file: PathBuf,
    /// The interval between two lines in ns.
    pub interval_ns: u64,
}
