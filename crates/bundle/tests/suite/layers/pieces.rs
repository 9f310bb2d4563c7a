//! What is said is heard, in whatever pieces it comes; strangers' bytes take no room.

use bundle::Service;
use bundle::layers::messages::{
    Ack, Decoder, Dialect, Fault, Init, Item, MOST_EXTENSION_BYTES, MOST_NODE_BYTES, Message,
    Segment, encode,
};
use proptest::prelude::*;

fn dialects() -> impl Strategy<Value = Dialect> {
    prop_oneof![Just(Dialect::Tcpcl), Just(Dialect::Quiccl)]
}

fn names() -> impl Strategy<Value = String> {
    let scheme = prop::collection::vec(prop::char::range('a', 'z'), 2..=4);
    let rest = prop::collection::vec(prop_oneof![prop::char::range('0', '9'), Just('.')], 0..=40);
    (scheme, rest).prop_map(|(scheme, rest)| {
        format!("{}:{}", String::from_iter(scheme), String::from_iter(rest))
    })
}

fn messages() -> impl Strategy<Value = Message> {
    let services =
        prop_oneof![Just(Service::Reliable), Just(Service::Notified), Just(Service::Unreliable)];
    let init = (any::<(u16, u64, u64, u64)>(), names()).prop_map(
        |((keepalive_s, segment_mru, datagram_mru, transfer_mru), node)| {
            Message::Init(Init {
                keepalive_s,
                segment_mru,
                datagram_mru,
                transfer_mru,
                node,
                problem: None,
            })
        },
    );
    let segment = (any::<(u8, u64, (u16, u16), u64)>(), 0u64..300, services).prop_map(
        |((flags, transfer, place, total), bytes, service)| {
            let total = Some(total);
            Message::Segment(Segment {
                flags,
                transfer,
                place,
                bytes,
                total,
                service,
                problem: None,
            })
        },
    );
    let ack = any::<(u8, u64, u16, u64)>().prop_map(|(flags, transfer, place, bytes)| {
        Message::Ack(Ack { flags, transfer, place, bytes })
    });
    prop_oneof![
        init,
        segment,
        ack,
        any::<(u8, u64)>().prop_map(|(reason, transfer)| Message::Refuse { reason, transfer }),
        Just(Message::Keepalive),
        any::<(bool, u8)>().prop_map(|(reply, reason)| Message::Term { reply, reason }),
        any::<(u8, u8)>().prop_map(|(reason, kind)| Message::Reject { reason, kind }),
    ]
}

/// What of it the dialect has words for.
fn as_said(dialect: Dialect, message: &Message) -> Message {
    let mut said = message.clone();
    if dialect == Dialect::Quiccl {
        return said;
    }
    match &mut said {
        Message::Init(init) => init.datagram_mru = 0,
        Message::Segment(segment) => {
            segment.place = (0, 0);
            segment.service = Service::Reliable;
            if !segment.starts() || segment.ends() {
                segment.total = None;
            }
        }
        Message::Ack(ack) => ack.place = 0,
        _ => {}
    }
    said
}

/// A message and its data.
type Heard = (Option<Message>, Vec<u8>);

/// All that comes out of `bytes`, given in pieces of these lengths in turn; data put together.
fn listen(dialect: Dialect, mut bytes: &[u8], pieces: &[usize]) -> Result<Vec<Heard>, Fault> {
    let mut decoder = Decoder::new(dialect);
    let mut heard: Vec<Heard> = Vec::new();
    let mut turn = 0;
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(pieces[turn % pieces.len()].min(bytes.len()));
        (bytes, turn) = (rest, turn + 1);
        let mut piece = piece;
        while let Some(item) = decoder.next(&mut piece)? {
            match item {
                Item::Message(message) => heard.push((Some(message), Vec::new())),
                Item::Data { bytes, .. } => {
                    heard.last_mut().expect("a segment").1.extend_from_slice(bytes);
                }
            }
        }
        assert!(piece.is_empty(), "it takes all it is given");
        assert!(decoder.kept() <= 64 + MOST_NODE_BYTES + MOST_EXTENSION_BYTES);
    }
    assert!(decoder.is_between());
    Ok(heard)
}

proptest! {
    #[test]
    fn what_is_said_is_heard(
        dialect in dialects(),
        said in proptest::collection::vec(messages(), 1..20),
        pieces in proptest::collection::vec(1usize..60, 1..8),
    ) {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for (number, message) in said.iter().enumerate() {
            encode(dialect, message, &mut bytes);
            let length = match message {
                Message::Segment(segment) => segment.bytes as usize,
                _ => 0,
            };
            let data = vec![number as u8; length];
            bytes.extend_from_slice(&data);
            expected.push((Some(as_said(dialect, message)), data));
        }
        prop_assert_eq!(listen(dialect, &bytes, &pieces), Ok(expected));
    }

    #[test]
    fn strangers_bytes_take_no_room(
        dialect in dialects(),
        bytes in proptest::collection::vec(prop_oneof![0u8..8, any::<u8>()], 0..4000),
        pieces in proptest::collection::vec(1usize..200, 1..4),
    ) {
        let mut decoder = Decoder::new(dialect);
        let (mut rest, mut turn) = (&bytes[..], 0);
        'all: while !rest.is_empty() {
            let (mut piece, behind) = rest.split_at(pieces[turn % pieces.len()].min(rest.len()));
            (rest, turn) = (behind, turn + 1);
            loop {
                match decoder.next(&mut piece) {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => break 'all,
                }
            }
            prop_assert!(decoder.kept() <= 64 + MOST_NODE_BYTES + MOST_EXTENSION_BYTES);
        }
    }
}
