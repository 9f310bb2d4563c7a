//! The measuring client, independent of the transport.

use std::io::Write;
use std::sync::atomic::AtomicBool;

use super::{PerfClientPlan, PerfTransport, quic_client, tcp};
use crate::ProgramError;

/// A client, ready to connect.
pub enum MeasuringClient {
    /// QUIC.
    Quic(Box<quic_client::QuicMeasuringClient>),
    /// TCP, with or without TLS.
    Tcp(Box<tcp::TcpMeasuringClient>),
}

impl MeasuringClient {
    /// Resolves the server's address and prepares the transport.
    ///
    /// # Errors
    /// The defect of the plan.
    pub fn start(plan: PerfClientPlan) -> Result<MeasuringClient, ProgramError> {
        match plan.transport {
            PerfTransport::Quic => {
                Ok(MeasuringClient::Quic(Box::new(quic_client::QuicMeasuringClient::start(plan)?)))
            }
            PerfTransport::Tcp | PerfTransport::Tls => {
                Ok(MeasuringClient::Tcp(Box::new(tcp::TcpMeasuringClient::start(plan)?)))
            }
            PerfTransport::All => Err(ProgramError::Input(
                "--transport: a client speaks one: quic, tcp or tls".to_owned(),
            )),
        }
    }

    /// Runs the load. Returns whether it was stopped before its end.
    ///
    /// # Errors
    /// The reason why the result is missing or incomplete.
    pub fn run(self, stop: &AtomicBool, screen: Box<dyn Write>) -> Result<bool, ProgramError> {
        match self {
            MeasuringClient::Quic(client) => client.run(stop, screen),
            MeasuringClient::Tcp(client) => client.run(stop, screen),
        }
    }
}
