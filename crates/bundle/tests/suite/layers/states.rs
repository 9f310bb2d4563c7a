//! TCPCLv4 against the state tables of RFC 9174 (section 3.3, figures 4 to 14), word by word: what the peer says, and what
//! is said to it.

use bundle::layers::{Tcpcl, TcpclSpec, Terms, TlsPolicy};
use bundle::{Refusal, Role, Said, Service, Session, Told, Transfer};
use bytes::Bytes;
use transport::{AppEvent, ReadEnd, Streams};
use units::{Span, Time};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|one| one.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

const CONTACT: &str = "64746e21 04 00";
/// Keepalive 0, MRUs of 64 KiB and 1 GiB, ipn:1.0 and ipn:9.0.
const OWN_INIT: &str = "07 0000 0000000000010000 0000000040000000 0007 69706e3a312e30 00000000";
const PEER_INIT: &str = "07 0000 0000000000000004 0000000040000000 0007 69706e3a392e30 00000000";

/// One stream in memory.
#[derive(Default)]
struct Pipe {
    incoming: Vec<u8>,
    read: u64,
    end: bool,
    outgoing: Vec<u8>,
    closed: bool,
    /// It has keys for TLS, and was asked for it after so many bytes of its own.
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
    fn read(&mut self, _: u64, take: &mut dyn FnMut(u64, &[u8])) -> ReadEnd {
        take(self.read, &self.incoming);
        self.read += self.incoming.len() as u64;
        self.incoming.clear();
        if self.end { ReadEnd::Finished } else { ReadEnd::Open }
    }
    fn finish(&mut self, _: u64) {}
    fn reset(&mut self, _: u64) {}
    fn stop(&mut self, _: u64) {}
    fn secure(&mut self) -> bool {
        assert!(self.secured_after.is_none(), "once");
        self.secured_after = Some(self.outgoing.len());
        self.keys
    }
    fn appetite(&self) -> usize {
        1 << 20
    }
    fn close(&mut self) {
        self.closed = true;
    }
}

struct Talk {
    session: Tcpcl,
    pipe: Pipe,
    said: Vec<Said>,
    now: Time,
}

impl Talk {
    fn new(role: Role, spec: TcpclSpec) -> Talk {
        Talk::with(role, spec, Terms::default())
    }

    fn with(role: Role, spec: TcpclSpec, terms: Terms) -> Talk {
        let mut talk = Talk {
            session: Tcpcl::new(&spec, role, "ipn:1.0", terms),
            pipe: Pipe { keys: true, ..Pipe::default() },
            said: Vec::new(),
            now: Time::ZERO,
        };
        if role == Role::Passive {
            talk.on(AppEvent::Opened(0));
        }
        talk.on(AppEvent::Ready);
        talk
    }

    fn on(&mut self, event: AppEvent) {
        self.session.on(self.now, event, &mut self.pipe, &mut self.said);
        while self.session.has_data() && !self.pipe.closed {
            self.session.on(self.now, AppEvent::WantData, &mut self.pipe, &mut self.said);
        }
    }

    fn tell(&mut self, told: Told) {
        self.session.hear(self.now, told, &mut self.pipe, &mut self.said);
        while self.session.has_data() && !self.pipe.closed {
            self.session.on(self.now, AppEvent::WantData, &mut self.pipe, &mut self.said);
        }
    }

    fn send(&mut self, id: u64, text: &'static [u8]) {
        let data = vec![Bytes::from_static(text)];
        self.tell(Told::Send(Transfer { id, data, service: Service::Reliable, priority: 1 }));
    }

    /// The peer says this.
    fn hears(&mut self, text: &str) {
        self.pipe.incoming.extend(hex(text));
        self.on(AppEvent::Readable(0));
    }

    /// This was said to the peer since the last look.
    #[track_caller]
    fn says(&mut self, text: &str) {
        let text = hex(text);
        assert_eq!(std::mem::take(&mut self.pipe.outgoing), text);
    }

    /// The peer says this, and that is what was said to it since the last look.
    #[track_caller]
    fn trades(&mut self, text: &str, answer: &str) {
        self.hears(text);
        self.says(answer);
    }

