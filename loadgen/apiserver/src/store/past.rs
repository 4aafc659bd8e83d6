//! The state as of an older version: what an API server answers whose cache lags behind.

use std::sync::Arc;

use compact_str::CompactString;
use hashbrown::HashSet;
use podstorm_objects::{ApiError, ResourceVersion, Str};

use super::log::{Position, Unavailable, Undo};
use super::{ClusterResource, Strategy};
use super::{KindStore, Snapshot, sorted};
use crate::{Cluster, Waker, errors};

/// Fixed seeds: what iterates is sorted, and runs stay repeatable down to the allocations.
const HASHER: ahash::RandomState = ahash::RandomState::with_seeds(1, 2, 3, 4);

impl Cluster {
    /// All objects of a kind (or of one namespace) as they were at `version`, sorted by namespace
    /// and name, and that version. O(n log n) for what exists now plus what happened since.
    ///
    /// # Errors
    /// 410 when the history does not reach back so far, as when the cluster
    /// [keeps no past](crate::ClusterOptions::keeps_past); 504 for a version that the server has
    /// not come to.
    pub fn list_as_of<R: ClusterResource>(
        &self,
        namespace: Option<&str>,
        version: u64,
    ) -> Result<(Vec<Arc<R>>, ResourceVersion), ApiError> {
        let (state, _) = R::store(self).as_of(namespace, version, None)?;
        Ok((state.objects, ResourceVersion::Number(state.version)))
    }
}

impl<R: Strategy> KindStore<R> {
    /// The state as of `version`, and a position behind it for a watch where one is asked for.
    ///
    /// # Errors
    /// 410 and 504 as [`Cluster::list_as_of`].
    pub(crate) fn as_of(
        &self,
        namespace: Option<&str>,
        version: u64,
        watch: Option<Option<Waker>>,
    ) -> Result<(Snapshot<R>, Option<Position<R>>), ApiError> {
        let (present, past) = self.collect(namespace, || self.log().undo(version, watch));
        let past = past.map_err(|reason| match reason {
            Unavailable::NotYet { current } => errors::version_too_large(version, current),
            Unavailable::Forgotten { oldest } => errors::expired(version, oldest),
        })?;
        let objects = sorted(undone(present, past.undo, namespace));
        Ok((Snapshot { objects, version }, past.position))
    }
}

