//! Pod templates: the hash that names the ReplicaSet of a template, and the equality of templates.
//!
//! Both use one walk over the template's JSON in the order of upstream's types. Hashing streams
//! upstream's dump of the template into FNV-1a; comparison streams only the values.

mod dump;
mod quantity;
mod schema;
mod typed;
mod walk;

use compact_str::CompactString;
use podstorm_objects::{ObjectMeta, PodTemplate, Str};

use dump::{Canonical, Dump, Fnv32, Fnv64};

pub(crate) use typed::WorkloadRules;
pub use typed::{Mismatch, as_upstream_writes};

/// The label that holds the hash of the template. A ReplicaSet, its selector and its template have
/// the label; a Deployment's template does not.
pub const HASH_LABEL: &str = "pod-template-hash";

/// The maximum length in bytes of a ReplicaSet's name (a DNS-1123 subdomain).
const NAME_BYTES_MAX: usize = 253;

/// Returns the hash of a template, 1 to 10 characters, as in the label [`HASH_LABEL`] and in the
/// name of the ReplicaSet. `collision_count` is the Deployment's `status.collisionCount`; 0 and
/// `None` result in different hashes.
///
/// Equals the hash of Kubernetes 1.36 for every template without times in its metadata. No
/// controller sets such a time, and upstream's hash of it depends on the machine. O(bytes): some
/// tens of microseconds, most of them for FNV over the names of absent members.
///
/// Source: `ComputeHash` of the controller's utilities. Like upstream, nothing compares hashes:
/// [`same_template`] compares templates, and the hash is only part of a name.
pub fn pod_template_hash(template: &PodTemplate, collision_count: Option<i32>) -> CompactString {
    let mut dump = Dump(Fnv32::START);
    template.look(|json| walk::walk(json, &mut dump));
    let Dump(mut hash) = dump;
    if let Some(count) = collision_count {
        hash.bytes(&count.to_le_bytes());
        hash.bytes(&[0; 4]);
    }
    let digits = hash.0.to_string();
    // Characters that can't form words: no vowels, and none that look like a vowel.
    let safe = |digit: u8| char::from(b"456789bcdf"[usize::from(digit - b'0')]);
    digits.bytes().map(safe).collect()
}

/// Returns the part of [`pod_template_hash`]'s input that comes from the template, for comparison
/// with upstream's. O(bytes).
pub fn pod_template_dump(template: &PodTemplate) -> String {
    let mut dump = Dump(String::new());
    template.look(|json| walk::walk(json, &mut dump));
    dump.0
}

/// Returns the name of the ReplicaSet for a template with this hash. Truncates the Deployment's
/// name if it leaves too little room for the hash.
pub fn replica_set_name(deployment: &str, hash: &str) -> CompactString {
    let most = NAME_BYTES_MAX.saturating_sub(1 + hash.len());
    let kept = &deployment[..deployment.floor_char_boundary(most)];
    compact_str::format_compact!("{kept}-{hash}")
}

/// The comparable form of a template, which distinguishes most templates cheaply: a digest of the
/// values without the label [`HASH_LABEL`]. Computed once, when an object arrives. It is the same
/// in every process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemplateForm {
    digest: u64,
}

impl TemplateForm {
    /// Returns the form of a template. O(bytes), about ten microseconds.
    pub fn from_template(template: &PodTemplate) -> TemplateForm {
        TemplateForm {
            digest: canonical(template, Fnv64::START).0,
        }
    }
}

/// Reports whether two templates with these forms are equal apart from the label [`HASH_LABEL`].
///
/// Absent, null and empty lists and maps are equal. An absent number or string equals zero or the
/// empty string, unless its absence has a separate meaning. An absent object differs from an empty
/// one. Quantities are compared by value, times by instant, and lists in order. Members that
/// Kubernetes 1.36 doesn't know are ignored.
///
/// Different forms, shared specs and equal JSON are recognized without an allocation. Otherwise
/// O(bytes): equal digests are never enough to treat templates as equal.
///
/// Source: `EqualIgnoreHash` of the controller's utilities.
pub fn same_template(
    a: &PodTemplate,
    a_form: &TemplateForm,
    b: &PodTemplate,
    b_form: &TemplateForm,
) -> bool {
    a_form == b_form
        && (is_same_text(a, b) || canonical(a, String::new()) == canonical(b, String::new()))
}

/// Returns the template without the label [`HASH_LABEL`], as a Deployment has it. Shares all other
/// data.
#[must_use]
pub fn without_hash_label(template: &PodTemplate) -> PodTemplate {
    let mut template = template.clone();
    if template.metadata.labels.get(HASH_LABEL).is_some() {
        template.metadata.labels = template.metadata.labels.without(HASH_LABEL);
    }
    template
}

/// Returns the template with the label [`HASH_LABEL`], as a ReplicaSet has it. Shares all other
/// data.
#[must_use]
pub fn with_hash_label(template: &PodTemplate, hash: &str) -> PodTemplate {
    let mut template = template.clone();
    template.metadata.labels = template.metadata.labels.with(HASH_LABEL, hash);
    template
}

/// Writes the values of a template, without the hash label.
fn canonical<W: std::fmt::Write>(template: &PodTemplate, out: W) -> W {
    let mut out = Canonical(out);
    without_hash_label(template).look(|json| walk::walk(json, &mut out));
    out.0
}

