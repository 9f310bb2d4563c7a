//! The endpoint for users of this crate. It passes each call to the driver of its stack, which is thus compiled here
//! only, with the optimisation of this crate.

use std::net::SocketAddr;

use cc::CongestionControl;
use units::Time;

use super::driver;
use super::quinn::Quinn;
use super::stack::InboundDatagram;
use super::{
    ClosedConnection, DatagramSink, NetworkConfig, QuicConnection, QuicRequirements, QuicSpec,
    RequestedControllerBuilder,
};
use crate::media::MediaReport;
use crate::perf_load::StreamReport;
use crate::{
    App, AppBuilder, AppCommand, AppNotification, ControllerBuilder, FlowCounters, FlowEvent,
    Payload, SenderGauges, Side, TimerSource,
};

/// One side of a QUIC flow.
pub struct QuicEndpoint(driver::EndpointDriver<Quinn>);

impl QuicEndpoint {
    /// Creates an endpoint named `name`, which keys its random streams.
    ///
    /// # Errors
    /// The error of `spec`, in words.
    pub fn new(
        side: Side,
        spec: &QuicSpec,
        seed: u64,
        name: &str,
        make_app: AppBuilder,
        make_controller: ControllerBuilder,
    ) -> Result<QuicEndpoint, String> {
        driver::EndpointDriver::new(side, spec, seed, name, make_app, make_controller)
            .map(QuicEndpoint)
    }

    /// Creates an endpoint on a real network. Cryptography and handshake in `spec` have no effect then.
    ///
    /// # Errors
    /// The error of `spec` or TLS, in words.
    pub fn with_network(
        network: &NetworkConfig,
        spec: &QuicSpec,
        make_app: AppBuilder,
        make_controller: ControllerBuilder,
    ) -> Result<QuicEndpoint, String> {
        driver::EndpointDriver::with_network(network, spec, make_app, make_controller)
            .map(QuicEndpoint)
    }

    /// Returns the options of the endpoint.
    pub fn spec(&self) -> &QuicSpec {
        &self.0.spec
    }

    /// Returns the connection with this number, or `None` if it has ended.
    pub fn connection(&self, number: u32) -> Option<&QuicConnection> {
        self.0.connection(number)
    }

    /// Returns the connections that have not ended.
    pub fn live_connections(&self) -> impl Iterator<Item = &QuicConnection> {
        self.0.live_connections()
    }

    /// Opens a connection to the server named `name`, with `app` or an application that the endpoint builds. Sessions
    /// are resumed by that name.
    ///
    /// # Errors
    /// The error of the stack, in words.
    pub fn connect_to(
        &mut self,
        now: Time,
        name: &str,
        app: Option<Box<dyn App>>,
        out: &mut Vec<Payload>,
    ) -> Result<(), String> {
        self.0.connect_to(now, name, app, out)
    }

    /// Opens a connection to `remote`; TLS uses `name`.
    ///
    /// # Errors
    /// The error of the stack, in words.
    pub fn connect_address(
        &mut self,
        now: Time,
        remote: SocketAddr,
        name: &str,
        sink: &mut dyn DatagramSink,
    ) -> Result<(), String> {
        self.0.connect_with_app(now, remote, name, None, sink).map(|_| ())
    }

    /// Does the same with `app`, or with an application that the endpoint builds. Returns the connection's number.
    ///
    /// # Errors
    /// The error of the stack, in words.
    pub fn connect_with_app(
        &mut self,
        now: Time,
        remote: SocketAddr,
        name: &str,
        app: Option<Box<dyn App>>,
        sink: &mut dyn DatagramSink,
    ) -> Result<u32, String> {
        self.0.connect_with_app(now, remote, name, app, sink)
    }

    /// Passes a datagram of the network to the stack. After a batch of them [`QuicEndpoint::poll_all`] must follow.
    pub fn push(&mut self, now: Time, datagram: InboundDatagram, sink: &mut dyn DatagramSink) {
        self.0.push(now, datagram, sink);
    }

    /// Polls every connection that has input or is due.
    pub fn poll_all(&mut self, now: Time, sink: &mut dyn DatagramSink) {
        self.0.poll_all(now, sink);
    }

    /// Takes the live connections that have worked since the last call, in the order of arrival. No other connection
    /// has changed.
    pub fn take_changed(&mut self) -> impl Iterator<Item = &QuicConnection> {
        self.0.take_changed()
    }

