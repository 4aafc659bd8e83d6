//! Fences: no sync counts before the caches have reached the versions of the start, a key's next
//! sync finds the versions it must read, and the caches never go back to before a version at which
//! pods were counted.

use podstorm::cache::StoreVersion;
use podstorm::consistency::{Fences, Kinds};
use podstorm::object::{Kind, ResourceVersion};
use podstorm::workqueue::{Take, WorkQueue};

use crate::checker::sync::Arc;
use crate::checker::sync::atomic::{AtomicU64, Ordering};
use crate::checker::thread;
use crate::{beside, check};

const KINDS: [Kind; 2] = [Kind::POD, Kind::REPLICA_SET];

fn at(pods: ResourceVersion) -> [ResourceVersion; 2] {
    [pods, ResourceVersion::Number(1)]
}

/// The state that two workers and an informer share at the start.
struct Start {
    fences: Fences<u32>,
    reached: StoreVersion,
    /// The content of the cache, as the version that it includes.
    cache: AtomicU64,
    /// The server's version, which other clients advance.
    server: AtomicU64,
}

impl Start {
    /// Runs the steps of a sync up to reading its pods, as in the controller. Returns the content
    /// that it reads, if it may.
    fn sync(&self) -> Option<u64> {
        if !self.fences.is_started() {
            let read = self.server.load(Ordering::Relaxed);
            // The read takes time: another worker may be first.
            if !self.fences.is_started() {
                self.fences.raise(Kind::POD, &ResourceVersion::Number(read));
                self.fences.start();
            }
        }
        let stores = at(self.reached.get());
        self.fences.check(&stores).ok()?;
        self.fences.raise(Kind::POD, &stores[0]);
        Some(self.cache.load(Ordering::Relaxed))
    }
}

/// The first list of a new incarnation is old: at version 1, while the server is at 2. Two workers
/// race for the start; neither counts before the event that brings the cache to 2.
#[test]
fn no_worker_counts_before_the_start_is_reached() {
    check(2, || {
        let start = Arc::new(Start {
            fences: Fences::new(KINDS),
            reached: StoreVersion::default(),
            cache: AtomicU64::new(0),
            server: AtomicU64::new(2),
        });
        let informer = beside(&start, |start| {
            for number in [1, 2] {
                start.cache.store(number, Ordering::Relaxed);
                start.reached.set(&ResourceVersion::Number(number));
            }
        });
        let other = beside(&start, |start| start.sync());
        let found = [start.sync(), other.join().unwrap()];
        for found in found.into_iter().flatten() {
            assert!(found >= 2, "counted at {found}");
        }
        informer.join().unwrap();
        assert_eq!(start.sync(), Some(2), "postponed endlessly");
    });
}

/// A sync ends and requires the read of a version. The key's next sync, by any worker, finds this,
/// while requirements of other keys come and go.
#[test]
fn the_next_sync_finds_the_required_version() {
    check(3, || {
        let (fences, queue) = (
            Arc::new(Fences::new(KINDS)),
            Arc::new(WorkQueue::<u32>::new()),
        );
        let mut wish = Kinds::default();
        wish.insert(Kind::REPLICA_SET);
        let expected = wish.clone();
        queue.add(0, 0);
        assert_eq!(queue.try_take(0), Take::Key(0));
        queue.add(0, 0);
        let first = {
            let (fences, queue) = (fences.clone(), queue.clone());
            let wish = wish.clone();
            thread::spawn(move || {
                fences.want(0, wish);
                queue.done(0, 0);
            })
        };
        let next = {
            let (fences, queue) = (fences.clone(), queue.clone());
            thread::spawn(move || {
                let taken = queue.try_take(0) == Take::Key(0);
                if taken {
                    assert_eq!(fences.wanted(&0), expected, "the requirement was lost");
                    fences.forget(&0);
                    assert!(fences.wanted(&0).is_empty());
                }
                taken
            })
        };
        // An owner that is deleted while its sync ends.
        fences.want(1, fences.kinds());
        fences.forget(&1);
        assert!(fences.wanted(&1).is_empty());
        first.join().unwrap();
        let left = if next.join().unwrap() {
            Kinds::default()
        } else {
            wish
        };
        assert_eq!(fences.wanted(&0), left);
    });
}

/// A sync counts at one version. Then the cache goes back to before it, as with a list from a
/// lagging server. The key's next sync, by another worker, is postponed.
#[test]
fn the_next_sync_needs_the_last_counted_version() {
    check(3, || {
        let (fences, queue) = (
            Arc::new(Fences::<u32>::new(KINDS)),
            Arc::new(WorkQueue::<u32>::new()),
        );
        queue.add(0, 0);
        assert_eq!(queue.try_take(0), Take::Key(0));
        queue.add(0, 0);
        let first = {
            let (fences, queue) = (fences.clone(), queue.clone());
            thread::spawn(move || {
                fences.raise(Kind::POD, &ResourceVersion::Number(7));
                queue.done(0, 0);
            })
        };
        let of_another_key = beside(&fences, |fences| {
            fences.raise(Kind::POD, &ResourceVersion::Number(6))
        });
        if queue.try_take(0) == Take::Key(0) {
            for behind in [5, 6] {
                let stores = at(ResourceVersion::Number(behind));
                assert!(fences.check(&stores).is_err(), "counted at {behind}");
            }
        }
        first.join().unwrap();
        of_another_key.join().unwrap();
        assert!(fences.check(&at(ResourceVersion::Number(6))).is_err());
        assert_eq!(fences.check(&at(ResourceVersion::Number(7))), Ok(()));
        assert!(fences.check(&at(ResourceVersion::default())).is_err());
    });
}
