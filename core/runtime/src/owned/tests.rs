//! Tests that compare the handlers with rules as sets: every state before with every state after.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use podstorm_objects::{Kind, Labels, Time, Uid};

use super::*;

/// The actions of the handlers, each in words.
type Done = BTreeSet<String>;

/// Owners `one` and `two` are cached, with the keys 1 and 2.
#[derive(Default)]
struct Recorder<const GRACEFUL: bool>(RefCell<Vec<String>>);

impl<const GRACEFUL: bool> Recorder<GRACEFUL> {
    fn note(&self, what: &str, of: impl std::fmt::Display) {
        self.0.borrow_mut().push(format!("{what} {of}"));
    }
}

impl<const GRACEFUL: bool> OwnedHandlers for Recorder<GRACEFUL> {
    type Dependent<'a> = &'a ObjectMeta;

    const ENDS_GRACEFULLY: bool = GRACEFUL;

    fn owner(&self, object: &ObjectMeta) -> Option<KeyId> {
        key(&object.controller()?.name)
    }

    fn wake_matching(&self, object: &ObjectMeta, _: Now) {
        self.note(
            "match",
            object.labels.get("app").expect("the object has the label"),
        );
    }

    fn wake(&self, owner: KeyId, _: Now) {
        self.note("wake", owner.0);
    }

    fn creation_observed(&self, owner: KeyId) {
        self.note("created", owner.0);
    }

    fn deletion_observed(&self, owner: KeyId, object: &ObjectMeta) {
        self.note("deleted", format!("{} {}", owner.0, object.name));
    }

    fn updated(&self, owner: KeyId, _: &ObjectMeta, _: &ObjectMeta, _: Now) {
        self.note("later", owner.0);
    }

    fn adopted(&self, orphan: &ObjectMeta, _: Now) {
        self.note(
            "adopted",
            orphan.labels.get("app").expect("the object has the label"),
        );
    }

    fn ended(&self, old: &ObjectMeta, last: &ObjectMeta, _: Now) {
        self.note("ended", format!("{} {}", old.name, last.name));
    }
}

fn key(owner: &str) -> Option<KeyId> {
    let cached = ["", "one", "two"].iter().position(|name| *name == owner)?;
    Some(KeyId(cached as u32))
}

#[derive(Clone, Copy, Debug)]
struct State {
    controller: Option<&'static str>,
    app: &'static str,
    deleting: bool,
}

impl State {
    fn all() -> impl Iterator<Item = State> {
        let controllers = [None, Some("one"), Some("two"), Some("unknown")];
        let apps = controllers
            .into_iter()
            .flat_map(|it| [(it, "web"), (it, "db")]);
        apps.flat_map(|(controller, app)| {
            [false, true].map(|deleting| State {
                controller,
                app,
                deleting,
            })
        })
    }

    fn meta(self, name: &str, version: u64) -> ObjectMeta {
        let mut meta = ObjectMeta {
            name: name.into(),
            labels: Labels::from_pairs([("app", self.app)]),
            resource_version: version.into(),
            ..ObjectMeta::default()
        };
        if self.deleting {
            meta.deletion_timestamp = Time::from_unix_seconds(1);
        }
        if let Some(owner) = self.controller {
            let owner = ObjectMeta {
                name: owner.into(),
                uid: Uid::new(owner),
                ..ObjectMeta::default()
            };
            let owner = Kind::DEPLOYMENT.controller_reference(&owner);
            meta.owner_references.push(Arc::new(owner));
        }
        meta
    }

    fn owner(self) -> Option<u32> {
        key(self.controller?).map(|key| key.0)
    }
}

/// Returns the actions that the rules require, with one rule for each kind of action.
fn rules(old: Option<State>, new: State, same_version: bool, gone: bool, graceful: bool) -> Done {
    let is_update = old.is_some() && !gone && !same_version;
    let ends = is_update && graceful && new.deleting;
    let moves = is_update && !ends;
    let is_new = old.is_none() && !gone;
    let relabelled = old.is_some_and(|old| old.app != new.app);
    let changed_hands = old.is_some_and(|old| old.controller != new.controller);

    let mut done = Done::new();
    let mut add = |holds: bool, what: &str, owner: Option<u32>, rest: &str| {
        if let (true, Some(owner)) = (holds, owner) {
            done.insert(format!("{what} {owner}{rest}"));
            done.insert(format!("wake {owner}"));
        }
    };
    let before = old.and_then(State::owner);
    add(
        gone || ends || is_new && new.deleting,
        "deleted",
        new.owner(),
        " new",
    );
    add(ends && relabelled, "deleted", before, " old");
    add(is_new && !new.deleting, "created", new.owner(), "");
    add(moves, "later", new.owner(), "");
    add(moves && changed_hands, "wake", before, "");

    let mut note = |holds: bool, what: &str, of: &str| {
        if holds {
            done.insert(format!("{what} {of}"));
        }
    };
    let is_offered = is_new && !new.deleting || moves && (relabelled || changed_hands);
    note(is_offered && new.controller.is_none(), "match", new.app);
    let was_orphan = old.filter(|old| old.controller.is_none());
    note(
        moves && changed_hands && was_orphan.is_some(),
        "adopted",
        old.map_or("", |it| it.app),
    );
    note(old.is_some() && (gone || ends), "ended", "old new");
    done
}

fn check<const GRACEFUL: bool>() {
    let olds = || State::all().map(Some).chain([None]);
    for (old, new) in olds().flat_map(|old| State::all().map(move |new| (old, new))) {
        for (same_version, gone) in [(false, false), (false, true), (true, false), (true, true)] {
            let recorder = Recorder::<GRACEFUL>::default();
            let before = old.map(|old| old.meta("old", 1));
            let after = new.meta("new", if same_version { 1 } else { 2 });
            recorder.dependent_changed(before.as_ref(), &after, gone, Now::default());
            let done: Done = recorder.0.into_inner().into_iter().collect();
            let what = format!("{old:?} {new:?} {same_version} {gone} {GRACEFUL}");
            assert_eq!(
                done,
                rules(old, new, same_version, gone, GRACEFUL),
                "{what}"
            );
        }
    }
}

#[test]
fn every_change_follows_the_rules() {
    check::<false>();
    check::<true>();
}

#[test]
fn a_change_is_observed_once_and_before_its_owner_is_woken() {
    let recorder = Recorder::<true>::default();
    let live = State {
        controller: Some("one"),
        app: "web",
        deleting: false,
    };
    let ends = State {
        deleting: true,
        ..live
    };
    let (live, ends) = (live.meta("pod", 1), ends.meta("pod", 2));
    recorder.dependent_changed(None, &live, false, Now::default());
    recorder.dependent_changed(Some(&live), &ends, false, Now::default());
    let done = recorder.0.into_inner();
    assert_eq!(
        done,
        [
            "created 1",
            "wake 1",
            "deleted 1 pod",
            "wake 1",
            "ended pod pod"
        ]
    );
}
