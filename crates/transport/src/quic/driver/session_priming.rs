//! The connection before the first: a full handshake in zero time. The client then has a session ticket, and the run's
//! connections can begin with early data.

use bytes::{Bytes, BytesMut};
use units::{Ecn, Time};

use super::endpoint::{EndpointDriver, SERVER_NAME};
use crate::quic::controller_shim::ControllerShim;
use crate::quic::simulated_address::simulated_address;
use crate::quic::stack::{InboundDatagram, Reception, Stack, StackConnection};

/// More rounds than any handshake needs.
const MAX_HANDSHAKE_ROUNDS: usize = 16;

/// Completes one handshake of `client` and `server` at `now`, without a path between them.
pub fn prime_session<S: Stack>(
    now: Time,
    client: &mut EndpointDriver<S>,
    server: &mut EndpointDriver<S>,
) -> Result<(), String> {
    let config = client.connection_config(ControllerShim::new())?;
    let remote = simulated_address(1);
    let inbound = |data| InboundDatagram { remote, local: None, ecn: Ecn::NotEct, data };
    let mut ours = client.stack.connect(now, config, remote, SERVER_NAME)?;
    let mut theirs: Option<(usize, S::Connection)> = None;
    for _ in 0..MAX_HANDSHAKE_ROUNDS {
        for data in drain_datagrams(now, &mut client.stack, &mut ours) {
            let mut response = Vec::new();
            let reception = server.stack.receive(now, inbound(data), &mut response, |_, input| {
                if let Some((_, connection)) = &mut theirs {
                    connection.handle_input(input);
                }
            });
            if let Reception::New(incoming) = reception {
                let config = server.connection_config(ControllerShim::new())?;
                let accepted = server.stack.accept(now, incoming, config, &mut response);
                theirs = Some(accepted.map_err(|error| error.message)?);
            }
        }
        let Some(peer) = &mut theirs else { continue };
        for data in drain_datagrams(now, &mut server.stack, peer) {
            client.stack.receive(now, inbound(data), &mut Vec::new(), |_, input| {
                ours.1.handle_input(input);
            });
        }
    }
    let done = !ours.1.is_handshaking();
    for (endpoint, pair) in [(client, Some(ours)), (server, theirs)] {
        if let Some((handle, mut connection)) = pair {
            connection.close(now, 0, Bytes::new());
            endpoint.stack.forget(handle);
        }
    }
    if done { Ok(()) } else { Err("the handshake before the run did not complete".into()) }
}

fn drain_datagrams<S: Stack>(
    now: Time,
    stack: &mut S,
    (handle, connection): &mut (usize, S::Connection),
) -> Vec<BytesMut> {
    while connection.poll_event().is_some() {}
    let mut datagrams = Vec::new();
    loop {
        let mut buffer = Vec::new();
        let transmit = connection.poll_transmit(now, 1, &mut buffer);
        while let Some(output) = connection.poll_output() {
            if let Some(input) = stack.handle_output(*handle, output) {
                connection.handle_input(input);
            }
        }
        match transmit {
            Some(transmit) => datagrams.push(BytesMut::from(&buffer[..transmit.size])),
            None => return datagrams,
        }
    }
}