    /// Takes the connections that have ended since the last call.
    pub fn take_closed(&mut self) -> Vec<ClosedConnection> {
        std::mem::take(&mut self.0.closed)
    }

    /// Closes all connections at once.
    pub fn close(&mut self, now: Time, sink: &mut dyn DatagramSink) {
        self.0.close(now, sink);
    }

    /// Closes a connection at once, by its number, if it is live.
    pub fn abort(&mut self, now: Time, connection: u32, sink: &mut dyn DatagramSink) {
        self.0.abort(now, connection, sink);
    }

    /// Sets the maximum number of connections of a server from now on.
    pub fn set_max_connections(&mut self, max: usize) {
        if let Some(limits) = &mut self.0.limits {
            limits.max_connections = max;
        }
    }

    /// Lets a full server evict slow connections for new ones from now on.
    pub fn enable_eviction(&mut self) {
        if let Some(limits) = &mut self.0.limits {
            limits.evict_slow = true;
        }
    }

    /// Lets clients request a controller from now on. `default_name` is the name without a request.
    pub fn set_controller_builder(
        &mut self,
        default_name: &str,
        builder: &RequestedControllerBuilder,
    ) {
        self.0.set_controller_builder(default_name, builder);
    }

    /// Sets the limit of open bidirectional streams of a peer, for later connections.
    pub fn set_max_bidi_streams(&mut self, max: u32) {
        self.0.max_bidi_streams = max;
    }

    /// Declares that the peer opens one stream per connection.
    pub fn limit_to_one_stream(&mut self) {
        self.0.limit_to_one_stream();
    }

    /// Sets the requirements of applications for later connections.
    pub fn set_requirements(&mut self, requirements: QuicRequirements) {
        self.0.requirements = requirements;
    }

    /// Discards locally closed connections at once from now on. Late packets still get responses of the same sizes.
    /// Random packet numbers and bits may differ, so this is for runs that examine no packets. Applications get no
    /// event of an end after that. Requires modelled cryptography.
    pub fn enable_compact_closing(&mut self) {
        self.0.enable_compact_closing();
    }
}

/// Completes one handshake of `client` and `server` at `now`, without a path between them. The client can then resume
/// the session.
///
/// # Errors
/// The error of the stack, in words. A missing ticket is an error too.
pub fn prime_session(
    now: Time,
    client: &mut QuicEndpoint,
    server: &mut QuicEndpoint,
) -> Result<(), String> {
    driver::prime_session(now, &mut client.0, &mut server.0)
}

impl crate::Endpoint for QuicEndpoint {
    fn connect(
        &mut self,
        now: Time,
        app: Option<Box<dyn App>>,
        out: &mut Vec<Payload>,
    ) -> Result<(), String> {
        self.0.connect(now, app, out)
    }

    fn receive(&mut self, now: Time, payload: Payload, out: &mut Vec<Payload>) {
        self.0.receive(now, payload, out);
    }

    fn poll(&mut self, now: Time, out: &mut Vec<Payload>) {
        self.0.poll(now, out);
    }

    fn crash(&mut self, now: Time) {
        self.0.crash(now);
    }

    fn send_command(&mut self, connection: u32, command: AppCommand) {
        self.0.send_command(connection, command);
    }

    fn take_notifications(&mut self, into: &mut Vec<(u32, AppNotification)>) {
        self.0.take_notifications(into);
    }

    fn poll_at(&mut self) -> Time {
        self.0.poll_at()
    }

    fn poll_source(&mut self) -> (Time, TimerSource) {
        self.0.poll_source()
    }

    fn counters(&self) -> FlowCounters {
        self.0.counters()
    }

    fn gauges(&self) -> SenderGauges {
        self.0.gauges()
    }

    fn controller(&self) -> Option<&dyn CongestionControl> {
        self.0.controller()
    }

    fn take_events(&mut self) -> Vec<FlowEvent> {
        self.0.take_events()
    }

    fn opened(&self) -> u32 {
        self.0.opened()
    }

    fn completed(&self) -> u32 {
        self.0.completed()
    }

    fn connected_at(&self) -> Option<Time> {
        self.0.connected_at()
    }

    fn ended_at(&self) -> Option<Time> {
        self.0.ended_at()
    }

    fn stream_reports(&self) -> Vec<(u32, StreamReport)> {
        self.0.stream_reports()
    }

    fn media_report(&self) -> Option<MediaReport> {
        self.0.media_report()
    }

    fn quic(&self) -> Option<&QuicEndpoint> {
        Some(self)
    }
}
