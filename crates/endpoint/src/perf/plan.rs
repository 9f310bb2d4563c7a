//! What the Python side asks for.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use serde_json::Value;
use transport::load::{Answer, MOST_ASKED, Question, Wish};
use transport::quic::{Chooser, QuicSpec};
use transport::{MakeController, StreamSpec};
use units::Span;

use super::Failure;
use crate::calls::{AnswerPlan, CallPlan};

/// One side of a measurement.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Plan {
    /// The side that answers.
    Server(ServerPlan),
    /// The side that asks.
    Client(ClientPlan),
    /// The side that answers calls over UDP.
    Answer(AnswerPlan),
    /// The side that makes them.
    Call(CallPlan),
}

/// A server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerPlan {
    /// Address and port to listen at.
    pub listen: String,
    /// End after the first connection.
    pub once: bool,
    /// Certificate and key; none: self-signed, for this run.
    pub certificate: Option<CertificateFiles>,
    /// How much it takes on.
    pub limits: Limits,
    /// What it speaks.
    pub transport: Transport,
    /// Options of its QUIC connections.
    pub quic: QuicSpec,
    /// Options of its TCP connections.
    pub tcp: TcpPlan,
    /// The controller of what it sends.
    pub congestion: CongestionPlan,
    /// What clients may wish for instead.
    #[serde(default)]
    pub choose: Choose,
    /// What is shown.
    pub report: ReportPlan,
}

/// Which controllers of a server its clients may choose.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Choose {
    /// None.
    No,
    /// Those that react to congestion, with their own options.
    #[default]
    Named,
    /// All, with any options.
    Any,
}

impl Choose {
    /// Whether a wish may be done.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn allows(self, wish: &Wish) -> Result<(), String> {
        let plain = wish.options.as_object().is_none_or(serde_json::Map::is_empty);
        match self {
            Choose::Any => Ok(()),
            Choose::No => Err("its clients choose no controller (--choose no)".to_owned()),
            Choose::Named if !plain => Err(format!(
                "its clients choose controllers without options (found {}; --choose any)",
                wish.options
            )),
            Choose::Named if wish.name == "fixed" => {
                Err("\"fixed\" does not react to congestion (--choose any)".to_owned())
            }
            Choose::Named => Ok(()),
        }
    }
}

/// Bounds of a server.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Handshakes under way before clients are asked to prove their address.
    pub handshakes: usize,
    /// Streams of one connection over its life.
    pub streams: u64,
}

/// PEM files.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateFiles {
    /// The chain, the server's own first.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// A client.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientPlan {
    /// Name or address of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What is sent.
    pub load: Vec<StreamSpec>,
    /// Application protocol.
    pub alpn: String,
    /// Which server is taken.
    pub trust: TrustPlan,
    /// How long the handshake may take.
    pub timeout_ns: u64,
    /// What it speaks.
    pub transport: Transport,
    /// Options of the connection, if it is QUIC.
    pub quic: QuicSpec,
    /// Options of its connections, if they are TCP.
    pub tcp: TcpPlan,
    /// The controller of what it sends.
    pub congestion: CongestionPlan,
    /// Tell the server that, and ask what it sends with.
    #[serde(default)]
    pub asks: bool,
    /// What the server is to send with; none: as it likes.
    #[serde(default)]
    pub wish: Option<Wish>,
    /// What is shown.
    pub report: ReportPlan,
}

impl ClientPlan {
    /// What the server is told and asked by a client whose own controller is called `own`.
    ///
    /// # Errors
    /// A wish that is too long.
    pub fn question(&self, own: &str) -> Result<Option<Question>, Failure> {
        if !self.asks && self.wish.is_none() {
            return Ok(None);
        }
        let question = Question { own: Some(own.to_owned()), wish: self.wish.clone() };
        if question.encode().len() > MOST_ASKED {
            return Err(Failure::Input(
                "--congestion: found options that are too long to ask a server for".to_owned(),
            ));
        }
        Ok(Some(question))
    }

    /// What there is to say of a server that has sent `received` bytes and answered `told`.
    pub fn unheard(&self, received: u64, told: bool) -> Option<String> {
        let wish = self.wish.as_ref().filter(|_| !told && received > 0)?;
        Some(format!(
            "the server does not say what it sends with: it may not know that it was asked for {}",
            wish.name
        ))
    }

