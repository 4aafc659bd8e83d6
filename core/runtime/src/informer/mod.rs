//! Informers: one for each kind that the workloads of a controller manager read, regardless of the
//! number of readers. An informer owns the store of its kind. It passes each change to the
//! workloads in a fixed order, after the store has applied the change. If workloads read a kind in
//! different forms, they share its informer, which then has one store per form.
//!
//! Informers do no I/O. The program that runs them lists and watches each kind, as a
//! [`Reflector`](crate::reflector::Reflector) decides, and passes the results to the kind's
//! [`AnyInformer`]. Pods take a separate path: [`PodCache`] and
//! [`Workload::pod_changed`](crate::driver::Workload::pod_changed).
//!
//! Source: the shared informers of client-go, of which a controller manager has one per kind.

use std::any::Any;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use podstorm_objects::{AnyObject, Kind, Now, Object, ResourceVersion};

use crate::cache::{Delta, PodCache};
use crate::intern::KeyId;
use crate::store::{Cached, Change, Keyed, Store};

/// A form in which an informer's store can keep objects.
pub trait Informed: Cached<Context: Send + Sync> + Send + Sync + 'static {
    /// Returns the object from which the form is derived; `None` for an object of another kind.
    fn read(object: AnyObject) -> Option<Arc<Self::Object>>;
}

/// An object of any type, in its original form.
impl Informed for AnyObject {
    fn read(object: AnyObject) -> Option<AnyObject> {
        Some(object)
    }
}

/// A typed object in its original form.
impl<T: Object> Informed for Arc<T> {
    fn read(object: AnyObject) -> Option<Arc<T>> {
        object.downcast()
    }
}

/// A workload's reaction to changes of one kind.
pub trait Handler<T: Cached>: Send + Sync {
    /// Handles an object that was added, changed, deleted or listed. The store already has the
    /// change.
    fn handle(&self, change: &Change<T>, now: Now);

    /// Returns the state that the workload keeps under the keys of this kind; `None` if it keeps
    /// none. For most workloads this is the queue of the objects that they sync.
    fn keyed(&self) -> Option<&dyn Keyed> {
        None
    }
}

/// The informer of one kind, independent of the form in which its store keeps objects.
pub trait AnyInformer: Any + Debug + Send + Sync {
    /// Returns the kind of the objects.
    fn kind(&self) -> Kind;

    /// Applies an added, changed or deleted object. Ignores an object of another kind.
    fn apply(&self, delta: Delta<dyn Object>, now: Now);

    /// Replaces the content of the store with all objects at this version; see [`Store::replace`].
    fn replace(&self, objects: Vec<AnyObject>, version: &ResourceVersion, now: Now);

    /// Records that no object of the kind has changed since the last event, up to this version.
    fn bookmark(&self, version: &ResourceVersion);

    /// Returns the version that the store has reached.
    fn version(&self) -> ResourceVersion;

    /// Performs the periodic resync (upstream: every 12 to 24 hours): the handlers get an update of
    /// every object to itself. Pods have no resync, because handlers ignore a pod whose
    /// version has not changed.
    fn resync(&self, now: Now);
}

struct Informer<T: Informed> {
    kind: Kind,
    store: Arc<Store<T>>,
    handlers: Vec<Arc<dyn Handler<T>>>,
}

impl<T: Informed> Debug for Informer<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Informer")
            .field("kind", &self.kind)
            .field("store", &self.store)
            .field("handlers", &self.handlers.len())
            .finish()
    }
}

impl<T: Informed> Informer<T> {
    fn handle(&self, change: &Change<T>, now: Now) {
        for handler in &self.handlers {
            handler.handle(change, now);
        }
    }

    fn keyed(&self) -> impl Iterator<Item = &dyn Keyed> {
        self.handlers.iter().filter_map(|handler| handler.keyed())
    }
}

impl<T: Informed> Keyed for Informer<T> {
    fn is_idle(&self, key: KeyId) -> bool {
        self.keyed().all(|keyed| keyed.is_idle(key))
    }

    fn forget(&self, key: KeyId) {
        self.keyed().for_each(|keyed| keyed.forget(key));
    }
}

impl<T: Informed> AnyInformer for Informer<T> {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn apply(&self, delta: Delta<dyn Object>, now: Now) {
        if let Some(delta) = delta.filter_map(T::read) {
            self.handle(&self.store.apply(delta, self, now), now);
        }
    }

    fn replace(&self, objects: Vec<AnyObject>, version: &ResourceVersion, now: Now) {
        let objects = objects.into_iter().filter_map(T::read).collect();
        for change in self.store.replace(objects, version, self, now) {
            self.handle(&change, now);
        }
    }

