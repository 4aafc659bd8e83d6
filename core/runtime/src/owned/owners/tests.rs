//! Tests of owners over an informer and a cache of pods, with syncs whose requests the test
//! answers.

use podstorm_objects::{AnyObject, DynamicObject, Reason, Uid};

use super::*;
use crate::cache::Delta;
use crate::driver::{AsyncSync, Step, SyncFailure, SyncState as _};
use crate::workqueue::{End, Take};

const KIND: Kind = Kind::DEPLOYMENT;
const OTHER: Kind = Kind::REPLICA_SET;
const NOW: Now = Now {
    mono_ns: 1,
    wall_ns: 1,
};

struct Site {
    informers: Informers,
    owners: Arc<Owners<AnyObject>>,
}

impl Site {
    /// Creates one owner, `web`, that has been synced.
    fn new() -> (Site, KeyId) {
        let mut informers = Informers::new(Arc::default());
        let owners = Owners::new(KIND, QueueRow::new("web"), &mut informers);
        owners.owning::<AnyObject>(OTHER, &mut informers);
        let site = Site { informers, owners };
        site.apply(KIND, Delta::Applied(owner("a", 1)));
        let key = site.woken().expect("a new owner is woken");
        (site, key)
    }

    fn apply(&self, kind: Kind, delta: Delta<dyn Object>) {
        self.informers.take(kind).apply(delta, NOW);
    }

    fn pod(&self, delta: Delta<Pod>) {
        let change = self.informers.pods().apply(delta);
        self.owners.pod_changed(&change, NOW);
    }

    /// Returns the key that waits in the queue; `None` if there is none.
    fn woken(&self) -> Option<KeyId> {
        let Take::Key(key) = self.owners.queue().try_take(NOW.mono_ns) else {
            return None;
        };
        self.owners.queue().finish(key, End::Forget, NOW.mono_ns);
        Some(key)
    }

    /// Runs a sync of these steps. Answers its requests in order. Returns its error message.
    fn sync<F>(
        &self,
        key: KeyId,
        steps: impl FnOnce(Calls) -> F,
        answers: &[Answer],
    ) -> Option<String>
    where
        F: Future<Output = Result<(), ApiError>> + Send + 'static,
    {
        let mut sync = AsyncSync::default();
        let whole = |calls: Calls| {
            let steps = steps(calls);
            async move {
                steps
                    .await
                    .map(|()| End::Forget)
                    .map_err(|error| SyncFailure {
                        label: "refused",
                        message: error.message,
                        is_final: false,
                    })
            }
        };
        let mut step = sync.begin(key, NOW, whole);
        let mut answers = answers.iter();
        let mut sent = 0;
        while step == Step::Requests {
            let asked = sync.requests().len();
            for index in sent..asked {
                let answer = answers.next().expect("there is an answer for each request");
                sync.answer(index, answer.clone());
            }
            sent = asked;
            step = sync.resume(NOW);
        }
        assert_eq!(answers.next().map(|_| ()), None, "every answer is used");
        sync.failure().map(|failure| failure.message.clone())
    }

    fn creates(&self, key: KeyId, count: usize, answers: &[Answer]) -> Option<String> {
        let owners = Arc::clone(&self.owners);
        let create = |calls: Calls| async move {
            let meta = owner("a", 1).metadata().clone();
            owners
                .create_pods(&calls, key, &meta, Pod::default(), count)
                .await
        };
        self.sync(key, create, answers)
    }

    fn deletes(&self, key: KeyId, answers: &[Answer]) -> Option<String> {
        let owners = Arc::clone(&self.owners);
        let delete = |calls: Calls| async move {
            let pods = owners.active_pods(owner("a", 1).metadata());
            owners.delete_pods(&calls, key, &pods).await
        };
        self.sync(key, delete, answers)
    }
}

fn owner(uid: &str, version: u64) -> AnyObject {
    let mut owner = DynamicObject::new(KIND);
    owner.metadata.namespace = "ns".into();
    owner.metadata.name = "web".into();
    owner.metadata.uid = Uid::new(uid);
    owner.metadata.resource_version = version.into();
    Arc::new(owner)
}

fn owned(name: &str, version: u64) -> Arc<Pod> {
    let mut pod = Pod::default();
    pod.metadata.namespace = "ns".into();
    pod.metadata.name = name.into();
    pod.metadata.uid = Uid::new(name);
    pod.metadata.resource_version = version.into();
    let reference = KIND.controller_reference(owner("a", 1).metadata());
    pod.metadata.owner_references.push(Arc::new(reference));
    Arc::new(pod)
}

