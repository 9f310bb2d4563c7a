//! The session that TCPCLv4 and QUICCL share: RFC 9174's states, over one stream or several.
//!
//! `lane` is one stream: transfers and their answers; `lanes` all of them; `hearing` what the peer says; `placing` what goes out. Here is what concerns the whole session: who the peer is, keepalives,
//! the end. Section numbers are RFC 9174's, which draft-caini-dtn-quiccl-01 says it follows.

mod hearing;
mod lane;
mod lanes;
mod placing;

use std::collections::{BTreeMap, VecDeque};

use transport::{AppEvent, Streams};
use units::{Span, Time};

use self::lane::{Lane, Opener};
use self::lanes::Lanes;
use super::Memory;
use super::assembly::Room;
use super::messages::{Dialect, Init, Message, contact, term};
use super::{Terms, TlsPolicy};
use crate::{Refusal, Role, Said, Told, Transfer};

/// How bundles are laid on streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// All on the stream that signals too: TCP has no other.
    Signal,
    /// All on one.
    One,
    /// One each.
    Each,
    /// By their priority on one of four.
    Priorities,
}

/// The stream of QUICCL's signals, and its data streams: expedited, normal, bulk, no priority.
pub(super) const SIGNAL: u64 = 0;
const DATA: [u64; 4] = [4, 8, 12, 16];

/// What a session is made of.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub dialect: Dialect,
    pub layout: Layout,
    pub role: Role,
    pub init: Init,
    /// Longest segment that is sent.
    pub segment_bytes: u64,
    /// Bytes of bundles that may be on the way in at once.
    pub incoming_bytes: u64,
    /// How long the peer may take for its next word while none but it can say one.
    pub patience: Span,
    /// What the driver says of the connection.
    /// Of TCPCLv4.
    pub tls: TlsPolicy,
    pub terms: Terms,
}

/// A turn of one of several streams: small against a window, so that they share it.
const TURN: usize = 16 << 10;

/// Where the session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The transport is not there yet.
    Closed,
    /// TCPCLv4's contact header is to come (figures 5 and 6).
    Contact,
    /// Both speak TLS, whose handshake is to begin or under way (section 4.4).
    Secure,
    /// SESS_INIT is to come (figures 8 and 9).
    Init,
    /// Bundles may go.
    Established,
    /// All is said.
    Over,
}

pub(super) struct Exchange {
    setup: Setup,
    stage: Stage,
    peer: Option<Init>,
    lanes: Lanes,
    /// TCPCLv4's contact header, as far as it has come.
    header: Vec<u8>,
    /// The transport was asked for TLS.
    secured: bool,
    /// Why its keys are not those of the peer that is expected.
    unproven: Option<String>,
    /// What has no stream yet.
    waiting: VecDeque<Transfer>,
    next_transfer: u64,
    next_received: u64,
    /// The streams of bundles that wait for the node's word.
    owners: BTreeMap<u64, u64>,
    room: Room,
    /// The node wants it to end.
    ending: bool,
    term_sent: bool,
    term_heard: bool,
    /// Of several streams, who was first last time.
    turn: u64,
    /// Whose turn it is next.
    order: Vec<u64>,
    last_sent: Time,
    last_heard: Time,
    /// It cannot go on.
    failed: bool,
    /// Nobody is there to hear anything.
    alone: bool,
    error: Option<String>,
    /// What the peer said in the session before, of those that resume.
    memory: Option<Memory>,
    /// The session goes by it: the peer has not said so again.
    presumed: bool,
    /// Answers on the stream of signals that are no business of its own: to bundles in datagrams.
    strays: Vec<Message>,
}

impl Exchange {
    pub fn new(setup: Setup) -> Exchange {
        Exchange {
            stage: Stage::Closed,
            peer: None,
            lanes: Lanes::default(),
            header: Vec::new(),
            secured: false,
            unproven: None,
            waiting: VecDeque::new(),
            next_transfer: 0,
            next_received: 0,
            owners: BTreeMap::new(),
            room: Room::new(setup.incoming_bytes, setup.terms.room.clone()),
            ending: false,
            term_sent: false,
            term_heard: false,
            turn: 0,
            order: Vec::new(),
            last_sent: Time::ZERO,
            last_heard: Time::ZERO,
            failed: false,
            alone: false,
            error: None,
            memory: None,
            presumed: false,
            strays: Vec::new(),
            setup,
        }
    }

