//! Keeps the syncs of one controller from acting on stale caches. A guard has the records of the
//! controller's own writes, the fences, and counters of the cost of both. The controller decides
//! how to handle a stale sync.
//!
//! ```text
//! unread? ─yes─▶ ReadVersion ─▶ read_first ─▶ check ─▶ the sync ─▶ outcome of a write unknown?
//!    └───────────────no────────────────────────▲                   yes: ReadVersion ─▶ read_last
//! ```

use std::hash::Hash;

use podstorm_objects::{Kind, ResourceVersion, Uid};

use super::{ConsistencyStore, Fences, Kinds, Stale, place_of};
use crate::cache::StoreVersion;
use crate::client::{Answer, ApiError, Request};
use crate::metrics::{self, Counter, Family, Series, Value};

/// The consistency rules of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuardRules {
    /// A key waits until the caches show its recorded writes. Upstream has one feature gate per
    /// controller for this, `StaleControllerConsistency…`.
    pub keeps_records: bool,
    /// Every write is recorded, and a cache that went back to an older version must first reach the
    /// version that it has already shown. Implies `keeps_records`.
    pub every_write: bool,
    /// After a write with an unknown outcome, a key waits for a version that is read after the
    /// write.
    pub fence_unknown_outcomes: bool,
    /// No key is synced before the caches have reached the versions that are read at startup.
    pub fence_at_start: bool,
}

/// The consistency rules of a controller whose caches have `N` kinds, and the state that they need
/// for each key `K`. A skip that concerns no single kind counts for the first kind.
#[derive(Debug)]
pub struct Guard<K, const N: usize = 2> {
    /// The rules of the controller.
    pub rules: GuardRules,
    kinds: [Kind; N],
    /// The versions of the controller's writes. The controller records them.
    pub records: ConsistencyStore<K, N>,
    fences: Fences<K, N>,
    /// The number of syncs postponed because a cache was behind, in the order of the kinds.
    pub stale_sync_skips: [Counter; N],
    /// The number of times that a sync read versions that the caches must reach. A read of several
    /// kinds counts once.
    pub fence_reads: Counter,
    /// The number of times that a key's open expectations were cleared because the caches showed
    /// all writes.
    pub expectations_settled: Counter,
}

/// The state of the caches at a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked<const N: usize = 2> {
    /// The versions that the caches had reached.
    pub versions: [ResourceVersion; N],
    /// The number of times that the caches had gone back to an older list.
    rewinds: u64,
}

impl<K: Copy + Ord + Hash, const N: usize> Guard<K, N> {
    /// Creates an empty guard over caches of these kinds.
    pub fn new(rules: GuardRules, kinds: [Kind; N]) -> Self {
        Guard {
            rules: GuardRules {
                keeps_records: rules.keeps_records || rules.every_write,
                ..rules
            },
            kinds,
            records: ConsistencyStore::new(kinds),
            fences: Fences::new(kinds),
            stale_sync_skips: std::array::from_fn(|_| Counter::default()),
            fence_reads: Counter::default(),
            expectations_settled: Counter::default(),
        }
    }

    /// Checks whether the caches show the recorded writes of the key, as
    /// [`ConsistencyStore::ensure_ready`] does. Upstream checks nothing else.
    ///
    /// # Errors
    /// Returns the first kind whose cache is behind, and counts the skip.
    #[inline]
    pub fn check_records(&self, key: &K, versions: &[ResourceVersion; N]) -> Result<(), Stale> {
        let ready = self.records.ensure_ready(key, versions);
        ready.inspect_err(|stale| self.count_skip(stale.kind))
    }

    /// Returns the kinds whose versions must be read before the key's sync counts anything: all
    /// kinds before the first sync, and later those of writes with an unknown outcome. The sync
    /// must pass the answers to [`read_first`](Self::read_first).
    pub fn unread(&self, key: &K) -> Kinds {
        match self.rules.fence_at_start && !self.fences.is_started() {
            true => self.fences.kinds(),
            false => self.fences.wanted(key),
        }
    }

    /// Returns the requests that read the versions of these kinds.
    pub fn reads(&self, kinds: &Kinds) -> impl Iterator<Item = Request> {
        self.fence_reads.increment();
        kinds.iter().map(|kind| Request::ReadVersion { kind })
    }

    /// Handles the answers to [`reads`](Self::reads) at the beginning of a sync. `uid` is that of
    /// the owner; `None` if the owner is not cached. If another worker finished the startup reads
    /// first, the caches must still reach the versions that this sync has read.
    ///
    /// # Errors
    /// Returns the error of a failed read. The next sync of the key reads all versions again.
    ///
    /// # Panics
    /// Panics if a request is not a read of a version or has no answer, as
    /// [`read_last`](Self::read_last) does.
    pub fn read_first(
        &self,
        key: K,
        uid: Option<&Uid>,
        requests: &[Request],
        answers: &mut [Option<Answer>],
    ) -> Result<(), ApiError> {
        let wanted = !self.fences.wanted(&key).is_empty();
        let starting = !self.fences.is_started();
        let unread = take_versions(requests, answers, |kind, version| {
            if starting {
                self.fences.raise(kind, version);
            }
            if let (true, Some(uid)) = (wanted, uid) {
                self.records.wrote_at(key, uid, kind, version);
            }
        });
        if let Some((_, error)) = unread {
            return Err(error);
        }
        if wanted {
            self.fences.forget(&key);
        }
        if starting {
            self.fences.start();
        }
        Ok(())
    }

