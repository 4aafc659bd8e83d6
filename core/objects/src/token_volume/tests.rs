//! Tests of the volume name: every spec reads back as it was written.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::*;
use crate::PodSpec;
use crate::codec::testing::read_spec;
use crate::json::Tape;

/// Returns the spec without the name, and the name that was taken out.
fn taken(spec: &Value) -> (PodSpec, Option<TokenVolume>) {
    read_spec(spec).expect("a readable spec")
}

fn left(spec: &PodSpec) -> Value {
    spec.to_map(None).into()
}

fn full(spec: &PodSpec, volume: Option<TokenVolume>) -> Value {
    spec.to_map(volume).into()
}

#[test]
fn names_of_the_usual_form_are_recognized() {
    for (name, known) in [
        ("kube-api-access-q7w2n", true),
        ("kube-api-access-aeiou", true),
        ("kube-api-access-q7w2", false),
        ("kube-api-access-q7w2nn", false),
        ("kube-api-access-Q7w2n", false),
        ("kube-api-access-q7-2n", false),
        ("kube-api-access-\u{e9}abc", false),
        ("kube-api-access-", false),
        ("kube-api-acces-q7w2n", false),
        ("xkube-api-access-q7w2n", false),
        (MARKER, false),
        ("", false),
    ] {
        let found = TokenVolume::new(name);
        assert_eq!(found.is_some(), known, "{name}");
        assert!(found.is_none_or(|volume| volume.to_string() == name));
    }
}

#[test]
fn specs_that_differ_in_the_name_become_equal() {
    let spec = |name: &str| {
        let container = json!({"name": "c", "volumeMounts": [{"name": "data"}, {"name": name}]});
        json!({
            "volumes": [{"name": "data"}, {"name": name, "projected": {}}],
            "containers": [container], "initContainers": [container],
            "ephemeralContainers": [container], "hostname": "h"})
    };
    let (a, of_a) = taken(&spec("kube-api-access-aaaaa"));
    let (b, of_b) = taken(&spec("kube-api-access-bbbbb"));
    assert_eq!(a, b);
    assert_eq!(left(&a), spec(MARKER));
    assert_eq!(of_a, TokenVolume::new("kube-api-access-aaaaa"));
    assert_eq!(of_b, TokenVolume::new("kube-api-access-bbbbb"));
    assert_eq!(full(&a, of_b), spec("kube-api-access-bbbbb"));
}

#[test]
fn a_spec_of_another_form_does_not_change() {
    let (one, two) = ("kube-api-access-aaaaa", "kube-api-access-bbbbb");
    for spec in [
        json!({}),
        json!({"volumes": [{"name": one}, {"name": two}]}),
        json!({"volumes": [{"name": one}, {"name": MARKER}]}),
        json!({"volumes": [{"name": one}],
            "containers": [{"volumeMounts": [{"name": MARKER}]}]}),
        json!({"containers": [{"volumeMounts": [{"name": one}]}]}),
        json!({"volumes": [{"name": "kube-api-access-toolong"}]}),
    ] {
        let (kept, volume) = taken(&spec);
        assert_eq!((left(&kept), volume), (spec, None));
    }
    for odd in [
        json!({"volumes": {"name": one}}),
        json!({"volumes": [[one], one, {"name": [one]}]}),
    ] {
        assert_eq!(TokenVolume::find(Tape::new(&odd).root()), None);
    }
}

#[test]
fn the_name_stays_where_it_does_not_name_a_volume() {
    let name = "kube-api-access-aaaaa";
    let spec = |at: &str| {
        json!({"volumes": [{"name": at, "secret": {"name": name}}], "hostname": name,
        "containers": [{"name": name, "env": [{"name": name, "value": MARKER}],
            "volumeDevices": [{"name": name}]}]})
    };
    let (kept, volume) = taken(&spec(name));
    assert_eq!(left(&kept), spec(MARKER));
    assert_eq!(full(&kept, volume), spec(name));
}

/// Generates names, and occasionally values of other types, for any place in a spec.
fn name() -> impl Strategy<Value = Value> {
    let names = [
        "kube-api-access-aaaaa",
        "kube-api-access-aaaaa",
        "kube-api-access-zz999",
        "kube-api-access-aaaa",
        "kube-api-access-*",
        "data",
        "",
    ];
    prop_oneof![
        8 => select(names.to_vec()).prop_map(Value::from),
        1 => select(vec![json!(null), json!(3), json!(["kube-api-access-aaaaa"]), json!({})]),
    ]
}

fn list() -> impl Strategy<Value = Value> {
    let item = prop_oneof![
        9 => name().prop_map(|name| json!({"name": name, "mountPath": "/"})),
        1 => name(),
    ];
    prop_oneof![
        9 => vec(item, 0..4).prop_map(Value::from),
        1 => name(),
    ]
}

fn containers() -> impl Strategy<Value = Value> {
    let container = (name(), list(), list())
        .prop_map(|(name, mounts, env)| json!({"name": name, "volumeMounts": mounts, "env": env}));
    vec(container, 0..3).prop_map(Value::from)
}

fn hostile() -> impl Strategy<Value = Value> {
    (list(), containers(), containers(), containers(), name()).prop_map(
        |(volumes, main, init, ephemeral, name)| {
            json!({"volumes": volumes, "containers": main, "initContainers": init,
                "ephemeralContainers": ephemeral, "serviceAccountName": name})
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn every_spec_reads_back_as_written(spec in hostile()) {
        // A name that is not a string is rejected, and a null member of the spec is dropped.
        let Ok((kept, volume)) = read_spec(&spec) else { return Ok(()) };
        let mut spec = spec;
        spec.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        // The stored spec contains no name that could be taken out. It differs from the original
        // exactly if a name was taken out.
        let rest = left(&kept);
        prop_assert_eq!(TokenVolume::find(Tape::new(&rest).root()), None);
        prop_assert_eq!(volume.is_some(), rest != spec);
        prop_assert_eq!(full(&kept, volume), spec.clone());
        // Reading the restored spec gives the same result.
        prop_assert_eq!(taken(&spec), (kept, volume));
    }
}
