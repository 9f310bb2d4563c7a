//! What the peer says, and what is said to it: the contact header, SESS_INIT, transfers, SESS_TERM.

use bytes::Buf as _;
use transport::{ReadEnd, Streams};
use units::Time;

use super::lane::{Lane, Limits};
use super::{Exchange, Layout, SIGNAL, Stage};
use crate::layers::TlsPolicy;
use crate::layers::messages::{Fault, Init, Item, Message, Problem, contact, reject, term};
use crate::wire::is_node;
use crate::{Refusal, Role, Said};

/// Characters of a stranger's name in a message.
const SHOWN: usize = 80;

impl Exchange {
    pub(super) fn read(
        &mut self,
        now: Time,
        id: u64,
        streams: &mut dyn Streams,
        said: &mut Vec<Said>,
    ) {
        let Some(lane) = self.lanes.get_mut(id) else {
            let _ = streams.read(id, &mut |_, _| {});
            return;
        };
        if lane.peer_finished {
            return;
        }
        if id != SIGNAL && matches!(self.stage, Stage::Closed | Stage::Init) {
            // Bundles of early data overtake SESS_INIT where its packet was lost: they wait with the transport.
            return;
        }
        let mut unparsed = std::mem::take(&mut lane.unparsed);
        if self.stage == Stage::Established {
            let left = self.take(id, &unparsed, said);
            unparsed.advance(unparsed.len() - left);
        }
        let Some(lane) = self.lanes.get_mut(id) else { return };
        lane.unparsed = unparsed;
        if lane.is_full() {
            return;
        }
        let mut inflow = std::mem::take(&mut lane.inflow);
        let known_end = lane.unparsed_end.take();
        let end = known_end.unwrap_or_else(|| {
            streams.read(id, &mut |offset, data| {
                self.last_heard = now;
                inflow.push(offset, data, &mut |bytes| {
                    let left = self.take(id, bytes, said);
                    if let Some(lane) = self.lanes.get_mut(id).filter(|_| left > 0) {
                        lane.unparsed.extend_from_slice(&bytes[bytes.len() - left..]);
                    }
                });
            })
        });
        let Some(lane) = self.lanes.get_mut(id) else { return };
        lane.inflow = inflow;
        if end == ReadEnd::Open {
            return;
        }
        if !lane.unparsed.is_empty() {
            lane.unparsed_end = Some(end);
            return;
        }
        lane.peer_finished = true;
        if lane.single.is_none() {
            let agreed = self.term_sent && self.term_heard;
            if end == ReadEnd::Reset || !agreed {
                self.fail(Some("the peer has closed the connection without SESS_TERM"));
            }
            return;
        }
        let cut = !lane.decoder.is_between();
        if end == ReadEnd::Reset || cut {
            // The peer has broken off; what it has answered stands.
            streams.reset(id);
            self.give_up(id, Refusal::Retransmit, said);
        } else {
            lane.drop_assembly(&mut self.room);
            let unanswered: Vec<u64> = lane.given().collect();
            if !unanswered.is_empty() {
                self.give_up(id, Refusal::Unknown, said);
            }
        }
    }

    /// Parses bytes of a stream, in order; how many of them have to wait because the lane is full.
    fn take(&mut self, id: u64, mut bytes: &[u8], said: &mut Vec<Said>) -> usize {
        if self.stage == Stage::Contact && !self.contact(&mut bytes) {
            return 0;
        }
        if self.stage == Stage::Secure {
            // What came before the handshake is anybody's: it must not count behind it.
            if !bytes.is_empty() {
                self.fail(Some("the peer said more before TLS than its contact header"));
            }
            return 0;
        }
        while self.stage != Stage::Over && self.error.is_none() {
            let Some(lane) = self.lanes.get_mut(id) else { return 0 };
            if lane.is_full() {
                return bytes.len();
            }
            match lane.decoder.next(&mut bytes) {
                Ok(Some(Item::Data { bytes: data, last })) => {
                    let next = self.next_received;
                    if let Some(word) = lane.on_data(data, last, next, &mut self.room) {
                        self.next_received += 1;
                        self.owners.insert(next, id);
                        said.push(word);
                    }
                    if !last && bytes.is_empty() {
                        return 0;
                    }
                }
                Ok(Some(Item::Message(message))) => self.message(id, message, said),
                Ok(None) => return 0,
                Err(fault) => {
                    if let Fault::Kind(kind) = fault {
                        // Section 5.1.2: "and close the TCP connection".
                        lane.say(&Message::Reject { reason: reject::UNKNOWN, kind });
                    } else {
                        self.say_term(term::RESOURCES);
                    }
                    self.fail(Some(&fault.to_string()));
                    return 0;
                }
            }
        }
        0
    }