/// The present objects with the events since taken back.
fn undone<R: Strategy>(
    mut objects: Vec<Arc<R>>,
    undo: Vec<Undo<R>>,
    namespace: Option<&str>,
) -> Vec<Arc<R>> {
    if undo.is_empty() {
        return objects;
    }
    let key = |object: &R| -> (Str, CompactString) {
        let metadata = object.metadata();
        (metadata.namespace.clone(), metadata.name.clone())
    };
    // By name: an object made anew under a name has nothing to do with what had it before.
    let mut changed = HashSet::with_capacity_and_hasher(undo.len(), HASHER);
    let mut before = Vec::new();
    for event in undo {
        // The first event on a name since then knows what was there.
        if changed.insert(key(&event.after)) {
            before.extend(event.before);
        }
    }
    objects.retain(|object| !changed.contains(&key(object)));
    let wanted = |object: &Arc<R>| {
        namespace.is_none_or(|namespace| &*object.metadata().namespace == namespace)
    };
    objects.extend(before.into_iter().filter(wanted));
    objects
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Pod;
    use serde_json::json;

    use super::*;
    use crate::testing::*;
    use crate::{ClusterOptions, DeleteOptions, History, WatchFrom, WatchOptions};

    fn remembering(history: History) -> Cluster {
        cluster_with(ClusterOptions {
            seed: 1,
            keeps_past: true,
            history,
            ..ClusterOptions::default()
        })
    }

    fn forced() -> DeleteOptions {
        DeleteOptions {
            grace_period_seconds: Some(0),
            ..DeleteOptions::default()
        }
    }

    /// Writes at random and remembers every state; the last write is at `resource_version`.
    fn lived(cluster: &Cluster, steps: usize) -> Vec<(u64, Vec<Arc<Pod>>)> {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut states = vec![(cluster.resource_version(), cluster.list::<Pod>(None).0)];
        for step in 0..steps {
            let name = format!("p{}", rng.u32(..12));
            let other = rng.bool();
            let namespace = if other { "other" } else { "default" };
            let metadata = json!({"metadata": {"namespace": namespace}});
            match rng.u32(..4) {
                // Refusals are part of it: the name may be taken or the pod missing.
                0 => drop(cluster.create(pod(&name, metadata), at(0))),
                1 => drop(cluster.delete::<Pod>(namespace, &name, &forced(), at(0))),
                2 => drop(cluster.create(replica_set(&format!("r{step}"), json!({})), at(0))),
                _ => {
                    if let Ok(found) = cluster.get::<Pod>(namespace, &name) {
                        let mut new = Pod::clone(&found);
                        let value = step.to_string();
                        new.metadata.annotations = new.metadata.annotations.with("k", &value);
                        cluster.update(new, at(0)).unwrap();
                    }
                }
            }
            states.push((cluster.resource_version(), cluster.list::<Pod>(None).0));
        }
        states
    }

    #[test]
    fn the_past_is_what_it_was_when_it_was_present() {
        let cluster = remembering(History::default());
        for (version, wanted) in lived(&cluster, 3000) {
            let (found, answered) = cluster.list_as_of::<Pod>(None, version).unwrap();
            assert_eq!(answered.number(), Some(version));
            assert_eq!(found, wanted, "as of {version}");
            let (found, _) = cluster.list_as_of::<Pod>(Some("other"), version).unwrap();
            let other = |pod: &&Arc<Pod>| &*pod.metadata.namespace == "other";
            assert!(wanted.iter().filter(other).eq(&found), "as of {version}");
        }
    }

    #[test]
    fn versions_in_the_middle_of_a_request_have_a_state_too() {
        let cluster = remembering(History::default());
        bound_pod(&cluster, "a", json!({}));
        cluster
            .delete::<Pod>("default", "a", &forced(), at(1))
            .unwrap();
        let marked = cluster.resource_version() - 1;
        let (found, _) = cluster.list_as_of::<Pod>(None, marked).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].metadata.is_deleting());
        let (found, _) = cluster.list_as_of::<Pod>(None, marked + 1).unwrap();
        assert!(found.is_empty());
    }

    #[test]
    fn a_watch_from_the_past_begins_with_its_state_and_goes_on_with_every_later_event() {
        let cluster = remembering(History::default());
        cluster.create(pod("a", json!({})), at(0)).unwrap();
        let past = cluster.resource_version();
        cluster.create(replica_set("r", json!({})), at(0)).unwrap();
        cluster.create(pod("b", json!({})), at(0)).unwrap();
        cluster
            .delete::<Pod>("default", "a", &DeleteOptions::default(), at(0))
            .unwrap();
        let from = WatchFrom::InitialAsOf(past);
        let mut watch = cluster.watch::<Pod>(from, WatchOptions::default()).unwrap();
        cluster.create(pod("c", json!({})), at(0)).unwrap();
        let wanted = [
            format!("ADDED a {past}"),
            format!("SYNCED {past}"),
            format!("ADDED b {}", past + 2),
            format!("MODIFIED a {}", past + 3),
            format!("DELETED a {}", past + 4),
            format!("ADDED c {}", past + 5),
        ];
        assert_eq!(drain(&mut watch), wanted);
    }

    #[test]
    fn what_was_forgotten_or_is_to_come_is_refused() {
        let history = History {
            min_events: 600,
            max_events: 10_000,
        };
        let cluster = remembering(history);
        let start = cluster.resource_version();
        for number in 0..3000 {
            let name = format!("p{number}");
            cluster.create(pod(&name, json!({})), at(0)).unwrap();
        }
        let now = cluster.resource_version();
        assert_eq!(
            refused(cluster.list_as_of::<Pod>(None, start)),
            "410 Expired"
        );
        let (found, _) = cluster.list_as_of::<Pod>(None, now - 600).unwrap();
        assert_eq!(found.len(), 2400);
        let early = cluster.list_as_of::<Pod>(None, now + 1).unwrap_err();
        assert_eq!(early.code, 504);
        assert!(early.has_cause("ResourceVersionTooLarge"));
        let watch = |version| {
            let from = WatchFrom::InitialAsOf(version);
            cluster.watch::<Pod>(from, WatchOptions::default())
        };
        assert_eq!(refused(watch(start)), "410 Expired");
        assert_eq!(refused(watch(now + 1)), "504 Timeout");
        cluster.compact::<Pod>();
        assert_eq!(
            refused(cluster.list_as_of::<Pod>(None, now - 1)),
            "410 Expired"
        );
        assert_eq!(
            cluster.list_as_of::<Pod>(None, now).unwrap().0.len(),
            3000,
            "the present is never forgotten"
        );
    }

    #[test]
    fn without_a_past_only_the_present_is_known() {
        let cluster = cluster();
        cluster.create(pod("a", json!({})), at(0)).unwrap();
        let last = cluster.resource_version();
        cluster.create(replica_set("r", json!({})), at(0)).unwrap();
        // No pod has changed since.
        assert_eq!(cluster.list_as_of::<Pod>(None, last).unwrap().0.len(), 1);
        let result = cluster.list_as_of::<Pod>(None, last - 1);
        assert_eq!(refused(result), "410 Expired");
    }
}
