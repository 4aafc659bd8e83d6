//! Tests of two workloads that read the same kind.

use std::sync::Mutex;

use podstorm_objects::{DynamicObject, Kind, ReplicaSet, Uid};

use super::*;
use crate::intern::ObjectKey;
use crate::store::KEY_COOLDOWN_NS;

const KIND: Kind = Kind::DEPLOYMENT;

/// Records the changes that it receives, and the content of the store at that moment.
#[derive(Default)]
struct Reader {
    name: &'static str,
    store: Arc<Store<AnyObject>>,
    heard: Arc<Mutex<Vec<String>>>,
    busy: bool,
}

impl Handler<AnyObject> for Reader {
    fn handle(&self, change: &Change<AnyObject>, _: Now) {
        let ObjectKey { name, .. } = self.store.name(change.key);
        let state = match (&change.old, &change.new) {
            (_, None) => "gone",
            (None, Some(_)) => "new",
            (Some(old), Some(new)) if Arc::ptr_eq(old, new) => "same",
            _ => "changed",
        };
        let cached = self.store.get(change.key);
        let has_it = cached.is_some() == change.new.is_some();
        assert!(has_it, "the store has the change");
        let line = format!("{} {name} {state}", self.name);
        self.heard.lock().unwrap().push(line);
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(self)
    }
}

impl Keyed for Reader {
    fn is_idle(&self, _: KeyId) -> bool {
        !self.busy
    }

    fn forget(&self, key: KeyId) {
        let line = format!("{} forgets {}", self.name, key.0);
        self.heard.lock().unwrap().push(line);
    }
}

fn object(name: &str, version: u64) -> AnyObject {
    let mut object = DynamicObject::new(KIND);
    object.metadata.namespace = "ns".into();
    object.metadata.name = name.into();
    object.metadata.uid = Uid::new(name);
    object.metadata.resource_version = version.into();
    Arc::new(object)
}

fn at(mono_ns: i64) -> Now {
    Now {
        mono_ns,
        wall_ns: 0,
    }
}

struct Both {
    informer: Arc<dyn AnyInformer>,
    store: Arc<Store<AnyObject>>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Both {
    fn new(busy: bool) -> Both {
        let mut informers = Informers::new(Arc::default());
        let heard = Arc::default();
        let stores = [("a", false), ("b", busy)].map(|(name, busy)| {
            let store = informers.store::<AnyObject>(KIND, || ());
            let reader = Reader {
                name,
                store: Arc::clone(&store),
                heard: Arc::clone(&heard),
                busy,
            };
            informers.add_handler::<AnyObject>(KIND, Arc::new(reader));
            store
        });
        let [store, other] = stores;
        assert!(Arc::ptr_eq(&store, &other), "both share one store");
        Both {
            informer: informers.take(KIND),
            store,
            heard,
        }
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.heard.lock().unwrap())
    }
}

#[test]
fn both_get_each_change_in_order_after_the_store_has_it() {
    let both = Both::new(false);
    both.informer.apply(Delta::Applied(object("x", 1)), at(0));
    assert_eq!(both.heard(), ["a x new", "b x new"]);
    both.informer.apply(Delta::Applied(object("x", 2)), at(0));
    assert_eq!(both.heard(), ["a x changed", "b x changed"]);
    let listed = vec![object("y", 3)];
    both.informer.replace(listed, &5.into(), at(0));
    let changes = ["a x gone", "b x gone", "a y new", "b y new"];
    assert_eq!(both.heard(), changes);
    both.informer.resync(at(0));
    assert_eq!(both.heard(), ["a y same", "b y same"]);
    both.informer.bookmark(&9.into());
    assert_eq!(both.store.version().get(), 9.into());
    assert_eq!(both.heard(), [""; 0]);
}

