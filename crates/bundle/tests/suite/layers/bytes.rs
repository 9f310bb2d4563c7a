//! Messages against bytes that were written by hand from RFC 9174 (sections 4.2, 4.6, 5 and 6), draft-caini-dtn-quiccl-01 and RFC
//! 8949.

use bundle::Service;
use bundle::layers::messages::{
    Ack, Dialect, Fault, Init, Message, Problem, Segment, byte_string, contact, decode, encode,
    refusal, reject, term,
};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|one| one.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn is_both_ways(dialect: Dialect, message: &Message, bytes: &str) {
    let bytes = hex(bytes);
    let mut out = Vec::new();
    encode(dialect, message, &mut out);
    assert_eq!(out, bytes, "{message:?}");
    assert_eq!(decode(dialect, &bytes), Ok(Some((message.clone(), bytes.len()))));
    for cut in 0..bytes.len() {
        assert_eq!(decode(dialect, &bytes[..cut]), Ok(None), "{message:?} cut at {cut}");
    }
}

fn init() -> Init {
    Init {
        keepalive_s: 30,
        segment_mru: 65_536,
        datagram_mru: 0,
        transfer_mru: 1 << 30,
        node: "ipn:1.0".into(),
        problem: None,
    }
}

fn segment() -> Segment {
    Segment {
        flags: 0,
        transfer: 258,
        place: (0, 0),
        bytes: 100,
        total: None,
        service: Service::Reliable,
        problem: None,
    }
}

#[test]
fn a_contact_header_is_the_one_of_section_4_2() {
    let header = contact::Contact { version: contact::VERSION, flags: 0 };
    assert_eq!(contact::encode(header), [0x64, 0x74, 0x6e, 0x21, 4, 0]);
    assert_eq!(
        contact::decode(&hex("64 74 6e 21 04 81")),
        Ok(Some(contact::Contact { version: 4, flags: 0x81 }))
    );
    for cut in 0..6 {
        assert_eq!(contact::decode(&b"dtn!\x04\x00"[..cut]), Ok(None));
    }
    assert_eq!(contact::decode(b"dtm"), Err(Fault::Magic));
    assert_eq!(contact::decode(b"GET / HTTP/1.1"), Err(Fault::Magic));
}

#[test]
fn tcpcl_messages_are_those_of_the_rfc() {
    let both = |message, bytes| is_both_ways(Dialect::Tcpcl, &message, bytes);
    both(
        Message::Init(init()),
        "07 001e 0000000000010000 0000000040000000 0007 69706e3a312e30 00000000",
    );
    let whole = Segment { flags: Segment::START | Segment::END, ..segment() };
    both(Message::Segment(whole), "01 03 0000000000000102 00000000 0000000000000064");
    let first = Segment { flags: Segment::START, total: Some(1800), ..segment() };
    both(
        Message::Segment(first),
        "01 02 0000000000000102 0000000d 00 0001 0008 0000000000000708 0000000000000064",
    );
    both(Message::Segment(segment()), "01 00 0000000000000102 0000000000000064");
    let last = Segment { flags: Segment::END, ..segment() };
    both(Message::Segment(last), "01 01 0000000000000102 0000000000000064");
    let ack = Ack { flags: 1, transfer: 258, place: 0, bytes: 1800 };
    both(Message::Ack(ack), "02 01 0000000000000102 0000000000000708");
    both(Message::Refuse { reason: 2, transfer: 258 }, "03 02 0000000000000102");
    both(Message::Keepalive, "04");
    both(Message::Term { reply: false, reason: term::IDLE }, "05 00 01");
    both(Message::Term { reply: true, reason: term::CONTACT }, "05 01 04");
    both(Message::Reject { reason: reject::UNEXPECTED, kind: 2 }, "06 03 02");
}

#[test]
fn quiccl_messages_are_those_of_the_draft() {
    let both = |message, bytes| is_both_ways(Dialect::Quiccl, &message, bytes);
    both(
        Message::Init(Init { datagram_mru: 1200, ..init() }),
        "01 001e 0000000000010000 00000000000004b0 0000000040000000 0007 69706e3a312e30 00000000",
    );
    let first = Segment { flags: 2, place: (0, 3), total: Some(250), ..segment() };
    both(
        Message::Segment(first),
        "02 02 0000 0003 0000000000000102 00000000 0000000000000064 00000000000000fa 00",
    );
    let next = Segment { flags: 0, place: (1, 3), service: Service::Notified, ..first };
    both(
        Message::Segment(next),
        "02 00 0001 0003 0000000000000102 0000000000000064 00000000000000fa 01",
    );
    let last =
        Segment { flags: 1, place: (2, 3), bytes: 50, service: Service::Unreliable, ..first };
    both(
        Message::Segment(last),
        "02 01 0002 0003 0000000000000102 0000000000000032 00000000000000fa 02",
    );
    let ack = Ack { flags: 1, transfer: 258, place: 2, bytes: 250 };
    both(Message::Ack(ack), "03 01 0002 0000000000000102 00000000000000fa");
    both(Message::Refuse { reason: 6, transfer: 258 }, "04 06 0000000000000102");
    both(Message::Keepalive, "05");
    both(Message::Term { reply: true, reason: term::UNKNOWN }, "06 01 00");
    both(Message::Reject { reason: reject::UNKNOWN, kind: 9 }, "07 01 09");
}