    #[track_caller]
    fn is_over(&self, wrong: bool) {
        assert!(self.pipe.closed);
        match self.said.last() {
            Some(Said::Ended { error }) => assert_eq!(error.is_some(), wrong, "{error:?}"),
            other => panic!("{other:?}"),
        }
    }

    fn established(role: Role) -> Talk {
        let mut talk = Talk::new(role, TcpclSpec::default());
        talk.hears(CONTACT);
        talk.hears(PEER_INIT);
        talk.pipe.outgoing.clear();
        assert!(matches!(talk.said[..], [Said::Started { .. }]), "{:?}", talk.said);
        talk.said.clear();
        talk
    }
}

#[test]
fn contact_and_session_begin_as_active_entity() {
    // Figures 5, 7 and 8.
    let mut talk = Talk::new(Role::Active, TcpclSpec::default());
    talk.says(CONTACT);
    talk.hears("64746e21 04");
    talk.says("");
    talk.hears("01");
    talk.says(OWN_INIT);
    talk.send(5, b"abc");
    talk.says("");
    talk.hears(PEER_INIT);
    let peer = Some("ipn:9.0".to_owned());
    match &talk.said[0] {
        Said::Started { peer: said, most_bytes } => {
            assert_eq!((said, *most_bytes), (&peer, Some(1 << 30)));
        }
        other => panic!("{other:?}"),
    }
    talk.says("01 03 0000000000000000 00000000 0000000000000003 616263");
}

#[test]
fn contact_and_session_begin_as_passive_entity() {
    // Figures 6, 7 and 9: nothing before the peer's word.
    let mut talk = Talk::new(Role::Passive, TcpclSpec::default());
    talk.says("");
    talk.hears(CONTACT);
    talk.says(CONTACT);
    talk.hears(PEER_INIT);
    talk.says(OWN_INIT);
    assert!(matches!(talk.said[..], [Said::Started { .. }]));
}

#[test]
fn who_is_silent_before_the_session_is_left() {
    // The timeouts of figures 5, 6, 8 and 9.
    for (role, heard) in
        [(Role::Active, ""), (Role::Passive, ""), (Role::Active, CONTACT), (Role::Passive, CONTACT)]
    {
        let mut talk = Talk::new(role, TcpclSpec::default());
        talk.hears(heard);
        assert_eq!(talk.session.wake_at(), Time::ZERO + Span::from_secs(60));
        talk.now = talk.session.wake_at();
        talk.on(AppEvent::Timer);
        talk.is_over(true);
        assert_eq!(talk.session.wake_at(), Time::MAX);
    }
}

#[test]
fn what_is_no_contact_header_is_not_answered() {
    // Section 6.1: closed without SESS_TERM.
    for (role, own) in [(Role::Active, CONTACT), (Role::Passive, "")] {
        let mut talk = Talk::new(role, TcpclSpec::default());
        talk.hears("474554202f20");
        talk.says(own);
        talk.is_over(true);
    }
}

#[test]
fn another_version_is_refused_by_the_passive_entity() {
    // Section 4.3: "SHALL send its Contact Header and immediately terminate", reason 2.
    let mut talk = Talk::new(Role::Passive, TcpclSpec::default());
    talk.hears("64746e21 03 00");
    talk.says(&format!("{CONTACT} 05 00 02"));
    talk.is_over(true);
    let mut talk = Talk::new(Role::Active, TcpclSpec::default());
    talk.says(CONTACT);
    talk.hears("64746e21 03 00");
    talk.says("");
    talk.is_over(true);
}

#[test]
fn a_session_that_cannot_be_agreed_on_is_refused() {
    // Section 4.8: an extension that is critical and unknown; reason 4. Figure 10.
    let mut talk = Talk::new(Role::Active, TcpclSpec::default());
    talk.hears(CONTACT);
    talk.pipe.outgoing.clear();
    talk.hears("07 0000 0000000000010000 0000000040000000 0000 00000005 01 1234 0000");
    talk.says("05 00 04");
    talk.is_over(true);
}

