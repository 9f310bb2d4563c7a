//! Operations against a model, with a fault at any step: a batch is there whole or not at all, and what is there is what was
//! given.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;
use depot::{Change, Depot, Found};
use proptest::prelude::*;

use crate::shaky::{Fault, Folder, Shaky};

/// What should be stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    /// Cards, and length and checksum of payloads.
    entries: BTreeMap<u64, (Vec<u8>, usize, u32)>,
    ids: BTreeSet<Vec<u8>>,
    sequence: u64,
}

const NODE: &str = "ipn:1.0";

fn open(root: &Path, shaky: &Shaky) -> (Depot<Shaky>, Found) {
    Depot::open_on(root, NODE, 0, shaky.clone()).unwrap()
}

fn model(depot: &Depot<Shaky>, found: Found) -> Model {
    assert_eq!(found.aside, [], "a kill damages nothing");
    let shelf = depot.shelf();
    let entry = |(key, entry): (u64, depot::Entry)| {
        let payload = shelf.payload(key).unwrap();
        assert_eq!(payload.len() as u64, entry.payload_bytes);
        (key, (entry.card, payload.len(), crc32fast::hash(&payload)))
    };
    Model {
        entries: found.entries.into_iter().map(entry).collect(),
        ids: found.ids.into_iter().map(|(id, _)| id).collect(),
        sequence: found.sequence,
    }
}

/// What a batch is made of.
#[derive(Clone, Debug)]
enum Wish {
    Keep(usize),
    Forget(usize),
    /// One is replaced by two.
    Cut(usize),
    Remember(u8),
    ForgetId(u8),
}

#[derive(Clone, Debug)]
struct Round {
    wishes: Vec<Wish>,
    /// A fault at a step of it.
    fault: Option<(u64, Fault)>,
    /// The store is opened anew afterwards.
    again: bool,
}

fn wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        4 => prop_oneof![0..200_usize, 4_000..4_200_usize, 10_000..40_000_usize].prop_map(Wish::Keep),
        2 => (0..100_usize).prop_map(Wish::Forget),
        1 => (0..100_usize).prop_map(Wish::Cut),
        1 => (0..50_u8).prop_map(Wish::Remember),
        1 => (0..50_u8).prop_map(Wish::ForgetId),
    ]
}

fn round() -> impl Strategy<Value = Round> {
    let fault = prop_oneof![2 => Just(Fault::Power), 1 => Just(Fault::Error)];
    let fault = proptest::option::weighted(0.6, (0..30_u64, fault));
    (proptest::collection::vec(wish(), 1..8), fault, any::<bool>())
        .prop_map(|(wishes, fault, again)| Round { wishes, fault, again })
}

fn content(key: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (key as usize * 31 + at) as u8).collect()
}

/// A batch, and what is stored when it is done but for `refused`.
fn batch(wishes: &[Wish], before: &Model, next: &mut u64) -> (Vec<Change>, Vec<Vec<u64>>) {
    let (mut changes, mut replaced) = (Vec::new(), Vec::new());
    let mut keep = |bytes: usize, changes: &mut Vec<Change>| {
        let key = *next;
        *next += 1;
        let payload = content(key, bytes);
        let (one, two) = payload.split_at(bytes / 3);
        let payload = vec![Bytes::copy_from_slice(one), Bytes::copy_from_slice(two)];
        changes.push(Change::Keep { key, card: format!("card {key}").into_bytes(), payload });
        key
    };
    let mut gone = BTreeSet::new();
    for wish in wishes {
        let old = |number: &usize| before.entries.keys().nth(number % before.entries.len().max(1));
        match wish {
            Wish::Keep(bytes) => {
                keep(*bytes, &mut changes);
            }
            Wish::Forget(number) | Wish::Cut(number) => {
                let Some(key) = old(number).filter(|key| gone.insert(**key)) else { continue };
                let unless = match wish {
                    Wish::Cut(_) => vec![keep(100, &mut changes), keep(9_000, &mut changes)],
                    _ => Vec::new(),
                };
                replaced.push(unless.clone());
                changes.push(Change::Forget { key: *key, unless });
            }
            Wish::Remember(id) => {
                changes.push(Change::Remember { id: vec![*id], until_ms: 1 << 40 });
            }
            Wish::ForgetId(id) => changes.push(Change::ForgetId(vec![*id])),
        }
    }
    changes.push(Change::Sequence(before.sequence + 1));
    (changes, replaced)
}

