//! TCPCLv4 against the state tables of RFC 9174 (section 3.3, figures 4 to 14), byte by byte.

use bundle::cla::{ConnectionParameters, Tcpcl, TcpclSpec, TlsPolicy};
use bundle::{DeliveryMode, RefusalReason, Role, Session, SessionCommand, SessionEvent, Transfer};
use bytes::Bytes;
use transport::{AppEvent, ReadStatus, Streams};
use units::{Span, Time};

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

#[test]
fn contact_and_session_begin_as_active_entity() {
    // Figures 5, 7 and 8.
    let mut talk = TestSession::new(Role::Active, TcpclSpec::default());
    talk.expect_sent(CONTACT);
    talk.receive_hex("64746e21 04");
    talk.expect_sent("");
    talk.receive_hex("01");
    talk.expect_sent(LOCAL_INIT);
    talk.send(5, b"abc");
    talk.expect_sent("");
    talk.receive_hex(PEER_INIT);
    let peer = Some("ipn:9.0".to_owned());
    match &talk.events[0] {
        SessionEvent::Established { peer: peer_id, max_bundle_bytes: max_bytes } => {
            assert_eq!((peer_id, *max_bytes), (&peer, Some(1 << 30)));
        }
        other => panic!("{other:?}"),
    }
    talk.expect_sent("01 03 0000000000000000 00000000 0000000000000003 616263");
}

#[test]
fn contact_and_session_begin_as_passive_entity() {
    // Figures 6, 7 and 9: the passive entity sends only after the peer.
    let mut talk = TestSession::new(Role::Passive, TcpclSpec::default());
    talk.expect_sent("");
    talk.receive_hex(CONTACT);
    talk.expect_sent(CONTACT);
    talk.receive_hex(PEER_INIT);
    talk.expect_sent(LOCAL_INIT);
    assert!(matches!(talk.events[..], [SessionEvent::Established { .. }]));
}

#[test]
fn a_silent_peer_ends_the_connection_before_the_session() {
    // The timeouts of figures 5, 6, 8 and 9.
    for (role, received) in
        [(Role::Active, ""), (Role::Passive, ""), (Role::Active, CONTACT), (Role::Passive, CONTACT)]
    {
        let mut talk = TestSession::new(role, TcpclSpec::default());
        talk.receive_hex(received);
        assert_eq!(talk.session.poll_at(), Time::ZERO + Span::from_secs(60));
        talk.now = talk.session.poll_at();
        talk.on(AppEvent::Timer);
        talk.is_over(true);
        assert_eq!(talk.session.poll_at(), Time::MAX);
    }
}

#[test]
fn an_invalid_contact_header_gets_no_reply() {
    // Section 6.1: closed without SESS_TERM.
    for (role, expected) in [(Role::Active, CONTACT), (Role::Passive, "")] {
        let mut talk = TestSession::new(role, TcpclSpec::default());
        talk.receive_hex("474554202f20");
        talk.expect_sent(expected);
        talk.is_over(true);
    }
}

#[test]
fn another_version_is_refused_by_the_passive_entity() {
    // Section 4.3: "SHALL send its Contact Header and immediately terminate", reason 2.
    let mut talk = TestSession::new(Role::Passive, TcpclSpec::default());
    talk.receive_hex("64746e21 03 00");
    talk.expect_sent(&format!("{CONTACT} 05 00 02"));
    talk.is_over(true);
    let mut talk = TestSession::new(Role::Active, TcpclSpec::default());
    talk.expect_sent(CONTACT);
    talk.receive_hex("64746e21 03 00");
    talk.expect_sent("");
    talk.is_over(true);
}

#[test]
fn a_session_with_unacceptable_parameters_is_refused() {
    // Section 4.8: an unknown critical extension; reason 4. Figure 10.
    let mut talk = TestSession::new(Role::Active, TcpclSpec::default());
    talk.receive_hex(CONTACT);
    talk.pipe.outgoing.clear();
    talk.receive_hex("07 0000 0000000000010000 0000000040000000 0000 00000005 01 1234 0000");
    talk.expect_sent("05 00 04");
    talk.is_over(true);
}

