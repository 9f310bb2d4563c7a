//! The connection before the first: a full handshake in zero time. The client then has a session ticket, and the run's
//! connections can begin with early data.

use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::{Connection, ConnectionHandle, DatagramEvent, EndpointEvent, VarInt};
use units::Time;

use super::controller_shim::ControllerShim;
use super::endpoint::{Endpoint, SERVER_NAME, simulated_address};

/// More rounds than any handshake needs.
const MAX_HANDSHAKE_ROUNDS: usize = 16;

/// Completes one handshake of `client` and `server` at `now`, without a path between them.
///
/// # Errors
/// The error of the stack, in words. A missing ticket is an error too.
pub fn prime_session(
    now: Time,
    client: &mut Endpoint,
    server: &mut Endpoint,
) -> Result<(), String> {
    let instant = client.clock.instant(now);
    let mut config = client.client.clone().ok_or("the client has no configuration")?;
    let build_shim = |endpoint: &Endpoint| {
        ControllerShim::new(endpoint.clock, endpoint.spec.initial_window_bytes)
    };
    config.transport_config(Arc::new(client.transport_config(build_shim(client))?));
    let remote = simulated_address(1);
    let (handle, connection) = client
        .inner
        .connect(instant, config, remote, SERVER_NAME)
        .map_err(|error| error.to_string())?;
    let mut ours = (handle, connection);
    let mut theirs: Option<(ConnectionHandle, Connection)> = None;
    for _ in 0..MAX_HANDSHAKE_ROUNDS {
        for data in drain_datagrams(now, client, &mut ours) {
            let mut response = Vec::new();
            let server_now = server.clock.instant(now);
            match server.inner.handle(server_now, remote, None, None, data, &mut response) {
                Some(DatagramEvent::ConnectionEvent(_, event)) => {
                    if let Some((_, connection)) = &mut theirs {
                        connection.handle_event(event);
                    }
                }
                Some(DatagramEvent::NewConnection(incoming)) => {
                    let mut accept = server.server.clone().ok_or("the server cannot accept")?;
                    accept.transport_config(Arc::new(server.transport_config(build_shim(server))?));
                    let accepted = server
                        .inner
                        .accept(incoming, server_now, &mut response, Some(Arc::new(accept)))
                        .map_err(|error| error.cause.to_string())?;
                    theirs = Some(accepted);
                }
                _ => {}
            }
        }
        let Some(peer) = &mut theirs else { continue };
        for data in drain_datagrams(now, server, peer) {
            let event = client.inner.handle(instant, remote, None, None, data, &mut Vec::new());
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                ours.1.handle_event(event);
            }
        }
    }
    let done = !ours.1.is_handshaking();
    for (endpoint, pair) in [(client, Some(ours)), (server, theirs)] {
        if let Some((handle, mut connection)) = pair {
            connection.close(endpoint.clock.instant(now), VarInt::from_u32(0), bytes::Bytes::new());
            endpoint.inner.handle_event(handle, EndpointEvent::drained());
        }
    }
    if done { Ok(()) } else { Err("the handshake before the run did not complete".into()) }
}

fn drain_datagrams(
    now: Time,
    endpoint: &mut Endpoint,
    (handle, connection): &mut (ConnectionHandle, Connection),
) -> Vec<BytesMut> {
    while connection.poll().is_some() {}
    let mut datagrams = Vec::new();
    loop {
        let mut buffer = Vec::new();
        let transmit = connection.poll_transmit(endpoint.clock.instant(now), 1, &mut buffer);
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = endpoint.inner.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        match transmit {
            Some(transmit) => datagrams.push(BytesMut::from(&buffer[..transmit.size])),
            None => return datagrams,
        }
    }
}