fn after(before: &Model, changes: &[Change], refused: &[u64]) -> Model {
    let mut model = before.clone();
    for change in changes {
        match change {
            Change::Keep { key, card, payload } if !refused.contains(key) => {
                let payload = payload.concat();
                let sum = crc32fast::hash(&payload);
                model.entries.insert(*key, (card.clone(), payload.len(), sum));
            }
            Change::Forget { key, unless } if !unless.iter().any(|one| refused.contains(one)) => {
                model.entries.remove(key);
            }
            Change::Remember { id, .. } => {
                model.ids.insert(id.clone());
            }
            Change::ForgetId(id) => {
                model.ids.remove(id);
            }
            Change::Sequence(number) => model.sequence = *number,
            Change::Keep { .. } | Change::Forget { .. } => {}
        }
    }
    model
}

fn play(rounds: &[Round], seed: u64) {
    let folder = Folder::new(&format!("model-{seed:x}"));
    let mut shaky = Shaky::new(seed);
    let (mut depot, found) = open(&folder.0, &shaky);
    let mut known = model(&depot, found);
    let mut next = 0;
    for round in rounds {
        let (changes, _) = batch(&round.wishes, &known, &mut next);
        if let Some((after, fault)) = round.fault {
            shaky.arm(after, fault);
        }
        let refused = depot.apply(changes.clone());
        let refused: Vec<u64> = refused.iter().map(|one| one.key).collect();
        let expected = after(&known, &changes, &refused);
        if shaky.is_dead() {
            drop(depot);
            shaky.lose();
            shaky = Shaky::new(seed ^ next);
            let found;
            (depot, found) = open(&folder.0, &shaky);
            let there = model(&depot, found);
            // What was refused as the power went may be there: nobody was told that it is.
            let whole = after(&known, &changes, &[]);
            assert!(there == known || there == whole || there == expected, "{there:?}\n{known:?}");
            known = there;
            continue;
        }
        // A disk that failed once is told again.
        if !depot.is_settled() {
            assert_eq!(depot.apply(Vec::new()), []);
        }
        assert!(depot.is_settled());
        known = expected;
        if round.again {
            drop(depot);
            shaky = Shaky::new(seed ^ next);
            let found;
            (depot, found) = open(&folder.0, &shaky);
            assert_eq!(model(&depot, found), known);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn a_batch_is_there_whole_or_not_at_all(
        rounds in proptest::collection::vec(round(), 1..10), seed in any::<u64>(),
    ) {
        play(&rounds, seed);
    }
}

/// Every step of a batch that has everything, one after the other.
#[test]
fn the_power_may_go_at_every_step() {
    let wishes = vec![
        Wish::Keep(30_000),
        Wish::Keep(10),
        Wish::Keep(20_000),
        Wish::Forget(1),
        Wish::Cut(0),
        Wish::Remember(7),
    ];
    let first = Round {
        wishes: vec![Wish::Keep(12_000), Wish::Keep(50), Wish::Keep(12_000)],
        fault: None,
        again: false,
    };
    for step in 0..80 {
        for (seed, fault) in [(3, Fault::Power), (5, Fault::Power), (7, Fault::Error)] {
            let round = Round { wishes: wishes.clone(), fault: Some((step, fault)), again: true };
            play(&[first.clone(), round, first.clone()], seed << 32 | step);
        }
    }
}

#[test]
fn a_full_disk_refuses_and_forgets() {
    let folder = Folder::new("full");
    let shaky = Shaky::new(1);
    let (mut depot, _) = open(&folder.0, &shaky);
    let keep = |key, bytes| Change::Keep {
        key,
        card: b"card".to_vec(),
        payload: vec![content(key, bytes).into()],
    };
    assert_eq!(depot.apply(vec![keep(1, 1_000_000), keep(2, 100)]), []);
    // 16 MiB stay free.
    shaky.fill(Some((16 << 20) + 150_000));
    let refused = depot.apply(vec![keep(3, 100_000), keep(4, 100_000), keep(5, 100)]);
    let refused: Vec<(u64, &str)> = refused.iter().map(|one| (one.key, &*one.why)).collect();
    assert_eq!(refused, [(4, "the disk is full")]);
    shaky.fill(Some(0));
    let refused = depot.apply(vec![
        keep(6, 10),
        Change::Forget { key: 1, unless: vec![] },
        Change::Forget { key: 2, unless: vec![6] },
    ]);
    assert_eq!(refused.len(), 1);
    assert!(depot.is_settled());
    shaky.fill(None);
    assert_eq!(depot.apply(vec![keep(7, 50_000)]), []);
    drop(depot);
    let (depot, found) = open(&folder.0, &Shaky::new(1));
    assert_eq!(model(&depot, found).entries.into_keys().collect::<Vec<_>>(), [2, 3, 5, 7]);
}