    fn bookmark(&self, version: &ResourceVersion) {
        self.store.bookmark(version);
    }

    fn version(&self) -> ResourceVersion {
        self.store.version().get()
    }

    fn resync(&self, now: Now) {
        for change in self.store.resync() {
            self.handle(&change, now);
        }
    }
}

/// The informer of a kind that workloads read in several forms: one informer per form. Each change
/// passes through these informers one after the other.
#[derive(Debug)]
struct Forms {
    kind: Kind,
    /// The informers, at least two, in the order in which their forms were first requested.
    informers: Vec<Arc<dyn AnyInformer>>,
}

impl AnyInformer for Forms {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn apply(&self, delta: Delta<dyn Object>, now: Now) {
        for informer in &self.informers {
            informer.apply(delta.clone(), now);
        }
    }

    fn replace(&self, objects: Vec<AnyObject>, version: &ResourceVersion, now: Now) {
        for informer in &self.informers {
            informer.replace(objects.clone(), version, now);
        }
    }

    fn bookmark(&self, version: &ResourceVersion) {
        for informer in &self.informers {
            informer.bookmark(version);
        }
    }

    fn version(&self) -> ResourceVersion {
        let last = self.informers.last();
        last.expect("there are several forms").version()
    }

    fn resync(&self, now: Now) {
        for informer in &self.informers {
            informer.resync(now);
        }
    }
}

/// The informers of one controller manager while it creates its workloads. Each workload requests
/// the [stores](Informers::store) that it reads, and then [adds handlers](Informers::add_handler)
/// for their changes.
#[derive(Debug)]
pub struct Informers {
    pods: Arc<PodCache>,
    /// One informer per form of each kind, in the order in which the forms were first requested.
    forms: Vec<Arc<dyn AnyInformer>>,
}

impl Informers {
    /// Creates an empty set of informers with this cache of pods.
    pub fn new(pods: Arc<PodCache>) -> Informers {
        Informers {
            pods,
            forms: Vec::new(),
        }
    }

    /// Returns the cache of pods.
    pub fn pods(&self) -> &Arc<PodCache> {
        &self.pods
    }

    /// Returns the store for a kind in the form `T`. The first call creates it with `context`.
    ///
    /// A kind may be read in several forms. Each form has its own store with its own keys, and
    /// costs additional memory and time. The stores get a change in the order of their creation.
    /// The handlers of one form run before the store of the next form gets the change.
    pub fn store<T: Informed>(
        &mut self,
        kind: Kind,
        context: impl FnOnce() -> T::Context,
    ) -> Arc<Store<T>> {
        let known = self.of_kind(kind).find_map(|informer| {
            let informer: &dyn Any = &**informer;
            informer.downcast_ref::<Informer<T>>()
        });
        if let Some(known) = known {
            return Arc::clone(&known.store);
        }
        let store = Arc::new(Store::new(context()));
        self.forms.push(Arc::new(Informer {
            kind,
            store: Arc::clone(&store),
            handlers: Vec::new(),
        }));
        store
    }

    /// Passes each change of a kind to this handler from now on, after all earlier handlers for the
    /// same form.
    ///
    /// # Panics
    /// Panics if the kind has no store of this form, or if its informer has already been
    /// [taken](Informers::take).
    pub fn add_handler<T: Informed>(&mut self, kind: Kind, handler: Arc<dyn Handler<T>>) {
        let of_kind = self.forms.iter_mut().filter(|form| form.kind() == kind);
        let mut untaken = of_kind.filter_map(Arc::get_mut);
        let informer = untaken.find_map(|informer| {
            let informer: &mut dyn Any = informer;
            informer.downcast_mut::<Informer<T>>()
        });
        let informer =
            informer.expect("handlers are added to a store before its informer is taken");
        informer.handlers.push(handler);
    }

    /// Returns the informer of a kind for the program that lists and watches the kind.
    ///
    /// # Panics
    /// Panics if no workload reads the kind.
    pub fn take(&self, kind: Kind) -> Arc<dyn AnyInformer> {
        let mut informers: Vec<_> = self.of_kind(kind).cloned().collect();
        match informers.len() {
            0 => panic!("no workload reads {kind:?}"),
            1 => informers.remove(0),
            _ => Arc::new(Forms { kind, informers }),
        }
    }

    /// Returns the informers of all forms of a kind.
    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Arc<dyn AnyInformer>> {
        self.forms.iter().filter(move |form| form.kind() == kind)
    }
}

#[cfg(test)]
mod tests;
