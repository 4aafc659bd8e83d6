//! The known bugs of upstream's ReplicaSet controllers, with the schedules that reproduce them.
//!
//! Metrics show whether a bug is present: the same schedule is played with both behaviours, and the
//! verdicts are compared. The schedules are in `loadgen/faultsim/bugs`. Bugs that upstream has
//! fixed (M3 to M5) have no schedule.

use crate::bug::{Bug, bug};

/// All known bugs with a schedule, in the order of their IDs.
pub(super) const BUGS: [Bug; 9] = [
    bug! {
        "m01", "stale-watch", "kubernetes#129795",
        title: "a pod watch that stalls for five minutes doubles every scale-up",
        done: "The pod watch stalls; a ReplicaSet is scaled from 0 to 10, and after five minutes \
               an event wakes it. The read-your-writes gate is off, as before 1.36.",
        upstream: "The expectations expire, the cache still shows no pod, and all ten are created \
                   again. With the gate on, the sync waits for the cache instead.",
        hardened: "Pods are counted only once the cache shows every own write, with or without \
                   the gate.",
    },
    bug! {
        "m02", "unseen-pods", "kubernetes#129795",
        title: "pods created and removed unseen block their ReplicaSet for five minutes",
        done: "The pod watch loses its events while a ReplicaSet is scaled from 3 to 10 and all \
               of its pods are removed. The new list, eight seconds later, is empty. An event \
               wakes the ReplicaSet every minute.",
        upstream: "It expects seven pods that never appear. Without a single pod, it creates none \
                   until the expectations expire, and then only when an event wakes it.",
        hardened: "The list includes the effects of all requests, so nothing is expected any \
                   more.",
    },
    bug! {
        "m06", "rejected-pods", "kubernetes#72593, kubernetes#131116",
        title: "a node that rejects its pods makes a controller create without a pause",
        done: "The only node rejects every pod for 20 s: each fails as soon as it is bound.",
        upstream: "Each failed pod is replaced immediately and stays: hundreds in 20 s, as many \
                   as the latencies permit.",
        hardened: "The same. Upstream has no back-off for pods, and the user decides when to give \
                   up; core/src/policy.rs lists it as not fixed.",
    },
    bug! {
        "m07", "stale-restart", "kubernetes#59848",
        title: "a restart with a stale list creates pods that already exist",
        done: "A ReplicaSet was scaled from 3 to 10. The controller restarts, and its first lists \
               come from a server that lags two seconds: they show the new scale, but not the new \
               pods. Initial lists do not come through the watch (WatchListClient=false).",
        upstream: "The pods missing from the list are created again. The gate does not help, \
                   because writes are remembered only in memory.",
        hardened: "The first sync waits until the caches have reached the server's current \
                   version.",
    },
    bug! {
        "m08", "failed-pods", "kubernetes#88851",
        title: "failed pods are replaced and kept, without a limit",
        done: "Every second, twenty times, all ten pods of a ReplicaSet fail.",
        upstream: "Each is replaced immediately and stays: two hundred failed pods at the end.",
        hardened: "The same, as for M6: collecting failed pods is the job of the pod garbage \
                   collector.",
    },
    bug! {
        "m09", "terminating-namespace", "none known; in 1.36's code",
        title: "a create rejected for a terminating namespace counts as done",
        done: "A ReplicaSet is scaled from 3 to 10. A server that wrongly treats the namespace as \
               terminating rejects the seven creates. An event wakes the ReplicaSet every minute.",
        upstream: "It waits for seven pods that were never created: for five minutes it has three \
                   of ten pods, without an Event or a condition.",
        hardened: "The create counts as failed, and is retried with the usual delays.",
    },
    bug! {
        "m10", "lost-answers", "none known; in 1.36's code",
        title: "each create whose answer is lost makes one excess pod",
        done: "A ReplicaSet is scaled from 3 to 4. The create is committed and its answer is \
               lost, five times in a row, while the pod watch lags three seconds.",
        upstream: "The error lowers the expectations, so the retry uses a cache without the pod \
                   and creates another: five excess pods. The gate remembers only answered \
                   writes.",
        hardened: "After a lost answer, the next count waits until the cache shows the server's \
                   state, and a create that is sent again finds its name taken.",
    },
    bug! {
        "m11", "delete-by-name", "none known; in 1.36's code",
        title: "a delete hits whichever pod has the name when it arrives",
        done: "The pod by-hand was adopted and is selected for deletion. While the delete is in \
               flight, the pod is removed and another client creates a foreign pod under the same \
               name.",
        upstream: "Deletes have no UID: the foreign pod is deleted.",
        hardened: "Deletes have the UID; a conflict counts as not found.",
    },
    bug! {
        "m12", "expectation-by-name", "none known; in 1.36's code",
        title: "a deletion is expected by name, and another pod's end satisfies it",
        done: "As in M11, but the second pod matches the ReplicaSet, and the pod watch lags when \
               the delete hits it.",
        upstream: "The end of the first pod satisfied the expectation, so the next sync counts \
                   the second pod, which is terminating, and deletes a third: two of three are \
                   left.",
        hardened: "The delete hits no pod, and the second one is adopted and counted: there are \
                   never fewer than three.",
    },
];