    /// From now on it goes by what the peer said before where it begins with early data, and keeps what it says.
    pub fn remember(&mut self, memory: &Memory) {
        self.memory = Some(memory.clone());
    }

    /// What the peer has said of itself, once bundles may go.
    pub fn peer(&self) -> Option<&Init> {
        self.peer.as_ref().filter(|_| self.stage == Stage::Established)
    }

    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Whether bundles may not begin any more.
    pub fn is_ending(&self) -> bool {
        self.term_sent || self.term_heard
    }

    /// A number for a transfer from here (section 5.2.1).
    pub fn number(&mut self) -> u64 {
        let number = self.next_transfer;
        self.next_transfer += 1;
        number
    }

    /// A number for a bundle that has come.
    pub fn received(&mut self) -> u64 {
        let number = self.next_received;
        self.next_received += 1;
        number
    }

    pub fn has_data(&self) -> bool {
        self.stage != Stage::Over && self.lanes.has_data()
    }

    /// Answers that are no business of its own.
    pub fn take_strays(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.strays)
    }

    /// Says something on the stream of signals, which leaves with the next event.
    pub fn say(&mut self, message: &Message) {
        if self.stage == Stage::Established {
            self.signal().say(message);
        }
    }

    /// Whether a bundle that was given here has no answer.
    fn gives(&self) -> bool {
        !self.waiting.is_empty() || self.lanes.iter().any(Lane::gives)
    }

    // Time.

    /// The keepalive that both agree on (section 4.7); none: there is none.
    fn keepalive(&self) -> Option<Span> {
        let peer = self.peer.as_ref()?.keepalive_s;
        let least = self.setup.init.keepalive_s.min(peer);
        (least > 0).then(|| Span::from_secs(least.into()))
    }

    /// When the peer's silence is too long.
    fn patience(&self) -> Time {
        match self.stage {
            Stage::Contact | Stage::Secure | Stage::Init => self.last_heard + self.setup.patience,
            Stage::Established if self.presumed => self.last_heard + self.setup.patience,
            // The answer to SESS_TERM.
            Stage::Established if self.term_sent && !self.is_busy() => {
                self.last_heard.max(self.last_sent) + self.setup.patience
            }
            // A peer that is not read does not count as silent.
            Stage::Established if self.lanes.get(SIGNAL).is_some_and(Lane::is_full) => Time::MAX,
            // Section 5.1.1: twice the keepalive.
            Stage::Established => {
                self.keepalive().map_or(Time::MAX, |every| self.last_heard + every * 2)
            }
            Stage::Closed | Stage::Over => Time::MAX,
        }
    }

    fn keepalive_at(&self) -> Time {
        match self.stage {
            Stage::Established if !self.term_sent => {
                self.keepalive().map_or(Time::MAX, |every| self.last_sent + every)
            }
            _ => Time::MAX,
        }
    }

    pub fn wake_at(&self) -> Time {
        self.patience().min(self.keepalive_at())
    }

    fn is_busy(&self) -> bool {
        !self.waiting.is_empty() || self.lanes.iter().any(Lane::is_busy)
    }

    // Events.

    pub fn on(
        &mut self,
        now: Time,
        event: AppEvent,
        streams: &mut dyn Streams,
        said: &mut Vec<Said>,
    ) {
        if self.stage == Stage::Over {
            return;
        }
        let established = self.stage == Stage::Established;
        match event {
            AppEvent::Ready => {
                match self.stage {
                    Stage::Closed => self.begin(now, streams, said),
                    Stage::Secure if self.secured => {
                        // The handshake is done: what follows is as without TLS (section 4.6).
                        self.stage = Stage::Init;
                        self.unproven = streams.proven().err();
                        self.last_heard = now;
                        if self.setup.role == Role::Active {
                            self.say_init();
                        }
                    }
                    _ => {}
                }
                self.place(streams, said);
            }
            AppEvent::Opened(id) => self.opened(now, id, streams, said),
            AppEvent::Readable(id) => self.read(now, id, streams, said),
            AppEvent::WantData => self.write(now, streams, said),
            AppEvent::Stopped(id) => self.stopped(id, streams, said),
            AppEvent::Timer => self.timer(now),
            AppEvent::Closed => {
                let agreed = self.term_sent && self.term_heard;
                self.alone = true;
                self.fail((!agreed).then_some("the connection is over"));
            }
            AppEvent::Finished(_) | AppEvent::Datagrams => {}
        }
        if !established && self.stage == Stage::Established {
            // What came before SESS_INIT on other streams.
            let others: Vec<u64> = self.lanes.ids().filter(|id| *id != SIGNAL).collect();
            others.into_iter().for_each(|id| self.read(now, id, streams, said));
        }
        self.settle(now, streams, said);
    }

    pub fn hear(&mut self, now: Time, told: Told, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        if self.stage == Stage::Over {
            return;
        }
        match told {
            Told::Send(transfer) => {
                if self.is_ending() || self.ending {
                    said.push(Said::Refused { id: transfer.id, why: Refusal::Terminating });
                } else {
                    self.waiting.push_back(transfer);
                    self.place(streams, said);
                }
            }
            Told::Cancel(id) => self.cancel(id, streams, said),
            Told::Stored(id) => self.verdict(now, id, None, streams, said),
            Told::Refuse(id, why) => self.verdict(now, id, Some(why), streams, said),
            Told::Cue => {
                streams.cue();
            }
            Told::Way(_) => {}
            Told::End => self.ending = true,
            Told::Abort => {
                self.stage = Stage::Over;
                streams.close_now();
                said.push(Said::Ended { error: None });
                return;
            }
        }
        self.settle(now, streams, said);
    }

    fn verdict(
        &mut self,
        now: Time,
        received: u64,
        refused: Option<Refusal>,
        streams: &mut dyn Streams,
        said: &mut Vec<Said>,
    ) {
        let Some(stream) = self.owners.remove(&received) else { return };
        let Some(lane) = self.lanes.get_mut(stream) else { return };
        let was_full = lane.is_full();
        lane.on_verdict(received, refused);
        if was_full && !lane.is_full() {
            // The peer was not listened to meanwhile.
            self.last_heard = now;
            self.read(now, stream, streams, said);
        }
    }

    fn cancel(&mut self, id: u64, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        // Those that are cancelled together stand in this order.
        let place = self.waiting.iter().position(|transfer| transfer.id == id);
        let mut gone = place.and_then(|place| self.waiting.remove(place)).is_some();
        gone |= self.lanes.iter_mut().any(|lane| lane.cancel(id));
        if !gone && self.setup.layout == Layout::Each {
            // A stream of its own can be broken off.
            let found = self.lanes.iter().find(|lane| lane.given().any(|one| one == id));
            if let Some(stream) = found.map(|lane| lane.stream) {
                streams.reset(stream);
                streams.stop(stream);
                self.lanes.remove(stream);
                gone = true;
            }
        }
        if gone {
            said.push(Said::Refused { id, why: Refusal::Unknown });
        }
    }

    // Streams.

    fn lane(&mut self, stream: u64, single: Option<Opener>) -> &mut Lane {
        let dialect = self.setup.dialect;
        self.lanes.get_or(stream, || Lane::new(dialect, stream, single))
    }

    fn signal(&mut self) -> &mut Lane {
        self.lane(SIGNAL, None)
    }

    fn begin(&mut self, now: Time, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        (self.last_heard, self.last_sent) = (now, now);
        let tcp = self.setup.dialect == Dialect::Tcpcl;
        self.stage = if tcp { Stage::Contact } else { Stage::Init };
        if self.setup.role == Role::Passive {
            return;
        }
        if streams.open() != Some(SIGNAL) {
            return self.fail(Some("the transport has no stream to begin with"));
        }
        if tcp {
            self.say_contact();
            return;
        }
        self.say_init();
        self.presume(streams, said);
        streams.set_priority(SIGNAL, priority(SIGNAL));
        if self.setup.layout == Layout::Each {
            return;
        }
        for data in DATA {
            if streams.open() != Some(data) {
                return self.fail(Some("the peer allows fewer than five streams"));
            }
            streams.set_priority(data, priority(data));
            self.lane(data, None);
        }
        // The draft leaves open how the peer comes to know of streams before there are bundles. One octet makes all four known
        // (RFC 9000 section 3.2).
        self.lane(DATA[3], None).say(&Message::Keepalive);
    }

    /// Early data goes by what the peer said before, as HTTP/3 has it for its settings (RFC 9114 section 7.2.4.2).
    fn presume(&mut self, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        let known = self.memory.as_ref().and_then(Memory::get);
        if let Some(init) = known.filter(|_| streams.is_early()) {
            self.presumed = true;
            self.establish(init, said);
        }
    }

    fn say_contact(&mut self) {
        let can = self.setup.tls != TlsPolicy::No;
        let flags = if can { contact::CAN_TLS } else { 0 };
        let header = contact::encode(contact::Contact { version: contact::VERSION, flags });
        self.signal().say_raw(&header);
    }

    fn say_init(&mut self) {
        let init = Message::Init(self.setup.init.clone());
        self.signal().say(&init);
    }

    fn opened(&mut self, now: Time, id: u64, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        let uni = id & 2 != 0;
        let by_client = id & 1 == 0;
        let quic = self.setup.dialect == Dialect::Quiccl;
        let peers = by_client == (self.setup.role == Role::Passive);
        let shared = id == SIGNAL || DATA.contains(&id);
        if self.stage == Stage::Closed {
            // A stream may be there before the end of the handshake.
            self.begin(now, streams, said);
        }
        match self.setup.layout {
            _ if !quic && id == SIGNAL => {
                self.signal();
            }
            _ if uni || !peers => {}
            Layout::Each if id != SIGNAL => {
                self.lane(id, Some(Opener::There));
            }
            _ if shared => {
                streams.set_priority(id, priority(id));
                self.lane(id, None);
                self.place(streams, said);
            }
            _ => {}
        }
        if self.lanes.contains(id) {
            self.read(now, id, streams, said);
        } else {
            // Nobody speaks there.
            streams.stop(id);
            if !uni {
                streams.reset(id);
            }
        }
    }

    fn timer(&mut self, now: Time) {
        if self.patience() <= now {
            if self.stage == Stage::Established && !self.term_sent {
                self.say_term(term::IDLE);
            }
            self.alone = true;
            return self.fail(Some("the peer is silent"));
        }
        if self.keepalive_at() <= now {
            self.last_sent = now;
            self.signal().say(&Message::Keepalive);
        }
    }

    /// The session cannot go on; what is to be said is said before it is closed.
    fn fail(&mut self, error: Option<&str>) {
        if let Some(error) = error {
            self.error.get_or_insert_with(|| error.to_owned());
        }
        (self.term_sent, self.term_heard) = (true, true);
        self.failed = true;
    }

    /// What waits is said.
    pub fn flush(&mut self, now: Time, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        if self.stage != Stage::Over {
            self.settle(now, streams, said);
        }
    }

    /// After each event: says what there is to say, ends what is over.
    fn settle(&mut self, now: Time, streams: &mut dyn Streams, said: &mut Vec<Said>) {
        if self.stage == Stage::Established {
            self.place(streams, said);
            if self.ending && !self.gives() {
                self.say_term(term::UNKNOWN);
            }
        } else if self.ending && !self.gives() {
            // Nobody to say it to yet.
            self.fail(None);
        }
        let (mut clogged, mut wrote) = (false, false);
        self.lanes.settle(|lane| {
            wrote |= lane.flush(streams, said) > 0;
            clogged |= lane.is_clogged();
            lane.end_if_done(streams)
        });
        if wrote {
            self.last_sent = now;
        }
        if clogged {
            self.fail(Some("the peer does not read what it is answered"));
        }
        // After this side's header, which is plain.
        let secure = self.stage == Stage::Secure && !self.failed && !self.has_data();
        if secure && !std::mem::replace(&mut self.secured, true) && !streams.secure() {
            self.fail(Some("there are no keys for TLS here"));
        }
        let done = self.term_sent && self.term_heard && !self.is_busy() && !self.has_data();
        if self.failed || (self.stage == Stage::Established && done) {
            self.stage = Stage::Over;
            for lane in self.lanes.iter_mut() {
                if lane.has_data() && self.setup.dialect == Dialect::Quiccl {
                    streams.reset(lane.stream);
                } else {
                    lane.finish(streams);
                }
            }
            if self.alone {
                streams.close_now();
            } else {
                streams.close();
            }
            said.push(Said::Ended { error: self.error.take() });
        }
    }
}

/// Of a data stream: what waits on a higher one leaves first.
fn priority(stream: u64) -> i32 {
    match stream {
        SIGNAL => 4,
        4 => 3,
        8 => 2,
        12 => 1,
        _ => 0,
    }
}
