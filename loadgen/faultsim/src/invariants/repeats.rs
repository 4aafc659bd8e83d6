//! Invariant L6: after the last fault, no key endlessly repeats a request with the same answer
//! while nothing has been written for a second.

use std::collections::BTreeMap;

use podstorm::client::{Answer, Request};
use podstorm_objects::{Kind, Now};
use podstorm_sim::engine::observer::SyncId;

use super::trace::request_words;
use super::{Checked, Oracle};

/// The maximum number of equal requests with equal answers by one key, once nothing has been
/// written for a second. A failed watch is retried half a minute or more after the last fault;
/// until then, a key with a stale cache is retried after 5 ms, 10 ms, 20 ms …: 13 times in a
/// minute. Retries without a back-off reach this limit within a second.
const REPEATS_MAX: u32 = 24;

/// The number of equal requests by one sync that count as one. On conflicts, upstream attempts the
/// write of a StatefulSet's status five times.
const TRIES_MAX: u32 = 5;

/// The time within which every open watch delivers a write, ns.
const HEARD_AFTER_NS: i64 = 1_000_000_000;

/// The requests and answers since the last fault.
#[derive(Default)]
pub(super) struct Repeats {
    /// The time of the last fault, before which nothing counts, ns; `None` until it is known.
    from_ns: Option<i64>,
    /// The time until which the last write may still be on its way to caches, ns. The write's
    /// events wake keys, so nothing counts before this time either.
    heard_ns: i64,
    /// The syncs in progress that began after the last fault. For each, the key, and how often each
    /// request got each answer.
    keys: BTreeMap<SyncId, (String, BTreeMap<String, u32>)>,
    /// How often each request got each answer since the last commit, by controller and key.
    counts: BTreeMap<(u32, Kind, String), BTreeMap<String, u32>>,
}

impl Repeats {
    /// Records the time at which the last fault is over.
    pub(super) fn begin(&mut self, from_ns: i64) {
        self.from_ns = Some(from_ns);
    }

    /// Records the beginning of a sync.
    pub(super) fn sync_begins(&mut self, sync: SyncId, key: impl FnOnce() -> String, now: Now) {
        if self.from_ns.is_some_and(|from_ns| now.mono_ns >= from_ns) {
            self.keys.insert(sync, (key(), BTreeMap::new()));
        }
    }

    /// Records the answer to a request, and checks L6.
    pub(super) fn answered(
        &mut self,
        sync: SyncId,
        request: &Request,
        answer: &Answer,
        oracle: &dyn Oracle,
        now: Now,
    ) -> Checked {
        let key = self.keys.get_mut(&sync);
        let Some((key, of_sync)) = key.filter(|_| now.mono_ns >= self.heard_ns) else {
            return Ok(());
        };
        let of_key = self
            .counts
            .entry((sync.incarnation, sync.kind, key.clone()))
            .or_default();
        let asked = request_words(request, oracle);
        let pair = format!("{asked} -> {}", answer_words(answer));
        let in_sync = of_sync.entry(pair.clone()).or_default();
        *in_sync += 1;
        if (2..=TRIES_MAX).contains(in_sync) {
            return Ok(());
        }
        let count = of_key.entry(pair).or_default();
        *count += 1;
        if *count <= REPEATS_MAX {
            return Ok(());
        }
        let text = format!(
            "after the last fault, {} {key} requested {count} times to {asked}, with the same answer: {}",
            sync.kind.name(),
            answer_words(answer)
        );
        Err(("L6", text))
    }

    /// Records a write, after which keys have a reason to repeat requests.
    pub(super) fn committed(&mut self, now: Now) {
        self.heard_ns = now.mono_ns + HEARD_AFTER_NS;
        self.counts.clear();
    }

    /// Records the end of a sync.
    pub(super) fn sync_ended(&mut self, sync: SyncId) {
        self.keys.remove(&sync);
    }
}

/// Returns the part of an answer that stays the same if nothing happens between two requests.
fn answer_words(answer: &Answer) -> String {
    match answer {
        Answer::Failed(error) => format!("{} {}", error.code, error.message),
        Answer::Pod(pod) => format!("version {}", pod.metadata.resource_version),
        Answer::Object(object) => format!("version {}", object.metadata().resource_version),
        Answer::Version(version) => format!("version {version}"),
        Answer::Deleted(Some(version)) => format!("deleted at {version}"),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use podstorm::client::ApiError;

    const SYNC: SyncId = SyncId {
        incarnation: 0,
        kind: Kind::REPLICA_SET,
        number: 1,
    };

    fn ask(repeats: &mut Repeats, code: u16) -> Checked {
        ask_in_one_sync(repeats, code, 1)
    }

    fn ask_in_one_sync(repeats: &mut Repeats, code: u16, times: u32) -> Checked {
        let request = Request::ReadVersion { kind: Kind::POD };
        let error = ApiError::status(code, podstorm::client::Reason::Conflict, "no");
        let (answer, oracle) = (Answer::Failed(error), Box::<dyn Oracle>::default());
        repeats.sync_begins(SYNC, || "web".to_owned(), Now::default());
        let checked = (0..times)
            .try_for_each(|_| repeats.answered(SYNC, &request, &answer, &*oracle, Now::default()));
        repeats.sync_ended(SYNC);
        checked
    }

    #[test]
    fn retries_in_one_sync_count_once_up_to_a_limit() {
        let mut repeats = Repeats::default();
        repeats.begin(0);
        for _ in 0..REPEATS_MAX {
            assert_eq!(ask_in_one_sync(&mut repeats, 409, TRIES_MAX), Ok(()));
        }
        assert!(ask(&mut repeats, 409).is_err());
        let mut repeats = Repeats::default();
        repeats.begin(0);
        assert!(ask_in_one_sync(&mut repeats, 409, 100).is_err());
    }

    #[test]
    fn only_equal_answers_without_a_write_are_a_repetition() {
        let mut repeats = Repeats::default();
        for _ in 0..100 {
            assert_eq!(ask(&mut repeats, 409), Ok(()), "there are still faults");
        }
        repeats.begin(0);
        for _ in 0..REPEATS_MAX {
            assert_eq!(ask(&mut repeats, 409), Ok(()));
            assert_eq!(ask(&mut repeats, 500), Ok(()));
        }
        let (invariant, text) = ask(&mut repeats, 409).expect_err("one repetition too many");
        assert_eq!(invariant, "L6");
        let words = "ReplicaSet web requested 25 times to read the version of pods";
        assert!(text.contains(words), "{text}");
        repeats.committed(Now::default());
        for _ in 0..100 {
            assert_eq!(
                ask(&mut repeats, 409),
                Ok(()),
                "the write may not be delivered yet"
            );
        }
    }
}