/// Reports whether all members of two templates, known or not, have the same JSON text, apart from
/// the hash label.
fn is_same_text(a: &PodTemplate, b: &PodTemplate) -> bool {
    fn labels(template: &PodTemplate) -> impl Iterator<Item = &(Str, Str)> {
        let pairs = template.metadata.labels.pairs().iter();
        pairs.filter(|(key, _)| &**key != HASH_LABEL)
    }
    fn others(template: &PodTemplate) -> impl PartialEq {
        let ObjectMeta {
            name,
            generate_name,
            namespace,
            uid,
            resource_version,
            generation,
            creation_timestamp,
            deletion_timestamp,
            deletion_grace_period_seconds,
            labels: _,
            annotations,
            owner_references,
            finalizers,
            rest,
        } = &template.metadata;
        let names = (name, generate_name, namespace, uid);
        let versions = (resource_version, generation, creation_timestamp);
        let deletion = (
            deletion_timestamp,
            deletion_grace_period_seconds,
            finalizers,
        );
        (
            names,
            versions,
            deletion,
            annotations,
            owner_references,
            rest,
        )
    }
    a.spec == b.spec
        && a.node_name == b.node_name
        && a.token_volume == b.token_volume
        && labels(a).eq(labels(b))
        && others(a) == others(b)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn template(value: Value) -> PodTemplate {
        PodTemplate::from_json(value).expect("a template")
    }

    fn is_same(a: &Value, b: &Value) -> bool {
        let (a, b) = (template(a.clone()), template(b.clone()));
        let (a_form, b_form) = (
            TemplateForm::from_template(&a),
            TemplateForm::from_template(&b),
        );
        let same = same_template(&a, &a_form, &b, &b_form);
        // The digests of these few templates don't collide.
        assert_eq!(a_form == b_form, same);
        assert_eq!(same_template(&b, &b_form, &a, &a_form), same);
        same
    }

    fn with_limit(quantity: Value) -> Value {
        json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": quantity}}}]}})
    }

    #[test]
    fn a_template_with_a_time_has_a_stable_hash() {
        let at = |time: &str| template(json!({"metadata": {"creationTimestamp": time}}));
        let hash = |time| pod_template_hash(&at(time), None);
        assert_eq!(hash("2026-01-02T03:04:05Z"), "5679c6856c");
        assert_eq!(hash("2026-01-02T04:04:05+01:00"), "5679c6856c");
        assert_ne!(hash("2026-01-02T03:04:06Z"), "5679c6856c");
        let unset = pod_template_hash(&template(json!({})), None);
        assert_eq!(hash("0001-01-01T00:00:00Z"), unset);
    }

    #[test]
    fn times_are_compared_by_instant() {
        let claim = |time: &str| {
            json!({"spec": {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate":
                {"metadata": {"creationTimestamp": time}}}}]}})
        };
        let same = |time: &str| is_same(&claim("2026-01-02T03:04:05Z"), &claim(time));
        assert!(same("2026-01-02T04:04:05+01:00"));
        assert!(!same("2026-01-02T03:04:06Z"));
    }

    #[test]
    fn unknown_template_members_are_ignored() {
        let (plain, future) = (json!({"spec": {}}), json!({"spec": {"future": {"a": [1]}}}));
        assert!(is_same(&plain, &future));
        let hash = |value| pod_template_hash(&template(value), None);
        assert_eq!(hash(plain), hash(future));
    }

    #[test]
    fn texts_that_look_like_the_dump_are_distinguished() {
        let container = |name: &str, image: &str| json!({"spec": {"containers": [{"name": name, "image": image}]}});
        let (a, b) = (
            container("c Image:(string)i", "j"),
            container("c", "i Image:(string)j"),
        );
        let length = |value: &Value| pod_template_dump(&template(value.clone())).len();
        assert_eq!(length(&a), length(&b));
        assert!(!is_same(&a, &b));
        let command = |words: Value| json!({"spec": {"containers": [{"command": words}]}});
        assert!(!is_same(
            &command(json!(["a b"])),
            &command(json!(["a", "b"]))
        ));
    }

    #[test]
    fn quantities_of_any_length_are_compared_by_value() {
        let same = |a: Value, b: Value| is_same(&with_limit(a), &with_limit(b));
        assert!(same(json!("1"), json!("1000m")));
        assert!(same(json!(2), json!("2")));
        assert!(same(json!("0"), json!("0Mi")));
        assert!(same(json!("10000000000000000000"), json!("10E")));
        assert!(!same(json!("1"), json!("1001m")));
        // The server refuses these values. They must still differ.
        assert!(!same(json!("x"), json!("y")));
        assert!(!same(json!("x"), json!("0")));
    }

    #[test]
    fn the_hash_label_is_added_and_removed() {
        let plain = template(json!({"metadata": {"labels": {"app": "web"}}}));
        let labelled = with_hash_label(&plain, "5d4f8c7b9");
        let label = labelled.metadata.labels.get(HASH_LABEL);
        assert_eq!(label.map(|it| &**it), Some("5d4f8c7b9"));
        assert_eq!(without_hash_label(&labelled), plain);
        assert_eq!(
            TemplateForm::from_template(&labelled),
            TemplateForm::from_template(&plain)
        );
        let hash = |template: &PodTemplate| pod_template_hash(template, None);
        assert_ne!(hash(&labelled), hash(&plain));
    }

    #[test]
    fn long_deployment_names_are_truncated() {
        assert_eq!(replica_set_name("web", "5d4f8c7b9"), "web-5d4f8c7b9");
        assert_eq!(replica_set_name(&"x".repeat(253), "5d4").len(), 253);
        assert!(replica_set_name(&"é".repeat(200), "5d4").len() < 253);
    }
}
