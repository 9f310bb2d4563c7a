//! Segments of a connection: SYN, acknowledgement, data, with their flags, options and lengths.

use bytes::Bytes;
use units::{Ecn, Span, Time};

use super::TcpConnection;
use crate::Payload;
use crate::tcp::sender::OutgoingSegment;
use crate::tcp::{Flags, Segment, handshake, timestamp_ms};

impl TcpConnection {
    pub(super) fn segment(&mut self, now: Time, flags: Flags) -> Segment {
        let (acknowledgement, window) = self.receiver.on_ack_sent();
        let timestamps =
            self.sender.options.timestamps.then(|| (timestamp_ms(now), self.receiver.ts_recent()));
        let echo = self.sender.options.ecn && self.receiver.ecn_echo;
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

    /// Returns the answer of a closed end.
    pub(in crate::tcp) fn closing_ack(&mut self, now: Time) -> Segment {
        self.segment(now, Flags::ACK)
    }

    pub(super) fn push_segment(&mut self, segment: Segment, out: &mut Vec<Payload>) {
        let bytes = u64::from(segment.wire_bytes());
        self.sent_counters.sent_packets += 1;
        self.sent_counters.sent_bytes += bytes;
        let echoes = Flags::ACK.with(Flags::ECE);
        if segment.data.is_empty() && (segment.flags == Flags::ACK || segment.flags == echoes) {
            self.sent_counters.ack_packets += 1;
            self.sent_counters.ack_bytes += bytes;
        }
        out.push(Payload::Segment(segment));
    }

    pub(super) fn send_syn(&mut self, now: Time, out: &mut Vec<Payload>) {
        let first = self.syn_sent_at.is_none();
        let opens = self.client && self.spec.fast_open && first && self.sender.unsent() > 0;
        let options = handshake::syn_options(&self.spec, opens);
        let timestamps =
            if self.client { self.spec.timestamps } else { self.sender.options.timestamps };
        let ecn = if self.client { self.spec.ecn } else { self.sender.options.ecn };
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
            let free_bytes = u64::from(self.spec.mss_bytes.saturating_sub(option_bytes));
            let length = self.sender.unsent().min(free_bytes);
            data = self.sender.send_new_data(now, length, false).data;
            self.fast_opened = true;
        }
        let (acknowledgement, window) = self.receiver.on_ack_sent();
        let segment = Segment {
            sequence: 0,
            acknowledgement: if self.client { 0 } else { acknowledgement },
            window: window.min(u64::from(u16::MAX)),
            flags,
            timestamps: timestamps.then(|| (timestamp_ms(now), self.receiver.ts_recent())),
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
        self.push_segment(segment, out);
    }

    pub(super) fn send_ack(&mut self, now: Time, out: &mut Vec<Payload>) {
        let mut segment = self.segment(now, Flags::ACK);
        let timestamps = segment.timestamps.is_some();
        if self.sender.options.sack {
            segment.sack =
                self.receiver.sack_blocks(handshake::max_sack_blocks(timestamps), self.spec.dsack);
            let blocks = segment.sack.as_ref().map_or(0, |blocks| blocks.as_slice().len());
            segment.header_bytes =
                self.spec.header_bytes + handshake::option_bytes(timestamps, blocks);
        }
        self.push_segment(segment, out);
    }

    pub(super) fn send_data(
        &mut self,
        now: Time,
        outgoing: OutgoingSegment,
        out: &mut Vec<Payload>,
    ) {
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
        if self.sender.options.ecn && !outgoing.retransmission && !outgoing.data.is_empty() {
            segment.ecn = Ecn::Ect0;
        }
        segment.data = outgoing.data;
        segment.retransmission = outgoing.retransmission;
        self.push_segment(segment, out);
    }
}
