//! Keeps the syncs of one controller from acting on old caches: the records of its own writes, the
//! fences, and the counts of what both have cost. The controller decides what a stopped sync does.
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

/// Which rules hold for a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuardRules {
    /// A key waits until the caches have its recorded writes. Upstream: a feature gate of each
    /// controller, `StaleControllerConsistency…`.
    pub keeps_records: bool,
    /// Every write is recorded, and caches that went back behind what they have shown are waited
    /// for. Implies `keeps_records`.
    pub every_write: bool,
    /// After a write of unknown outcome a key waits for a version that is read then.
    pub fence_unknown_outcomes: bool,
    /// No key is synced before the caches have the versions that are read at the start.
    pub fence_at_start: bool,
}

/// The rules of a controller over caches of `N` kinds, of which the first counts most, and what they
/// remember by key `K`.
#[derive(Debug)]
pub struct Guard<K, const N: usize = 2> {
    /// The rules.
    pub rules: GuardRules,
    kinds: [Kind; N],
    /// The controller's writes, which it adds.
    pub records: ConsistencyStore<K, N>,
    fences: Fences<K, N>,
    /// Syncs put off because the cache of a kind was behind, in the order of the kinds.
    pub stale_sync_skips: [Counter; N],
    /// Reads of versions that the caches must reach.
    pub fence_reads: Counter,
    /// Keys with open expectations although the caches showed all that had been done.
    pub expectations_settled: Counter,
}

/// What a check has found in the caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked<const N: usize = 2> {
    /// The versions that the caches had reached.
    pub versions: [ResourceVersion; N],
    /// How often the caches had gone back to an older list by then.
    rewinds: u64,
}

impl<K: Copy + Ord + Hash, const N: usize> Guard<K, N> {
    /// A guard that remembers nothing yet, over caches of these kinds.
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

    /// Whether the caches have the recorded writes of the key; as
    /// [`ConsistencyStore::ensure_ready`]. The whole check of upstream.
    ///
    /// # Errors
    /// The first kind whose cache is behind, which is counted.
    #[inline]
    pub fn check_records(&self, key: &K, versions: &[ResourceVersion; N]) -> Result<(), Stale> {
        let ready = self.records.ensure_ready(key, versions);
        ready.inspect_err(|stale| self.count_skip(stale.kind))
    }

    /// The kinds whose versions must be read before the key's sync counts anything: all before the
    /// first sync, those of an unknown outcome after it. Then [`read_first`](Self::read_first).
    pub fn unread(&self, key: &K) -> Kinds {
        match self.rules.fence_at_start && !self.fences.is_started() {
            true => self.fences.kinds(),
            false => self.fences.wanted(key),
        }
    }

    /// The requests that read the versions of these kinds.
    pub fn reads(&self, kinds: &Kinds) -> impl Iterator<Item = Request> {
        self.fence_reads.increment();
        kinds.iter().map(|kind| Request::ReadVersion { kind })
    }

    /// Handles the answers to [`reads`](Self::reads) at the beginning of a sync, of the owner with
    /// this UID if the cache has one. If another worker was first at the start, the caches must
    /// still reach what this sync has read.
    ///
    /// # Errors
    /// A version could not be read; the next sync of the key reads all again.
    ///
    /// # Panics
    /// A request is of another kind or has no answer; as in [`read_last`](Self::read_last).
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

    /// Whether the caches have everything that a sync of the key must see: the fences, what they have
    /// shown before, and the recorded writes. To be called before anything is read from them, and
    /// followed by [`is_behind`](Self::is_behind).
    ///
    /// # Errors
    /// The first kind whose cache is behind, which is counted.
    pub fn check(&self, key: &K, stores: [&StoreVersion; N]) -> Result<Checked<N>, Stale> {
        // Read before the versions.
        let rewinds = rewinds(stores);
        // Read before any object: the caches then hold everything up to these versions.
        let versions = stores.map(StoreVersion::get);
        let reached = self.fences.check(&versions);
        reached.inspect_err(|stale| self.count_skip(stale.kind))?;
        // A list from a server that lags may take a cache back behind this version, and the record
        // is dropped once it has been seen.
        self.fences.raise_all(&versions);
        self.check_records(key, &versions)?;
        Ok(Checked { versions, rewinds })
    }

    /// Whether a cache has gone back to an older list since the check, so that what was read may be
    /// older than the versions that were checked. Counted as a skip of the first kind.
    pub fn is_behind(&self, checked: &Checked<N>, stores: [&StoreVersion; N]) -> bool {
        let is_behind = rewinds(stores) != checked.rewinds;
        if is_behind {
            self.count_skip(self.kinds[0]);
        }
        is_behind
    }

    /// Handles the answers to [`reads`](Self::reads) at the end of a sync: the next one waits for the
    /// versions. What could not be read is read at its beginning.
    ///
    /// # Errors
    /// A version could not be read.
    ///
    /// # Panics
    /// A request is of another kind or has no answer.
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

    /// Forgets which versions the key wants. Its records are dropped by
    /// [`ConsistencyStore::clear`], which can spare those of a successor.
    pub fn forget_fences(&self, key: &K) {
        self.fences.forget(key);
    }

    /// What it has counted, as metrics with their values now. `skips` is the name of the first, which each of upstream's
    /// controllers has of its own; the last kind is that of the controller's objects.
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
            help: "Syncs put off because the cache was behind the controller's own writes.",
            kind: metrics::Kind::Counter,
            series: counted.map(series).collect(),
        }];
        for (name, help, counter) in [
            (
                "podstorm_fences_total",
                "Reads of a version that the caches must come to before pods are counted.",
                &self.fence_reads,
            ),
            (
                "podstorm_expectations_settled_total",
                "Keys of which something was still expected when the caches showed all writes.",
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

/// Calls `read` with every version that was read. Returns the kinds without a version, with an
/// error.
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
            other => panic!("a read of a version can't be answered by {other:?}"),
        }
    }
    first_error.map(|error| (unread, error))
}
