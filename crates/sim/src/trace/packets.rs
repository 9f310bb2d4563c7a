//! The table of packets: one row per packet and leg, a leg being the way from one end of a
//! connection to the other (docs/manual/results.md).

use path::{Cause, Topology};
use transport::tcp::{Flags, Segment};
use transport::{Datagram, Payload};
use units::{NodeId, Packet, Time};

use crate::tables::{Column, Data, Table};

/// How a packet ended.
#[derive(Clone, Copy, Debug)]
enum Fate {
    OnItsWay,
    Received(Time),
    Dropped(u32, Cause),
    DroppedAt(NodeId, Cause),
}

#[derive(Clone, Copy, Debug)]
struct Row {
    packet: Packet,
    connection: u32,
    payload_bytes: u32,
    label: &'static str,
    /// Offset in the stream after the segment's data; of TCP only.
    sequence: Option<u64>,
    retransmission: bool,
    fate: Fate,
}

/// The rows so far.
#[derive(Debug, Default)]
pub struct Packets {
    rows: Vec<Row>,
    /// The row of the packet whose payload has this handle now.
    by_handle: Vec<u32>,
}

impl Packets {
    /// `packet` leaves its end of the leg.
    pub fn sent(&mut self, packet: &Packet, payload: &Payload) {
        let handle = packet.handle as usize;
        if handle >= self.by_handle.len() {
            self.by_handle.resize(handle + 1, 0);
        }
        self.by_handle[handle] = self.rows.len() as u32;
        self.rows.push(match payload {
            Payload::Datagram(datagram) | Payload::Udp(datagram) => Row {
                packet: *packet,
                connection: datagram.connection,
                payload_bytes: datagram.payload_bytes() as u32,
                label: match payload {
                    Payload::Udp(_) => "UDP",
                    _ => quic_label(datagram),
                },
                sequence: None,
                retransmission: false,
                fate: Fate::OnItsWay,
            },
            Payload::Segment(segment) => Row {
                packet: *packet,
                connection: segment.connection,
                payload_bytes: segment.data.len() as u32,
                label: tcp_label(segment),
                sequence: Some(stream_offset(segment)),
                retransmission: segment.retransmission,
                fate: Fate::OnItsWay,
            },
        });
    }

    /// The number of the packet whose payload has this handle now.
    pub fn number(&self, handle: u32) -> u32 {
        self.by_handle[handle as usize]
    }

    fn end(&mut self, packet: &Packet, fate: Fate) {
        let row = self.number(packet.handle);
        self.rows[row as usize].fate = fate;
    }

    /// `packet` reaches the other end of its leg.
    pub fn received(&mut self, now: Time, packet: &Packet) {
        self.end(packet, Fate::Received(now));
    }

    /// `packet` was dropped in `line`.
    pub fn dropped(&mut self, line: usize, packet: &Packet, cause: Cause) {
        self.end(packet, Fate::Dropped(line as u32, cause));
    }

    /// `packet` was dropped at `node`.
    pub fn dropped_at(&mut self, node: NodeId, packet: &Packet, cause: Cause) {
        self.end(packet, Fate::DroppedAt(node, cause));
    }

    /// The table; `flows` are the flows' names.
    pub fn finish(&self, flows: &[&str], topology: &Topology) -> Table {
        let rows = &self.rows;
        let float = |of: &dyn Fn(&Row) -> f64| Data::Float(rows.iter().map(of).collect());
        let int = |of: &dyn Fn(&Row) -> u64| Data::Int(rows.iter().map(|r| of(r) as i64).collect());
        let name = |of: &dyn Fn(&Row) -> String| category(rows, of);
        let node = |node| topology.node_name(node).to_owned();
        let dropped = |row: &Row| match row.fate {
            Fate::Dropped(line, cause) => {
                format!("{}: {}", topology.line_name(line as usize), cause.name())
            }
            Fate::DroppedAt(at, cause) => format!("{}: {}", node(at), cause.name()),
            Fate::OnItsWay | Fate::Received(_) => String::new(),
        };
        let received = |row: &Row| match row.fate {
            Fate::Received(at) => at.seconds(),
            _ => f64::NAN,
        };
        let transport = |row: &Row| match (row.sequence, row.label) {
            (Some(_), _) => "tcp".to_owned(),
            (None, "UDP") => "udp".to_owned(),
            _ => "quic".to_owned(),
        };
        let columns = [
            ("packet", Data::Int((0..rows.len() as i64).collect())),
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

fn category(rows: &[Row], of: &dyn Fn(&Row) -> String) -> Data {
    let mut names: Vec<String> = Vec::new();
    let values = rows.iter().map(|row| {
        let name = of(row);
        let found = names.iter().position(|known| *known == name);
        found.unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        }) as u32
    });
    let values = values.collect();
    Data::Category(names, values)
}

/// Bytes of the stream up to the end of this segment; the SYN takes number 0.
fn stream_offset(segment: &Segment) -> u64 {
    let syn = u64::from(segment.flags.has(Flags::SYN));
    (segment.sequence + segment.data.len() as u64 + syn).saturating_sub(1)
}

/// RFC 9000 section 17.2: bit 7 says long header, bits 4 and 5 the type.
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

/// The TLS record (RFC 8446 section 5.1) and handshake message (section 4; RFC 5246 section 7.4) that
/// a segment begins with.
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
