//! Histories and reads with violations, which the checkers must find.

use podstorm_objects::ObjectMeta;

use super::*;
use crate::Commit;

/// Returns the broken rules that a check has found, without consecutive repetitions.
fn rules(found: &[Violation]) -> Vec<&'static str> {
    let mut rules: Vec<_> = found.iter().map(|one| one.rule).collect();
    rules.dedup();
    rules
}

/// Returns a short history: pods `x` and `y` are created, `x` is changed and `y` removed.
fn short() -> (Cluster, History) {
    let (cluster, recorder) = server(Kept::default());
    let x = cluster.create(pod("x", "a"), at(1)).unwrap();
    cluster.create(pod("y", "a"), at(1)).unwrap();
    let mut new = Pod::clone(&x);
    new.metadata.labels = new.metadata.labels.with("tier", "front");
    cluster.update(new, at(2)).unwrap();
    let options = DeleteOptions::default();
    cluster.delete::<Pod>("a", "y", &options, at(3)).unwrap();
    (cluster, recorder.history())
}

#[test]
fn impossible_histories_are_rejected() {
    type Spoil = fn(&mut Vec<Commit>);
    let (_, history) = short();
    // Two namespaces, then x, y, x changed, y marked, y removed.
    assert_eq!(history.last_version(), 7);
    expect_sound(history.check(), "the original");
    fn change(record: &mut Commit, how: impl FnOnce(&mut ObjectMeta)) {
        let mut pod = record.new.downcast_ref::<Pod>().expect("a pod").clone();
        how(&mut pod.metadata);
        record.new = Arc::new(pod);
    }
    let rejected = |what: &str, wanted: &[&str], spoil: Spoil| {
        let mut records = history.records().to_vec();
        spoil(&mut records);
        let found = History::new(records).check();
        assert_eq!(rules(&found), wanted, "{what}: {found:#?}");
    };
    rejected("a version is missing", &["dense versions"], |all| {
        all.remove(1);
    });
    rejected("two commits are swapped", &["dense versions"], |all| {
        all.swap(2, 3);
    });
    rejected("the object has another version", &["own version"], |all| {
        let version = ResourceVersion::Number(2);
        change(&mut all[6], |meta| meta.resource_version = version);
    });
    let both = &["no lost update", "same UID"];
    rejected("a write starts from an overwritten state", both, |all| {
        all[5].old = Some(all[2].new.clone());
    });
    let both = &["no lost update", "unique UID"];
    rejected("an existing object is created again", both, |all| {
        all[4].change = Change::Added;
        all[4].old = None;
    });
    rejected("a removed object is changed", &["no empty write"], |all| {
        all[6].change = Change::Modified;
    });
    rejected("another object takes its place", &["same UID"], |all| {
        change(&mut all[4], |meta| meta.uid = "other".into());
    });
    rejected("a deletion is undone", &["deletion stays"], |all| {
        change(&mut all[6], |meta| meta.deletion_timestamp = Time::UNSET);
    });
    rejected("the generation decreases", &["generation"], |all| {
        change(&mut all[4], |meta| meta.generation = 0);
    });
    rejected("nothing is changed", &["no empty write"], |all| {
        all[4].new = all[2].new.clone();
        let version = ResourceVersion::Number(5);
        change(&mut all[4], |meta| meta.resource_version = version);
    });
}

