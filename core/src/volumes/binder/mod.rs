//! The binder: it finds or requests a volume for each claim, binds the two, and releases a volume
//! whose claim is gone.
//!
//! `claim` and `volume`: one sync of each; `matching`: the best volume for a claim; `bind`: the
//! four writes that bind the two. `classes` has the waiting claims and the free volumes, by class,
//! so that a volume that becomes free wakes the claims that it may suit. Upstream instead checks
//! every claim again after 15 s.
//!
//! If the class of a claim delays the binding until a pod needs the claim, the claim is not bound
//! until the scheduler sets an annotation.

mod bind;
mod claim;
mod classes;
mod matching;
mod row;
mod volume;

use std::sync::Arc;

use podstorm_objects::{DynamicObject, Kind, Now};
use podstorm_runtime::driver::{AsyncWorkload, Calls, Steps};
use podstorm_runtime::informer::{Handler, Informers};
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::primitives::{Mutex, lock};
use podstorm_runtime::store::{Change, Keyed, Store};
use podstorm_runtime::workqueue::RateLimitingQueue;

use super::{Cached, at, text};
use crate::controller::ControllerType as _;
use classes::Classes;

pub use claim::NO_PROVISIONER;
pub use matching::best as best_volume;
pub use row::PersistentVolumeBinder;

/// The index of the queue of claims.
const CLAIMS: usize = 0;

/// The index of the queue of volumes.
const VOLUMES: usize = 1;

/// The annotation of a claim whose binding has been completed.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// The annotation of a claim or volume that a controller, and not a user, has bound.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// The annotations of a claim that waits for a volume. They name the provisioner.
const PROVISIONERS: [&str; 2] = [
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
];

/// The annotation of a claim that names the node on which its first pod will run.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The annotation of the class for claims that name no class.
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// The older annotation that names the class of a claim or volume.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// The binder. A clone is a handle to the same binder.
#[derive(Clone, Debug)]
pub struct Binder(Arc<Shared>);

/// The controller's state, shared with its syncs because they outlive any borrow of the controller.
#[derive(Debug)]
struct Shared {
    claims: Arc<Store<Cached>>,
    volumes: Arc<Store<Cached>>,
    classes: Arc<Store<Cached>>,
    queues: [RateLimitingQueue<KeyId>; 2],
    by_class: Mutex<Classes>,
}

impl Binder {
    fn new(informers: &mut Informers) -> Binder {
        let queue = |at: usize| RateLimitingQueue::from_row(PersistentVolumeBinder::ROW.queues[at]);
        let shared = Arc::new(Shared {
            claims: informers.store(Kind::PERSISTENT_VOLUME_CLAIM, || ()),
            volumes: informers.store(Kind::PERSISTENT_VOLUME, || ()),
            classes: informers.store(Kind::STORAGE_CLASS, || ()),
            queues: [queue(CLAIMS), queue(VOLUMES)],
            by_class: Mutex::default(),
        });
        let handler = |events: fn(&Shared, &Change<Cached>, Now), queue: Option<usize>| {
            Arc::new(Of {
                shared: Arc::clone(&shared),
                events,
                queue,
            })
        };
        for (kind, handler) in [
            (
                Kind::PERSISTENT_VOLUME_CLAIM,
                handler(Shared::claim_changed, Some(CLAIMS)),
            ),
            (
                Kind::PERSISTENT_VOLUME,
                handler(Shared::volume_changed, Some(VOLUMES)),
            ),
            (Kind::STORAGE_CLASS, handler(Shared::class_changed, None)),
        ] {
            informers.add_handler::<Cached>(kind, handler);
        }
        Binder(shared)
    }
}

/// The handler for the changes of one kind.
#[derive(Debug)]
struct Of {
    shared: Arc<Shared>,
    events: fn(&Shared, &Change<Cached>, Now),
    queue: Option<usize>,
}

impl Handler<Cached> for Of {
    fn handle(&self, change: &Change<Cached>, now: Now) {
        (self.events)(&self.shared, change, now);
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        let queue = self.queue?;
        Some(&self.shared.queues[queue])
    }
}

