//! The read-your-writes gate: who passes it finds what was written in the cache, and no record is lost
//! between a worker that writes, one that asks, and a handler that forgets.

use podstorm::cache::StoreVersion;
use podstorm::consistency::ConsistencyStore;
use podstorm::object::{Kind, ResourceVersion, Uid};

use crate::check;
use crate::checker::sync::Arc;
use crate::checker::sync::atomic::{AtomicU64, Ordering};
use crate::checker::thread;

type Store = ConsistencyStore<u32>;

fn version(number: u64) -> ResourceVersion {
    ResourceVersion::Number(number)
}

/// The versions that caches have come to, the owners' being of no matter.
fn at(pods: u64) -> [ResourceVersion; 2] {
    [version(pods), ResourceVersion::default()]
}

/// The informer changes the cache and then says how far it is. A worker whose last write was the second
/// change asks the gate, and then reads the cache: passed, it finds that change.
#[test]
fn who_passes_the_gate_finds_the_write_in_the_cache() {
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
            assert!(store.record(&0).is_some(), "asked in vain and forgotten");
        }
        informer.join().unwrap();
        let stores = [reached.get(), ResourceVersion::default()];
        assert_eq!(store.ensure_ready(&0, &stores), Ok(()));
        assert!(store.is_empty());
    });
}

/// A write that is recorded while another worker asks is asked for by whoever comes next, whether the
/// answer that drops the record came before it or after.
#[test]
fn a_write_recorded_beside_a_positive_answer_stays() {
    check(3, || {
        let store = Arc::new(Store::new([Kind::POD, Kind::REPLICA_SET]));
        let uid = Uid::new("a");
        store.wrote_at(0, &uid, Kind::POD, &version(1));
        let writer = {
            let (store, uid) = (store.clone(), uid.clone());
            thread::spawn(move || store.wrote_at(0, &uid, Kind::POD, &version(2)))
        };
        let early = store.ensure_ready(&0, &at(1));
        writer.join().unwrap();
        assert!(early.is_ok() || early.is_err_and(|stale| stale.wrote == version(2)));
        assert!(store.ensure_ready(&0, &at(1)).is_err(), "a write was lost");
        assert_eq!(store.ensure_ready(&0, &at(2)), Ok(()));
    });
}

/// Writes that are recorded at the same time all hold, and of one resource the newest.
#[test]
fn of_racing_records_the_newest_stays() {
    check(3, || {
        let store = Arc::new(Store::new([Kind::POD, Kind::REPLICA_SET]));
        let uid = Uid::new("a");
        let other = {
            let (store, uid) = (store.clone(), uid.clone());
            thread::spawn(move || {
                store.wrote_at(0, &uid, Kind::POD, &version(3));
                store.wrote_at(0, &uid, Kind::REPLICA_SET, &version(1));
            })
        };
        store.wrote_at(0, &uid, Kind::POD, &version(2));
        other.join().unwrap();
        let record = store.record(&0).unwrap();
        assert_eq!(record.written, [Some(version(3)), Some(version(1))]);
    });
}

/// A handler that forgets a deleted owner while a worker records for its successor of the same name
/// takes nothing from the successor; a late record for the deleted one does replace it, as one of a
/// restored owner would.
#[test]
fn forgetting_an_owner_spares_its_successor() {
    check(3, || {
        let store = Arc::new(Store::new([Kind::POD, Kind::REPLICA_SET]));
        let (old, new) = (Uid::new("old"), Uid::new("new"));
        store.wrote_at(0, &old, Kind::POD, &version(5));
        let handler = {
            let (store, old) = (store.clone(), old.clone());
            thread::spawn(move || store.clear(&0, Some(&old)))
        };
        store.wrote_at(0, &new, Kind::POD, &version(6));
        handler.join().unwrap();
        let record = store.record(&0).expect("the successor's record");
        assert_eq!((record.uid, &record.written[0]), (new, &Some(version(6))));
        assert!(store.ensure_ready(&0, &at(5)).is_err());
    });
}
