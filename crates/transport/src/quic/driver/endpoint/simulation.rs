//! The endpoint as the simulation uses it.

use cc::CongestionControl;
use units::Time;

use super::{EndpointDriver, QuicConnectionEntry, SERVER_NAME};
use crate::media::MediaReport;
use crate::perf_load::StreamReport;
use crate::quic::driver::connection::ConnectionDriver;
use crate::quic::simulated_address::simulated_address;
use crate::quic::stack::{InboundDatagram, Stack};
use crate::{
    App, AppCommand, AppNotification, FlowCounters, FlowEvent, FlowEventKind, Payload,
    SenderGauges, TimerSource,
};

impl<S: Stack> EndpointDriver<S> {
    pub fn connect(
        &mut self,
        now: Time,
        app: Option<Box<dyn App>>,
        out: &mut Vec<Payload>,
    ) -> Result<(), String> {
        self.connect_to(now, SERVER_NAME, app, out)
    }

    pub fn receive(&mut self, now: Time, payload: Payload, out: &mut Vec<Payload>) {
        let Payload::Datagram(datagram) = payload else { return };
        let (ecn, connection) = (datagram.ecn, datagram.connection);
        self.reap_closed(now);
        if self.draining.contains(connection) {
            return self.receive_late(now, datagram, out);
        }
        let data = self.payloads.unpack(datagram);
        let inbound =
            InboundDatagram { remote: simulated_address(connection), local: None, ecn, data };
        self.with_simulated_sink(out, |endpoint, packets| {
            if let Some(index) = endpoint.handle_datagram(now, inbound, Some(connection), packets) {
                endpoint.poll_connection(now, index, packets);
            }
        });
    }

    pub fn poll(&mut self, now: Time, out: &mut Vec<Payload>) {
        self.reap_closed(now);
        self.with_simulated_sink(out, |endpoint, packets| endpoint.poll_due(now, packets));
    }

    pub fn crash(&mut self, now: Time) {
        let indices: Vec<usize> = self.connections.indices().collect();
        for index in indices {
            let QuicConnectionEntry { handle, connection, state, accepted } =
                self.connections.remove(index);
            self.stack.forget(handle);
            self.index_by_number.remove(&connection.number());
            self.totals.remove(index);
            self.state_counts[state as usize] -= usize::from(accepted);
            let (number, kind) = (connection.number(), FlowEventKind::Lost);
            let event = FlowEvent { time: now, connection: number, kind, value: 0.0 };
            self.stats.events.push(event);
            let (counters, gauges) = (connection.counters(), connection.gauges());
            self.stats.on_connection_closed(
                number,
                &counters,
                gauges,
                connection.app().stream_reports(),
            );
        }
        self.pending_input.clear();
        self.changed.clear();
        self.reapable.clear();
        self.notifications.clear();
    }

    pub fn send_command(&mut self, connection: u32, command: AppCommand) {
        let Some(index) = self.index_of(connection) else { return };
        let connection = &mut self.connections[index].connection;
        connection.send_command(command);
        let at = connection.poll_at();
        self.connections.set_deadline(index, at);
    }

    pub fn take_notifications(&mut self, into: &mut Vec<(u32, AppNotification)>) {
        into.append(&mut self.notifications);
    }

    pub fn poll_at(&mut self) -> Time {
        if !self.pending_input.is_empty() {
            return Time::ZERO;
        }
        self.connections.poll_at().min(self.draining.poll_at())
    }

    pub fn poll_source(&mut self) -> (Time, TimerSource) {
        let indices: Vec<usize> = self.connections.indices().collect();
        let deadlines =
            indices.into_iter().map(|index| self.connections[index].connection.poll_source());
        deadlines.min().unwrap_or((Time::MAX, TimerSource::Transport))
    }

    pub fn counters(&self) -> FlowCounters {
        let mut counters = self.stats.counters;
        let counters_of = |index| Some(self.connections.get(index)?.connection.counters());
        counters.add(&self.totals.total(counters_of));
        counters
    }

    pub fn gauges(&self) -> SenderGauges {
        let last = self.connections.newest().map(|member| &member.connection);
        match self.draining.newest(last.map(ConnectionDriver::number)) {
            Some((gauges, _)) => gauges,
            None => last.map_or(self.stats.gauges, ConnectionDriver::gauges),
        }
    }

    pub fn controller(&self) -> Option<&dyn CongestionControl> {
        let last = self.connections.newest().map(|member| &member.connection);
        let drains = self.draining.newest(last.map(ConnectionDriver::number));
        drains.map(|(_, controller)| controller).or(last.map(ConnectionDriver::controller))
    }

    pub fn take_events(&mut self) -> Vec<FlowEvent> {
        self.stats.take_events()
    }

    pub fn opened(&self) -> u32 {
        self.stats.opened
    }

    pub fn completed(&self) -> u32 {
        self.stats.completed
    }

    pub fn connected_at(&self) -> Option<Time> {
        self.stats.connected_at
    }

    pub fn ended_at(&self) -> Option<Time> {
        self.stats.ended_at
    }

    pub fn stream_reports(&self) -> Vec<(u32, StreamReport)> {
        self.stats.stream_reports(
            self.live_connections().map(|live| (live.number(), live.app().stream_reports())),
        )
    }

    pub fn media_report(&self) -> Option<MediaReport> {
        let live = self.live_connections().last().and_then(|live| live.app().media_report());
        live.or_else(|| self.stats.media_report.as_deref().cloned())
    }
}
