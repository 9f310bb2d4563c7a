//! Messages compared with bytes derived by hand from RFC 9174 (sections 4.2, 4.6, 5 and 6), draft-caini-dtn-quiccl-01
//! and RFC 8949.

use bundle::DeliveryMode;
use bundle::cla::messages::{
    DecodeError, ExtensionError, Message, SessInit, WireFormat, XferAck, XferSegment,
    contact_header, decode, decode_byte_string_head, encode, encode_byte_string_head, refusal,
    reject, term,
};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|one| one.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn check_codec(dialect: WireFormat, message: &Message, bytes: &str) {
    let bytes = hex(bytes);
    let mut out = Vec::new();
    encode(dialect, message, &mut out);
    assert_eq!(out, bytes, "{message:?}");
    assert_eq!(decode(dialect, &bytes), Ok(Some((message.clone(), bytes.len()))));
    for cut in 0..bytes.len() {
        assert_eq!(decode(dialect, &bytes[..cut]), Ok(None), "{message:?} cut at {cut}");
    }
}

fn init() -> SessInit {
    SessInit {
        keepalive_s: 30,
        segment_mru: 65_536,
        datagram_mru: 0,
        transfer_mru: 1 << 30,
        node_id: "ipn:1.0".into(),
        extension_error: None,
    }
}

fn segment() -> XferSegment {
    XferSegment {
        flags: 0,
        transfer: 258,
        position: (0, 0),
        bytes: 100,
        total: None,
        mode: DeliveryMode::Reliable,
        extension_error: None,
    }
}

#[test]
fn a_contact_header_is_the_one_of_section_4_2() {
    let header = contact_header::ContactHeader { version: contact_header::VERSION, flags: 0 };
    assert_eq!(contact_header::encode(header), [0x64, 0x74, 0x6e, 0x21, 4, 0]);
    assert_eq!(
        contact_header::decode(&hex("64 74 6e 21 04 81")),
        Ok(Some(contact_header::ContactHeader { version: 4, flags: 0x81 }))
    );
    for cut in 0..6 {
        assert_eq!(contact_header::decode(&b"dtn!\x04\x00"[..cut]), Ok(None));
    }
    assert_eq!(contact_header::decode(b"dtm"), Err(DecodeError::Magic));
    assert_eq!(contact_header::decode(b"GET / HTTP/1.1"), Err(DecodeError::Magic));
}

#[test]
fn tcpcl_messages_are_those_of_the_rfc() {
    let check = |message, bytes| check_codec(WireFormat::Tcpcl, &message, bytes);
    check(
        Message::SessInit(init()),
        "07 001e 0000000000010000 0000000040000000 0007 69706e3a312e30 00000000",
    );
    let whole = XferSegment { flags: XferSegment::START | XferSegment::END, ..segment() };
    check(Message::XferSegment(whole), "01 03 0000000000000102 00000000 0000000000000064");
    let first = XferSegment { flags: XferSegment::START, total: Some(1800), ..segment() };
    check(
        Message::XferSegment(first),
        "01 02 0000000000000102 0000000d 00 0001 0008 0000000000000708 0000000000000064",
    );
    check(Message::XferSegment(segment()), "01 00 0000000000000102 0000000000000064");
    let last = XferSegment { flags: XferSegment::END, ..segment() };
    check(Message::XferSegment(last), "01 01 0000000000000102 0000000000000064");
    let ack = XferAck { flags: 1, transfer: 258, segment_index: 0, bytes: 1800 };
    check(Message::XferAck(ack), "02 01 0000000000000102 0000000000000708");
    check(Message::XferRefuse { reason: 2, transfer: 258 }, "03 02 0000000000000102");
    check(Message::Keepalive, "04");
    check(Message::SessTerm { is_reply: false, reason: term::IDLE }, "05 00 01");
    check(Message::SessTerm { is_reply: true, reason: term::CONTACT }, "05 01 04");
    check(Message::MsgReject { reason: reject::UNEXPECTED, kind: 2 }, "06 03 02");
}

