//! The known bugs of upstream's Job controller, with the schedules that reproduce them.
//!
//! Two known bugs have no schedule, because they are fixed in 1.36 and in this controller:
//! kubernetes#109485 (pods are left with finalizers when a limit is reached) and kubernetes#125410
//! (a pod is on both lists).

use crate::bug::{Bug, bug};

/// All known bugs with a schedule, in the order of their IDs.
pub(super) const BUGS: [Bug; 4] = [
    bug! {
        "m13", "no-active-pods", "kubernetes#139642, kubernetes#139428",
        title: "a Job that waits after a failure reports no active pods",
        done: "A Job has two pods: one fails, while the other is running and ready.",
        upstream: "Until the Job may create a pod again, 10 s later, it reports no active and one \
                   ready pod. The server rejects each such status, so the failed pod is not \
                   counted. Fixed in 1.36.3.",
        hardened: "The Job reports the correct number of active pods.",
    },
    bug! {
        "m14", "gone-pod", "kubernetes#105200, kubernetes#105199",
        title: "a pod that is deleted before its finalizer is removed counts twice",
        done: "One pod of three succeeds. Before the Job counts it, a user removes its finalizer \
               and deletes it, while the pod watch is held for five seconds. The read-your-writes \
               gate is off, as before 1.36.",
        upstream: "A deleted pod is treated like one whose finalizer was removed, and the Job \
                   forgets that it has counted the pod. The cache still shows the pod: each sync \
                   counts it again, and the Job is complete after one success of three.",
        hardened: "The Job remembers the pod until the cache no longer has it.",
    },
    bug! {
        "m15", "orphans-kept", "kubernetes#141346, kubernetes#141329",
        title: "pods of a deleted Job keep their finalizer after one error",
        done: "A Job is deleted while its watch is held, and its pods end. When the controller \
               sees the deletion, the server fails two patches with an error.",
        upstream: "The errors are logged and not retried: the pods keep terminating until a user \
                   removes their finalizers. Fixed in 1.37.",
        hardened: "The key is added again, with the usual delays.",
    },
    bug! {
        "m16", "two-outcomes", "none known; in 1.36's code",
        title: "an index that failed and succeeded blocks its Job's status",
        done: "Two indexes with the limit 0 fail while the Job watch is held and the \
               read-your-writes gate is off: their pods are created again, and one succeeds.",
        upstream: "The status lists the index as failed and as completed. The server rejects it \
                   permanently: the Job counts nothing more, and a user has to delete it.",
        hardened: "The outcome that was written first stays.",
    },
];

#[cfg(test)]
mod tests {
    use podstorm::job::Jobs;
    use podstorm::policy::Behaviour;

    use crate::plan::How;
    use crate::play::play;
    use crate::rows;
    use crate::subject::Schedule;

    /// Returns one figure of the verdict for a bug's schedule, with upstream's and with the
    /// hardened behaviour.
    fn figure(id: &str, at: usize) -> [u64; 2] {
        let schedule = Schedule::<Jobs>::read(rows::bug(id).expect("a known bug").text);
        let schedule = schedule.expect("a schedule");
        Behaviour::ALL.map(|behaviour| {
            let (verdict, _) = play(&schedule, How::untold(behaviour));
            assert_eq!(verdict.violation, None, "{id}");
            verdict.figures[at].1
        })
    }

    #[test]
    fn m13_a_waiting_job_writes_rejected_statuses() {
        assert_eq!(figure("m13", 0), [4, 0]);
    }

    #[test]
    fn m14_a_deleted_pod_is_counted_twice() {
        assert_eq!(figure("m14", 1), [2, 0]);
    }

    #[test]
    fn m15_pods_of_a_deleted_job_stay_until_a_user_helps() {
        let [upstream, hardened] = figure("m15", 2);
        assert!(
            upstream > 300 && hardened < 60,
            "{upstream} s, {hardened} s"
        );
    }

    #[test]
    fn m16_an_index_with_two_outcomes_blocks_all_statuses() {
        let [upstream, hardened] = figure("m16", 0);
        assert!(upstream > 10 && hardened == 0, "{upstream}, {hardened}");
    }
}
