//! Sans-IO transports and the applications over them. Time is an argument, and packets are values. This crate opens no
//! socket and reads no clock.

mod app;
mod client_ports;
mod connection_manager;
mod connection_table;
mod counters;
mod datagram;
mod endpoint;
mod endpoint_stats;
mod event;
pub mod eviction;
pub mod media;
mod node;
pub mod pep;
pub mod perf_load;
pub mod quic;
mod received_ranges;
pub mod tcp;
pub mod tls;
pub mod udp;
pub mod web;
mod words;

pub use app::{App, AppEvent, PeerStreams, ReadStatus, Streams};
pub use client_ports::{client_address_index, client_port};
pub use connection_manager::{ConnectionControl, ConnectionKey, ConnectionManager};
pub use counters::{ACK_PAIR_WAIT_BOUNDS, FlowCounters, TcpCounters};
pub use datagram::Datagram;
pub use endpoint::{
    AppBuilder, ControllerBuilder, Endpoint, Payload, SenderGauges, Side, TimerSource,
};
pub use event::{FlowEvent, FlowEventKind};
pub use node::{Node, ReportSink};
pub use perf_load::{AmountSpec, LoadSpec, SizeSpec, StreamSpec};
pub use received_ranges::ReceivedRanges;
pub use words::{AppCommand, AppNotification};