#[test]
fn quiccl_messages_are_those_of_the_draft() {
    let check = |message, bytes| check_codec(WireFormat::Quiccl, &message, bytes);
    check(
        Message::SessInit(SessInit { datagram_mru: 1200, ..init() }),
        "01 001e 0000000000010000 00000000000004b0 0000000040000000 0007 69706e3a312e30 00000000",
    );
    let first = XferSegment { flags: 2, position: (0, 3), total: Some(250), ..segment() };
    check(
        Message::XferSegment(first),
        "02 02 0000 0003 0000000000000102 00000000 0000000000000064 00000000000000fa 00",
    );
    let next = XferSegment { flags: 0, position: (1, 3), mode: DeliveryMode::Notified, ..first };
    check(
        Message::XferSegment(next),
        "02 00 0001 0003 0000000000000102 0000000000000064 00000000000000fa 01",
    );
    let last = XferSegment {
        flags: 1,
        position: (2, 3),
        bytes: 50,
        mode: DeliveryMode::Unreliable,
        ..first
    };
    check(
        Message::XferSegment(last),
        "02 01 0002 0003 0000000000000102 0000000000000032 00000000000000fa 02",
    );
    let ack = XferAck { flags: 1, transfer: 258, segment_index: 2, bytes: 250 };
    check(Message::XferAck(ack), "03 01 0002 0000000000000102 00000000000000fa");
    check(Message::XferRefuse { reason: 6, transfer: 258 }, "04 06 0000000000000102");
    check(Message::Keepalive, "05");
    check(Message::SessTerm { is_reply: true, reason: term::UNKNOWN }, "06 01 00");
    check(Message::MsgReject { reason: reject::UNKNOWN, kind: 9 }, "07 01 09");
}

/// Decodes a first segment with these extensions.
fn with_extensions(list: &str) -> XferSegment {
    let list = hex(list);
    let mut bytes = hex("01 03 0000000000000102");
    bytes.extend((list.len() as u32).to_be_bytes());
    bytes.extend(list);
    bytes.extend(hex("0000000000000064"));
    match decode(WireFormat::Tcpcl, &bytes) {
        Ok(Some((Message::XferSegment(segment), length))) if length == bytes.len() => segment,
        other => panic!("{other:?}"),
    }
}

#[test]
fn extensions_are_skipped_unless_they_are_critical() {
    let length = "00 0001 0008 0000000000000708";
    let plain = with_extensions(&format!("00 8001 0002 abcd {length}"));
    assert_eq!((plain.total, plain.extension_error), (Some(1800), None));
    let critical = with_extensions(&format!("{length} 01 8001 0000"));
    assert_eq!(
        (critical.total, critical.extension_error),
        (Some(1800), Some(ExtensionError::UnknownCritical))
    );
    // Critical, but known.
    assert_eq!(with_extensions("01 0001 0008 0000000000000708").extension_error, None);
    let twice = with_extensions(&format!("{length} {length}"));
    assert_eq!(twice.extension_error, Some(ExtensionError::Malformed));
    for wrong in ["00 0001 0004 00000708", "00 8001 0003 abcd", "00 80"] {
        assert_eq!(
            with_extensions(wrong).extension_error,
            Some(ExtensionError::Malformed),
            "{wrong}"
        );
    }
}

#[test]
fn impossible_messages_are_rejected_at_once() {
    for (dialect, bytes, fault) in [
        (WireFormat::Tcpcl, "00", DecodeError::UnknownType(0)),
        (WireFormat::Tcpcl, "08", DecodeError::UnknownType(8)),
        (WireFormat::Quiccl, "ff", DecodeError::UnknownType(0xff)),
        // A node ID of 65,535 octets, and extensions of 4 GiB: the decoder does not wait for them.
        (WireFormat::Tcpcl, "07 001e 0000000000010000 0000000040000000 ffff", DecodeError::TooLong),
        (WireFormat::Tcpcl, "01 03 0000000000000102 ffffffff", DecodeError::TooLong),
        (
            WireFormat::Tcpcl,
            "07 001e 0000000000010000 0000000040000000 0002 c3 28",
            DecodeError::NotText,
        ),
    ] {
        assert_eq!(decode(dialect, &hex(bytes)), Err(fault), "{bytes}");
    }
}

#[test]
fn reasons_of_refusals_are_those_of_table_6() {
    use bundle::RefusalReason::{
        Completed, NoResources, NotAcceptable, Retransmit, Terminating, Unknown,
    };
    let known = [Unknown, Completed, NoResources, Retransmit, NotAcceptable];
    for (code, refusal) in (0..).zip(known).chain([(6, Terminating)]) {
        assert_eq!((refusal::from_code(code), refusal::to_code(refusal)), (refusal, code));
    }
    assert_eq!((refusal::from_code(5), refusal::from_code(77)), (NotAcceptable, Unknown));
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
        encode_byte_string_head(length, &mut out);
        assert_eq!(out, head);
        assert_eq!(decode_byte_string_head(&head), Ok(Some((length, head.len()))));
        for cut in 0..head.len() {
            assert_eq!(decode_byte_string_head(&head[..cut]), Ok(None));
        }
    }
    // A valid head longer than necessary; then other types, and an indefinite length.
    assert_eq!(decode_byte_string_head(&hex("59 0001")), Ok(Some((1, 3))));
    for first in [0x00, 0x3f, 0x5c, 0x5f, 0x60, 0x9f, 0xff] {
        assert_eq!(decode_byte_string_head(&[first]), Err(DecodeError::NotABundle(first)));
    }
}
