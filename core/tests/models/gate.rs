//! The read-your-writes check: a worker that passes it finds its writes in the cache, and no record
//! is lost between a worker that writes, one that checks, and a handler that clears.

use podstorm::cache::StoreVersion;
use podstorm::consistency::ConsistencyStore;
use podstorm::object::{Kind, ResourceVersion, Uid};

use crate::checker::sync::Arc;
use crate::checker::sync::atomic::{AtomicU64, Ordering};
use crate::checker::thread;
use crate::{beside, check};

type Store = ConsistencyStore<u32>;

fn version(number: u64) -> ResourceVersion {
    ResourceVersion::Number(number)
}

/// The versions of the caches; that of the owners does not matter.
fn at(pods: u64) -> [ResourceVersion; 2] {
    [version(pods), ResourceVersion::default()]
}

/// The informer changes the cache and then sets its version. A worker whose last write was the
/// second change checks, and then reads the cache. If the check passed, it finds that change.
#[test]
fn a_worker_that_passes_the_gate_finds_its_write_cached() {
    check(3, || {
        let store = Store::new([Kind::POD, Kind::REPLICA_SET]);
        let (cache, reached) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(StoreVersion::default()),
        );
        reached.set(&version(1));
        store.wrote_at(0, &Uid::new("a"), Kind::POD, &version(3));
        let informer = {
            let (cache, reached) = (cache.clone(), reached.clone());
            thread::spawn(move || {
                for number in 2..=4 {
                    cache.store(number, Ordering::Relaxed);
                    reached.set(&version(number));
                }
            })
        };
        let stores = [reached.get(), ResourceVersion::default()];
        let answer = store.ensure_ready(&0, &stores);
        let seen = cache.load(Ordering::Relaxed);
        if answer.is_ok() {
            assert!(seen >= 3, "passed with a cache at {seen}");
        } else {
            assert!(
                store.record(&0).is_some(),
                "the check failed and the record was lost"
            );
        }
        informer.join().unwrap();
        let stores = [reached.get(), ResourceVersion::default()];
        assert_eq!(store.ensure_ready(&0, &stores), Ok(()));
        assert!(store.is_empty());
    });
}

/// A write that is recorded while another worker checks is required by the next check, whether it
/// was recorded before or after the answer that drops the record.
#[test]
fn a_write_recorded_during_a_passing_check_stays() {
    check(3, || {
        let store = Arc::new(Store::new([Kind::POD, Kind::REPLICA_SET]));
        let uid = Uid::new("a");
        store.wrote_at(0, &uid, Kind::POD, &version(1));
        let writer = beside(&store, move |store| {
            store.wrote_at(0, &uid, Kind::POD, &version(2));
        });
        let early = store.ensure_ready(&0, &at(1));
        writer.join().unwrap();
        assert!(early.is_ok() || early.is_err_and(|stale| stale.wrote == version(2)));
        assert!(store.ensure_ready(&0, &at(1)).is_err(), "a write was lost");
        assert_eq!(store.ensure_ready(&0, &at(2)), Ok(()));
    });
}

/// Concurrently recorded writes are all kept; of one resource the newest is kept.
#[test]
fn the_newest_of_racing_records_stays() {
    check(3, || {
        let store = Arc::new(Store::new([Kind::POD, Kind::REPLICA_SET]));
        let other = beside(&store, |store| {
            store.wrote_at(0, &Uid::new("a"), Kind::POD, &version(3));
            store.wrote_at(0, &Uid::new("a"), Kind::REPLICA_SET, &version(1));
        });
        store.wrote_at(0, &Uid::new("a"), Kind::POD, &version(2));
        other.join().unwrap();
        let record = store.record(&0).unwrap();
        assert_eq!(record.written, [Some(version(3)), Some(version(1))]);
    });
}

/// A handler that clears a deleted owner, while a worker records for the successor with the same
/// name, takes nothing from the successor. A late record for the deleted owner replaces it, as a
/// record of a restored owner would.
#[test]
fn forgetting_an_owner_spares_its_successor() {
    check(3, || {
        let store = Arc::new(Store::new([Kind::POD, Kind::REPLICA_SET]));
        let (old, new) = (Uid::new("old"), Uid::new("new"));
        store.wrote_at(0, &old, Kind::POD, &version(5));
        let handler = beside(&store, move |store| store.clear(&0, Some(&old)));
        store.wrote_at(0, &new, Kind::POD, &version(6));
        handler.join().unwrap();
        let record = store.record(&0).expect("the successor's record");
        assert_eq!((record.uid, &record.written[0]), (new, &Some(version(6))));
        assert!(store.ensure_ready(&0, &at(5)).is_err());
    });
}
