//! Sans-IO transports and the applications over them. Time is an argument, and packets are values. This crate opens no
//! socket and reads no clock.

mod app;
mod client_ports;
mod connection_manager;
mod connection_table;
mod datagram;
mod endpoint;
mod endpoint_stats;
pub mod eviction;
mod flow_event;
pub mod media;
mod node;
pub mod pep;
pub mod perf_load;
mod probe;
pub mod quic;
mod received_ranges;
pub mod tcp;
pub mod tls;
pub mod udp;
pub mod web;

pub use app::{App, AppCommand, AppEvent, AppNotification, PeerStreams, ReadStatus, Streams};
pub use client_ports::{client_address_index, client_port};
pub use connection_manager::{ConnectionControl, ConnectionKey, ConnectionManager};
pub use datagram::Datagram;
pub use endpoint::{AppBuilder, ControllerBuilder, Endpoint, Payload, Side, TimerSource};
pub use endpoint_stats::{ACK_PAIR_WAIT_BOUNDS, FlowCounters, SenderGauges, TcpCounters};
pub use flow_event::{FlowEvent, FlowEventKind};
pub use node::Node;
pub use perf_load::{AmountSpec, LoadSpec, SizeSpec, StreamSpec};
pub use probe::{Probe, ReportSink};
pub use received_ranges::ReceivedRanges;
