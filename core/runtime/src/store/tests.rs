//! Tests that compare the store with a plain model, and of the guarantees for other threads.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use podstorm_objects::{Kind, LabelSelector, ReplicaSet};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A ReplicaSet with its selector.
#[derive(Debug)]
struct Form {
    object: Arc<ReplicaSet>,
    selector: Option<Arc<Selector>>,
}

/// The number of forms that were replaced or removed.
type Left = Cell<usize>;

impl Cached for Form {
    type Object = ReplicaSet;
    type Context = Left;

    const BY_CONTROLLER: bool = true;
    const ORPHANS: bool = true;

    fn derive(object: Arc<ReplicaSet>, _: KeyId, old: Option<&Form>, _: &Left) -> Form {
        let same = old.filter(|old| old.object.spec.selector == object.spec.selector);
        let selector = match same {
            Some(old) => old.selector.clone(),
            None => {
                let compiled = Selector::compile(object.spec.selector.as_deref());
                compiled.ok().map(Arc::new)
            }
        };
        Form { object, selector }
    }

    fn object(&self) -> &Arc<ReplicaSet> {
        &self.object
    }

    fn selector(&self) -> Option<&Arc<Selector>> {
        self.selector.as_ref()
    }

    fn replaced(&self, _: Option<&Form>, left: &Left) {
        left.set(left.get() + 1);
    }
}

/// The keys that are in use elsewhere, and the keys that got other names.
#[derive(Default)]
struct Uses {
    busy: Vec<KeyId>,
    forgotten: Mutex<Vec<KeyId>>,
}

impl Keyed for Uses {
    fn is_idle(&self, key: KeyId) -> bool {
        !self.busy.contains(&key)
    }

    fn forget(&self, key: KeyId) {
        lock(&self.forgotten).push(key);
    }
}

fn at(seconds: i64) -> Now {
    Now {
        mono_ns: seconds * 1_000_000_000,
        wall_ns: 0,
    }
}

/// Returns a ReplicaSet. `owner` is its owner, if any. `app` is the value of the label `app` that
/// its selector requires, if any.
fn set(name: &str, owner: Option<&str>, app: Option<&str>, version: u64) -> Arc<ReplicaSet> {
    let mut set = ReplicaSet::default();
    set.metadata.namespace = "ns".into();
    set.metadata.name = name.into();
    set.metadata.uid = Uid::new(name);
    set.metadata.resource_version = version.into();
    if let Some(owner) = owner {
        let owner = ObjectMeta {
            name: owner.into(),
            uid: Uid::new(owner),
            ..ObjectMeta::default()
        };
        let owner = Kind::DEPLOYMENT.controller_reference(&owner);
        set.metadata.owner_references.push(Arc::new(owner));
    }
    if let Some(app) = app {
        set.spec.selector = Some(Arc::new(LabelSelector {
            match_labels: labels(app),
            match_expressions: Arc::default(),
        }));
    }
    Arc::new(set)
}

fn labels(app: &str) -> Labels {
    Labels::from_pairs([("app", app)])
}

fn names(found: impl Iterator<Item = (KeyId, Arc<Form>)>) -> Vec<String> {
    let mut names: Vec<String> = found
        .map(|(_, form)| form.object.metadata.name.to_string())
        .collect();
    names.sort();
    names
}

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const OWNERS: [Option<&str>; 3] = [None, Some("one"), Some("two")];
const APPS: [Option<&str>; 3] = [None, Some("web"), Some("db")];

#[derive(Clone, Debug)]
enum Event {
    Apply(usize, usize, usize),
    Delete(usize),
    List(Vec<(usize, usize, usize)>),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let drawn = || (0..NAMES.len(), 0..OWNERS.len(), 0..APPS.len());
    let event = prop_oneof![
        4 => drawn().prop_map(|(name, owner, app)| Event::Apply(name, owner, app)),
        2 => (0..NAMES.len()).prop_map(Event::Delete),
        1 => vec(drawn(), 0..5).prop_map(|mut listed| {
            listed.sort();
            listed.dedup_by_key(|(name, ..)| *name);
            Event::List(listed)
        }),
    ];
    vec(event, 0..40)
}