    /// Checks whether the caches show everything that a sync of the key must see: the fences, all
    /// versions that the caches have shown before, and the recorded writes. A sync must call this
    /// before it reads from the caches, and [`is_behind`](Self::is_behind) afterwards.
    ///
    /// # Errors
    /// Returns the first kind whose cache is behind, and counts the skip.
    pub fn check(&self, key: &K, stores: [&StoreVersion; N]) -> Result<Checked<N>, Stale> {
        // Read before the versions.
        let rewinds = rewinds(stores);
        // Read before any object, so that the caches show everything up to these versions.
        let versions = stores.map(StoreVersion::get);
        let reached = self.fences.check(&versions);
        reached.inspect_err(|stale| self.count_skip(stale.kind))?;
        // A list from a lagging server may take a cache back behind these versions. The records are
        // no protection, because a record is dropped once its write has been seen.
        self.fences.raise_all(&versions);
        self.check_records(key, &versions)?;
        Ok(Checked { versions, rewinds })
    }

    /// Reports whether a cache has gone back to an older list since the check. The objects that the
    /// sync has read may then be older than the checked versions. If so, counts a skip of the
    /// first kind.
    pub fn is_behind(&self, checked: &Checked<N>, stores: [&StoreVersion; N]) -> bool {
        let is_behind = rewinds(stores) != checked.rewinds;
        if is_behind {
            self.count_skip(self.kinds[0]);
        }
        is_behind
    }

    /// Handles the answers to [`reads`](Self::reads) at the end of a sync. The next sync waits for
    /// these versions, and begins by reading those that could not be read.
    ///
    /// # Errors
    /// Returns the error of a failed read.
    ///
    /// # Panics
    /// Panics if a request is not a read of a version or has no answer.
    pub fn read_last(
        &self,
        key: K,
        uid: &Uid,
        requests: &[Request],
        answers: &mut [Option<Answer>],
    ) -> Result<(), ApiError> {
        let unread = take_versions(requests, answers, |kind, version| {
            self.records.wrote_at(key, uid, kind, version);
        });
        let Some((kinds, error)) = unread else {
            return Ok(());
        };
        self.fences.want(key, kinds);
        Err(error)
    }

    /// Forgets which versions the key's next sync must read. Does not change the records:
    /// [`ConsistencyStore::clear`] drops them, and can spare those of a successor.
    pub fn forget_fences(&self, key: &K) {
        self.fences.forget(key);
    }

    /// Returns the guard's counters as metrics. `skips` is the name of the skip counter, which
    /// differs between upstream's controllers. The last kind of the guard must be that of the
    /// controller's own objects.
    pub fn families(&self, skips: &'static str) -> Vec<Family> {
        let series = |(kind, counter): (&Kind, &Counter)| Series {
            labels: vec![
                ("group", kind.group().into()),
                ("resource", kind.resource().into()),
            ],
            value: Value::Number(counter.value() as f64),
        };
        let counted = self.kinds.iter().zip(&self.stale_sync_skips);
        let mut families = vec![Family {
            name: skips,
            help: "Syncs postponed because the cache was behind the controller's own writes.",
            kind: metrics::Kind::Counter,
            series: counted.map(series).collect(),
        }];
        for (name, help, counter) in [
            (
                "podstorm_fences_total",
                "Reads of a version that the caches must reach before pods are counted.",
                &self.fence_reads,
            ),
            (
                "podstorm_expectations_settled_total",
                "Keys that still had open expectations when the caches showed all writes.",
                &self.expectations_settled,
            ),
        ] {
            // Upstream has no such metrics, so they are hidden while they are zero.
            if counter.value() > 0 {
                let value = Value::Number(counter.value() as f64);
                let labels = vec![("kind", self.kinds[N - 1].name().into())];
                let kind = metrics::Kind::Counter;
                families.push(Family::single(name, help, kind, labels, value));
            }
        }
        families
    }

    #[cold]
    fn count_skip(&self, kind: Kind) {
        self.stale_sync_skips[place_of(kind, &self.kinds)].increment();
    }
}

fn rewinds<const N: usize>(stores: [&StoreVersion; N]) -> u64 {
    stores.iter().map(|store| store.rewinds()).sum()
}

/// Calls `read` with every version that was read. Returns the kinds whose read failed, with the
/// first error; `None` if no read failed.
fn take_versions(
    requests: &[Request],
    answers: &mut [Option<Answer>],
    mut read: impl FnMut(Kind, &ResourceVersion),
) -> Option<(Kinds, ApiError)> {
    let mut unread = Kinds::default();
    let mut first_error = None;
    for (request, answer) in requests.iter().zip(answers) {
        let Request::ReadVersion { kind } = *request else {
            panic!("expected a read of a version, not {request:?}");
        };
        match answer.take() {
            Some(Answer::Version(version)) => read(kind, &version),
            Some(Answer::Failed(error)) => {
                unread.insert(kind);
                first_error.get_or_insert(error);
            }
            other => panic!("{other:?} does not answer a read of a version"),
        }
    }
    first_error.map(|error| (unread, error))
}
