//! The printed examples of RFC 9173 appendix A, and a file of signed bundles for the HMAC of Python
//! (tests/python/test_bundles.py).

use bundle::wire::{BibStatus, Bundle};
use bundle::{IntegrityScope, Secret, ShaVariant};
use bytes::Bytes;
use units::{RandomStream, Span};

use super::{drawn, eid, hex, pick};

/// The key of all examples (A.1.3.1 and others).
const KEY: &str = "1a2b1a2b1a2b1a2b1a2b1a2b1a2b1a2b";
/// Primary and payload block of all examples (A.1.1).
const PRIMARY: &str = "88070000820282010282028202018202820201820018281a000f4240";
const PAYLOAD: &str =
    "85010100005823526561647920746f2067656e657261746520612033322d62797465207061796c6f6164";

fn bytes(digits: &str) -> Vec<u8> {
    let pairs = (0..digits.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal")).collect()
}

fn key() -> Secret {
    Secret::new(bytes(KEY)).expect("a key")
}

fn read(digits: &str) -> Bundle {
    Bundle::decode(&bytes(digits).into()).unwrap_or_else(|wrong| panic!("{}", wrong.0))
}

fn written(bundle: &Bundle) -> String {
    hex(&bundle.encode(&eid("ipn:9.0"), Span::ZERO).concat())
}

/// Returns the signed blocks and their verification results.
fn shown(bundle: &Bundle, key: &Secret) -> Vec<(String, u64, BibStatus)> {
    let found = bundle.verify_integrity(|_| Some(key)).into_iter();
    found.map(|one| (one.source.to_string(), one.target, one.status)).collect()
}

const NOTHING: IntegrityScope = IntegrityScope { primary: false, target: false, security: false };

/// A.1: HMAC 512/512 of the payload alone.
#[test]
fn simple_integrity_is_signed_and_verified_bytewise() {
    let mut bundle = read(&format!("9f{PRIMARY}{PAYLOAD}ff"));
    bundle.sign(&eid("ipn:2.1"), &key(), ShaVariant::Sha512, NOTHING).expect("signed");
    // A.1.4
    let block = "850b0200005856810101018202820201828201078203008181820158403bdc69b3a34a2b5d3a8554368bd1e808\
                 f606219d2a10a846eae3886ae4ecc83c4ee550fdfb1cc636b904e2f1a73e303dcd4b6ccece003e95e8164dcc89a156e1";
    let printed = format!("9f{PRIMARY}{block}{PAYLOAD}ff");
    assert_eq!(written(&bundle), printed);
    let found = shown(&read(&printed), &key());
    assert_eq!(found, [("ipn:2.1".to_owned(), 1, BibStatus::Verified)]);
    let other = Secret::from_name("other");
    assert_eq!(shown(&read(&printed), &other)[0].2, BibStatus::Failed);
}

/// A.3: HMAC 256/256 of the primary block and a bundle age, beside an encrypted payload.
#[test]
fn several_blocks_are_verified_beside_an_encrypted_payload() {
    let age = "85070200004319012c";
    let encrypted = "850c04010058348101020182028202018382014c5477656c7665313231323132820201820400818182\
                     0150efa4b5ac0108e3816c5606479801bc04";
    let payload = "85010100005823\
                   3a09c1e63fe23a7f66a59c7303837241e070b02619fc59c5214a22f08cd70795e73e9a";
    let block = "850b030000585c8200020101820282030082820105820300828182015820cac6ce8e4c5dae57988b757e49a6dd14\
                 31dc04763541b2845098265bc817241b81820158203ed614c0d97f49b3633627779aa18a338d212bf3c92b97759d9739cd50725596";
    let bundle = read(&format!("9f{PRIMARY}{block}{encrypted}{age}{payload}ff"));
    let source = || "ipn:3.0".to_owned();
    let all = [(source(), 0, BibStatus::Verified), (source(), 2, BibStatus::Verified)];
    assert_eq!(shown(&bundle, &key()), all);
    // The next hop receives a changed age under the same block number.
    let sent = bundle.encode(&eid("ipn:9.0"), Span::from_millis(500)).concat();
    let next = Bundle::decode(&sent.into()).unwrap_or_else(|wrong| panic!("{}", wrong.0));
    assert_eq!(next.age, Some(Span::from_millis(800)));
    assert_eq!(
        shown(&next, &key()),
        [(source(), 0, BibStatus::Verified), (source(), 2, BibStatus::Failed)]
    );
}

/// A.4: HMAC 384/384 with full scope, before the encryption.
#[test]
fn full_scope_is_signed_and_verified_bytewise() {
    // A block without meaning has number 2, like the confidentiality block in the example.
    let second = "8518c802000041aa";
    let mut bundle = read(&format!("9f{PRIMARY}{second}{PAYLOAD}ff"));
    bundle
        .sign(&eid("ipn:2.1"), &key(), ShaVariant::Sha384, IntegrityScope::default())
        .expect("signed");
    // A.4.3.2
    let printed = "81010101820282020182820106820307818182015830f75fe4c37f76f046165855bd5ff72fbfd4e3a64b4695c40e2b\
                   787da005ae819f0a2e30a2e8b325527de8aefb52e73d71";
    let block = format!("850b0300005846{printed}");
    let whole = format!("9f{PRIMARY}{second}{block}{PAYLOAD}ff");
    assert_eq!(written(&bundle), whole);
    assert_eq!(shown(&read(&whole), &key()), [("ipn:2.1".to_owned(), 1, BibStatus::Verified)]);
    // The scope covers each block: a bit of the primary block, of the payload flags, of the integrity block flags.
    for (from, to) in
        [("1a000f4240", "1a000f4241"), ("8501010000", "8501010100"), ("850b030000", "850b030100")]
    {
        let bent = whole.replacen(from, to, 1);
        assert_ne!(bent, whole);
        assert_eq!(shown(&read(&bent), &key())[0].2, BibStatus::Failed, "{from}");
    }
}

/// The input of the Python HMAC: a key name and a bundle. With `BENTPIPE_UPDATE` the file is rewritten.
#[test]
fn the_signed_bundles_of_the_file_are_reproduced() {
    let mut chance = RandomStream::named(6, "oracle", "bundles");
    let mut lines = Vec::new();
    while lines.len() < 40 {
        let (mut bundle, bytes) = drawn(&mut chance, true);
        if bundle.id.fragment_info.is_some() || bytes.len() > 500 {
            continue;
        }
        let bit = |chance: &mut RandomStream| chance.below(2) == 1;
        let scope = IntegrityScope {
            primary: bit(&mut chance),
            target: bit(&mut chance),
            security: bit(&mut chance),
        };
        let sha = pick(&mut chance, &[ShaVariant::Sha256, ShaVariant::Sha384, ShaVariant::Sha512]);
        let name = pick(&mut chance, &["mars", "moon"]);
        bundle
            .sign(
                &eid(pick(&mut chance, &["ipn:1.0", "dtn://earth/"])),
                &Secret::from_name(name),
                sha,
                scope,
            )
            .expect("signed");
        let bytes: Bytes = bundle.encode(&eid("ipn:7.0"), Span::ZERO).concat().into();
        let read = Bundle::decode(&bytes).expect("a bundle");
        let secret = Secret::from_name(name);
        assert!(
            read.verify_integrity(|_| Some(&secret))
                .iter()
                .all(|one| one.status == BibStatus::Verified)
        );
        lines.push(format!("{name} {}", hex(&bytes)));
    }
    let text = lines.join("\n") + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/suite/oracles/signed.txt");
    if std::env::var_os("BENTPIPE_UPDATE").is_some() {
        std::fs::write(path, &text).expect("written");
    }
    assert!(
        std::fs::read_to_string(path).expect("the file") == text,
        "BENTPIPE_UPDATE=1 writes it"
    );
}
