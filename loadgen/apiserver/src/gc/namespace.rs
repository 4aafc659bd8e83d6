//! Emptying a namespace that is being deleted: its pods first, gracefully; when none is left
//! everything else; then the finalizer `kubernetes` goes, and with it the namespace.
//!
//! The collector looks again when as many objects have gone as it saw last, and when one is created
//! late, by a request that was admitted before the deletion began.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use podstorm_objects::{Kind, Namespace, Now, ObjectMeta, Str};

use super::WorkItem;
use crate::store::counts::{Verb, WriteEffects};
use crate::store::lock::Lock;
use crate::store::owners::ObjectKey;
use crate::store::{KindStore, Strategy};
use crate::update::Update;
use crate::{Cluster, DeleteOptions, Propagation, finalizer};

/// Most objects deleted at one look.
const PORTION: usize = 500;

/// The namespaces that are being emptied.
#[derive(Debug, Default)]
pub(super) struct NamespaceDeletions {
    /// Whether a namespace was ever deleted: without, nobody looks any further.
    seen: AtomicBool,
    progress: Lock<BTreeMap<Str, Progress>>,
}

/// How far the objects seen at the last look have gone.
#[derive(Debug, Default)]
struct Progress {
    /// Objects removed since that look began.
    removed: u64,
    /// Objects left after it; absent while it is under way.
    awaited: Option<u64>,
}

impl Progress {
    fn is_due(&self) -> bool {
        self.awaited.is_some_and(|awaited| self.removed >= awaited)
    }
}

fn empty(name: &Str) -> WorkItem {
    WorkItem::Empty(ObjectKey {
        kind: Kind::NAMESPACE,
        namespace: Str::default(),
        name: (&**name).into(),
    })
}

impl Cluster {
    /// Takes note that the deletion of a namespace has begun.
    pub(super) fn notify_gc_of_termination(&self, metadata: &ObjectMeta) {
        self.garbage
            .namespace_deletions
            .seen
            .store(true, Ordering::Relaxed);
        let name = Str::from(metadata.name.as_str());
        self.garbage.push(empty(&name));
    }

    /// Takes note of an object that was created or removed.
    pub(super) fn notify_gc_of_content(&self, metadata: &ObjectMeta, removed: bool) {
        // Relaxed: set before the finalizer can go, which is what a late object would miss.
        if !self
            .garbage
            .namespace_deletions
            .seen
            .load(Ordering::Relaxed)
            || metadata.namespace.is_empty()
        {
            return;
        }
        let due = if removed {
            let mut progress = self.garbage.namespace_deletions.progress.lock();
            progress.get_mut(&metadata.namespace).is_some_and(|it| {
                it.removed += 1;
                it.is_due()
            })
        } else {
            let key = self.namespaces.key("", &metadata.namespace);
            let terminating = self.namespaces.inspect(&key, |found| found.terminating);
            terminating.unwrap_or(true)
        };
        if due {
            self.garbage.push(empty(&metadata.namespace));
        }
    }

    /// Deletes what a namespace holds that is being deleted, or the namespace when it holds
    /// nothing.
    pub(super) fn empty_namespace(&self, key: &ObjectKey, now: Now) {
        let name = Str::from(key.name.as_str());
        let kept = match self.get::<Namespace>("", &key.name) {
            Ok(found) if !found.terminating => return,
            Ok(found) => Some(found),
            // Objects that came after it went.
            Err(_) => None,
        };
        let fresh = Progress::default();
        let namespace_deletions = &self.garbage.namespace_deletions;
        namespace_deletions
            .progress
            .lock()
            .insert(name.clone(), fresh);
        let (mut left, mut more) = self.delete_all(&self.pods, &name, now);
        // While a pod is left nothing else is touched.
        if left == 0 && !more {
            self.for_each_store(|store| {
                if store.kind().is_namespaced() && store.kind() != Kind::POD {
                    let (kept, unfinished) = store.delete_all(self, &name, now);
                    left += kept;
                    more |= unfinished;
                }
            });
        }
        let mut progress = namespace_deletions.progress.lock();
        if left == 0 && !more {
            progress.remove(&name);
            drop(progress);
            if let Some(namespace) = kept {
                self.finalize(&namespace, now);
            }
            return;
        }
        let due = progress.get_mut(&name).is_some_and(|it| {
            it.awaited = Some(left);
            it.is_due()
        });
        drop(progress);
        if due || more {
            self.garbage.push(empty(&name));
        }
    }