    /// TCPCLv4's contact header (sections 4.2 and 4.3); whether it is there and taken.
    fn contact(&mut self, bytes: &mut &[u8]) -> bool {
        let (part, rest) = bytes.split_at(bytes.len().min(contact::BYTES - self.header.len()));
        self.header.extend_from_slice(part);
        *bytes = rest;
        let active = self.setup.role == Role::Active;
        match contact::decode(&self.header) {
            Err(fault) => {
                self.fail(Some(&fault.to_string()));
                false
            }
            Ok(None) => false,
            Ok(Some(header)) => {
                if !active {
                    self.say_contact();
                }
                if header.version != contact::VERSION {
                    if !active {
                        self.say_term(term::VERSION);
                    }
                    let version = header.version;
                    self.fail(Some(&format!("the peer speaks version {version} of TCPCL")));
                    return false;
                }
                // Section 4.3: TLS is spoken if both can.
                let both = header.flags & contact::CAN_TLS != 0;
                match self.setup.tls {
                    TlsPolicy::Allow | TlsPolicy::Require if both => {
                        self.stage = Stage::Secure;
                        return true;
                    }
                    TlsPolicy::Require => {
                        self.say_term(term::CONTACT);
                        self.fail(Some("the peer does not speak TLS, which is required here"));
                        return false;
                    }
                    TlsPolicy::Allow | TlsPolicy::No => {}
                }
                self.stage = Stage::Init;
                if active {
                    self.say_init();
                }
                true
            }
        }
    }

    fn message(&mut self, id: u64, message: Message, said: &mut Vec<Said>) {
        let kind = message.kind(self.setup.dialect);
        let established = self.stage == Stage::Established;
        let signals = id == SIGNAL;
        let limits = Limits {
            segment_mru: self.setup.init.segment_mru,
            transfer_mru: self.setup.init.transfer_mru,
            ending: self.is_ending() || !established,
        };
        let carries = self.setup.layout == Layout::Signal || !signals;
        let Some(lane) = self.lanes.get_mut(id) else { return };
        let expected = match message {
            Message::Init(init) if signals && (self.stage == Stage::Init || self.presumed) => {
                self.started(init, said);
                true
            }
            Message::Segment(segment) if carries => {
                // Before SESS_INIT its data is passed over too.
                lane.on_segment(segment, &limits, &mut self.room);
                established
            }
            Message::Ack(_) | Message::Refuse { .. } if !carries && established => {
                self.strays.push(message);
                true
            }
            Message::Ack(ack) if carries && established => lane.on_ack(ack, said),
            Message::Refuse { reason, transfer } if carries && established => {
                // Each late segment of a refused bundle is refused again (section 5.2.4).
                lane.on_refuse(reason, transfer, said);
                true
            }
            Message::Keepalive => true,
            Message::Term { reply, reason } if signals => {
                self.on_term(reply, reason, said);
                true
            }
            // What was sent and not understood stays so; the bundles it concerns get no answer.
            Message::Reject { .. } => true,
            _ => false,
        };
        if !expected && let Some(lane) = self.lanes.get_mut(id) {
            lane.say(&Message::Reject { reason: reject::UNEXPECTED, kind });
        }
    }

    /// SESS_INIT (sections 4.6 and 4.7).
    fn started(&mut self, init: Init, said: &mut Vec<Said>) {
        if self.setup.role == Role::Passive {
            self.say_init();
        }
        self.presumed = false;
        if init.problem.is_some() || init.segment_mru == 0 || init.transfer_mru == 0 {
            self.say_term(term::CONTACT);
            let what = match init.problem {
                Some(Problem::Critical) => "the peer asks for an extension that is not known",
                Some(Problem::Malformed) => "the peer's extensions are malformed",
                None => "the peer takes no bundles",
            };
            return self.fail(Some(what));
        }
        if let Some(expected) = &self.setup.terms.peer
            && !is_node(&init.node, expected)
        {
            // A peer that is not who it should be gets nothing (section 4.7).
            let shown: String = init.node.chars().take(SHOWN).collect();
            let why = format!("the peer says that it is {shown:?}, expected {expected}");
            self.say_term(term::CONTACT);
            return self.fail(Some(&why));
        }
        if let Some(why) = self.unproven.take() {
            // Nor does one that only says so (section 4.4.4).
            self.say_term(term::CONTACT);
            return self.fail(Some(&why));
        }
        if let Some(memory) = &self.memory {
            memory.set(&init);
        }
        self.establish(init, said);
    }

    pub(super) fn establish(&mut self, init: Init, said: &mut Vec<Said>) {
        self.stage = Stage::Established;
        said.push(Said::Started {
            peer: Some(init.node.clone()),
            most_bytes: Some(init.transfer_mru),
        });
        self.peer = Some(init);
    }

    pub(super) fn say_term(&mut self, reason: u8) {
        if !std::mem::replace(&mut self.term_sent, true) {
            self.signal().say(&Message::Term { reply: false, reason });
        }
    }

    /// SESS_TERM (section 6.1).
    fn on_term(&mut self, reply: bool, reason: u8, said: &mut Vec<Said>) {
        self.term_heard = true;
        if !self.term_sent {
            self.term_sent = true;
            self.signal().say(&Message::Term { reply: true, reason });
        }
        if !reply && reason != term::UNKNOWN {
            let why =
                || format!("the peer ends the session: reason {reason}, {}", term::name(reason));
            self.error.get_or_insert_with(why);
        }
        if self.stage != Stage::Established {
            return self.fail(Some("the peer refuses the session"));
        }
        // Nothing new begins.
        let queued = self.lanes.iter_mut().flat_map(Lane::take_queue);
        let waiting = self.waiting.drain(..).map(|transfer| transfer.id);
        let ids: Vec<u64> = queued.chain(waiting).collect();
        said.extend(ids.into_iter().map(|id| Said::Refused { id, why: Refusal::Terminating }));
    }
}
