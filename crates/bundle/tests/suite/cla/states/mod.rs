//! TCPCLv4 against the state tables of RFC 9174 (section 3.3, figures 4 to 14), byte by byte.

mod flow_control;
mod session_end;
mod session_start;
mod tls;
mod transfers;

use bundle::cla::{ConnectionParameters, Tcpcl, TcpclSpec};
use bundle::{DeliveryMode, Role, Session, SessionCommand, SessionEvent, Transfer};
use bytes::Bytes;
use transport::{AppEvent, ReadStatus, Streams};
use units::Time;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|one| one.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

const CONTACT: &str = "64746e21 04 00";
/// Keepalive 0, MRUs of 64 KiB and 1 GiB, ipn:1.0 and ipn:9.0.
const LOCAL_INIT: &str = "07 0000 0000000000010000 0000000040000000 0007 69706e3a312e30 00000000";
const PEER_INIT: &str = "07 0000 0000000000000004 0000000040000000 0007 69706e3a392e30 00000000";

/// One stream in memory.
#[derive(Default)]
struct Pipe {
    incoming: Vec<u8>,
    read: u64,
    end: bool,
    outgoing: Vec<u8>,
    closed: bool,
    /// The stream has TLS keys; TLS was requested after this number of written bytes.
    keys: bool,
    secured_after: Option<usize>,
}

impl Streams for Pipe {
    fn open(&mut self) -> Option<u64> {
        Some(0)
    }
    fn write(&mut self, _: u64, data: Bytes) -> usize {
        assert!(!self.closed, "written after the end");
        self.outgoing.extend_from_slice(&data);
        data.len()
    }
    fn read(&mut self, _: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadStatus {
        take(self.read, &self.incoming);
        self.read += self.incoming.len() as u64;
        self.incoming.clear();
        if self.end { ReadStatus::Finished } else { ReadStatus::Open }
    }
    fn finish(&mut self, _: u64) {}
    fn reset(&mut self, _: u64) {}
    fn stop(&mut self, _: u64) {}
    fn start_tls(&mut self) -> bool {
        assert!(self.secured_after.is_none(), "once");
        self.secured_after = Some(self.outgoing.len());
        self.keys
    }
    fn write_budget(&self) -> usize {
        1 << 20
    }
    fn close(&mut self) {
        self.closed = true;
    }
}

struct TestSession {
    session: Tcpcl,
    pipe: Pipe,
    events: Vec<SessionEvent>,
    now: Time,
}

impl TestSession {
    fn new(role: Role, spec: TcpclSpec) -> TestSession {
        TestSession::with(role, spec, ConnectionParameters::default())
    }

    fn with(role: Role, spec: TcpclSpec, terms: ConnectionParameters) -> TestSession {
        let mut talk = TestSession {
            session: Tcpcl::new(&spec, role, "ipn:1.0", terms),
            pipe: Pipe { keys: true, ..Pipe::default() },
            events: Vec::new(),
            now: Time::ZERO,
        };
        if role == Role::Passive {
            talk.on(AppEvent::StreamOpened(0));
        }
        talk.on(AppEvent::Ready);
        talk
    }

    fn on(&mut self, event: AppEvent) {
        self.session.on_event(self.now, event, &mut self.pipe, &mut self.events);
        while self.session.has_data() && !self.pipe.closed {
            self.session.on_event(self.now, AppEvent::Writable, &mut self.pipe, &mut self.events);
        }
    }

    fn send_command(&mut self, command: SessionCommand) {
        self.session.on_command(self.now, command, &mut self.pipe, &mut self.events);
        while self.session.has_data() && !self.pipe.closed {
            self.session.on_event(self.now, AppEvent::Writable, &mut self.pipe, &mut self.events);
        }
    }

    fn send(&mut self, id: u64, text: &'static [u8]) {
        let data = vec![Bytes::from_static(text)];
        self.send_command(SessionCommand::Send(Transfer {
            id,
            data,
            mode: DeliveryMode::Reliable,
            priority: 1,
        }));
    }

    /// Receives bytes of the peer.
    fn receive_hex(&mut self, text: &str) {
        self.pipe.incoming.extend(hex(text));
        self.on(AppEvent::Readable(0));
    }

    /// Checks the bytes sent since the last check.
    #[track_caller]
    fn expect_sent(&mut self, text: &str) {
        let text = hex(text);
        assert_eq!(std::mem::take(&mut self.pipe.outgoing), text);
    }

    /// Receives bytes of the peer, and checks the bytes sent since the last check.
    #[track_caller]
    fn expect_reply(&mut self, text: &str, answer: &str) {
        self.receive_hex(text);
        self.expect_sent(answer);
    }

    #[track_caller]
    fn is_over(&self, wrong: bool) {
        assert!(self.pipe.closed);
        match self.events.last() {
            Some(SessionEvent::Closed { error }) => assert_eq!(error.is_some(), wrong, "{error:?}"),
            other => panic!("{other:?}"),
        }
    }

    fn established(role: Role) -> TestSession {
        let mut talk = TestSession::new(role, TcpclSpec::default());
        talk.receive_hex(CONTACT);
        talk.receive_hex(PEER_INIT);
        talk.pipe.outgoing.clear();
        assert!(matches!(talk.events[..], [SessionEvent::Established { .. }]), "{:?}", talk.events);
        talk.events.clear();
        talk
    }
}