    /// Why the server does not do what it was asked for.
    pub fn refused(&self, answer: &Answer) -> Failure {
        let why = answer.refused.as_deref().unwrap_or_default();
        if answer.refuses_transport {
            let host = &self.host;
            return Failure::Run(format!(
                "{host}: the server refuses TCP for its controller: {why}"
            ));
        }
        let name = self.wish.as_ref().map_or("", |wish| &wish.name);
        Failure::Run(format!("--congestion {name}: {} refuses to send with it: {why}", self.host))
    }
}

/// What carries the streams.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// QUIC over UDP.
    Quic,
    /// The kernel's TCP.
    Tcp,
    /// TLS 1.3 over the kernel's TCP.
    Tls,
    /// All of them on one port number: a server's only.
    All,
}

impl Transport {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Quic => "quic",
            Transport::Tcp => "tcp",
            Transport::Tls => "tls",
            Transport::All => "all",
        }
    }

    /// Whether QUIC is among it.
    pub fn has_quic(self) -> bool {
        matches!(self, Transport::Quic | Transport::All)
    }

    /// Whether the kernel's TCP is among it.
    pub fn has_tcp(self) -> bool {
        self != Transport::Quic
    }
}

/// Options of sockets of the kernel's TCP.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpPlan {
    /// Largest segment (TCP_MAXSEG); none: what the way allows.
    pub mss_bytes: Option<u32>,
    /// Send and receive buffer; none: the kernel fits them to what is in flight.
    pub buffer_bytes: Option<usize>,
    /// A connection on which nothing moves for so long is lost.
    pub idle_timeout_ns: u64,
}

/// Which server a client takes.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum TrustPlan {
    /// Any at a loopback or private address, none elsewhere.
    Private,
    /// Any.
    Insecure,
    /// The one with this certificate.
    Fingerprint(String),
}

/// A controller by name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CongestionPlan {
    /// Its name in the catalogue.
    pub name: String,
    /// Its options.
    #[serde(default)]
    pub options: Value,
}

impl CongestionPlan {
    /// Makes a controller for every connection, each with a seed of its own.
    ///
    /// # Errors
    /// Which name or option is wrong, and the nearest right one.
    pub fn maker(&self, quic: &QuicSpec) -> Result<MakeController, Failure> {
        let plan = self.clone();
        let mut config = cc::ControllerConfig {
            mss: u64::from(quic.mtu_bytes),
            initial_window: quic.initial_window_bytes,
            initial_rtt: Span(quic.initial_rtt_ns),
            seed: 1,
            is_paced: true,
        };
        cc::build_controller(&plan.name, &plan.options, &config)
            .map_err(|error| Failure::Input(error.to_string()))?;
        Ok(Box::new(move || {
            config.seed += 1;
            cc::build_controller(&plan.name, &plan.options, &config).expect("it was built before")
        }))
    }
}

impl ServerPlan {
    /// What makes controllers that clients wish for.
    pub fn chooser(&self) -> Chooser {
        let (choose, quic, seed) = (self.choose, self.quic.clone(), AtomicU64::new(1 << 32));
        Arc::new(move |wish: &Wish, mtu: u64| {
            choose.allows(wish)?;
            let config = cc::ControllerConfig {
                mss: mtu,
                initial_window: quic.initial_window_bytes,
                initial_rtt: Span(quic.initial_rtt_ns),
                seed: seed.fetch_add(1, Ordering::Relaxed),
                is_paced: true,
            };
            cc::build_controller(&wish.name, &wish.options, &config)
                .map_err(|error| error.to_string())
        })
    }
}

/// What is shown, and where.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportPlan {
    /// Between two lines on the screen; none: no such lines.
    pub interval_ns: Option<u64>,
    /// Lines for a file.
    pub csv: Option<Csv>,
    /// The result as JSON, and nothing else on the screen.
    pub json: bool,
    /// Colours on the screen.
    #[serde(default)]
    pub colour: bool,
    /// Frames for programs.
    #[serde(default)]
    pub frames: Option<FramesPlan>,
    /// A directory for qlog, of QUIC.
    #[serde(default)]
    pub qlog: Option<PathBuf>,
}

/// A file of frames.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FramesPlan {
    /// Where.
    pub file: PathBuf,
    /// Between two samples of a connection.
    pub interval_ns: u64,
}

/// A CSV file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Csv {
    /// Where.
    pub file: PathBuf,
    /// Between two lines.
    pub interval_ns: u64,
}