#[test]
fn a_transfer_is_cut_and_each_segment_answered() {
    // Figure 11; the peer takes 4 octets a segment.
    let mut talk = Talk::established(Role::Active);
    talk.send(8, b"0123456789");
    talk.says(
        "01 02 0000000000000000 0000000d 00 0001 0008 000000000000000a 0000000000000004 30313233
         01 00 0000000000000000 0000000000000004 34353637
         01 01 0000000000000000 0000000000000002 3839",
    );
    assert!(matches!(talk.said[..], [Said::Sent(8)]));
    talk.hears("02 02 0000000000000000 0000000000000004  02 00 0000000000000000 0000000000000008");
    assert_eq!(talk.said.len(), 1);
    talk.hears("02 01 0000000000000000 000000000000000a");
    assert!(matches!(talk.said[1..], [Said::Accepted { id: 8, durable: true }]));
    talk.says("");
}

#[test]
fn a_transfer_that_comes_is_answered_when_it_is_stored() {
    // Figure 12, with a flag that nobody knows, which the answer has too (section 5.2.3).
    let mut talk = Talk::established(Role::Passive);
    talk.hears("01 82 0000000000000009 00000000 0000000000000003 616263");
    talk.says("02 82 0000000000000009 0000000000000003");
    talk.hears("01 01 0000000000000009 0000000000000001 64");
    talk.says("");
    match &talk.said[..] {
        [Said::Received { id: 0, data, service: Service::Reliable }] => {
            assert_eq!(data.concat(), b"abcd");
        }
        other => panic!("{other:?}"),
    }
    talk.tell(Told::Stored(0));
    talk.says("02 01 0000000000000009 0000000000000004");
}

#[test]
fn answers_to_whole_transfers_keep_their_order() {
    // Section 5.2.4: "for each transfer preceding the one to be refused, have either acknowledged ... or refused".
    let mut talk = Talk::established(Role::Passive);
    talk.hears("01 03 0000000000000001 00000000 0000000000000001 61");
    talk.hears("01 03 0000000000000002 00000000 0000000000000001 62");
    talk.tell(Told::Refuse(1, Refusal::NoResources));
    talk.says("");
    talk.tell(Told::Stored(0));
    talk.says("02 03 0000000000000001 0000000000000001  03 02 0000000000000002");
}

#[test]
fn a_refused_transfer_stops_and_late_segments_are_refused_again() {
    let mut talk = Talk::established(Role::Passive);
    // More than is taken, by its length.
    talk.hears("01 02 0000000000000001 0000000d 00 0001 0008 0000000040000001 0000000000000001 61");
    talk.says("03 04 0000000000000001");
    talk.hears("01 00 0000000000000001 0000000000000001 62");
    talk.says("03 00 0000000000000001");
    // A length that is not kept (section 5.2.5.1).
    talk.hears("01 02 0000000000000002 0000000d 00 0001 0008 0000000000000005 0000000000000001 61");
    talk.says("02 02 0000000000000002 0000000000000001");
    talk.hears("01 01 0000000000000002 0000000000000001 62");
    talk.says("03 04 0000000000000002");
    // An extension that is critical and unknown (section 5.2.5).
    talk.hears("01 03 0000000000000003 00000005 01 1234 0000 0000000000000001 61");
    talk.says("03 05 0000000000000003");
    assert!(talk.said.is_empty(), "{:?}", talk.said);
    // And the session goes on.
    talk.hears("01 03 0000000000000004 00000000 0000000000000001 61");
    assert!(matches!(talk.said[..], [Said::Received { .. }]));
}

#[test]
fn a_refusal_reaches_the_node() {
    for (code, why) in
        [(0, Refusal::Unknown), (2, Refusal::NoResources), (4, Refusal::NotAcceptable)]
    {
        let mut talk = Talk::established(Role::Active);
        talk.send(3, b"abc");
        talk.hears(&format!("03 {code:02x} 0000000000000000"));
        match talk.said.last() {
            Some(Said::Refused { id: 3, why: said }) => assert_eq!(*said, why),
            other => panic!("{other:?}"),
        }
    }
    let mut talk = Talk::established(Role::Active);
    talk.send(3, b"abc");
    talk.hears("03 01 0000000000000000");
    assert!(matches!(talk.said.last(), Some(Said::Accepted { id: 3, durable: true })));
}

