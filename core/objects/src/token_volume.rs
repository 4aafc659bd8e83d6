//! The volume under which a pod finds the token of its service account. Admission names it anew
//! for every pod: `kube-api-access-` and five letters, in the list of volumes and in the mounts of
//! every container. Taken out, the specs of one template's pods are equal and can be shared.

use std::fmt;

use super::json::JsonValue;

/// What stands in a spec where the name was: no name of a volume, for `*` is in none.
pub(super) const MARKER: &str = "kube-api-access-*";

/// The name of a pod's own service-account volume: `kube-api-access-` and five of `a`..`z` and
/// `0`..`9`, which are what is kept.
///
/// It is taken out of a spec that names its volumes so just once (or more than once alike), from
/// the list of volumes and from the containers' mounts alone. A spec that says anything else,
/// `kube-api-access-*` itself among the names included, is kept as it is; so a spec is always the
/// very same again when the name is put back.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenVolume([u8; 5]);

/// A pod has eight bytes for one that may be absent.
const _: () = assert!(size_of::<Option<TokenVolume>>() <= 8);

impl TokenVolume {
    /// What the names begin with.
    pub const PREFIX: &str = "kube-api-access-";

    /// The lists of containers in a pod spec.
    pub(super) const CONTAINERS: [&str; 3] =
        ["containers", "initContainers", "ephemeralContainers"];

    /// The volume of that name; `None` for a name of another form.
    pub fn new(name: &str) -> Option<TokenVolume> {
        TokenVolume::with_letters(name.strip_prefix(Self::PREFIX)?)
    }

    /// The volume whose name ends with these five letters; `None` for letters of another form.
    pub fn with_letters(letters: &str) -> Option<TokenVolume> {
        let letters: [u8; 5] = letters.as_bytes().try_into().ok()?;
        let is_usual = |letter: &u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        letters.iter().all(is_usual).then_some(TokenVolume(letters))
    }

    /// The five letters.
    pub(super) fn letters(&self) -> &str {
        str::from_utf8(&self.0).expect("letters and digits are ASCII")
    }

    /// The volume whose name can be taken out of a pod spec.
    pub(super) fn find(spec: JsonValue<'_>) -> Option<TokenVolume> {
        let volumes = || names_in(spec.get("volumes"));
        let mut own = volumes().filter_map(TokenVolume::new);
        let found = own.next()?;
        let is_plain = own.all(|other| other == found)
            && volumes().all(|name| name != MARKER)
            && mounts(spec).all(|name| name != MARKER);
        is_plain.then_some(found)
    }
}

impl fmt::Display for TokenVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::PREFIX)?;
        f.write_str(self.letters())
    }
}

impl fmt::Debug for TokenVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// The names of the items of a list.
fn names_in(list: Option<JsonValue<'_>>) -> impl Iterator<Item = &str> {
    let items = list.into_iter().flat_map(|list| list.items());
    items.filter_map(|item| item.get("name")?.as_str())
}

/// The names of the volumes that the containers mount.
fn mounts(spec: JsonValue<'_>) -> impl Iterator<Item = &str> {
    let lists = TokenVolume::CONTAINERS
        .into_iter()
        .filter_map(move |list| spec.get(list));
    let containers = lists.flat_map(|list| list.items());
    containers.flat_map(|container| names_in(container.get("volumeMounts")))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;
    use serde_json::{Value, json};

    use super::*;
    use crate::PodSpec;
    use crate::codec::testing::read_spec;
    use crate::json::Tape;

    /// The spec without the name, and what was taken out.
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
    fn names_of_the_usual_form_are_known() {
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
            let container =
                json!({"name": "c", "volumeMounts": [{"name": "data"}, {"name": name}]});
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
    fn a_spec_of_another_form_stays_as_it_is() {
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
            assert_eq!(TokenVolume::find(Tape::of(&odd).root()), None);
        }
    }

    #[test]
    fn the_name_is_left_where_it_names_no_volume() {
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

    /// Names and things that are none, such as a spec has at its odd places.
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
        let container = (name(), list(), list()).prop_map(
            |(name, mounts, env)| json!({"name": name, "volumeMounts": mounts, "env": env}),
        );
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
        fn every_spec_comes_back(spec in hostile()) {
            // A name that is no text is refused, and a null of the spec itself is left out.
            let Ok((kept, volume)) = read_spec(&spec) else { return Ok(()) };
            let mut spec = spec;
            spec.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            // What was taken out is not found again, and what is left says so.
            let rest = left(&kept);
            prop_assert_eq!(TokenVolume::find(Tape::of(&rest).root()), None);
            prop_assert_eq!(volume.is_some(), rest != spec);
            prop_assert_eq!(full(&kept, volume), spec.clone());
            // And again: the form is the only one that a spec has.
            prop_assert_eq!(taken(&spec), (kept, volume));
        }
    }
}