/// A first segment with these extensions.
fn with_extensions(list: &str) -> Segment {
    let list = hex(list);
    let mut bytes = hex("01 03 0000000000000102");
    bytes.extend((list.len() as u32).to_be_bytes());
    bytes.extend(list);
    bytes.extend(hex("0000000000000064"));
    match decode(Dialect::Tcpcl, &bytes) {
        Ok(Some((Message::Segment(segment), length))) if length == bytes.len() => segment,
        other => panic!("{other:?}"),
    }
}

#[test]
fn extensions_are_passed_over_unless_they_are_critical() {
    let length = "00 0001 0008 0000000000000708";
    let plain = with_extensions(&format!("00 8001 0002 abcd {length}"));
    assert_eq!((plain.total, plain.problem), (Some(1800), None));
    let critical = with_extensions(&format!("{length} 01 8001 0000"));
    assert_eq!((critical.total, critical.problem), (Some(1800), Some(Problem::Critical)));
    // Critical, and known.
    assert_eq!(with_extensions("01 0001 0008 0000000000000708").problem, None);
    let twice = with_extensions(&format!("{length} {length}"));
    assert_eq!(twice.problem, Some(Problem::Malformed));
    for wrong in ["00 0001 0004 00000708", "00 8001 0003 abcd", "00 80"] {
        assert_eq!(with_extensions(wrong).problem, Some(Problem::Malformed), "{wrong}");
    }
}

#[test]
fn what_can_never_be_a_message_is_said_at_once() {
    for (dialect, bytes, fault) in [
        (Dialect::Tcpcl, "00", Fault::Kind(0)),
        (Dialect::Tcpcl, "08", Fault::Kind(8)),
        (Dialect::Quiccl, "ff", Fault::Kind(0xff)),
        // A node id of 65,535 octets, and extensions of 4 GiB: nothing waits for them.
        (Dialect::Tcpcl, "07 001e 0000000000010000 0000000040000000 ffff", Fault::TooLong),
        (Dialect::Tcpcl, "01 03 0000000000000102 ffffffff", Fault::TooLong),
        (Dialect::Tcpcl, "07 001e 0000000000010000 0000000040000000 0002 c3 28", Fault::NotText),
    ] {
        assert_eq!(decode(dialect, &hex(bytes)), Err(fault), "{bytes}");
    }
}

#[test]
fn reasons_of_refusals_are_those_of_table_6() {
    use bundle::Refusal::{
        Completed, NoResources, NotAcceptable, Retransmit, Terminating, Unknown,
    };
    let known = [Unknown, Completed, NoResources, Retransmit, NotAcceptable];
    for (code, refusal) in (0..).zip(known).chain([(6, Terminating)]) {
        assert_eq!((refusal::of(code), refusal::code(refusal)), (refusal, code));
    }
    assert_eq!((refusal::of(5), refusal::of(77)), (NotAcceptable, Unknown));
}

#[test]
fn byte_strings_have_the_heads_of_rfc_8949() {
    for (length, head) in [
        (0, "40"),
        (23, "57"),
        (24, "58 18"),
        (255, "58 ff"),
        (256, "59 0100"),
        (65_535, "59 ffff"),
        (65_536, "5a 00010000"),
        (1_000_000, "5a 000f4240"),
        (1 << 32, "5b 0000000100000000"),
    ] {
        let (mut out, head) = (Vec::new(), hex(head));
        byte_string::encode(length, &mut out);
        assert_eq!(out, head);
        assert_eq!(byte_string::decode(&head), Ok(Some((length, head.len()))));
        for cut in 0..head.len() {
            assert_eq!(byte_string::decode(&head[..cut]), Ok(None));
        }
    }
    // Longer than needed, which decoders take; then no byte string, and one of unknown length.
    assert_eq!(byte_string::decode(&hex("59 0001")), Ok(Some((1, 3))));
    for first in [0x00, 0x3f, 0x5c, 0x5f, 0x60, 0x9f, 0xff] {
        assert_eq!(byte_string::decode(&[first]), Err(Fault::NoBundle(first)));
    }
}