#[test]
fn a_key_is_reused_once_no_workload_works_on_it() {
    for busy in [false, true] {
        let both = Both::new(busy);
        both.informer.apply(Delta::Applied(object("x", 1)), at(0));
        both.informer.apply(Delta::Deleted(object("x", 2)), at(1));
        both.heard();
        let later = at(KEY_COOLDOWN_NS + 2);
        both.informer.apply(Delta::Applied(object("y", 3)), later);
        let heard = both.heard();
        match busy {
            true => assert_eq!(heard, ["a y new", "b y new"]),
            false => {
                let forgotten = ["a forgets 0", "b forgets 0", "a y new", "b y new"];
                assert_eq!(heard, forgotten);
            }
        }
        assert_eq!(both.store.keys().count(), 1 + usize::from(busy));
    }
}

/// A ReplicaSet in a separate form.
struct Form(Arc<ReplicaSet>);

impl Cached for Form {
    type Object = ReplicaSet;
    type Context = ();

    fn derive(object: Arc<ReplicaSet>, _: KeyId, _: Option<&Form>, (): &()) -> Form {
        Form(object)
    }

    fn object(&self) -> &Arc<ReplicaSet> {
        &self.0
    }
}

impl Informed for Form {
    fn read(object: AnyObject) -> Option<Arc<ReplicaSet>> {
        object.downcast()
    }
}

#[test]
fn objects_of_other_kinds_are_ignored() {
    let mut informers = Informers::new(Arc::default());
    let store = informers.store::<Form>(Kind::REPLICA_SET, || ());
    let informer = informers.take(Kind::REPLICA_SET);
    informer.apply(Delta::Applied(object("x", 1)), at(0));
    informer.replace(vec![object("y", 2)], &2.into(), at(0));
    assert_eq!(store.keys().count(), 0);
    assert_eq!(store.version().get(), 2.into());
}

/// Records the names of changed objects, each with the name of its form.
struct Names(&'static str, Arc<Mutex<Vec<String>>>);

impl<T: Cached> Handler<T> for Names {
    fn handle(&self, change: &Change<T>, _: Now) {
        let object = change
            .new
            .as_ref()
            .map(|new| new.object().metadata().name.as_str());
        let line = format!("{} {}", self.0, object.unwrap_or("gone"));
        self.1.lock().unwrap().push(line);
    }
}

#[test]
fn forms_of_a_kind_have_separate_stores_and_one_informer() {
    const KIND: Kind = Kind::REPLICA_SET;
    let mut informers = Informers::new(Arc::default());
    let heard = Arc::default();
    let (typed, plain) = (
        informers.store::<Form>(KIND, || ()),
        informers.store::<AnyObject>(KIND, || ()),
    );
    // The order of the stores decides.
    let names = |form| Names(form, Arc::clone(&heard));
    informers.add_handler::<AnyObject>(KIND, Arc::new(names("plain")));
    informers.add_handler::<Form>(KIND, Arc::new(names("typed")));
    let again = informers.store::<Form>(KIND, || ());
    assert!(Arc::ptr_eq(&again, &typed), "one store for each form");
    let heard = || std::mem::take(&mut *heard.lock().unwrap());

    let informer = informers.take(KIND);
    assert_eq!(informer.kind(), KIND);
    let set = |name: &str| {
        let mut set = ReplicaSet::default();
        set.metadata.name = name.into();
        set.metadata.resource_version = 1.into();
        Arc::new(set)
    };
    informer.apply(Delta::Applied(set("a")), at(0));
    assert_eq!(heard(), ["typed a", "plain a"]);
    informer.replace(vec![set("b")], &7.into(), at(0));
    assert_eq!(heard(), ["typed gone", "typed b", "plain gone", "plain b"]);
    informer.resync(at(0));
    assert_eq!(heard(), ["typed b", "plain b"]);
    informer.bookmark(&9.into());
    let versions = [
        typed.version().get(),
        plain.version().get(),
        informer.version(),
    ];
    assert_eq!(versions, [9.into(), 9.into(), 9.into()]);
    assert_eq!((typed.keys().count(), plain.keys().count()), (2, 2));
}

#[test]
#[should_panic(expected = "before its informer is taken")]
fn no_handler_is_added_once_events_may_arrive() {
    let mut informers = Informers::new(Arc::default());
    let store = informers.store::<AnyObject>(KIND, || ());
    let _informer = informers.take(KIND);
    let late = Reader {
        store,
        ..Reader::default()
    };
    informers.add_handler::<AnyObject>(KIND, Arc::new(late));
}