#[test]
fn a_transfer_is_segmented_and_each_segment_acknowledged() {
    // Figure 11; the segment MRU of the peer is 4 octets.
    let mut talk = TestSession::established(Role::Active);
    talk.send(8, b"0123456789");
    talk.expect_sent(
        "01 02 0000000000000000 0000000d 00 0001 0008 000000000000000a 0000000000000004 30313233
         01 00 0000000000000000 0000000000000004 34353637
         01 01 0000000000000000 0000000000000002 3839",
    );
    assert!(matches!(talk.events[..], [SessionEvent::Transmitted(8)]));
    talk.receive_hex(
        "02 02 0000000000000000 0000000000000004  02 00 0000000000000000 0000000000000008",
    );
    assert_eq!(talk.events.len(), 1);
    talk.receive_hex("02 01 0000000000000000 000000000000000a");
    assert!(matches!(talk.events[1..], [SessionEvent::Acknowledged { id: 8, durable: true }]));
    talk.expect_sent("");
}

#[test]
fn an_incoming_transfer_is_acknowledged_when_it_is_stored() {
    // Figure 12, with an unknown flag, which the acknowledgement repeats (section 5.2.3).
    let mut talk = TestSession::established(Role::Passive);
    talk.receive_hex("01 82 0000000000000009 00000000 0000000000000003 616263");
    talk.expect_sent("02 82 0000000000000009 0000000000000003");
    talk.receive_hex("01 01 0000000000000009 0000000000000001 64");
    talk.expect_sent("");
    match &talk.events[..] {
        [SessionEvent::Received { id: 0, data, mode: DeliveryMode::Reliable }] => {
            assert_eq!(data.concat(), b"abcd");
        }
        other => panic!("{other:?}"),
    }
    talk.send_command(SessionCommand::ConfirmStored(0));
    talk.expect_sent("02 01 0000000000000009 0000000000000004");
}

#[test]
fn acknowledgements_of_transfers_remain_in_sequence() {
    // Section 5.2.4: "for each transfer preceding the one to be refused, have either acknowledged ... or refused".
    let mut talk = TestSession::established(Role::Passive);
    talk.receive_hex("01 03 0000000000000001 00000000 0000000000000001 61");
    talk.receive_hex("01 03 0000000000000002 00000000 0000000000000001 62");
    talk.send_command(SessionCommand::Refuse(1, RefusalReason::NoResources));
    talk.expect_sent("");
    talk.send_command(SessionCommand::ConfirmStored(0));
    talk.expect_sent("02 03 0000000000000001 0000000000000001  03 02 0000000000000002");
}

#[test]
fn a_refused_transfer_stops_and_late_segments_are_refused_again() {
    let mut talk = TestSession::established(Role::Passive);
    // The announced length exceeds the MRU.
    talk.receive_hex(
        "01 02 0000000000000001 0000000d 00 0001 0008 0000000040000001 0000000000000001 61",
    );
    talk.expect_sent("03 04 0000000000000001");
    talk.receive_hex("01 00 0000000000000001 0000000000000001 62");
    talk.expect_sent("03 00 0000000000000001");
    // The data does not match the announced length (section 5.2.5.1).
    talk.receive_hex(
        "01 02 0000000000000002 0000000d 00 0001 0008 0000000000000005 0000000000000001 61",
    );
    talk.expect_sent("02 02 0000000000000002 0000000000000001");
    talk.receive_hex("01 01 0000000000000002 0000000000000001 62");
    talk.expect_sent("03 04 0000000000000002");
    // An unknown critical extension (section 5.2.5).
    talk.receive_hex("01 03 0000000000000003 00000005 01 1234 0000 0000000000000001 61");
    talk.expect_sent("03 05 0000000000000003");
    assert!(talk.events.is_empty(), "{:?}", talk.events);
    // The session continues.
    talk.receive_hex("01 03 0000000000000004 00000000 0000000000000001 61");
    assert!(matches!(talk.events[..], [SessionEvent::Received { .. }]));
}

#[test]
fn a_refusal_reaches_the_node() {
    for (code, why) in [
        (0, RefusalReason::Unknown),
        (2, RefusalReason::NoResources),
        (4, RefusalReason::NotAcceptable),
    ] {
        let mut talk = TestSession::established(Role::Active);
        talk.send(3, b"abc");
        talk.receive_hex(&format!("03 {code:02x} 0000000000000000"));
        match talk.events.last() {
            Some(SessionEvent::Refused { id: 3, reason }) => assert_eq!(*reason, why),
            other => panic!("{other:?}"),
        }
    }
    let mut talk = TestSession::established(Role::Active);
    talk.send(3, b"abc");
    talk.receive_hex("03 01 0000000000000000");
    assert!(matches!(
        talk.events.last(),
        Some(SessionEvent::Acknowledged { id: 3, durable: true })
    ));
}