fn created() -> Answer {
    Answer::Pod(owned("x", 1))
}

fn refused(code: u16) -> Answer {
    let reason = if code == 404 {
        Reason::NotFound
    } else {
        Reason::InternalError
    };
    Answer::Failed(ApiError::status(code, reason, format!("refused {code}")))
}

#[test]
fn created_pods_are_awaited_until_the_cache_shows_them() {
    let (site, key) = Site::new();
    assert!(site.owners.is_settled(key, NOW));
    assert_eq!(site.creates(key, 2, &[created(), created()]), None);
    assert!(!site.owners.is_settled(key, NOW));
    site.pod(Delta::Applied(owned("x", 1)));
    assert_eq!(site.woken(), Some(key));
    assert!(!site.owners.is_settled(key, NOW));
    site.pod(Delta::Applied(owned("y", 2)));
    assert!(site.owners.is_settled(key, NOW));
    assert_eq!(site.owners.active_pods(owner("a", 1).metadata()).len(), 2);
}

#[test]
fn pods_that_were_refused_or_not_tried_are_not_awaited() {
    let (site, key) = Site::new();
    // Batches of 1 and 2: one call of the second batch fails, and the third batch is not tried.
    let answers = [created(), created(), refused(500)];
    let failed = site.creates(key, 5, &answers);
    assert_eq!(failed.as_deref(), Some("refused 500"));
    for (version, name) in [(1, "x"), (2, "y")] {
        assert!(!site.owners.is_settled(key, NOW), "{name}");
        site.pod(Delta::Applied(owned(name, version)));
    }
    assert!(site.owners.is_settled(key, NOW));
}

#[test]
fn deleted_pods_are_awaited_unless_their_deletion_was_refused() {
    let (site, key) = Site::new();
    for (version, name) in [(1, "x"), (2, "y"), (3, "z")] {
        site.pod(Delta::Applied(owned(name, version)));
    }
    let answers = [Answer::Deleted(None), refused(404), refused(500)];
    assert_eq!(site.deletes(key, &answers).as_deref(), Some("refused 500"));
    assert!(!site.owners.is_settled(key, NOW));
    // The deletions have no particular order, so which of them was accepted does not matter.
    for (version, name) in [(4, "x"), (5, "y"), (6, "z")] {
        site.pod(Delta::Deleted(owned(name, version)));
    }
    assert!(site.owners.is_settled(key, NOW));
}

#[test]
fn another_owner_of_the_same_name_awaits_nothing() {
    let (site, key) = Site::new();
    assert_eq!(site.creates(key, 1, &[created()]), None);
    site.apply(KIND, Delta::Applied(owner("a", 2)));
    assert!(!site.owners.is_settled(key, NOW), "it is the same owner");
    site.apply(KIND, Delta::Applied(owner("b", 3)));
    assert!(site.owners.is_settled(key, NOW));
    assert_eq!(site.woken(), Some(key));
    assert!(site.owners.active_pods(owner("b", 3).metadata()).is_empty());
}

#[test]
fn a_change_of_an_owned_object_wakes_its_owner() {
    let (site, key) = Site::new();
    let child = |version: u64, owner: Option<&AnyObject>| {
        let mut child = DynamicObject::new(OTHER);
        child.metadata.namespace = "ns".into();
        child.metadata.name = "child".into();
        child.metadata.resource_version = version.into();
        let reference = owner.map(|owner| Arc::new(KIND.controller_reference(owner.metadata())));
        child.metadata.owner_references.extend(reference);
        Arc::new(child) as AnyObject
    };
    let ours = owner("a", 1);
    let changes = [
        (Delta::Applied(child(1, Some(&ours))), Some(key), "it comes"),
        (
            Delta::Applied(child(2, Some(&ours))),
            Some(key),
            "it changes",
        ),
        (
            Delta::Applied(child(2, Some(&ours))),
            None,
            "the object has not changed",
        ),
        (
            Delta::Applied(child(3, None)),
            Some(key),
            "the object loses its owner",
        ),
        (
            Delta::Applied(child(4, None)),
            None,
            "the object is an orphan",
        ),
        (
            Delta::Applied(child(5, Some(&owner("b", 1)))),
            None,
            "the object's owner is unknown",
        ),
        (
            Delta::Applied(child(6, Some(&ours))),
            Some(key),
            "the object gets an owner",
        ),
        (Delta::Deleted(child(7, Some(&ours))), Some(key), "it goes"),
    ];
    for (delta, woken, what) in changes {
        site.apply(OTHER, delta);
        assert_eq!(site.woken(), woken, "{what}");
    }
}