#[test]
fn messages_that_do_not_fit_are_rejected() {
    // Section 5.1.2, table 4.
    let mut talk = Talk::established(Role::Active);
    talk.hears("02 01 0000000000000077 0000000000000001");
    talk.says("06 03 02");
    talk.hears(PEER_INIT);
    talk.says("06 03 07");
    talk.hears("01 00 0000000000000005 0000000000000002 6162");
    talk.says("06 03 01");
    // What it rejects is not answered, nor a keepalive.
    talk.hears("06 03 01 04");
    talk.says("");
    // An unknown type ends it.
    talk.hears("f0");
    talk.says("06 01 f0");
    talk.is_over(true);
    // A transfer before SESS_INIT: its data is passed over.
    let mut talk = Talk::new(Role::Passive, TcpclSpec::default());
    talk.hears(CONTACT);
    talk.pipe.outgoing.clear();
    talk.hears("01 03 0000000000000001 00000000 0000000000000001 07");
    talk.says("03 06 0000000000000001 06 03 01");
    talk.hears(PEER_INIT);
    talk.says(OWN_INIT);
}

#[test]
fn a_session_ends_as_its_initiator() {
    // Figure 13: what was given has its answer first.
    let mut talk = Talk::established(Role::Active);
    talk.send(1, b"abc");
    talk.pipe.outgoing.clear();
    talk.tell(Told::End);
    talk.says("");
    talk.send(2, b"abc");
    assert!(matches!(talk.said.last(), Some(Said::Refused { id: 2, why: Refusal::Terminating })));
    talk.hears("02 03 0000000000000000 0000000000000003");
    talk.says("05 00 00");
    assert!(!talk.pipe.closed);
    // A new transfer is refused in the Ending state (section 6.1).
    talk.hears("01 03 0000000000000001 00000000 0000000000000001 61");
    talk.says("03 06 0000000000000001");
    talk.hears("05 01 00");
    talk.is_over(false);
}

#[test]
fn a_session_ends_as_its_responder() {
    // Figure 14: the answer is the same with REPLY; what is under way is finished.
    let mut talk = Talk::established(Role::Passive);
    talk.hears("01 02 0000000000000001 00000000 0000000000000001 61");
    talk.pipe.outgoing.clear();
    talk.hears("05 00 00");
    talk.says("05 01 00");
    assert!(!talk.pipe.closed);
    talk.hears("01 01 0000000000000001 0000000000000001 62");
    assert!(!talk.pipe.closed);
    talk.tell(Told::Stored(0));
    talk.says("02 01 0000000000000001 0000000000000002");
    talk.is_over(false);
}

#[test]
fn a_connection_that_closes_is_no_end() {
    let mut talk = Talk::established(Role::Passive);
    talk.pipe.end = true;
    talk.on(AppEvent::Readable(0));
    talk.is_over(true);
}

#[test]
fn keepalives_are_the_shorter_of_both() {
    // Sections 4.7 and 5.1.1.
    let mut talk = Talk::new(Role::Active, TcpclSpec { keepalive_s: 30, ..TcpclSpec::default() });
    talk.hears(CONTACT);
    talk.hears("07 000a 0000000000000004 0000000040000000 0000 00000000");
    talk.pipe.outgoing.clear();
    assert_eq!(talk.session.wake_at(), Time::ZERO + Span::from_secs(10));
    talk.now = talk.session.wake_at();
    talk.on(AppEvent::Timer);
    talk.says("04");
    talk.now = Time::ZERO + Span::from_secs(20);
    talk.on(AppEvent::Timer);
    talk.says("05 00 01");
    talk.is_over(true);
}

fn tls(role: Role, tls: TlsPolicy) -> Talk {
    Talk::new(role, TcpclSpec { tls, ..TcpclSpec::default() })
}

const CAN_TLS: &str = "64746e21 04 01";

