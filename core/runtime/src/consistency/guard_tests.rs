//! Tests of a guard whose caches have three kinds.

use podstorm_objects::{ApiError, Kind, ResourceVersion, Uid};

use super::{Guard, GuardRules, Stale};
use crate::cache::StoreVersion;
use crate::client::{Answer, Request};

const KINDS: [Kind; 3] = [Kind::POD, Kind::REPLICA_SET, Kind::DEPLOYMENT];

const HARDENED: GuardRules = GuardRules {
    keeps_records: false,
    every_write: true,
    fence_unknown_outcomes: true,
    fence_at_start: true,
};

type Stores = [StoreVersion; 3];

fn guard() -> Guard<u32, 3> {
    Guard::new(HARDENED, KINDS)
}

/// Returns caches at these versions.
fn at(versions: [u64; 3]) -> Stores {
    versions.map(|version| {
        let store = StoreVersion::default();
        store.set(&version.into());
        store
    })
}

fn check(guard: &Guard<u32, 3>, key: u32, stores: &Stores) -> Result<(), Kind> {
    let checked = guard.check(&key, stores.each_ref());
    checked.map(drop).map_err(|stale: Stale| stale.kind)
}

/// Answers the reads of versions with the next version or, for the kind `fails`, with an error.
fn read(unread: impl Iterator<Item = Request>, fails: Option<Kind>) -> Reads {
    let requests: Vec<Request> = unread.collect();
    let answer = |request: &Request| match *request {
        Request::ReadVersion { kind } if fails == Some(kind) => {
            Answer::Failed(ApiError::transport("no route"))
        }
        _ => Answer::Version(7.into()),
    };
    let answers = requests.iter().map(|it| Some(answer(it))).collect();
    (requests, answers)
}

type Reads = (Vec<Request>, Vec<Option<Answer>>);

/// Begins the first sync of a controller: reads all versions, which are all 7.
fn start(guard: &Guard<u32, 3>) {
    let (requests, mut answers) = read(guard.reads(&guard.unread(&0)), None);
    assert_eq!(requests.len(), 3);
    let begun = guard.read_first(0, None, &requests, &mut answers);
    begun.unwrap();
}

#[test]
fn no_key_is_synced_before_the_startup_versions() {
    let guard = guard();
    let (requests, mut answers) = read(guard.reads(&guard.unread(&0)), Some(Kind::REPLICA_SET));
    let begun = guard.read_first(0, None, &requests, &mut answers);
    assert_eq!(begun.unwrap_err().message, "no route");
    assert!(!guard.unread(&1).is_empty(), "another key reads them too");
    start(&guard);
    assert!(guard.unread(&1).is_empty());
    assert_eq!(check(&guard, 1, &at([7, 7, 6])), Err(Kind::DEPLOYMENT));
    assert_eq!(check(&guard, 1, &at([6, 6, 7])), Err(Kind::POD));
    assert_eq!(check(&guard, 1, &at([7, 7, 7])), Ok(()));
    assert_eq!(
        guard.stale_sync_skips.each_ref().map(|it| it.value()),
        [1, 0, 1]
    );
    assert_eq!(guard.fence_reads.value(), 2);
    let mut text = String::new();
    for family in guard.families("some_controller_stale_sync_skips_total") {
        family.write_text(&mut text);
    }
    for line in [
        "some_controller_stale_sync_skips_total{group=\"\",resource=\"pods\"} 1",
        "some_controller_stale_sync_skips_total{group=\"apps\",resource=\"replicasets\"} 0",
        "podstorm_fences_total{kind=\"Deployment\"} 2",
    ] {
        assert!(
            text.lines().any(|it| it == line),
            "missing {line} in\n{text}"
        );
    }
    assert!(!text.contains("settled"), "hidden while it is zero");
}

#[test]
fn a_key_waits_only_for_its_own_writes() {
    for rules in [
        HARDENED,
        GuardRules {
            keeps_records: true,
            ..GuardRules::default()
        },
    ] {
        let guard = Guard::new(rules, KINDS);
        assert!(guard.rules.keeps_records);
        let uid = Uid::new("a");
        let written = 9.into();
        guard.records.wrote_at(1, &uid, Kind::REPLICA_SET, &written);
        assert_eq!(check(&guard, 1, &at([9, 8, 9])), Err(Kind::REPLICA_SET));
        assert_eq!(check(&guard, 2, &at([9, 8, 9])), Ok(()));
        assert_eq!(check(&guard, 1, &at([9, 9, 9])), Ok(()));
        assert_eq!(
            guard.records.record(&1),
            None,
            "a write is awaited only once"
        );
    }
}

#[test]
fn a_key_waits_for_its_write_of_unknown_outcome() {
    let (guard, uid) = (guard(), Uid::new("a"));
    start(&guard);
    assert_eq!(check(&guard, 1, &at([7, 7, 7])), Ok(()));
    let pods = || [Request::ReadVersion { kind: Kind::POD }].into_iter();
    let (requests, mut answers) = read(pods(), Some(Kind::POD));
    let ended = guard.read_last(1, &uid, &requests, &mut answers);
    assert!(ended.is_err());
    // The read failed, so the version must be read before the next sync of that key.
    assert!(guard.unread(&2).is_empty());
    let unread: Vec<Kind> = guard.unread(&1).iter().collect();
    assert_eq!(unread, [Kind::POD]);
    let answers = &mut [Some(Answer::Version(8.into()))];
    guard.read_first(1, Some(&uid), &requests, answers).unwrap();
    assert!(guard.unread(&1).is_empty());
    assert_eq!(check(&guard, 2, &at([7, 7, 7])), Ok(()));
    assert_eq!(check(&guard, 1, &at([7, 7, 7])), Err(Kind::POD));
    assert_eq!(check(&guard, 1, &at([8, 7, 7])), Ok(()));
    // A version that is read at the end is awaited as well.
    let answers = &mut [Some(Answer::Version(9.into()))];
    guard.read_last(1, &uid, &requests, answers).unwrap();
    assert_eq!(check(&guard, 1, &at([8, 7, 7])), Err(Kind::POD));
    // The key is reused for another name while a version could not be read.
    let answers = &mut [Some(Answer::Failed(ApiError::transport("no route")))];
    assert!(guard.read_last(1, &uid, &requests, answers).is_err());
    guard.forget_fences(&1);
    guard.records.clear(&1, None);
    assert!(guard.unread(&1).is_empty());
    assert_eq!(check(&guard, 1, &at([8, 7, 7])), Ok(()));
}

#[test]
fn a_cache_that_goes_back_is_noticed_before_and_after_a_sync() {
    let guard = Guard::<u32, 3>::new(HARDENED, KINDS);
    start(&guard);
    let stores = at([9, 7, 7]);
    let checked = guard.check(&1, stores.each_ref()).unwrap();
    assert_eq!(checked.versions, [9, 7, 7].map(ResourceVersion::from));
    assert!(!guard.is_behind(&checked, stores.each_ref()));
    stores[0].before_list(&8.into());
    assert!(guard.is_behind(&checked, stores.each_ref()));
    assert_eq!(
        check(&guard, 1, &stores),
        Err(Kind::POD),
        "older than it has been"
    );
    assert_eq!(guard.stale_sync_skips[0].value(), 2);
}
