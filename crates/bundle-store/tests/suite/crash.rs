//! Random operations with faults at every step, compared with a model: batches are atomic, and stored data is
//! unchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bundle_store::{DiskStore, RecoveredState, StoreChange};
use bytes::Bytes;
use proptest::prelude::*;

use crate::shaky::{Fault, Folder, Shaky};

/// The expected content of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model {
    /// Metadata, and length and checksum of payloads.
    entries: BTreeMap<u64, (Vec<u8>, usize, u32)>,
    ids: BTreeSet<Vec<u8>>,
    sequence: u64,
}

const NODE: &str = "ipn:1.0";

fn open(root: &Path, shaky: &Shaky) -> (DiskStore<Shaky>, RecoveredState) {
    DiskStore::open_with_backend(root, NODE, 0, shaky.clone()).unwrap()
}

fn model(store: &DiskStore<Shaky>, found: RecoveredState) -> Model {
    assert_eq!(found.quarantined, [], "a kill damages nothing");
    let reader = store.payload_reader();
    let entry = |(key, entry): (u64, bundle_store::StoreEntry)| {
        let payload = reader.read_payload(key).unwrap();
        assert_eq!(payload.len() as u64, entry.payload_bytes);
        (key, (entry.metadata, payload.len(), crc32fast::hash(&payload)))
    };
    Model {
        entries: found.entries.into_iter().map(entry).collect(),
        ids: found.ids.into_iter().map(|(id, _)| id).collect(),
        sequence: found.sequence,
    }
}

/// A planned change of a batch.
#[derive(Clone, Debug)]
enum PlannedChange {
    Put(usize),
    Remove(usize),
    /// Replaces one entry by two.
    Replace(usize),
    RecordId(u8),
    RemoveId(u8),
}

#[derive(Clone, Debug)]
struct Round {
    changes: Vec<PlannedChange>,
    /// A fault at a step of the batch.
    fault: Option<(u64, Fault)>,
    /// The store is reopened afterwards.
    reopens: bool,
}

fn planned_change() -> impl Strategy<Value = PlannedChange> {
    prop_oneof![
        4 => prop_oneof![0..200_usize, 4_000..4_200_usize, 10_000..40_000_usize].prop_map(PlannedChange::Put),
        2 => (0..100_usize).prop_map(PlannedChange::Remove),
        1 => (0..100_usize).prop_map(PlannedChange::Replace),
        1 => (0..50_u8).prop_map(PlannedChange::RecordId),
        1 => (0..50_u8).prop_map(PlannedChange::RemoveId),
    ]
}

fn round() -> impl Strategy<Value = Round> {
    let fault = prop_oneof![2 => Just(Fault::Power), 1 => Just(Fault::Error)];
    let fault = proptest::option::weighted(0.6, (0..30_u64, fault));
    (proptest::collection::vec(planned_change(), 1..8), fault, any::<bool>())
        .prop_map(|(planned, fault, again)| Round { changes: planned, fault, reopens: again })
}

fn content(key: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (key as usize * 31 + at) as u8).collect()
}

/// Builds a batch, and the keys of the replacements.
fn batch(
    planned: &[PlannedChange],
    before: &Model,
    next: &mut u64,
) -> (Vec<StoreChange>, Vec<Vec<u64>>) {
    let (mut changes, mut replaced) = (Vec::new(), Vec::new());
    let mut keep = |bytes: usize, changes: &mut Vec<StoreChange>| {
        let key = *next;
        *next += 1;
        let payload = content(key, bytes);
        let (one, two) = payload.split_at(bytes / 3);
        let payload = vec![Bytes::copy_from_slice(one), Bytes::copy_from_slice(two)];
        changes.push(StoreChange::Put {
            key,
            metadata: format!("card {key}").into_bytes(),
            payload,
        });
        key
    };
    let mut removed = BTreeSet::new();
    for change in planned {
        let old = |number: &usize| before.entries.keys().nth(number % before.entries.len().max(1));
        match change {
            PlannedChange::Put(bytes) => {
                keep(*bytes, &mut changes);
            }
            PlannedChange::Remove(number) | PlannedChange::Replace(number) => {
                let Some(key) = old(number).filter(|key| removed.insert(**key)) else { continue };
                let unless = match change {
                    PlannedChange::Replace(_) => {
                        vec![keep(100, &mut changes), keep(9_000, &mut changes)]
                    }
                    _ => Vec::new(),
                };
                replaced.push(unless.clone());
                changes.push(StoreChange::Remove { key: *key, replaced_by: unless });
            }
            PlannedChange::RecordId(id) => {
                changes.push(StoreChange::RecordId { id: vec![*id], until_ms: 1 << 40 });
            }
            PlannedChange::RemoveId(id) => changes.push(StoreChange::RemoveId(vec![*id])),
        }
    }
    changes.push(StoreChange::SetSequence(before.sequence + 1));
    (changes, replaced)
}