/// Section 4.3: TLS is spoken if both contact headers say so; SESS_INIT comes behind its handshake.
#[test]
fn tls_begins_behind_both_contact_headers() {
    for policy in [TlsPolicy::Allow, TlsPolicy::Require] {
        let mut active = tls(Role::Active, policy);
        active.trades(CAN_TLS, CAN_TLS);
        assert_eq!(active.pipe.secured_after, Some(6));
        assert!(active.said.is_empty() && !active.pipe.closed);
        active.on(AppEvent::Ready);
        active.trades(PEER_INIT, OWN_INIT);
        assert!(matches!(&active.said[..], [Said::Started { .. }]), "{:?}", active.said);

        let mut passive = tls(Role::Passive, policy);
        passive.trades(CAN_TLS, CAN_TLS);
        assert_eq!(passive.pipe.secured_after, Some(6), "its own header goes before, in the clear");
        passive.on(AppEvent::Ready);
        passive.trades(PEER_INIT, OWN_INIT);
        assert!(matches!(&passive.said[..], [Said::Started { .. }]), "{:?}", passive.said);
    }
}

#[test]
fn without_tls_at_the_peer_it_is_left_out_or_there_is_no_session() {
    let mut allows = tls(Role::Active, TlsPolicy::Allow);
    allows.trades(CONTACT, &format!("{CAN_TLS} {OWN_INIT}"));
    assert_eq!((allows.pipe.secured_after, allows.pipe.closed), (None, false));
    for role in [Role::Active, Role::Passive] {
        // SESS_TERM, Contact Failure
        let mut requires = tls(role, TlsPolicy::Require);
        requires.trades(CONTACT, &format!("{CAN_TLS} 05 00 04"));
        assert!(requires.pipe.closed);
        let why = "the peer does not speak TLS, which is required here";
        assert!(matches!(&requires.said[..], [Said::Ended { error: Some(said) }] if said == why));
    }
    // Who does not want it says so, whatever the peer can.
    let mut no = tls(Role::Active, TlsPolicy::No);
    no.trades(CAN_TLS, &format!("{CONTACT} {OWN_INIT}"));
    assert_eq!(no.pipe.secured_after, None);
}

/// What stands behind a contact header that announces TLS was written by whoever is on the way.
#[test]
fn words_before_the_handshake_do_not_count_behind_it() {
    for role in [Role::Active, Role::Passive] {
        let mut talk = tls(role, TlsPolicy::Allow);
        talk.trades(&format!("{CAN_TLS} {PEER_INIT}"), CAN_TLS);
        assert!(talk.pipe.closed && talk.pipe.secured_after.is_none());
        let why = "the peer said more before TLS than its contact header";
        assert!(matches!(&talk.said[..], [Said::Ended { error: Some(said) }] if said == why));
    }
}

#[test]
fn a_transport_without_keys_ends_the_session() {
    let mut talk = tls(Role::Active, TlsPolicy::Allow);
    talk.pipe.keys = false;
    talk.trades(CAN_TLS, CAN_TLS);
    let why = "there are no keys for TLS here";
    assert!(matches!(&talk.said[..], [Said::Ended { error: Some(said) }] if said == why));
}

/// A handshake that never ends: nothing is waited for longer than for any other word.
#[test]
fn a_handshake_that_never_ends_is_given_up() {
    let mut talk = tls(Role::Passive, TlsPolicy::Require);
    talk.trades(CAN_TLS, CAN_TLS);
    talk.now = talk.session.wake_at();
    assert_eq!(talk.now, Time::ZERO + Span::from_secs(60));
    talk.on(AppEvent::Timer);
    let why = "the peer is silent";
    assert!(matches!(&talk.said[..], [Said::Ended { error: Some(said) }] if said == why));
}

/// A peer that is not who it should be gets SESS_TERM with Contact Failure, and no bundle that waits.
#[test]
fn a_peer_that_lies_about_its_name_is_refused_with_the_reason() {
    for (expected, taken) in [("ipn:9.0", true), ("ipn:8.0", false), ("dtn://nine/", false)] {
        let terms = Terms { peer: Some(expected.to_owned()), ..Terms::default() };
        let mut talk = Talk::with(Role::Active, TcpclSpec::default(), terms);
        let transfer = Transfer {
            id: 5,
            data: vec![Bytes::from_static(b"a bundle")],
            service: Service::Reliable,
            priority: 1,
        };
        talk.tell(Told::Send(transfer));
        talk.trades(CONTACT, &format!("{CONTACT} {OWN_INIT}"));
        talk.pipe.incoming = hex(PEER_INIT);
        let before = talk.pipe.outgoing.len();
        talk.on(AppEvent::Readable(0));
        if taken {
            assert!(matches!(talk.said[0], Said::Started { .. }), "{:?}", talk.said);
            continue;
        }
        assert_eq!(talk.pipe.outgoing[before..], hex("05 00 04"));
        let why = format!("the peer says that it is \"ipn:9.0\", expected {expected}");
        assert!(matches!(&talk.said[..], [Said::Ended { error: Some(said) }] if *said == why));
    }
}