#[test]
fn unexpected_messages_are_rejected() {
    // Section 5.1.2, table 4.
    let mut talk = TestSession::established(Role::Active);
    talk.receive_hex("02 01 0000000000000077 0000000000000001");
    talk.expect_sent("06 03 02");
    talk.receive_hex(PEER_INIT);
    talk.expect_sent("06 03 07");
    talk.receive_hex("01 00 0000000000000005 0000000000000002 6162");
    talk.expect_sent("06 03 01");
    // Neither MSG_REJECT nor a keepalive has a response.
    talk.receive_hex("06 03 01 04");
    talk.expect_sent("");
    // An unknown type ends the session.
    talk.receive_hex("f0");
    talk.expect_sent("06 01 f0");
    talk.is_over(true);
    // A transfer before SESS_INIT: its data is skipped.
    let mut talk = TestSession::new(Role::Passive, TcpclSpec::default());
    talk.receive_hex(CONTACT);
    talk.pipe.outgoing.clear();
    talk.receive_hex("01 03 0000000000000001 00000000 0000000000000001 07");
    talk.expect_sent("03 06 0000000000000001 06 03 01");
    talk.receive_hex(PEER_INIT);
    talk.expect_sent(LOCAL_INIT);
}

#[test]
fn a_session_ends_as_its_initiator() {
    // Figure 13: earlier transfers are acknowledged first.
    let mut talk = TestSession::established(Role::Active);
    talk.send(1, b"abc");
    talk.pipe.outgoing.clear();
    talk.send_command(SessionCommand::Terminate);
    talk.expect_sent("");
    talk.send(2, b"abc");
    assert!(matches!(
        talk.events.last(),
        Some(SessionEvent::Refused { id: 2, reason: RefusalReason::Terminating })
    ));
    talk.receive_hex("02 03 0000000000000000 0000000000000003");
    talk.expect_sent("05 00 00");
    assert!(!talk.pipe.closed);
    // A new transfer is refused in the Ending state (section 6.1).
    talk.receive_hex("01 03 0000000000000001 00000000 0000000000000001 61");
    talk.expect_sent("03 06 0000000000000001");
    talk.receive_hex("05 01 00");
    talk.is_over(false);
}

#[test]
fn a_session_ends_as_its_responder() {
    // Figure 14: the reply repeats the reason with REPLY; started transfers are completed.
    let mut talk = TestSession::established(Role::Passive);
    talk.receive_hex("01 02 0000000000000001 00000000 0000000000000001 61");
    talk.pipe.outgoing.clear();
    talk.receive_hex("05 00 00");
    talk.expect_sent("05 01 00");
    assert!(!talk.pipe.closed);
    talk.receive_hex("01 01 0000000000000001 0000000000000001 62");
    assert!(!talk.pipe.closed);
    talk.send_command(SessionCommand::ConfirmStored(0));
    talk.expect_sent("02 01 0000000000000001 0000000000000002");
    talk.is_over(false);
}

#[test]
fn a_closed_connection_without_sess_term_is_an_error() {
    let mut talk = TestSession::established(Role::Passive);
    talk.pipe.end = true;
    talk.on(AppEvent::Readable(0));
    talk.is_over(true);
}

#[test]
fn the_keepalive_interval_is_the_minimum_of_both_sides() {
    // Sections 4.7 and 5.1.1.
    let mut talk =
        TestSession::new(Role::Active, TcpclSpec { keepalive_s: 30, ..TcpclSpec::default() });
    talk.receive_hex(CONTACT);
    talk.receive_hex("07 000a 0000000000000004 0000000040000000 0000 00000000");
    talk.pipe.outgoing.clear();
    assert_eq!(talk.session.poll_at(), Time::ZERO + Span::from_secs(10));
    talk.now = talk.session.poll_at();
    talk.on(AppEvent::Timer);
    talk.expect_sent("04");
    talk.now = Time::ZERO + Span::from_secs(20);
    talk.on(AppEvent::Timer);
    talk.expect_sent("05 00 01");
    talk.is_over(true);
}

fn tls(role: Role, tls: TlsPolicy) -> TestSession {
    TestSession::new(role, TcpclSpec { tls, ..TcpclSpec::default() })
}

const CAN_TLS: &str = "64746e21 04 01";

