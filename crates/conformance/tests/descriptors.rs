//! Descriptors agree with the specifications that they describe.

use bundle::cla::ClaSpec;
use conformance::descriptors::sample_spec;
use link::{
    AcmSpec, ChannelSpec, LINK_LAYERS, LinkLayerSpec, LossModel, NrSpec, QueueSpec, ReorderingSpec,
    RlcSpec, SERVICES, SchedulerSpec,
};
use units::{Descriptor, Opt, Quantity};

/// The members that a scenario names: their defaults form a valid specification, which names the same member.
#[test]
fn the_sample_of_a_descriptor_is_its_member() {
    fn check<T: serde::de::DeserializeOwned>(
        members: &[&'static Descriptor],
        tag: &str,
        descriptor: fn(&T) -> &'static Descriptor,
    ) {
        for member in members.iter().filter(|one| !one.scenario_name.is_empty()) {
            let sample = sample_spec(member, tag);
            let parsed: T = serde_json::from_value(sample.clone())
                .unwrap_or_else(|error| panic!("{sample}: {error}"));
            assert_eq!(descriptor(&parsed).spec_kind, member.spec_kind);
        }
    }
    check(ClaSpec::DESCRIPTORS, "kind", ClaSpec::descriptor);
    check(LossModel::DESCRIPTORS, "kind", LossModel::descriptor);
    check(ChannelSpec::DESCRIPTORS, "kind", ChannelSpec::descriptor);
    check(QueueSpec::DESCRIPTORS, "kind", QueueSpec::descriptor);
    check(SchedulerSpec::DESCRIPTORS, "name", SchedulerSpec::descriptor);
}

/// The tables of a direction that are no choice of a kind: their defaults form a specification too.
#[test]
fn the_sample_of_a_table_is_its_specification() {
    fn parse<T: serde::de::DeserializeOwned>(member: &Descriptor) {
        let mut sample = sample_spec(member, "kind");
        let untagged = member.spec_kind.is_empty() || member.scenario_name == "am";
        if untagged || ["nr", "acm"].contains(&member.spec_kind) {
            sample.as_object_mut().unwrap().remove("kind"); // the tag of a stage or of a mode
        }
        serde_json::from_value::<T>(sample.clone())
            .unwrap_or_else(|error| panic!("{sample}: {error}"));
    }
    LINK_LAYERS.iter().for_each(|member| parse::<LinkLayerSpec>(member));
    let [nr, acm, buffer] = SERVICES else { panic!("{SERVICES:?}") };
    parse::<NrSpec>(nr);
    parse::<AcmSpec>(acm);
    parse::<ReorderingSpec>(buffer);
    let [acknowledged, unacknowledged] = RlcSpec::DESCRIPTORS else { panic!("two modes") };
    parse::<link::RlcAcknowledgedSpec>(acknowledged);
    parse::<RlcSpec>(unacknowledged);
}

/// A specification has no field that its descriptor lacks: without any one option it cannot be parsed.
#[test]
fn every_option_of_a_descriptor_is_a_field() {
    for member in LossModel::DESCRIPTORS.iter().filter(|one| !one.scenario_name.is_empty()) {
        for option in member.options {
            let mut sample = sample_spec(member, "kind");
            sample.as_object_mut().unwrap().remove(option.spec_field);
            assert!(serde_json::from_value::<LossModel>(sample).is_err(), "{}", option.key);
        }
    }
}

const LISTS: [&[&Descriptor]; 8] = [
    ChannelSpec::DESCRIPTORS,
    ClaSpec::DESCRIPTORS,
    LINK_LAYERS,
    SERVICES,
    RlcSpec::DESCRIPTORS,
    LossModel::DESCRIPTORS,
    QueueSpec::DESCRIPTORS,
    SchedulerSpec::DESCRIPTORS,
];

fn all() -> impl Iterator<Item = &'static Descriptor> {
    let controllers = cc::ENTRIES.iter().map(|entry| &entry.descriptor);
    LISTS.into_iter().flatten().copied().chain(controllers)
}

#[test]
fn names_and_keys_are_unique_and_defaults_in_range() {
    for list in LISTS {
        let mut names: Vec<_> =
            list.iter().flat_map(|one| one.names()).filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
    for member in all() {
        let mut keys: Vec<_> =
            member.options.iter().map(|option| option.key).filter(|key| !key.is_empty()).collect();
        keys.sort_unstable();
        assert!(keys.windows(2).all(|pair| pair[0] != pair[1]), "{keys:?}");
        for option in member.options {
            assert!(has_default_in_range(option), "{}: {}", member.scenario_name, option.key);
            assert!(!option.meaning.is_empty() && !option.meaning.ends_with('.'), "{}", option.key);
        }
    }
}

fn has_default_in_range(option: &Opt) -> bool {
    let value = match option.default {
        units::DefaultValue::Number(value) => value,
        units::DefaultValue::Integer(value) => value as f64,
        units::DefaultValue::Word(word) => {
            let Quantity::Choice(words) = option.quantity else { return true };
            return option.key.is_empty() || words.contains(&word);
        }
        _ => return true,
    };
    option.min.is_none_or(|min| min <= value) && option.max.is_none_or(|max| value <= max)
}
