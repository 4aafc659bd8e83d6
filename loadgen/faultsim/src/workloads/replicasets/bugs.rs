//! Bugs that upstream's controllers of ReplicaSets are known for, each as a schedule that shows it.
//!
//! Metrics say whether a bug is there: the same schedule is played with either behaviour, and what
//! the verdicts show is compared. The schedules are in `loadgen/faultsim/bugs`; those mended upstream (M3 to
//! M5) have none.

use crate::bug::{Bug, bug};

/// Every known bug that is shown, in order.
pub(super) const BUGS: [Bug; 9] = [
    bug! {
        "m01", "stale-watch", "kubernetes#129795",
        title: "a pod watch that stalls for five minutes doubles every scale-up",
        done: "The pod watch stalls; a ReplicaSet is scaled from 0 to 10, and after five minutes \
               something about it changes. The read-your-writes gate is off, as before 1.36.",
        upstream: "The expectations run out, the cache still shows no pod, and all ten are \
                   created again. With the gate on the sync waits for the cache instead.",
        hardened: "Nothing is counted before the cache shows every own write, whatever the gate.",
    },
    bug! {
        "m02", "unseen-pods", "kubernetes#129795",
        title: "pods that come and go unseen let their ReplicaSet sleep for five minutes",
        done: "The pod watch loses its events while a ReplicaSet is scaled from 3 to 10 and all of \
               its pods are removed. The new list, eight seconds later, shows none. Every minute \
               something about the ReplicaSet changes.",
        upstream: "Seven pods are expected that never come: with no pod at all it creates \
                   none until the expectations run out, and then only when something wakes it.",
        hardened: "The list shows all that was done, so nothing is expected any more.",
    },
    bug! {
        "m06", "rejected-pods", "kubernetes#72593, kubernetes#131116",
        title: "a node that refuses its pods keeps a controller creating without a pause",
        done: "The only node refuses every pod for 20 s: each fails as soon as it is bound.",
        upstream: "Each failed pod is replaced at once, and stays: hundreds in 20 s, as many as \
                   the latencies allow.",
        hardened: "The same. Upstream has no back-off for pods, and when to give up is the user's \
                   decision; core/src/policy.rs lists it among what is left.",
    },
    bug! {
        "m07", "stale-restart", "kubernetes#59848",
        title: "a restart over a list from the past creates pods that are there",
        done: "A ReplicaSet was scaled from 3 to 10. The controller restarts, and its first lists \
               are from a server two seconds behind: they show it scaled and its new pods not yet. \
               Initial lists do not come through the watch (WatchListClient=false).",
        upstream: "The pods that the list lacks are created again. The gate does not help: what \
                   was written is remembered in memory only.",
        hardened: "The first sync waits until the caches have come to what the server says that \
                   its version is.",
    },
    bug! {
        "m08", "failed-pods", "kubernetes#88851",
        title: "failed pods are replaced and kept, without a bound",
        done: "Every second, twenty times, all ten pods of a ReplicaSet go Failed.",
        upstream: "Each is replaced at once and stays: in the end two hundred failed pods.",
        hardened: "The same, as for M6: collecting failed pods is the pod garbage collector's \
                   work.",
    },
    bug! {
        "m09", "terminating-namespace", "none known; in 1.36's code",
        title: "a create refused for a terminating namespace counts as done",
        done: "A ReplicaSet is scaled from 3 to 10. The seven creates are refused by a server \
               that takes the namespace for terminating, which it is no longer. Every minute \
               something about the ReplicaSet changes.",
        upstream: "Seven pods that were never created are waited for: three of ten for five \
                   minutes, without an Event or a condition.",
        hardened: "A failed create, retried with the usual delays.",
    },
    bug! {
        "m10", "lost-answers", "none known; in 1.36's code",
        title: "each create whose answer is lost makes one pod too many",
        done: "A ReplicaSet is scaled from 3 to 4. The create is committed and its answer lost, \
               five times over, while the pod watch is three seconds behind.",
        upstream: "The error lowers what is expected, so the retry counts a cache without the pod \
                   and creates another: five in excess. The gate remembers answered writes only.",
        hardened: "After a lost answer the next count waits for the cache to show what the server \
                   had; and a create that is sent again finds its name taken.",
    },
    bug! {
        "m11", "delete-by-name", "none known; in 1.36's code",
        title: "a delete meets whatever pod has the name by then",
        done: "The pod by-hand was adopted and is chosen to go. While the delete is on its way the \
               pod is removed and somebody creates another, foreign one under that name.",
        upstream: "Deletes name no UID: the foreign pod is deleted.",
        hardened: "Deletes name the UID; a conflict is as good as not found.",
    },
    bug! {
        "m12", "expectation-by-name", "none known; in 1.36's code",
        title: "a deletion is expected by name, and another pod's end satisfies it",
        done: "As M11, but the second pod matches the ReplicaSet, and the pod watch is behind when \
               the delete meets it.",
        upstream: "The end of the first pod satisfied the expectation, so the next sync counts the \
                   second one, which is going, and deletes a third: two of three are left.",
        hardened: "The delete meets no pod, the second one is adopted and counted as it is: never \
                   fewer than three.",
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
    fn m01_a_stalled_watch_doubles_a_scale_up_unless_writes_are_waited_for() {
        assert_figures("m01", |v| v.excess_pods_created, 10, 0);
        let mut gated = schedule("m01");
        gated.cluster.stale_controller_consistency = true;
        let verdict = play_as(&gated, Behaviour::Upstream);
        assert_eq!(verdict.excess_pods_created, 0);
    }

    #[test]
    fn m02_unseen_pods_let_their_replica_set_sleep_for_five_minutes() {
        assert_figures("m02", idle_seconds, 300, 6);
    }

    #[test]
    fn m06_rejected_pods_are_replaced_without_a_pause_by_either_behaviour() {
        // In twenty seconds, of two replicas.
        assert_figures("m06", |v| v.most_creates_per_minute, 464, 464);
    }

    #[test]
    fn m07_a_list_from_the_past_creates_what_is_there_unless_it_comes_through_the_watch() {
        assert_figures("m07", |v| v.excess_pods_created, 7, 0);
        let mut streamed = schedule("m07");
        streamed.cluster.watch_list_client = true;
        let verdict = play_as(&streamed, Behaviour::Upstream);
        assert_eq!(verdict.excess_pods_created, 0);
    }

    #[test]
    fn m08_failed_pods_pile_up_with_either_behaviour() {
        assert_figures("m08", |v| v.peak_pods, 210, 210);
    }

    #[test]
    fn m09_creates_refused_for_a_terminating_namespace_are_waited_for() {
        assert_figures("m09", idle_seconds, 303, 0);
    }

    #[test]
    fn m10_each_lost_answer_makes_a_pod_too_many_whatever_the_gate() {
        assert_figures("m10", |v| v.excess_pods_created, 5, 0);
        let mut ungated = schedule("m10");
        ungated.cluster.stale_controller_consistency = false;
        let verdict = play_as(&ungated, Behaviour::Upstream);
        assert_eq!(verdict.excess_pods_created, 5);
    }

    #[test]
    fn m11_a_delete_by_name_meets_the_pod_that_has_it_by_then() {
        assert_figures("m11", |v| v.wrong_pods_deleted, 1, 0);
    }

    #[test]
    fn m12_the_end_of_one_pod_satisfies_what_is_expected_of_another() {
        assert_figures("m12", |v| v.deletes_below_wanted, 1, 0);
    }

    #[test]
    fn a_bug_is_found_by_its_number_and_its_name() {
        for bug in &BUGS {
            let number = format!("M{}", bug.id[1..].trim_start_matches('0'));
            let known = [bug.id, bug.name, &bug.full_name(), &number];
            for text in known {
                assert_eq!(rows::bug(text).map(|bug| bug.id), Some(bug.id), "{text}");
            }
            // The way the list is printed.
            assert!(bug.title.len() <= 73, "{}", bug.title);
        }
        for text in ["m03", "m", "", "m1x", "stale"] {
            assert!(rows::bug(text).is_none(), "{text}");
        }
    }
}