#[test]
fn inconsistent_lists_and_reads_are_rejected() {
    let (cluster, history) = short();
    let (items, _) = cluster.list::<Pod>(None);
    expect_sound(history.check_list(None, &items, 7, (7, 7)), "the original");
    let check =
        |items: &[Arc<Pod>], version| rules(&history.check_list(None, items, version, (7, 7)));
    assert_eq!(check(&[], 7), ["state"], "an object is missing");
    let twice = [items[0].clone(), items[0].clone()];
    assert_eq!(check(&twice, 7), ["state"], "an object is repeated");
    let mut old = Pod::clone(&items[0]);
    old.metadata.labels = Default::default();
    assert_eq!(check(&[Arc::new(old)], 7), ["state"], "another state");
    let (past, _) = cluster.list_as_of::<Pod>(None, 4).unwrap();
    assert_eq!(
        check(&past, 4),
        ["list version"],
        "an older state than the server's"
    );
    assert_eq!(check(&past, 7), ["state"]);
    let mut unsorted = past.clone();
    unsorted.reverse();
    let found = history.check_list_as_of(None, &unsorted, 4);
    assert_eq!(rules(&found), ["state"]);

    let seen = items[0].clone() as AnyObject;
    let read = |found: Option<&AnyObject>, during| {
        rules(&history.check_get((Kind::POD, "a", "x"), found, during))
    };
    assert!(read(Some(&seen), (5, 5)).is_empty());
    assert!(read(Some(&seen), (4, 6)).is_empty());
    assert!(read(None, (2, 3)).is_empty(), "not created yet");
    assert_eq!(
        read(Some(&seen), (3, 4)),
        ["read"],
        "a state from the future"
    );
    assert_eq!(read(None, (3, 7)), ["read"], "a write is missed");
}

fn bookmark(version: u64, initial_events_end: bool) -> WatchEvent<Pod> {
    WatchEvent::Bookmark {
        version: ResourceVersion::Number(version),
        initial_events_end,
    }
}

#[test]
fn inconsistent_event_streams_are_rejected() {
    type Events = Vec<WatchEvent<Pod>>;
    type Spoil = fn(&mut Events);
    let (cluster, history) = short();
    let window = Window::default();
    let mut client = Client {
        watch: cluster
            .watch::<Pod>(WatchFrom::InitialAsOf(4), WatchOptions::default())
            .unwrap(),
        recorded: RecordedWatch::new(WatchFrom::InitialAsOf(4), 7),
    };
    client.drain(&cluster);
    // x, y, the end at 4, x changed, y marked, y removed.
    assert_eq!(client.recorded.events.len(), 6);
    expect_sound(
        history.check_watch(&client.recorded, &window),
        "the original",
    );
    let expired = WatchEvent::Error(crate::errors::expired(4, 5));
    let rejected = |what: &str, wanted: &str, spoil: Spoil| {
        let mut watch = client.recorded.clone();
        spoil(&mut watch.events);
        let found = history.check_watch(&watch, &window);
        let first = found.first().map(|one| one.rule);
        assert_eq!(first, Some(wanted), "{what}: {found:#?}");
    };
    rejected("an event is lost", "events", |all| drop(all.remove(3)));
    rejected("the last event is lost", "events", |all| drop(all.pop()));
    rejected("an event is repeated", "events", |all| {
        all.insert(4, all[3].clone());
    });
    rejected("two events are swapped", "events", |all| all.swap(3, 4));
    rejected("an old event comes after a bookmark", "events", |all| {
        all.extend([bookmark(7, false), all[5].clone()]);
    });
    rejected("a change is reported as a create", "events", |all| {
        if let WatchEvent::Modified(pod) = all[3].clone() {
            all[3] = WatchEvent::Added(pod);
        }
    });
    rejected("an object is altered", "events", |all| {
        if let WatchEvent::Modified(pod) = &mut all[3] {
            Arc::make_mut(pod).metadata.labels = Default::default();
        }
    });
    rejected("a bookmark passes an event", "bookmark", |all| {
        all.insert(4, bookmark(6, false));
    });
    rejected("a bookmark has an old version", "bookmark", |all| {
        all.insert(5, bookmark(5, false));
    });
    rejected("a bookmark has a future version", "bookmark", |all| {
        all.push(bookmark(8, false));
    });
    let one_end = "one end of the initial state";
    rejected("the initial state ends twice", one_end, |all| {
        all.push(bookmark(7, true));
    });
    rejected("the initial state never ends", one_end, |all| {
        all.truncate(2);
    });
    let state = "initial state";
    rejected("the initial state lacks an object", state, |all| {
        all.remove(0);
    });
    rejected("the initial state has another version", state, |all| {
        all[2] = bookmark(5, true);
    });
    rejected("the initial state ends too late", state, |all| {
        all.swap(2, 3);
    });
    let mut watch = client.recorded.clone();
    watch.events.truncate(3);
    watch.events.push(expired.clone());
    watch.drained_at = 0;
    let check =
        |watch: &RecordedWatch<Pod>, window: &Window| rules(&history.check_watch(watch, window));
    assert_eq!(check(&watch, &window), ["expired"], "no event was dropped");
    let mut compacted = Window::default();
    compacted.compacted(Kind::POD, 5);
    assert!(check(&watch, &compacted).is_empty());
    watch.events.push(bookmark(7, false));
    assert_eq!(check(&watch, &compacted), ["error ends the watch"]);
    watch.events.truncate(3);
    watch
        .events
        .push(WatchEvent::Error(crate::errors::bad_request("why")));
    assert_eq!(check(&watch, &window), ["error ends the watch"]);
}

