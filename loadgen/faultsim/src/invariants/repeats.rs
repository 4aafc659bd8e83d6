//! L6: after the last fault no key asks for the same and gets the same answer again and again while nothing
//! was written for a second.

use std::collections::BTreeMap;

use podstorm::client::{Answer, Request};
use podstorm_objects::{Kind, Now};
use podstorm_sim::engine::observer::SyncId;

use super::trace::request_words;
use super::{Checked, Oracle};

/// How often a key may ask for the same and get the same answer once nothing was written for a second. A
/// watch that failed is tried again half a minute after the last fault, or later; until then a key whose
/// cache is behind is retried after 5 ms, 10 ms, 20 ms …: 13 times in a minute. Retries without a back-off
/// come to this within a second.
const REPEATS_MAX: u32 = 24;

/// How often one sync may ask for the same as if once: upstream's write of a StatefulSet's status is tried five times while
/// it conflicts.
const TRIES_MAX: u32 = 5;

/// By then every watch that is open has sent what was written, ns.
const HEARD_AFTER_NS: i64 = 1_000_000_000;

/// What was asked for and answered since the last fault.
#[derive(Default)]
pub(super) struct Repeats {
    /// Nothing counts before.
    from_ns: Option<i64>,
    /// What was written a moment ago is still on its way to caches, and each event wakes keys: nothing
    /// counts before this moment either, ns.
    heard_ns: i64,
    /// The keys of the syncs that began since then and go on, and how often each has had a request with an answer.
    keys: BTreeMap<SyncId, (String, BTreeMap<String, u32>)>,
    /// By controller and key: requests with their answers, and how often since the last commit.
    counts: BTreeMap<(u32, Kind, String), BTreeMap<String, u32>>,
}

impl Repeats {
    /// The last fault is over at that moment.
    pub(super) fn begin(&mut self, from_ns: i64) {
        self.from_ns = Some(from_ns);
    }

    /// The sync of a key begins.
    pub(super) fn sync_begins(&mut self, sync: SyncId, key: impl FnOnce() -> String, now: Now) {
        if self.from_ns.is_some_and(|from_ns| now.mono_ns >= from_ns) {
            self.keys.insert(sync, (key(), BTreeMap::new()));
        }
    }

    /// A request has its answer.
    pub(super) fn answered(
        &mut self,
        sync: SyncId,
        (request, answer): (&Request, &Answer),
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
            "after the last fault {} {key} asked {count} times to {asked}, and was answered alike: {}",
            sync.kind.name(),
            answer_words(answer)
        );
        Err(("L6", text))
    }

    /// Something was written: keys have a reason to do the same again.
    pub(super) fn committed(&mut self, now: Now) {
        self.heard_ns = now.mono_ns + HEARD_AFTER_NS;
        self.counts.clear();
    }

    /// A sync has ended.
    pub(super) fn sync_ended(&mut self, sync: SyncId) {
        self.keys.remove(&sync);
    }
}

/// What of an answer is the same where nothing has happened between two requests.
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
        let exchange = (&request, &answer);
        repeats.sync_begins(SYNC, || "web".to_owned(), Now::default());
        let checked =
            (0..times).try_for_each(|_| repeats.answered(SYNC, exchange, &*oracle, Now::default()));
        repeats.sync_ended(SYNC);
        checked
    }

    #[test]
    fn a_sync_that_tries_again_counts_once_unless_it_goes_on() {
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
    fn only_the_same_answer_without_a_write_between_is_a_repetition() {
        let mut repeats = Repeats::default();
        for _ in 0..100 {
            assert_eq!(ask(&mut repeats, 409), Ok(()), "faults go on");
        }
        repeats.begin(0);
        for _ in 0..REPEATS_MAX {
            assert_eq!(ask(&mut repeats, 409), Ok(()));
            assert_eq!(ask(&mut repeats, 500), Ok(()));
        }
        let (invariant, text) = ask(&mut repeats, 409).expect_err("once too often");
        assert_eq!(invariant, "L6");
        let words = "ReplicaSet web asked 25 times to read the version of pods";
        assert!(text.contains(words), "{text}");
        repeats.committed(Now::default());
        for _ in 0..100 {
            assert_eq!(ask(&mut repeats, 409), Ok(()), "it may not be heard yet");
        }
    }
}
