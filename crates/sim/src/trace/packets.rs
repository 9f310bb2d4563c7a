//! The table of packets: one row per packet and connection segment, between two endpoints of a transport connection
//! (docs/reference/results.md).

use link::DropReason;
use topology::Topology;
use transport::tcp::{Flags, Segment};
use transport::{Datagram, Payload};
use units::{NodeId, Packet, Time};

use crate::recorder::tables::{Column, ColumnData, Table};

/// The outcome of a packet.
#[derive(Clone, Copy, Debug)]
enum PacketOutcome {
    InTransit,
    Received(Time),
    Dropped(u32, DropReason),
    DroppedAtNode(NodeId, DropReason),
}

#[derive(Clone, Copy, Debug)]
struct PacketRow {
    packet: Packet,
    connection: u32,
    payload_bytes: u32,
    label: &'static str,
    /// The stream offset after the data of a TCP segment.
    sequence: Option<u64>,
    retransmission: bool,
    outcome: PacketOutcome,
}

/// The rows recorded so far.
#[derive(Debug, Default)]
pub struct PacketRecorder {
    rows: Vec<PacketRow>,
    /// The row index of the packet with this payload handle.
    by_handle: Vec<u32>,
}

impl PacketRecorder {
    /// Returns the bytes of all rows.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.rows[..])
    }

    /// Records that `packet` leaves its sender.
    pub fn on_sent(&mut self, packet: &Packet, payload: &Payload) {
        let handle = packet.handle as usize;
        if handle >= self.by_handle.len() {
            self.by_handle.resize(handle + 1, 0);
        }
        self.by_handle[handle] = self.rows.len() as u32;
        self.rows.push(match payload {
            Payload::Datagram(datagram) | Payload::Udp(datagram) => PacketRow {
                packet: *packet,
                connection: datagram.connection,
                payload_bytes: datagram.payload_bytes() as u32,
                label: match payload {
                    Payload::Udp(_) => "UDP",
                    _ => quic_label(datagram),
                },
                sequence: None,
                retransmission: false,
                outcome: PacketOutcome::InTransit,
            },
            Payload::Segment(segment) => PacketRow {
                packet: *packet,
                connection: segment.connection,
                payload_bytes: segment.data.len() as u32,
                label: tcp_label(segment),
                sequence: Some(stream_offset(segment)),
                retransmission: segment.retransmission,
                outcome: PacketOutcome::InTransit,
            },
        });
    }

    /// Returns the row index of the packet with payload `handle`.
    pub fn row_index(&self, handle: u32) -> u32 {
        self.by_handle[handle as usize]
    }

    fn set_outcome(&mut self, packet: &Packet, outcome: PacketOutcome) {
        let row = self.row_index(packet.handle);
        self.rows[row as usize].outcome = outcome;
    }

    /// Records that `packet` reaches its receiver.
    pub fn on_received(&mut self, now: Time, packet: &Packet) {
        self.set_outcome(packet, PacketOutcome::Received(now));
    }

    /// Records that `link` dropped `packet`.
    pub fn on_dropped(&mut self, link: usize, packet: &Packet, cause: DropReason) {
        self.set_outcome(packet, PacketOutcome::Dropped(link as u32, cause));
    }

    /// Records that `node` dropped `packet`.
    pub fn on_dropped_at_node(&mut self, node: NodeId, packet: &Packet, cause: DropReason) {
        self.set_outcome(packet, PacketOutcome::DroppedAtNode(node, cause));
    }

    /// Returns the table; `flows` contains the names of the flows.
    pub fn finish(&self, flows: &[&str], topology: &Topology) -> Table {
        let rows = &self.rows;
        let float =
            |of: &dyn Fn(&PacketRow) -> f64| ColumnData::Float(rows.iter().map(of).collect());
        let int = |of: &dyn Fn(&PacketRow) -> u64| {
            ColumnData::Int(rows.iter().map(|r| of(r) as i64).collect())
        };
        let name = |of: &dyn Fn(&PacketRow) -> String| category_column(rows, of);
        let node = |node| topology.node_name(node).to_owned();
        let dropped = |row: &PacketRow| match row.outcome {
            PacketOutcome::Dropped(link, cause) => {
                format!("{}: {}", topology.simplex_link_name(link as usize), cause.name())
            }
            PacketOutcome::DroppedAtNode(at, cause) => format!("{}: {}", node(at), cause.name()),
            PacketOutcome::InTransit | PacketOutcome::Received(_) => String::new(),
        };
        let received = |row: &PacketRow| match row.outcome {
            PacketOutcome::Received(at) => at.seconds(),
            _ => f64::NAN,
        };
        let transport = |row: &PacketRow| match (row.sequence, row.label) {
            (Some(_), _) => "tcp".to_owned(),
            (None, "UDP") => "udp".to_owned(),
            _ => "quic".to_owned(),
        };
        let columns = [
            ("packet", ColumnData::Int((0..rows.len() as i64).collect())),
            ("flow", name(&|row| flows[row.packet.flow as usize].to_owned())),
            ("connection", int(&|row| u64::from(row.connection))),
            ("transport", name(&transport)),
            ("from_node", name(&|row| node(row.packet.source))),
            ("to_node", name(&|row| node(row.packet.destination))),
            ("sent_s", float(&|row| row.packet.created_at.seconds())),
            ("received_s", float(&received)),
            ("dropped", name(&dropped)),
            ("bytes", int(&|row| u64::from(row.packet.bytes))),
            ("payload_bytes", int(&|row| u64::from(row.payload_bytes))),
            ("label", name(&|row| row.label.to_owned())),
            ("sequence", float(&|row| row.sequence.map_or(f64::NAN, |offset| offset as f64))),
            ("retransmission", int(&|row| u64::from(row.retransmission))),
        ];
        let columns = columns.into_iter().map(|(name, data)| Column { name, data }).collect();
        Table { name: "packets", columns }
    }
}

