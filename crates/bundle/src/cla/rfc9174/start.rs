//! The start of a session: contact header, SESS_INIT and the first streams.

use transport::Streams;
use units::Time;

use super::transfer_stream::Initiator;
use super::{DATA_STREAMS, Rfc9174Session, SIGNAL_STREAM, SessionState, StreamMapping};
use crate::cla::messages::{Message, WireFormat, contact_header};
use crate::cla::{RememberedParameters, TlsPolicy};
use crate::{Role, SessionEvent};

impl Rfc9174Session {
    pub(super) fn start(
        &mut self,
        now: Time,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        (self.last_received_at, self.last_sent_at) = (now, now);
        let tcp = self.config.format == WireFormat::Tcpcl;
        self.state = if tcp { SessionState::Contact } else { SessionState::Init };
        if self.config.role == Role::Passive {
            return;
        }
        if streams.open() != Some(SIGNAL_STREAM) {
            return self.fail(Some("the transport did not open the first stream"));
        }
        if tcp {
            self.send_contact_header();
            return;
        }
        self.send_sess_init();
        self.use_remembered_parameters(streams, out);
        streams.set_priority(SIGNAL_STREAM, stream_priority(SIGNAL_STREAM));
        if self.config.mapping == StreamMapping::Each {
            return;
        }
        for data in DATA_STREAMS {
            if streams.open() != Some(data) {
                return self.fail(Some("the peer allows fewer than five streams"));
            }
            streams.set_priority(data, stream_priority(data));
            self.transfer_stream(data, None);
        }
        // The draft does not define how the peer detects streams before the first bundle. One octet opens all four (RFC
        // 9000 section 3.2).
        self.transfer_stream(DATA_STREAMS[3], None).queue_message(&Message::Keepalive);
    }

    /// Uses remembered parameters for early data, like the settings of HTTP/3 (RFC 9114 section 7.2.4.2).
    fn use_remembered_parameters(
        &mut self,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        let known = self.remembered.as_ref().and_then(RememberedParameters::get);
        if let Some(init) = known.filter(|_| streams.is_early_data()) {
            self.uses_remembered_parameters = true;
            self.establish(init, out);
        }
    }

    pub(super) fn send_contact_header(&mut self) {
        let can = self.config.tls != TlsPolicy::No;
        let flags = if can { contact_header::CAN_TLS } else { 0 };
        let header = contact_header::encode(contact_header::ContactHeader {
            version: contact_header::VERSION,
            flags,
        });
        self.signal_stream().queue_raw(&header);
    }

    pub(super) fn send_sess_init(&mut self) {
        let init = Message::SessInit(self.config.init.clone());
        self.signal_stream().queue_message(&init);
    }

    pub(super) fn on_stream_opened(
        &mut self,
        now: Time,
        id: u64,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    ) {
        let uni = id & 2 != 0;
        let by_client = id & 1 == 0;
        let quic = self.config.format == WireFormat::Quiccl;
        let is_peers = by_client == (self.config.role == Role::Passive);
        let shared = id == SIGNAL_STREAM || DATA_STREAMS.contains(&id);
        if self.state == SessionState::Closed {
            // A stream can be open before the end of the handshake.
            self.start(now, streams, out);
        }
        match self.config.mapping {
            _ if !quic && id == SIGNAL_STREAM => {
                self.signal_stream();
            }
            _ if uni || !is_peers => {}
            StreamMapping::Each if id != SIGNAL_STREAM => {
                self.transfer_stream(id, Some(Initiator::Peer));
            }
            _ if shared => {
                streams.set_priority(id, stream_priority(id));
                self.transfer_stream(id, None);
                self.assign_streams(streams, out);
            }
            _ => {}
        }
        if self.transfer_streams.contains(id) {
            self.read_stream(now, id, streams, out);
        } else {
            // The session does not use this stream.
            streams.stop(id);
            if !uni {
                streams.reset(id);
            }
        }
    }
}

/// Returns the priority of a stream: higher values are sent first.
fn stream_priority(stream: u64) -> i32 {
    match stream {
        SIGNAL_STREAM => 4,
        4 => 3,
        8 => 2,
        12 => 1,
        _ => 0,
    }
}