/// Section 4.3: TLS is used if both contact headers have the flag. SESS_INIT follows its handshake.
#[test]
fn tls_starts_after_both_contact_headers() {
    for policy in [TlsPolicy::Allow, TlsPolicy::Require] {
        let mut active = tls(Role::Active, policy);
        active.expect_reply(CAN_TLS, CAN_TLS);
        assert_eq!(active.pipe.secured_after, Some(6));
        assert!(active.events.is_empty() && !active.pipe.closed);
        active.on(AppEvent::Ready);
        active.expect_reply(PEER_INIT, LOCAL_INIT);
        assert!(
            matches!(&active.events[..], [SessionEvent::Established { .. }]),
            "{:?}",
            active.events
        );

        let mut passive = tls(Role::Passive, policy);
        passive.expect_reply(CAN_TLS, CAN_TLS);
        assert_eq!(passive.pipe.secured_after, Some(6), "its own header goes before, in the clear");
        passive.on(AppEvent::Ready);
        passive.expect_reply(PEER_INIT, LOCAL_INIT);
        assert!(
            matches!(&passive.events[..], [SessionEvent::Established { .. }]),
            "{:?}",
            passive.events
        );
    }
}

#[test]
fn without_tls_support_of_the_peer_the_policy_decides() {
    let mut allows = tls(Role::Active, TlsPolicy::Allow);
    allows.expect_reply(CONTACT, &format!("{CAN_TLS} {LOCAL_INIT}"));
    assert_eq!((allows.pipe.secured_after, allows.pipe.closed), (None, false));
    for role in [Role::Active, Role::Passive] {
        // SESS_TERM, Contact Failure
        let mut requires = tls(role, TlsPolicy::Require);
        requires.expect_reply(CONTACT, &format!("{CAN_TLS} 05 00 04"));
        assert!(requires.pipe.closed);
        let why = "the peer does not speak TLS, which is required here";
        assert!(
            matches!(&requires.events[..], [SessionEvent::Closed { error: Some(error) }] if error == why)
        );
    }
    // A side with policy `No` sends no flag, regardless of the peer.
    let mut no = tls(Role::Active, TlsPolicy::No);
    no.expect_reply(CAN_TLS, &format!("{CONTACT} {LOCAL_INIT}"));
    assert_eq!(no.pipe.secured_after, None);
}

/// Bytes after a contact header with the TLS flag are unauthenticated: anyone on the path can insert them.
#[test]
fn bytes_before_the_tls_handshake_are_refused() {
    for role in [Role::Active, Role::Passive] {
        let mut talk = tls(role, TlsPolicy::Allow);
        talk.expect_reply(&format!("{CAN_TLS} {PEER_INIT}"), CAN_TLS);
        assert!(talk.pipe.closed && talk.pipe.secured_after.is_none());
        let why = "the peer said more before TLS than its contact header";
        assert!(
            matches!(&talk.events[..], [SessionEvent::Closed { error: Some(error) }] if error == why)
        );
    }
}

#[test]
fn a_transport_without_keys_ends_the_session() {
    let mut talk = tls(Role::Active, TlsPolicy::Allow);
    talk.pipe.keys = false;
    talk.expect_reply(CAN_TLS, CAN_TLS);
    let why = "there are no keys for TLS here";
    assert!(
        matches!(&talk.events[..], [SessionEvent::Closed { error: Some(error) }] if error == why)
    );
}

/// An incomplete TLS handshake has the same timeout as every other message.
#[test]
fn an_incomplete_tls_handshake_times_out() {
    let mut talk = tls(Role::Passive, TlsPolicy::Require);
    talk.expect_reply(CAN_TLS, CAN_TLS);
    talk.now = talk.session.poll_at();
    assert_eq!(talk.now, Time::ZERO + Span::from_secs(60));
    talk.on(AppEvent::Timer);
    let why = "the peer is silent";
    assert!(
        matches!(&talk.events[..], [SessionEvent::Closed { error: Some(error) }] if error == why)
    );
}

/// A peer with an unexpected node ID gets SESS_TERM with Contact Failure, and no queued bundle.
#[test]
fn a_peer_with_an_unexpected_node_id_is_refused_with_the_reason() {
    for (expected, taken) in [("ipn:9.0", true), ("ipn:8.0", false), ("dtn://nine/", false)] {
        let terms = ConnectionParameters {
            expected_peer: Some(expected.to_owned()),
            ..ConnectionParameters::default()
        };
        let mut talk = TestSession::with(Role::Active, TcpclSpec::default(), terms);
        let transfer = Transfer {
            id: 5,
            data: vec![Bytes::from_static(b"a bundle")],
            mode: DeliveryMode::Reliable,
            priority: 1,
        };
        talk.send_command(SessionCommand::Send(transfer));
        talk.expect_reply(CONTACT, &format!("{CONTACT} {LOCAL_INIT}"));
        talk.pipe.incoming = hex(PEER_INIT);
        let before = talk.pipe.outgoing.len();
        talk.on(AppEvent::Readable(0));
        if taken {
            assert!(
                matches!(talk.events[0], SessionEvent::Established { .. }),
                "{:?}",
                talk.events
            );
            continue;
        }
        assert_eq!(talk.pipe.outgoing[before..], hex("05 00 04"));
        let why = format!("the peer says that it is \"ipn:9.0\", expected {expected}");
        assert!(
            matches!(&talk.events[..], [SessionEvent::Closed { error: Some(error) }] if *error == why)
        );
    }
}

