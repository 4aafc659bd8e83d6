//! The volume under which a pod finds the token of its service account. Admission names it anew
//! for every pod: `kube-api-access-` and five letters, in the list of volumes and in the mounts of
//! every container. Taken out, the specs of one template's pods are equal and can be shared.

use std::fmt;

use serde_json::Value;

use super::Map;

/// What stands in a spec where the name was: no name of a volume, for `*` is in none.
const MARKER: &str = "kube-api-access-*";

/// The lists of containers in a pod spec.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

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

    /// The volume whose name can be taken out of the members of a pod spec.
    pub(super) fn find(fields: &Map) -> Option<TokenVolume> {
        let volumes = || names_in(fields.get("volumes"));
        let mut own = volumes().filter_map(TokenVolume::new);
        let found = own.next()?;
        let is_plain = own.all(|other| other == found)
            && volumes().all(|name| name != MARKER)
            && mounts(fields).all(|name| name != MARKER);
        is_plain.then_some(found)
    }

    /// Takes the name out of the members of a pod spec, where it can be. O(members).
    pub(super) fn take_out(fields: &mut Map) -> Option<TokenVolume> {
        let found = TokenVolume::find(fields)?;
        rename(fields, &found.to_string(), MARKER);
        Some(found)
    }

    /// Puts the name back to where it was. O(members).
    pub(super) fn put_back(self, fields: &mut Map) {
        rename(fields, MARKER, &self.to_string());
    }
}

impl fmt::Display for TokenVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::PREFIX)?;
        f.write_str(str::from_utf8(&self.0).expect("letters and digits are ASCII"))
    }
}

impl fmt::Debug for TokenVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// The names of the items of a list.
fn names_in(list: Option<&Value>) -> impl Iterator<Item = &str> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|item| item.get("name")?.as_str())
}

/// The names of the volumes that the containers mount.
fn mounts(fields: &Map) -> impl Iterator<Item = &str> {
    let lists = CONTAINERS.iter().filter_map(|list| fields.get(*list));
    let containers = lists.filter_map(Value::as_array).flatten();
    containers.flat_map(|container| names_in(container.get("volumeMounts")))
}

/// Gives the volumes and mounts of a pod spec that have one name another.
fn rename(fields: &mut Map, from: &str, to: &str) {
    fn items(list: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
        list.and_then(Value::as_array_mut).into_iter().flatten()
    }
    let change = |item: &mut Value| {
        if let Some(Value::String(name)) = item.get_mut("name")
            && name == from
        {
            to.clone_into(name);
        }
    };
    items(fields.get_mut("volumes")).for_each(change);
    for list in CONTAINERS {
        for container in items(fields.get_mut(list)) {
            items(container.get_mut("volumeMounts")).for_each(change);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map {
        match value {
            Value::Object(map) => map,
            other => panic!("{other} is no object"),
        }
    }

    /// What taking out leaves, and whether anything was taken.
    fn taken(spec: Value) -> (Value, Option<TokenVolume>) {
        let mut fields = map(spec);
        let found = TokenVolume::take_out(&mut fields);
        (Value::Object(fields), found)
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
        let (a, of_a) = taken(spec("kube-api-access-aaaaa"));
        let (b, of_b) = taken(spec("kube-api-access-bbbbb"));
        assert_eq!(a, b);
        assert_eq!(a, spec(MARKER));
        assert_eq!(of_a, TokenVolume::new("kube-api-access-aaaaa"));
        assert_eq!(of_b, TokenVolume::new("kube-api-access-bbbbb"));
        let mut fields = map(a);
        of_b.unwrap().put_back(&mut fields);
        assert_eq!(Value::Object(fields), spec("kube-api-access-bbbbb"));
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
            json!({"volumes": {"name": one}}),
            json!({"volumes": [[one], one, {"name": [one]}]}),
        ] {
            assert_eq!(taken(spec.clone()), (spec, None));
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
        let (left, volume) = taken(spec(name));
        assert_eq!(left, spec(MARKER));
        let mut fields = map(left);
        volume.unwrap().put_back(&mut fields);
        assert_eq!(Value::Object(fields), spec(name));
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
            let (left, volume) = taken(spec.clone());
            let mut fields = map(left.clone());
            // What was taken out is not found again, and what is left says so.
            prop_assert_eq!(TokenVolume::find(&fields), None);
            prop_assert_eq!(volume.is_some(), left != spec);
            if let Some(volume) = volume {
                volume.put_back(&mut fields);
            }
            prop_assert_eq!(Value::Object(fields.clone()), spec);
            // And again: the form is the only one that a spec has.
            prop_assert_eq!(TokenVolume::take_out(&mut fields), volume);
            prop_assert_eq!(Value::Object(fields), left);
        }
    }
}