#[cfg(test)]
mod tests {
    use podstorm::policy::Behaviour;

    use podstorm::replicaset::ReplicaSets;

    use super::*;
    use crate::plan::How;
    use crate::play::play;
    use crate::rows;
    use crate::subject::Schedule;
    use crate::verdict::Verdict;

    fn play_as(schedule: &Schedule<ReplicaSets>, behaviour: Behaviour) -> Verdict {
        let (verdict, _) = play(schedule, How::untold(behaviour));
        assert_eq!(verdict.violation, None, "{schedule:?}");
        assert!(verdict.converged_after_ns.is_some());
        verdict
    }

    fn schedule(id: &str) -> Schedule<ReplicaSets> {
        Schedule::read(rows::bug(id).unwrap().text).unwrap()
    }

    #[track_caller]
    fn assert_figures(id: &str, figure: fn(&Verdict) -> u64, upstream: u64, hardened: u64) {
        let both = Behaviour::ALL.map(|behaviour| figure(&play_as(&schedule(id), behaviour)));
        assert_eq!(both, [upstream, hardened], "{id}");
    }

    fn idle_seconds(verdict: &Verdict) -> u64 {
        verdict.longest_idle_ns.unsigned_abs() / 1_000_000_000
    }

    #[test]
    fn m01_a_stalled_watch_doubles_a_scale_up_without_the_gate() {
        assert_figures("m01", |v| v.excess_pods_created, 10, 0);
        let mut gated = schedule("m01");
        gated.cluster.stale_controller_consistency = true;
        let verdict = play_as(&gated, Behaviour::Upstream);
        assert_eq!(verdict.excess_pods_created, 0);
    }

    #[test]
    fn m02_unseen_pods_block_their_replica_set_for_five_minutes() {
        assert_figures("m02", idle_seconds, 300, 6);
    }

    #[test]
    fn m06_both_behaviours_replace_rejected_pods_without_a_pause() {
        // The counts are for twenty seconds, with two replicas.
        assert_figures("m06", |v| v.most_creates_per_minute, 464, 464);
    }

    #[test]
    fn m07_a_stale_list_causes_excess_pods_unless_watched() {
        assert_figures("m07", |v| v.excess_pods_created, 7, 0);
        let mut streamed = schedule("m07");
        streamed.cluster.watch_list_client = true;
        let verdict = play_as(&streamed, Behaviour::Upstream);
        assert_eq!(verdict.excess_pods_created, 0);
    }

    #[test]
    fn m08_failed_pods_accumulate_with_both_behaviours() {
        assert_figures("m08", |v| v.peak_pods, 210, 210);
    }

    #[test]
    fn m09_rejected_creates_count_in_a_terminating_namespace() {
        assert_figures("m09", idle_seconds, 303, 0);
    }

    #[test]
    fn m10_each_lost_answer_causes_an_excess_pod_with_any_gate() {
        assert_figures("m10", |v| v.excess_pods_created, 5, 0);
        let mut ungated = schedule("m10");
        ungated.cluster.stale_controller_consistency = false;
        let verdict = play_as(&ungated, Behaviour::Upstream);
        assert_eq!(verdict.excess_pods_created, 5);
    }

    #[test]
    fn m11_a_delete_by_name_hits_a_newer_pod() {
        assert_figures("m11", |v| v.wrong_pods_deleted, 1, 0);
    }

    #[test]
    fn m12_the_end_of_one_pod_satisfies_another_expectation() {
        assert_figures("m12", |v| v.deletes_below_wanted, 1, 0);
    }

    #[test]
    fn a_bug_is_found_by_number_and_name() {
        for bug in &BUGS {
            let number = format!("M{}", bug.id[1..].trim_start_matches('0'));
            let known = [bug.id, bug.name, &bug.full_name(), &number];
            for text in known {
                assert_eq!(rows::bug(text).map(|bug| bug.id), Some(bug.id), "{text}");
            }
            // The title must fit in the printed list.
            assert!(bug.title.len() <= 73, "{}", bug.title);
        }
        for text in ["m03", "m", "", "m1x", "stale"] {
            assert!(rows::bug(text).is_none(), "{text}");
        }
    }
}