proptest! {
    #[test]
    fn a_store_agrees_with_a_plain_map(events in events()) {
        let store = Store::<Form>::default();
        let uses = Uses::default();
        let mut model: BTreeMap<&str, (Option<&str>, Option<&str>)> = BTreeMap::new();
        let mut replaced = 0;
        for (number, event) in events.into_iter().enumerate() {
            // Each event comes two minutes after the previous one, so keys get other names.
            let (version, now) = (number as u64 + 1, at(number as i64 * 120));
            let made = |(name, owner, app): (usize, usize, usize)| {
                set(NAMES[name], OWNERS[owner], APPS[app], version)
            };
            match event {
                Event::Apply(name, owner, app) => {
                    let object = made((name, owner, app));
                    let change = store.apply(Delta::Applied(object), &uses, now);
                    let old = model.insert(NAMES[name], (OWNERS[owner], APPS[app]));
                    prop_assert_eq!(change.old.is_some(), old.is_some());
                    prop_assert!(change.new.is_some() && change.last.is_none());
                    replaced += usize::from(old.is_some());
                }
                Event::Delete(name) => {
                    let last = set(NAMES[name], None, None, version);
                    let change = store.apply(Delta::Deleted(last), &uses, now);
                    let old = model.remove(NAMES[name]);
                    prop_assert_eq!(change.old.is_some(), old.is_some());
                    prop_assert!(change.new.is_none() && change.last.is_some());
                    replaced += usize::from(old.is_some());
                }
                Event::List(listed) => {
                    let items = listed.iter().copied().map(made).collect();
                    let changes = store.replace(items, &version.into(), &uses, now);
                    let is_gone = |it: &&&str| !listed.iter().any(|(at, ..)| NAMES[*at] == **it);
                    let mut told: Vec<&str> = model.keys().filter(is_gone).copied().collect();
                    told.extend(listed.iter().map(|(name, ..)| NAMES[*name]));
                    let name = |change: &Change<Form>| {
                        let object = change.new.as_ref().map(|form| &form.object);
                        object.or(change.last.as_ref()).map(|it| it.metadata.name.to_string())
                    };
                    let found: Vec<String> = changes.iter().filter_map(name).collect();
                    prop_assert_eq!(found, told);
                    replaced += model.len();
                    model = listed.iter().map(|(name, owner, app)| {
                        (NAMES[*name], (OWNERS[*owner], APPS[*app]))
                    }).collect();
                }
            }
            prop_assert_eq!(store.version().get(), version.into());
            prop_assert_eq!(store.context().get(), replaced);
            prop_assert_eq!(names(store.all().into_iter()), model.keys().copied().collect::<Vec<_>>());
            for name in NAMES {
                let found = store.get_named("ns", name);
                prop_assert_eq!(found.is_some(), model.contains_key(name));
                let key = store.find("ns", name);
                prop_assert!(key.is_none_or(|key| *store.name(key).name == *name));
            }
            let of = |owner| model.iter().filter(move |(_, it)| it.0 == owner).map(|(name, _)| *name);
            for owner in OWNERS {
                let found = match owner {
                    Some(owner) => names(store.owned(&Uid::new(owner))),
                    None => names(store.orphans("ns")),
                };
                prop_assert_eq!(found, of(owner).collect::<Vec<_>>());
            }
            prop_assert_eq!(store.orphans("other").count(), 0);
            for app in APPS.into_iter().flatten() {
                let found = store.matching(&"ns".into(), &labels(app));
                let found: Vec<String> = found.into_iter().map(|(_, it)| it.object.metadata.name.to_string()).collect();
                let selects = |it: &&(&str, _)| it.1 == Some(app);
                let wanted = model.iter().map(|(name, it)| (*name, it.1)).collect::<Vec<_>>();
                let wanted: Vec<&str> = wanted.iter().filter(selects).map(|(name, _)| *name).collect();
                prop_assert_eq!(found, wanted);
            }
        }
    }
}

