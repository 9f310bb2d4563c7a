//! The segments that a connection makes: SYN, acknowledgement, data, with their flags, options and lengths.

use bytes::Bytes;
use units::{Ecn, Span, Time};

use super::Connection;
use crate::Payload;
use crate::tcp::sender::Outgoing;
use crate::tcp::{Flags, Segment, handshake, milliseconds};

impl Connection {
    pub(super) fn segment(&mut self, now: Time, flags: Flags) -> Segment {
        let (acknowledgement, window) = self.receiver.acknowledged();
        let timestamps =
            self.sender.rules.timestamps.then(|| (milliseconds(now), self.receiver.ts_recent()));
        let echo = self.sender.rules.ecn && self.receiver.echo;
        Segment {
            sequence: self.sender.board.next(),
            acknowledgement,
            window,
            flags: if echo { flags.with(Flags::ECE) } else { flags },
            timestamps,
            sack: None,
            syn: None,
            data: Bytes::new(),
            connection: self.number,
            header_bytes: self.spec.header_bytes + handshake::option_bytes(timestamps.is_some(), 0),
            ecn: Ecn::NotEct,
            retransmission: false,
        }
    }

    /// What a closed end answers.
    pub(in crate::tcp) fn last_ack(&mut self, now: Time) -> Segment {
        self.segment(now, Flags::ACK)
    }

    pub(super) fn push(&mut self, segment: Segment, out: &mut Vec<Payload>) {
        let bytes = u64::from(segment.wire_bytes());
        self.sent.sent_packets += 1;
        self.sent.sent_bytes += bytes;
        let echoes = Flags::ACK.with(Flags::ECE);
        if segment.data.is_empty() && (segment.flags == Flags::ACK || segment.flags == echoes) {
            self.sent.ack_packets += 1;
            self.sent.ack_bytes += bytes;
        }
        out.push(Payload::Segment(segment));
    }

    pub(super) fn send_syn(&mut self, now: Time, out: &mut Vec<Payload>) {
        let first = self.syn_sent_at.is_none();
        let opens = self.client && self.spec.fast_open && first && self.sender.unsent() > 0;
        let options = handshake::offer(&self.spec, opens);
        let timestamps =
            if self.client { self.spec.timestamps } else { self.sender.rules.timestamps };
        let ecn = if self.client { self.spec.ecn } else { self.sender.rules.ecn };
        let option_bytes = handshake::syn_bytes(&options, timestamps);
        let mut flags = Flags::SYN;
        if !self.client {
            flags = flags.with(Flags::ACK);
        }
        if ecn {
            // RFC 3168 section 6.1.1.
            flags = flags.with(Flags::ECE);
            if self.client {
                flags = flags.with(Flags::CWR);
            }
        }
        let mut data = Bytes::new();
        if opens {
            let room = u64::from(self.spec.mss_bytes.saturating_sub(option_bytes));
            let length = self.sender.unsent().min(room);
            data = self.sender.send_new(now, length, false).data;
            self.fast_opened = true;
        }
        let (acknowledgement, window) = self.receiver.acknowledged();
        let segment = Segment {
            sequence: 0,
            acknowledgement: if self.client { 0 } else { acknowledgement },
            window: window.min(u64::from(u16::MAX)),
            flags,
            timestamps: timestamps.then(|| (milliseconds(now), self.receiver.ts_recent())),
            sack: None,
            syn: Some(Box::new(options)),
            data,
            connection: self.number,
            header_bytes: self.spec.header_bytes + option_bytes,
            ecn: Ecn::NotEct,
            retransmission: !first,
        };
        self.syn_sent_at.get_or_insert(now);
        let wait = Span(self.spec.initial_rto_ns) * (1 << self.syn_retries.min(6));
        self.syn_at = now + wait.min(Span(self.spec.max_rto_ns));
        self.push(segment, out);
    }

    pub(super) fn send_ack(&mut self, now: Time, out: &mut Vec<Payload>) {
        let mut segment = self.segment(now, Flags::ACK);
        let timestamps = segment.timestamps.is_some();
        if self.sender.rules.sack {
            segment.sack =
                self.receiver.blocks(handshake::most_blocks(timestamps), self.spec.dsack);
            let blocks = segment.sack.as_ref().map_or(0, |blocks| blocks.as_slice().len());
            segment.header_bytes =
                self.spec.header_bytes + handshake::option_bytes(timestamps, blocks);
        }
        self.push(segment, out);
    }

    pub(super) fn send_data(&mut self, now: Time, outgoing: Outgoing, out: &mut Vec<Payload>) {
        let mut flags = Flags::ACK;
        if outgoing.fin {
            flags = flags.with(Flags::FIN);
        }
        if outgoing.cwr {
            flags = flags.with(Flags::CWR);
        }
        let mut segment = self.segment(now, flags);
        segment.sequence = outgoing.sequence;
        // RFC 3168 section 6.1.5: retransmissions are not ECN-capable.
        if self.sender.rules.ecn && !outgoing.retransmission && !outgoing.data.is_empty() {
            segment.ecn = Ecn::Ect0;
        }
        segment.data = outgoing.data;
        segment.retransmission = outgoing.retransmission;
        self.push(segment, out);
    }
}