/// Encodes a transfer of one byte: XFER_SEGMENT with START and END.
fn small_transfer(number: u64) -> String {
    format!("01 03 {number:016x} 00000000 0000000000000001 61")
}

#[test]
fn flow_control_blocks_a_peer_while_transfers_wait_for_the_store() {
    const MAX_EVENTS: u64 = 4096;
    const ALL: u64 = 3 * MAX_EVENTS;
    let spec = TcpclSpec { keepalive_s: 30, ..TcpclSpec::default() };
    let mut talk = TestSession::new(Role::Passive, spec);
    talk.receive_hex(CONTACT);
    talk.receive_hex(&PEER_INIT.replacen("0000", "001e", 1));
    talk.pipe.outgoing.clear();
    talk.events.clear();
    let transfers: String = (0..ALL).map(small_transfer).collect();
    talk.receive_hex(&transfers);
    assert_eq!(talk.events.len() as u64, MAX_EVENTS, "the rest is not parsed");
    // No further bytes are read.
    talk.receive_hex(&small_transfer(ALL));
    talk.receive_hex("01 03");
    assert_eq!(talk.events.len() as u64, MAX_EVENTS);
    assert_eq!(talk.pipe.incoming, hex(&(small_transfer(ALL) + "01 03")));
    // A peer behind flow control does not count as silent.
    talk.now = Time::ZERO + Span::from_secs(600);
    talk.on(AppEvent::Timer);
    assert!(!talk.pipe.closed);
    talk.pipe.outgoing.clear();
    // Each answer admits the next transfer, and acknowledgements remain in sequence.
    let mut number = 0;
    while let Some(SessionEvent::Received { id, .. }) = talk.events.get(number as usize) {
        assert_eq!(*id, number);
        talk.send_command(SessionCommand::ConfirmStored(number));
        talk.expect_sent(&format!("02 03 {number:016x} 0000000000000001"));
        number += 1;
        assert!(talk.events.len() as u64 <= number + MAX_EVENTS);
    }
    assert_eq!(number, ALL + 1);
    // The last message is truncated; it and the end of the stream are detected after the others.
    talk.pipe.end = true;
    talk.on(AppEvent::Readable(0));
    talk.is_over(true);
}

#[test]
fn the_end_of_a_stream_is_handled_after_waiting_transfers() {
    let mut talk = TestSession::established(Role::Passive);
    let transfers: String = (0..5_000).map(small_transfer).collect();
    talk.pipe.end = true;
    talk.receive_hex(&(transfers + "05 00 00"));
    assert!(
        talk.events.iter().all(|event| matches!(event, SessionEvent::Received { .. })),
        "no end yet"
    );
    (0..5_000).for_each(|number| talk.send_command(SessionCommand::ConfirmStored(number)));
    let received =
        talk.events.iter().filter(|event| matches!(event, SessionEvent::Received { .. })).count();
    assert_eq!(received, 5_000);
    talk.is_over(false);
}

#[test]
fn queued_refusals_after_a_waiting_transfer_are_bounded() {
    let mut talk = TestSession::established(Role::Passive);
    let mut words = small_transfer(0);
    // Each announced length exceeds the MRU: all are refused in sequence.
    let refused: String = (1..20_000)
        .map(|number| {
            format!(
                "01 02 {number:016x} 0000000d 00 0001 0008 0000000080000000 0000000000000001 61"
            )
        })
        .collect();
    words += &refused;
    talk.receive_hex(&words);
    assert_eq!((talk.events.len(), talk.pipe.outgoing.len()), (1, 0), "all wait for the first");
    talk.send_command(SessionCommand::ConfirmStored(0));
    // One XFER_ACK, and an XFER_REFUSE for each other transfer.
    assert_eq!(talk.pipe.outgoing.len(), 18 + 19_999 * 10);
}