#[test]
fn refusals_without_a_reason_are_rejected() {
    use crate::errors::{bad_request, expired, version_too_large};
    let (_, history) = short();
    let window = Window::default();
    let check = |version, error: &podstorm_objects::ApiError, window: &Window| {
        rules(&history.check_refusal::<Pod>(version, 7, error, window))
    };
    assert_eq!(check(4, &expired(4, 5), &window), ["expired"]);
    let narrow = Window {
        history: Kept {
            min_events: 2,
            max_events: 9,
            ..Kept::default()
        },
        ..Window::default()
    };
    assert!(check(4, &expired(4, 6), &narrow).is_empty());
    assert_eq!(check(5, &expired(5, 6), &narrow), ["expired"]);
    assert!(check(8, &version_too_large(8, 7), &window).is_empty());
    assert_eq!(check(7, &version_too_large(7, 7), &window), ["too new"]);
    assert_eq!(check(7, &bad_request("why"), &window), ["refusal"]);
}

#[test]
fn a_watch_of_some_objects_sees_their_selection_change() {
    let (_, history) = short();
    let window = Window::default();
    let front = |pod: &Pod| pod.metadata.labels.get("tier").map(|tier| &**tier) == Some("front");
    let not_front = |pod: &Pod| !front(pod);
    let pod_at = |version: u64| -> Arc<Pod> {
        let index = usize::try_from(version - 1).unwrap();
        let object = history.records()[index].new.clone();
        object.downcast().expect("a pod")
    };
    let watch = |events: Vec<WatchEvent<Pod>>| RecordedWatch {
        events,
        polled_at: 7,
        drained_at: 7,
        ..RecordedWatch::new(WatchFrom::Version(3), 7)
    };
    // x becomes selected.
    let comes = watch(vec![WatchEvent::Added(pod_at(5))]);
    expect_sound(history.check_watch_of(&comes, &window, front), "selected");
    let changes = watch(vec![WatchEvent::Modified(pod_at(5))]);
    assert_eq!(
        rules(&history.check_watch_of(&changes, &window, front)),
        ["events"]
    );
    // In the complementary watch it is deleted, with its last selected state.
    let mut last = Pod::clone(&pod_at(3));
    last.metadata.resource_version = ResourceVersion::Number(5);
    let goes = |last: Arc<Pod>| {
        watch(vec![
            WatchEvent::Added(pod_at(4)),
            WatchEvent::Deleted(last),
            WatchEvent::Modified(pod_at(6)),
            WatchEvent::Deleted(pod_at(7)),
        ])
    };
    let sound = goes(Arc::new(last));
    expect_sound(
        history.check_watch_of(&sound, &window, not_front),
        "no longer selected",
    );
    let found = history.check_watch_of(&goes(pod_at(5)), &window, not_front);
    assert_eq!(rules(&found), ["events"], "a state that was never selected");
}
