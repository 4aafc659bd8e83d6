//! The search for a Deployment's new ReplicaSet, and the revisions of ReplicaSets.

use std::cmp::Ordering;
use std::num::{IntErrorKind, ParseIntError};

use podstorm_objects::{ObjectMeta, PodTemplate, ReplicaSet, Str, Time};

use super::annotations::REVISION;
use crate::template::{TemplateForm, same_template};

/// Sorts the ReplicaSets that a Deployment controls by creation. Returns the position of the new
/// one: the first with the Deployment's template, even if it is being deleted; `None` if there is
/// none. All others are old. `set` returns the ReplicaSet of an item and `form_of` the form of its
/// template. `form` is the form of `template`, the Deployment's template. Allocates only to compare
/// templates that are equal but spelled differently.
///
/// Source: `FindNewReplicaSet` and `FindOldReplicaSets` of the controller's utilities.
pub fn new_and_old<T>(
    claimed: &mut [T],
    set: impl Fn(&T) -> &ReplicaSet,
    form_of: impl Fn(&T) -> &TemplateForm,
    template: &PodTemplate,
    form: &TemplateForm,
) -> Option<usize> {
    claimed.sort_unstable_by(|a, b| by_creation(set(a), set(b)));
    claimed
        .iter()
        .position(|it| same_template(&set(it).spec.template, form_of(it), template, form))
}

/// Compares by creation time, oldest first, an unset time before all others, and then by name.
pub fn by_creation(a: &ReplicaSet, b: &ReplicaSet) -> Ordering {
    fn age(replica_set: &ReplicaSet) -> (Time, &str) {
        let metadata = &replica_set.metadata;
        (metadata.creation_timestamp, &metadata.name)
    }
    age(a).cmp(&age(b))
}

/// Compares by revision, lowest first, 0 if absent, and then by creation. If a revision can't be
/// parsed, compares only by creation. As in upstream, the order is not total in that case.
pub fn by_revision(a: &ReplicaSet, b: &ReplicaSet) -> Ordering {
    let of = |replica_set: &ReplicaSet| revision(&replica_set.metadata);
    let revisions = match (of(a), of(b)) {
        (Ok(a), Ok(b)) => a.unwrap_or(0).cmp(&b.unwrap_or(0)),
        _ => Ordering::Equal,
    };
    revisions.then_with(|| by_creation(a, b))
}

/// The error for a revision that is not a 64-bit number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("strconv.ParseInt: parsing {text:?}: {}", problem(.cause))]
pub struct RevisionError {
    /// The value of the annotation.
    pub text: Str,
    cause: ParseIntError,
}

/// Describes why a string is not a number, in Go's words.
pub(super) fn problem(error: &ParseIntError) -> &'static str {
    match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}

/// Returns the revision of a Deployment or a ReplicaSet; `None` if it has no such annotation.
///
/// # Errors
/// Fails if the annotation is not a 64-bit number, for example if it is empty.
pub fn revision(metadata: &ObjectMeta) -> Result<Option<i64>, RevisionError> {
    let Some(text) = metadata.annotations.get(REVISION) else {
        return Ok(None);
    };
    let error = |cause| RevisionError {
        text: text.clone(),
        cause,
    };
    text.parse().map(Some).map_err(error)
}

/// Returns the revision, 0 if it is absent; `None` if it can't be parsed.
pub fn readable_revision(metadata: &ObjectMeta) -> Option<i64> {
    revision(metadata).map(Option::unwrap_or_default).ok()
}

/// Returns the highest of these revisions; 0 if all are lower or there are none.
pub fn max_revision(revisions: impl IntoIterator<Item = i64>) -> i64 {
    revisions.into_iter().fold(0, i64::max)
}

/// Returns the second highest of these revisions, at least 0. Equal revisions count separately.
pub fn last_revision(revisions: impl IntoIterator<Item = i64>) -> i64 {
    let (mut highest, mut second) = (0, 0);
    for revision in revisions {
        if revision >= highest {
            (second, highest) = (highest, revision);
        } else {
            second = second.max(revision);
        }
    }
    second
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Labels;

    use super::*;

    fn with_revision(text: &str) -> ReplicaSet {
        let mut replica_set = ReplicaSet::default();
        replica_set.metadata.annotations = Labels::from_pairs([(REVISION, text)]);
        replica_set
    }

    #[test]
    fn revisions_are_numbers_with_or_without_a_sign() {
        let read = |text| revision(&with_revision(text).metadata);
        assert_eq!(revision(&ObjectMeta::default()), Ok(None));
        assert_eq!(read("+7"), Ok(Some(7)));
        assert_eq!(read("-7"), Ok(Some(-7)));
        for (text, error) in [
            ("", "strconv.ParseInt: parsing \"\": invalid syntax"),
            ("1_0", "strconv.ParseInt: parsing \"1_0\": invalid syntax"),
            (
                "9223372036854775808",
                "strconv.ParseInt: parsing \"9223372036854775808\": value out of range",
            ),
        ] {
            assert_eq!(
                read(text).map_err(|it| it.to_string()),
                Err(error.to_owned())
            );
        }
    }
}
