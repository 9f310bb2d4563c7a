//! The measuring client, over whatever carries its streams.

use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::AtomicBool;

use super::{ClientPlan, Failure, Transport, TrustPlan, quic_client, tcp};
use crate::tls::{self, Fingerprint, Shown, Trust};

/// What the alert of a failed verification is called (RFC 8446 section 6.2); QUIC adds 0x100.
const UNTRUSTED: &str = "certificate";

/// A client, ready to connect.
pub enum Client {
    /// Over QUIC.
    Quic(Box<quic_client::Client>),
    /// Over TCP, with or without TLS.
    Tcp(Box<tcp::Client>),
}

impl Client {
    /// Finds the server's address and opens what is needed.
    ///
    /// # Errors
    /// What is wrong with the plan, in words.
    pub fn start(plan: ClientPlan) -> Result<Client, Failure> {
        match plan.transport {
            Transport::Quic => Ok(Client::Quic(Box::new(quic_client::Client::start(plan)?))),
            Transport::Tcp | Transport::Tls => Ok(Client::Tcp(Box::new(tcp::Client::start(plan)?))),
            Transport::All => {
                Err(Failure::Input("--transport: a client speaks one: quic, tcp or tls".to_owned()))
            }
        }
    }

    /// Runs the load; whether it was stopped before its end.
    ///
    /// # Errors
    /// Why there is no result, or only part of one.
    pub fn run(self, stop: &AtomicBool, screen: Box<dyn Write>) -> Result<bool, Failure> {
        match self {
            Client::Quic(client) => client.run(stop, screen),
            Client::Tcp(client) => client.run(stop, screen),
        }
    }
}

/// The address of a host.
pub(crate) fn resolve(host: &str, port: u16) -> Result<SocketAddr, Failure> {
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    let found = (plain, port).to_socket_addrs();
    found
        .ok()
        .and_then(|mut addresses| addresses.next())
        .ok_or_else(|| Failure::Input(format!("HOST: no address is known for \"{host}\"")))
}

/// Which certificates a client takes.
pub(super) fn trust(
    plan: &ClientPlan,
    remote: SocketAddr,
) -> Result<(Trust, Option<Fingerprint>), Failure> {
    match &plan.trust {
        TrustPlan::Insecure => Ok((Trust::Anyone, None)),
        TrustPlan::Private if tls::is_private(remote.ip()) => Ok((Trust::Anyone, None)),
        TrustPlan::Private => Err(Failure::Input(format!(
            "{} is no private address: give --fingerprint with what the server prints, or --insecure",
            remote.ip()
        ))),
        TrustPlan::Fingerprint(text) => {
            let wanted = Fingerprint::parse(text).map_err(Failure::Input)?;
            Ok((Trust::Pinned(wanted), Some(wanted)))
        }
    }
}

/// What is known of the server's certificate, in words.
pub(super) fn trusted(plan: &TrustPlan, shown: &Shown) -> String {
    match (plan, shown.fingerprint()) {
        (TrustPlan::Fingerprint(_), _) => "certificate as pinned".to_owned(),
        (_, Some(found)) => format!("certificate not verified, fingerprint {found}"),
        (_, None) => "no certificate".to_owned(),
    }
}

/// The failure of a handshake whose certificate is not the pinned one.
pub(super) fn refused(
    remote: SocketAddr,
    pinned: Option<Fingerprint>,
    shown: &Shown,
) -> Option<Failure> {
    match (pinned, shown.fingerprint()) {
        (Some(wanted), Some(found)) if wanted != found => Some(Failure::Run(format!(
            "{remote}: the server's {UNTRUSTED} is another one: fingerprint {found}, expected {wanted}"
        ))),
        _ => None,
    }
}