fn after(before: &Model, changes: &[StoreChange], refused: &[u64]) -> Model {
    let mut model = before.clone();
    for change in changes {
        match change {
            StoreChange::Put { key, metadata: card, payload } if !refused.contains(key) => {
                let payload = payload.concat();
                let sum = crc32fast::hash(&payload);
                model.entries.insert(*key, (card.clone(), payload.len(), sum));
            }
            StoreChange::Remove { key, replaced_by: unless }
                if !unless.iter().any(|one| refused.contains(one)) =>
            {
                model.entries.remove(key);
            }
            StoreChange::RecordId { id, .. } => {
                model.ids.insert(id.clone());
            }
            StoreChange::RemoveId(id) => {
                model.ids.remove(id);
            }
            StoreChange::SetSequence(number) => model.sequence = *number,
            StoreChange::Put { .. } | StoreChange::Remove { .. } => {}
        }
    }
    model
}

fn run_rounds(rounds: &[Round], seed: u64) {
    let folder = Folder::new(&format!("model-{seed:x}"));
    let mut shaky = Shaky::new(seed);
    let (mut store, found) = open(&folder.0, &shaky);
    let mut known = model(&store, found);
    let mut next = 0;
    for round in rounds {
        let (changes, _) = batch(&round.changes, &known, &mut next);
        if let Some((after, fault)) = round.fault {
            shaky.inject_fault(after, fault);
        }
        let refused = store.apply(changes.clone());
        let refused: Vec<u64> = refused.iter().map(|one| one.key).collect();
        let expected = after(&known, &changes, &refused);
        if shaky.is_dead() {
            drop(store);
            shaky.lose_unsynced();
            shaky = Shaky::new(seed ^ next);
            let found;
            (store, found) = open(&folder.0, &shaky);
            let there = model(&store, found);
            // Entries rejected at the power loss may be stored: their durability was not confirmed.
            let whole = after(&known, &changes, &[]);
            assert!(there == known || there == whole || there == expected, "{there:?}\n{known:?}");
            known = there;
            continue;
        }
        // After a single failure the pending batch is applied again.
        if !store.is_durable() {
            assert_eq!(store.apply(Vec::new()), []);
        }
        assert!(store.is_durable());
        known = expected;
        if round.reopens {
            drop(store);
            shaky = Shaky::new(seed ^ next);
            let found;
            (store, found) = open(&folder.0, &shaky);
            assert_eq!(model(&store, found), known);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn a_batch_is_atomic(
        rounds in proptest::collection::vec(round(), 1..10), seed in any::<u64>(),
    ) {
        run_rounds(&rounds, seed);
    }
}

/// A fault at every step of a batch with all kinds of changes.
#[test]
fn a_power_loss_at_any_step_preserves_atomicity() {
    let planned = vec![
        PlannedChange::Put(30_000),
        PlannedChange::Put(10),
        PlannedChange::Put(20_000),
        PlannedChange::Remove(1),
        PlannedChange::Replace(0),
        PlannedChange::RecordId(7),
    ];
    let first = Round {
        changes: vec![
            PlannedChange::Put(12_000),
            PlannedChange::Put(50),
            PlannedChange::Put(12_000),
        ],
        fault: None,
        reopens: false,
    };
    for step in 0..80 {
        for (seed, fault) in [(3, Fault::Power), (5, Fault::Power), (7, Fault::Error)] {
            let round =
                Round { changes: planned.clone(), fault: Some((step, fault)), reopens: true };
            run_rounds(&[first.clone(), round, first.clone()], seed << 32 | step);
        }
    }
}

#[test]
fn a_full_disk_rejects_entries_and_permits_removal() {
    let folder = Folder::new("full");
    let shaky = Shaky::new(1);
    let (mut store, _) = open(&folder.0, &shaky);
    let keep = |key, bytes| StoreChange::Put {
        key,
        metadata: b"card".to_vec(),
        payload: vec![content(key, bytes).into()],
    };
    assert_eq!(store.apply(vec![keep(1, 1_000_000), keep(2, 100)]), []);
    // 16 MiB stay free.
    shaky.set_free_bytes(Some((16 << 20) + 150_000));
    let refused = store.apply(vec![keep(3, 100_000), keep(4, 100_000), keep(5, 100)]);
    let refused: Vec<(u64, &str)> = refused.iter().map(|one| (one.key, &*one.reason)).collect();
    assert_eq!(refused, [(4, "the disk is full")]);
    shaky.set_free_bytes(Some(0));
    let refused = store.apply(vec![
        keep(6, 10),
        StoreChange::Remove { key: 1, replaced_by: vec![] },
        StoreChange::Remove { key: 2, replaced_by: vec![6] },
    ]);
    assert_eq!(refused.len(), 1);
    assert!(store.is_durable());
    shaky.set_free_bytes(None);
    assert_eq!(store.apply(vec![keep(7, 50_000)]), []);
    drop(store);
    let (store, found) = open(&folder.0, &Shaky::new(1));
    assert_eq!(model(&store, found).entries.into_keys().collect::<Vec<_>>(), [2, 3, 5, 7]);
}
