//! Sans-IO transports and the applications over them. Time is an argument; packets come in and go
//! out as values; nothing here opens a socket or reads a clock.

mod agent;
mod app;
pub mod calls;
mod counters;
mod datagram;
mod endpoint;
mod event;
mod ledger;
pub mod load;
mod node;
pub mod pep;
pub mod places;
mod ports;
pub mod quic;
mod received;
mod roster;
pub mod tcp;
pub mod tls;
pub mod udp;
pub mod web;
mod words;

pub use agent::{Agent, Handle, Lines};
pub use app::{App, AppEvent, PeerStreams, ReadEnd, Streams};
pub use counters::{Counters, PAIR_WAITS, TcpCounters};
pub use datagram::Datagram;
pub use endpoint::{Asker, Endpoint, Gauges, MakeApp, MakeController, Payload, Side};
pub use event::{Event, EventKind};
pub use load::{AmountSpec, LoadSpec, SizeSpec, StreamSpec};
pub use node::{Node, Report};
pub use ports::{client_address, client_port};
pub use received::Received;
pub use words::{Notice, Order};