#[test]
fn a_reference_is_resolved_by_name_and_uid() {
    let store = Store::<Form>::default();
    store.apply(
        Delta::Applied(set("a", None, None, 1)),
        &Uses::default(),
        at(0),
    );
    let reference = |name: &str, uid: &str| {
        let meta = ObjectMeta {
            name: name.into(),
            uid: Uid::new(uid),
            ..ObjectMeta::default()
        };
        Kind::REPLICA_SET.controller_reference(&meta)
    };
    let found = store.resolve("ns", &reference("a", "a"));
    assert_eq!(found.map(|(key, _)| key), store.find("ns", "a"));
    assert!(store.resolve("ns", &reference("a", "another")).is_none());
    assert!(store.resolve("other", &reference("a", "a")).is_none());
}

#[test]
fn a_lagging_list_takes_the_version_back_first_and_is_counted() {
    let store = Store::<Form>::default();
    let uses = Uses::default();
    store.apply(Delta::Applied(set("a", None, None, 9)), &uses, at(0));
    assert_eq!(store.version().rewinds(), 0);
    let changes = store.replace(vec![set("a", None, None, 4)], &5.into(), &uses, at(1));
    assert_eq!((changes.len(), store.version().rewinds()), (1, 1));
    assert_eq!(store.version().get(), 5.into());
    store.replace(Vec::new(), &7.into(), &uses, at(2));
    assert_eq!(
        (store.version().get(), store.version().rewinds()),
        (7.into(), 1)
    );
    store.bookmark(&8.into());
    assert_eq!(store.version().get(), 8.into());
}

/// Records the version of its store when its form is derived.
struct Seen(Arc<ReplicaSet>);

#[derive(Default)]
struct Watched {
    store: RefCell<Weak<Store<Seen>>>,
    versions: RefCell<Vec<ResourceVersion>>,
}

impl Cached for Seen {
    type Object = ReplicaSet;
    type Context = Watched;

    fn derive(object: Arc<ReplicaSet>, _: KeyId, _: Option<&Seen>, watched: &Watched) -> Seen {
        let store = watched.store.borrow().upgrade();
        let version = store.expect("the store exists").version().get();
        watched.versions.borrow_mut().push(version);
        Seen(object)
    }

    fn object(&self) -> &Arc<ReplicaSet> {
        &self.0
    }
}

#[test]
fn a_list_sets_its_version_after_its_last_object() {
    let store = Rc::new(Store::<Seen>::default());
    *store.context().store.borrow_mut() = Rc::downgrade(&store);
    let items = || ["a", "b", "c"].into_iter().zip(5..);
    let items = || {
        items()
            .map(|(name, version)| set(name, None, None, version))
            .collect()
    };
    let uses = Uses::default();
    store.bookmark(&4.into());
    store.replace(items(), &9.into(), &uses, at(0));
    store.replace(items(), &8.into(), &uses, at(1));
    let versions = store.context().versions.borrow();
    assert_eq!(*versions, [4, 4, 4, 8, 8, 8].map(ResourceVersion::from));
    assert_eq!(store.version().get(), 8.into());
}

#[test]
fn a_key_in_use_elsewhere_is_not_reassigned() {
    let store = Store::<Form>::default();
    let idle = Uses::default();
    let a = store
        .apply(Delta::Applied(set("a", None, None, 1)), &idle, at(0))
        .key;
    store.apply(Delta::Deleted(set("a", None, None, 2)), &idle, at(1));
    let busy = Uses {
        busy: vec![a],
        ..Uses::default()
    };
    let b = store
        .apply(Delta::Applied(set("b", None, None, 3)), &busy, at(400))
        .key;
    assert_ne!(a, b);
    let c = store
        .apply(Delta::Applied(set("c", None, None, 4)), &idle, at(500))
        .key;
    assert_ne!(a, c, "its cooldown started again");
    let d = store
        .apply(Delta::Applied(set("d", None, None, 5)), &idle, at(900))
        .key;
    assert_eq!(a, d);
    assert_eq!(
        (&*lock(&idle.forgotten), &*lock(&busy.forgotten)),
        (&vec![a], &vec![])
    );
    assert!(store.find("ns", "a").is_none());
}
