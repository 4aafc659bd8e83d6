//! Checks lists and single objects against the history.

use std::sync::Arc;

use podstorm_objects::{AnyObject, Kind, Object};

use super::history::{key_of, same, shown};
use super::{History, Violation, Violations};
use crate::{Change, ClusterResource};

impl History {
    /// Checks a list of a kind, or of one namespace, at a version. The list must be sorted and
    /// equal the state at that version. The version must be one that the server had during the
    /// request, between the two versions in `during`.
    pub(crate) fn check_list<R: ClusterResource>(
        &self,
        namespace: Option<&str>,
        items: &[Arc<R>],
        version: u64,
        during: (u64, u64),
    ) -> Vec<Violation> {
        let mut broken = Violations::default();
        let (before, after) = during;
        broken.unless((before..=after).contains(&version), "list version", || {
            format!("{version} was returned while the server was at {before} to {after}")
        });
        self.compare_state("state", items, version, is_in(namespace), &mut broken);
        broken.0
    }

    /// Checks a list of a past state: it must be sorted and equal the state at `version`.
    pub(crate) fn check_list_as_of<R: ClusterResource>(
        &self,
        namespace: Option<&str>,
        items: &[Arc<R>],
        version: u64,
    ) -> Vec<Violation> {
        let mut broken = Violations::default();
        self.compare_state("state", items, version, is_in(namespace), &mut broken);
        broken.0
    }

    /// Checks a read of an object (`None`: not found) during which the server went from version
    /// `before` to `after`. The result must be the object's state at one of these versions.
    pub(crate) fn check_get(
        &self,
        (kind, namespace, name): (Kind, &str, &str),
        found: Option<&AnyObject>,
        (before, after): (u64, u64),
    ) -> Vec<Violation> {
        let key = (kind, namespace.to_owned(), name.to_owned());
        let mut stored: Option<&AnyObject> = None;
        let mut states = Vec::new();
        for record in self.records().iter().take_while(|it| it.version <= after) {
            // The state before the first write in this range is valid, too.
            if record.version > before && states.is_empty() {
                states.push(stored);
            }
            if key_of(&*record.new) == key {
                stored = (record.change != Change::Deleted).then_some(&record.new);
                if record.version > before {
                    states.push(stored);
                }
            }
        }
        if states.is_empty() {
            states.push(stored);
        }
        let fits = states.iter().any(|state| match (state, found) {
            (None, None) => true,
            (Some(state), Some(found)) => same(&***state, &**found),
            _ => false,
        });
        let mut broken = Violations::default();
        broken.unless(fits, "read", || {
            let found = found.map_or("nothing".into(), |found| shown(&**found));
            format!("{name}: {found} was read while the server was at {before} to {after}")
        });
        broken.0
    }

    /// Checks that `items` are the objects at `version` that `is_selected` accepts, sorted.
    pub(super) fn compare_state<R: ClusterResource>(
        &self,
        rule: &'static str,
        items: &[Arc<R>],
        version: u64,
        is_selected: impl Fn(&dyn Object) -> bool,
        broken: &mut Violations,
    ) {
        let mut wanted = self.state_at(R::KIND, version);
        wanted.retain(|object| is_selected(&***object));
        for (position, wanted) in wanted.iter().enumerate() {
            let found = items.get(position).map(|item| -> &dyn Object { &**item });
            if !found.is_some_and(|found| same(found, &***wanted)) {
                let found = found.map_or("nothing".into(), shown);
                let wanted = shown(&***wanted);
                let what = format!("at {version}, found {found} instead of {wanted}");
                return broken.add(rule, what);
            }
        }
        if let Some(more) = items.get(wanted.len()) {
            let more = shown(&**more);
            broken.add(rule, format!("at {version} there was no {more}"));
        }
    }
}

fn is_in(namespace: Option<&str>) -> impl Fn(&dyn Object) -> bool {
    move |object| namespace.is_none_or(|namespace| &*object.metadata().namespace == namespace)
}
