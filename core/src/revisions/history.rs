//! Lists of revisions: their order, their numbers, and the surplus revisions to delete.

use std::sync::Arc;

use podstorm_objects::{AnyObject, DynamicObject};
use podstorm_runtime::informer::Informed;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::store::Cached;
use serde_json::Value;

/// A cached revision.
#[derive(Clone, Debug)]
pub struct Revision(pub Arc<DynamicObject>);

impl Revision {
    /// Returns the name of the revision.
    pub fn name(&self) -> &str {
        &self.0.metadata.name
    }

    /// Returns the number of the revision; 0 if it is absent.
    pub fn number(&self) -> i64 {
        let number = self.0.fields.get("revision").and_then(Value::as_i64);
        number.unwrap_or(0)
    }

    /// Returns the data of the revision; null if it has none.
    pub fn data(&self) -> &Value {
        self.0.fields.get("data").unwrap_or(&Value::Null)
    }
}

/// Sorts revisions from the oldest to the newest: by number, then by creation, then by name.
pub fn sort(revisions: &mut [Revision]) {
    revisions.sort_by(|a, b| {
        let by = |it: &Revision| (it.number(), it.0.metadata.creation_timestamp.unix_seconds());
        by(a).cmp(&by(b)).then_with(|| a.name().cmp(b.name()))
    });
}

/// Returns the number for the revision that follows these sorted ones.
pub fn next_number(sorted: &[Revision]) -> i64 {
    sorted.last().map_or(1, |last| last.number() + 1)
}

/// Returns the revisions to delete, oldest first: all that are not live, except for the newest
/// `limit` of them. A negative limit keeps all.
pub fn surplus(
    sorted: &[Revision],
    is_live: impl Fn(&Revision) -> bool,
    limit: i64,
) -> impl Iterator<Item = &Revision> {
    let kept = usize::try_from(limit).unwrap_or(usize::MAX);
    // Deciding whether a revision is live reads every pod, so it is avoided if nothing is surplus.
    let all = if sorted.len() > kept { sorted } else { &[] };
    let history: Vec<&Revision> = all.iter().filter(|it| !is_live(it)).collect();
    let count = history.len().saturating_sub(kept);
    history.into_iter().take(count)
}

impl Cached for Revision {
    type Object = DynamicObject;
    type Context = ();

    const BY_CONTROLLER: bool = true;
    const ORPHANS: bool = true;

    fn derive(object: Arc<DynamicObject>, _: KeyId, _: Option<&Self>, _: &()) -> Self {
        Revision(object)
    }

    fn object(&self) -> &Arc<DynamicObject> {
        &self.0
    }
}

impl Informed for Revision {
    fn read(object: AnyObject) -> Option<Arc<DynamicObject>> {
        object.downcast()
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Kind;
    use serde_json::json;

    use super::*;

    fn revision(name: &str, number: i64, created: &str) -> Revision {
        let mut value = json!({"metadata": {"name": name}, "revision": number});
        if !created.is_empty() {
            value["metadata"]["creationTimestamp"] = created.into();
        }
        let read = DynamicObject::from_json(Kind::CONTROLLER_REVISION, value);
        Revision(Arc::new(read.expect("a revision")))
    }

    #[test]
    fn revisions_are_sorted_by_number_creation_and_name() {
        let mut all = [
            revision("d", 2, "2026-01-02T00:00:00Z"),
            revision("c", 2, "2026-01-01T00:00:00Z"),
            revision("b", 2, "2026-01-01T00:00:00Z"),
            revision("z", 2, ""),
            revision("e", 1, "2026-01-03T00:00:00Z"),
        ];
        sort(&mut all);
        let names: Vec<&str> = all.iter().map(Revision::name).collect();
        assert_eq!(names, ["e", "z", "b", "c", "d"]);
        assert_eq!(next_number(&all), 3);
        assert_eq!(next_number(&[]), 1);
    }

    #[test]
    fn the_oldest_beyond_the_limit_are_surplus() {
        let all = [("a", 1), ("b", 2), ("c", 3), ("d", 4)];
        let all = all.map(|(name, number)| revision(name, number, ""));
        let surplus_of = |limit| -> Vec<&str> {
            let surplus = surplus(&all, |it| it.name() == "b", limit);
            surplus.map(Revision::name).collect()
        };
        assert_eq!(surplus_of(1), ["a", "c"]);
        assert_eq!(surplus_of(0), ["a", "c", "d"]);
        assert_eq!(surplus_of(5), [""; 0]);
        assert_eq!(surplus_of(-1), [""; 0]);
    }
}