fn category_column(rows: &[PacketRow], text_of: &dyn Fn(&PacketRow) -> String) -> ColumnData {
    let mut names: Vec<String> = Vec::new();
    let values = rows.iter().map(|row| {
        let name = text_of(row);
        let found = names.iter().position(|known| *known == name);
        found.unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        }) as u32
    });
    let values = values.collect();
    ColumnData::Category(names, values)
}

/// Returns the stream offset after the data of a segment. The SYN has number 0.
fn stream_offset(segment: &Segment) -> u64 {
    let syn = u64::from(segment.flags.has(Flags::SYN));
    (segment.sequence + segment.data.len() as u64 + syn).saturating_sub(1)
}

/// Returns the packet type. RFC 9000 section 17.2: bit 7 marks a long header, bits 4 and 5 contain the type.
fn quic_label(datagram: &Datagram) -> &'static str {
    let first = datagram.first_byte();
    match (first & 0x80 != 0, first >> 4 & 3) {
        (true, 0) => "Initial",
        (true, 1) => "0-RTT",
        (true, 2) => "Handshake",
        (true, _) => "Retry",
        _ => "1-RTT",
    }
}

fn tcp_label(segment: &Segment) -> &'static str {
    let flags = segment.flags;
    if flags.has(Flags::RST) {
        "RST"
    } else if flags.has(Flags::SYN.with(Flags::ACK)) {
        "SYN-ACK"
    } else if flags.has(Flags::SYN) {
        "SYN"
    } else if flags.has(Flags::FIN) {
        "FIN"
    } else if segment.data.is_empty() {
        "ACK"
    } else {
        tls_label(&segment.data)
    }
}

/// Returns the TLS record (RFC 8446 section 5.1) or handshake message (section 4; RFC 5246 section 7.4) at the start of
/// a segment.
fn tls_label(data: &[u8]) -> &'static str {
    match data {
        [20, 3, ..] => "ChangeCipherSpec",
        [22, 3, _, _, _, kind, ..] => match kind {
            1 => "ClientHello",
            2 => "ServerHello",
            4 => "NewSessionTicket",
            8 => "EncryptedExtensions",
            11 => "Certificate",
            12 => "ServerKeyExchange",
            14 => "ServerHelloDone",
            15 => "CertificateVerify",
            16 => "ClientKeyExchange",
            20 => "Finished",
            _ => "handshake",
        },
        _ => "data",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn segment(flags: Flags, sequence: u64, data: &'static [u8]) -> Segment {
        Segment {
            sequence,
            acknowledgement: 0,
            window: 0,
            flags,
            timestamps: None,
            sack: None,
            syn: None,
            data: Bytes::from_static(data),
            connection: 0,
            header_bytes: 40,
            ecn: units::Ecn::NotEct,
            retransmission: false,
        }
    }

    #[test]
    fn labels_of_segments() {
        let all = [
            (segment(Flags::SYN, 0, b""), "SYN", 0),
            (segment(Flags::SYN, 0, b"early"), "SYN", 5),
            (segment(Flags::SYN.with(Flags::ACK), 0, b""), "SYN-ACK", 0),
            (segment(Flags::ACK, 1, b""), "ACK", 0),
            (segment(Flags::ACK, 1, b"\x16\x03\x01\x02\0\x01rest"), "ClientHello", 10),
            (segment(Flags::ACK, 11, b"\x16\x03\x03\x02\0\x0b"), "Certificate", 16),
            (segment(Flags::ACK, 11, b"\x14\x03\x03\0\x01\x01"), "ChangeCipherSpec", 16),
            (segment(Flags::ACK, 11, b"\x17\x03\x03\0\x01\x01"), "data", 16),
            (segment(Flags::ACK, 11, b"\x16"), "data", 11),
            (segment(Flags::ACK.with(Flags::FIN), 12, b"x"), "FIN", 12),
            (segment(Flags::ACK.with(Flags::RST), 12, b""), "RST", 11),
        ];
        for (segment, label, offset) in all {
            assert_eq!((tcp_label(&segment), stream_offset(&segment)), (label, offset));
        }
    }
}