    /// Begins to delete the objects of a kind, a portion of them: how many are left that this
    /// cannot remove at once, and whether there are more to begin with.
    pub(crate) fn delete_all<R: Strategy>(
        &self,
        store: &KindStore<R>,
        namespace: &str,
        now: Now,
    ) -> (u64, bool) {
        let objects = store.snapshot(Some(namespace)).objects;
        let (mut left, mut begun) = (0, 0);
        for object in objects {
            let metadata = object.metadata();
            if metadata.is_deleting() {
                left += 1;
                continue;
            }
            if begun == PORTION {
                return (left, true);
            }
            begun += 1;
            let options = DeleteOptions {
                propagation: Some(Propagation::Background),
                precondition_uid: Some(metadata.uid.clone()),
                ..DeleteOptions::default()
            };
            let deleted = self.delete_in(store, (namespace, &metadata.name), &options, now);
            // A refusal means that it is gone already.
            left += u64::from(deleted.is_ok_and(|deleted| !deleted.removed));
        }
        (left, false)
    }

    /// Lets an empty namespace go.
    fn finalize(&self, namespace: &Namespace, now: Now) {
        let metadata = &namespace.metadata;
        let effects = WriteEffects::of(Verb::Update);
        // Gone already, or another one by now: then there is nothing to do.
        let _ = self.modify(&self.namespaces, "", &metadata.name, now, |old| {
            if old.metadata.uid != metadata.uid {
                return Ok(Update::Keep);
            }
            let mut new = Namespace::clone(old);
            finalizer::remove(&mut new);
            Ok(Update::Write(new, effects))
        });
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::{Object, Pod, ReplicaSet};

    use serde_json::json;

    use super::*;
    use crate::testing::*;

    fn delete_namespace(cluster: &Cluster, name: &str) {
        let deleted = cluster.delete::<Namespace>("", name, &DeleteOptions::default(), at(1));
        assert!(!deleted.unwrap().removed);
    }

    fn collect(cluster: &Cluster) {
        while cluster.collect_garbage(100, at(2)) > 0 {}
    }

    fn end(cluster: &Cluster, name: &str) {
        let forced = DeleteOptions {
            grace_period_seconds: Some(0),
            ..DeleteOptions::default()
        };
        cluster
            .delete::<Pod>("default", name, &forced, at(3))
            .unwrap();
    }

    fn is_there(cluster: &Cluster) -> bool {
        cluster.get::<Namespace>("", "default").is_ok()
    }

    #[test]
    fn a_deleted_namespace_is_terminating_and_takes_nothing_new() {
        let cluster = cluster();
        let mut watch = watch::<Namespace>(&cluster);
        delete_namespace(&cluster, "default");
        let found = cluster.get::<Namespace>("", "default").unwrap();
        assert!(found.terminating);
        let value = found.to_json();
        assert_eq!(value["status"]["phase"], "Terminating");
        assert_eq!(value["spec"]["finalizers"], json!(["kubernetes"]));
        assert_eq!(found.metadata.deletion_timestamp, at(1).wall());
        let error = cluster.create(pod("a", json!({})), at(1)).unwrap_err();
        assert!(error.has_cause("NamespaceTerminating"));
        // Again: nothing new. Nor can an update bring it back.
        delete_namespace(&cluster, "default");
        let mut back = Namespace::clone(&found);
        back.terminating = false;
        back.fields.clear();
        cluster.update(back, at(1)).unwrap();
        let version = cluster.resource_version();
        assert_eq!(drain(&mut watch), [format!("MODIFIED default {version}")]);
        collect(&cluster);
        assert_eq!(
            drain(&mut watch),
            [format!("DELETED default {}", version + 1)]
        );
        assert!(!is_there(&cluster));
        assert_eq!(cluster.garbage_queue_len(), 0);
    }

    #[test]
    fn pods_go_first_then_the_rest_then_the_namespace() {
        let cluster = cluster();
        cluster.create(replica_set("r", json!({})), at(0)).unwrap();
        bound_pod(&cluster, "slow", json!({}));
        bound_pod(&cluster, "slower", json!({}));
        cluster.create(pod("unbound", json!({})), at(0)).unwrap();
        let elsewhere = json!({"metadata": {"namespace": "other"}});
        cluster.create(pod("a", elsewhere), at(0)).unwrap();
        delete_namespace(&cluster, "default");
        collect(&cluster);
        let slow = cluster.get::<Pod>("default", "slow").unwrap();
        assert!(slow.metadata.is_deleting(), "gracefully");
        assert!(cluster.get::<Pod>("default", "unbound").is_err());
        end(&cluster, "slow");
        collect(&cluster);
        let set = cluster.get::<ReplicaSet>("default", "r").unwrap();
        assert!(!set.metadata.is_deleting(), "a pod is left");
        end(&cluster, "slower");
        collect(&cluster);
        assert!(cluster.get::<ReplicaSet>("default", "r").is_err());
        assert!(!is_there(&cluster));
        assert!(cluster.get::<Pod>("other", "a").is_ok());
    }

    #[test]
    fn what_a_finalizer_keeps_keeps_the_namespace() {
        let cluster = cluster();
        let held = json!({"metadata": {"finalizers": ["a.b/c"]}});
        cluster
            .create(replica_set("r", held.clone()), at(0))
            .unwrap();
        cluster.create(pod("a", held), at(0)).unwrap();
        delete_namespace(&cluster, "default");
        collect(&cluster);
        let mut pod = Pod::clone(&cluster.get("default", "a").unwrap());
        pod.metadata.finalizers = None;
        cluster.update(pod, at(2)).unwrap();
        collect(&cluster);
        let mut set = ReplicaSet::clone(&cluster.get("default", "r").unwrap());
        assert!(set.metadata.is_deleting());
        assert!(is_there(&cluster));
        set.metadata.finalizers = None;
        cluster.update(set, at(2)).unwrap();
        collect(&cluster);
        assert!(!is_there(&cluster));
    }

    #[test]
    fn an_object_that_was_admitted_before_the_deletion_is_collected_too() {
        let cluster = cluster();
        // As a request does that is overtaken between its admission and its commit.
        let late = |name: &str| {
            let mut pod = pod(name, json!({}));
            pod.set_defaults(None);
            pod.prepare_for_create();
            cluster.store_new(&cluster.pods, pod, at(2)).unwrap();
        };
        bound_pod(&cluster, "slow", json!({}));
        delete_namespace(&cluster, "default");
        collect(&cluster);
        late("one");
        collect(&cluster);
        assert!(cluster.get::<Pod>("default", "one").is_err());
        end(&cluster, "slow");
        collect(&cluster);
        assert!(!is_there(&cluster));
        late("two");
        collect(&cluster);
        assert_eq!(cluster.count::<Pod>(), 0);
    }

    #[test]
    fn a_large_namespace_is_emptied_in_portions() {
        let cluster = cluster();
        for number in 0..3 * PORTION {
            cluster
                .create(pod(&format!("p{number}"), json!({})), at(0))
                .unwrap();
        }
        delete_namespace(&cluster, "default");
        assert_eq!(cluster.collect_garbage(1, at(2)), 1);
        assert_eq!(cluster.count::<Pod>(), 2 * PORTION as u64);
        collect(&cluster);
        assert!(!is_there(&cluster));
        let mut again = Namespace::default();
        again.metadata.name = "default".into();
        cluster.create(again, at(4)).unwrap();
        cluster.create(pod("a", json!({})), at(4)).unwrap();
        collect(&cluster);
        assert!(cluster.get::<Pod>("default", "a").is_ok());
    }
}