impl Shared {
    /// Wakes a claim, and the volumes that it names and named before.
    fn claim_changed(&self, change: &Change<Cached>, now: Now) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        lock(&self.by_class).claim(change.key, new.map(|it| &**it));
        if new.is_some() {
            self.queues[CLAIMS].add(change.key, now.mono_ns);
        }
        let last = change.last.as_deref();
        for claim in [old.map(|it| &**it), new.map(|it| &**it), last]
            .into_iter()
            .flatten()
        {
            let volume = text(claim, "/spec/volumeName");
            if !volume.is_empty() {
                let key = self.volumes.intern("", volume);
                self.queues[VOLUMES].add(key, now.mono_ns);
            }
        }
    }

    /// Wakes a volume, the claims that it refers to, and, if it is free, the claims that it may
    /// suit.
    fn volume_changed(&self, change: &Change<Cached>, now: Now) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        if new.is_some() {
            self.queues[VOLUMES].add(change.key, now.mono_ns);
        }
        let last = change.last.as_deref();
        for volume in [old.map(|it| &**it), new.map(|it| &**it), last]
            .into_iter()
            .flatten()
        {
            let claim = at(volume, "/spec/claimRef");
            if let (Some(namespace), Some(name)) =
                (claim["namespace"].as_str(), claim["name"].as_str())
            {
                let key = self.claims.intern(namespace, name);
                self.queues[CLAIMS].add(key, now.mono_ns);
            }
        }
        let waiting = lock(&self.by_class).volume(change.key, new.map(|it| &**it));
        for key in waiting {
            self.queues[CLAIMS].add(key, now.mono_ns);
        }
    }

    /// Wakes the claims that wait for a class and, if it is the default class, those that name
    /// none.
    fn class_changed(&self, change: &Change<Cached>, now: Now) {
        let Some(class) = change.new.as_deref() else {
            return;
        };
        let by_class = lock(&self.by_class);
        let mut waiting = by_class.waiting(&class.metadata.name);
        if is_default(class) {
            waiting.extend(by_class.waiting(""));
        }
        drop(by_class);
        for key in waiting {
            self.queues[CLAIMS].add(key, now.mono_ns);
        }
    }

    /// Returns the default class; `None` if there is none. Of several, returns the newest, or of
    /// equally old ones the first by name. O(classes).
    fn default_class(&self) -> Option<Cached> {
        let all = self
            .classes
            .all()
            .into_iter()
            .map(|(_, class)| (*class).clone());
        all.filter(|class| is_default(class)).max_by(|a, b| {
            let created = |it: &Cached| it.metadata.creation_timestamp;
            let names = b.metadata.name.cmp(&a.metadata.name);
            created(a).cmp(&created(b)).then(names)
        })
    }
}

fn is_default(class: &DynamicObject) -> bool {
    [
        IS_DEFAULT,
        "storageclass.beta.kubernetes.io/is-default-class",
    ]
    .iter()
    .any(|it| {
        class
            .metadata
            .annotations
            .get(it)
            .is_some_and(|it| **it == *"true")
    })
}

/// Returns the name of the class of a claim or volume; empty if it names none.
fn class_of(object: &DynamicObject) -> &str {
    match object.metadata.annotations.get(OLD_CLASS) {
        Some(class) => class,
        None => text(object, "/spec/storageClassName"),
    }
}

impl AsyncWorkload for Binder {
    fn name(&self, queue: usize, key: KeyId) -> ObjectKey {
        match queue {
            CLAIMS => self.0.claims.name(key),
            _ => self.0.volumes.name(key),
        }
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        &self.0.queues
    }

    fn steps(&self, queue: usize, key: KeyId, calls: Calls) -> impl Steps {
        let shared = Arc::clone(&self.0);
        async move {
            match queue {
                CLAIMS => claim::run(shared, key, calls).await,
                _ => volume::run(shared, key, calls).await,
            }
        }
    }
}

#[cfg(test)]
mod tests;