/// A transfer of one byte, XFER_SEGMENT with START and END.
fn small_transfer(number: u64) -> String {
    format!("01 03 {number:016x} 00000000 0000000000000001 61")
}

#[test]
fn a_peer_is_held_back_while_transfers_wait_for_the_store() {
    const MOST: u64 = 4096;
    const ALL: u64 = 3 * MOST;
    let spec = TcpclSpec { keepalive_s: 30, ..TcpclSpec::default() };
    let mut talk = Talk::new(Role::Passive, spec);
    talk.hears(CONTACT);
    talk.hears(&PEER_INIT.replacen("0000", "001e", 1));
    talk.pipe.outgoing.clear();
    talk.said.clear();
    let transfers: String = (0..ALL).map(small_transfer).collect();
    talk.hears(&transfers);
    assert_eq!(talk.said.len() as u64, MOST, "the rest is not parsed");
    // Nor is anything more read, whatever comes.
    talk.hears(&small_transfer(ALL));
    talk.hears("01 03");
    assert_eq!(talk.said.len() as u64, MOST);
    assert_eq!(talk.pipe.incoming, hex(&(small_transfer(ALL) + "01 03")));
    // A peer that is not listened to is not silent.
    talk.now = Time::ZERO + Span::from_secs(600);
    talk.on(AppEvent::Timer);
    assert!(!talk.pipe.closed);
    talk.pipe.outgoing.clear();
    // Each answer lets the next transfer in, and answers keep their order.
    let mut number = 0;
    while let Some(Said::Received { id, .. }) = talk.said.get(number as usize) {
        assert_eq!(*id, number);
        talk.tell(Told::Stored(number));
        talk.says(&format!("02 03 {number:016x} 0000000000000001"));
        number += 1;
        assert!(talk.said.len() as u64 <= number + MOST);
    }
    assert_eq!(number, ALL + 1);
    // The last message was cut; it and the peer's end are seen once there is room.
    talk.pipe.end = true;
    talk.on(AppEvent::Readable(0));
    talk.is_over(true);
}

#[test]
fn the_end_of_a_stream_waits_behind_transfers_that_wait() {
    let mut talk = Talk::established(Role::Passive);
    let transfers: String = (0..5_000).map(small_transfer).collect();
    talk.pipe.end = true;
    talk.hears(&(transfers + "05 00 00"));
    assert!(talk.said.iter().all(|said| matches!(said, Said::Received { .. })), "no end yet");
    (0..5_000).for_each(|number| talk.tell(Told::Stored(number)));
    let received = talk.said.iter().filter(|said| matches!(said, Said::Received { .. })).count();
    assert_eq!(received, 5_000);
    talk.is_over(false);
}

#[test]
fn refusals_that_wait_behind_a_transfer_are_bounded_too() {
    let mut talk = Talk::established(Role::Passive);
    let mut words = small_transfer(0);
    // Longer than the bundle's own length: each is refused, in its turn.
    let refused: String = (1..20_000)
        .map(|number| {
            format!(
                "01 02 {number:016x} 0000000d 00 0001 0008 0000000080000000 0000000000000001 61"
            )
        })
        .collect();
    words += &refused;
    talk.hears(&words);
    assert_eq!((talk.said.len(), talk.pipe.outgoing.len()), (1, 0), "all wait for the first");
    talk.tell(Told::Stored(0));
    // XFER_ACK and one XFER_REFUSE each.
    assert_eq!(talk.pipe.outgoing.len(), 18 + 19_999 * 10);
}
