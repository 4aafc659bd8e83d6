//! Bugs that upstream's controller of Jobs is known for, each as a schedule that shows it.
//!
//! What of the list of known bugs is not shown: kubernetes#109485 (pods left with finalizers when a limit is reached)
//! and kubernetes#125410 (a pod on both lists) are mended in 1.36, and in this controller.

use crate::bug::{Bug, bug};

/// Every known bug that is shown, in order.
pub(super) const BUGS: [Bug; 4] = [
    bug! {
        "m13", "no-active-pods", "kubernetes#139642, kubernetes#139428",
        title: "a Job that waits after a failure says that none of its pods is active",
        done: "Of the two pods of a Job one fails, while the other runs and is ready.",
        upstream: "Until the Job may create a pod again, 10 s later, it writes that no pod is active \
                   and one is ready. The server refuses that each time, so the failed pod is not \
                   counted. 1.36.3 has it mended.",
        hardened: "The Job says how many pods are active.",
    },
    bug! {
        "m14", "gone-pod", "kubernetes#105200, kubernetes#105199",
        title: "a pod that goes before its finalizer is removed is counted twice",
        done: "One pod of three succeeds. Before the Job counts it a user takes its finalizer and \
               deletes it, while the pod watch is held for five seconds. The gate of \
               read-your-writes is off, as before 1.36.",
        upstream: "That the pod is gone is as good as a finalizer that was removed, and the Job \
                   forgets that it has counted the pod. The cache still shows the pod: each sync \
                   counts it again, and the Job is complete after one success of three.",
        hardened: "The Job remembers the pod until the cache has lost it, too.",
    },
    bug! {
        "m15", "orphans-kept", "kubernetes#141346, kubernetes#141329",
        title: "pods of a Job that is gone keep their finalizer after one error",
        done: "A Job is deleted while its watch is held, and its pods end. When the controller \
               hears that the Job is gone the server refuses two patches with an error.",
        upstream: "The errors are logged and not tried again: the pods stay, on their way out, until \
                   a user takes their finalizers. 1.37 has it mended.",
        hardened: "The key is added again, with the usual delays.",
    },
    bug! {
        "m16", "two-outcomes", "none known; in 1.36's code",
        title: "an index that has failed and succeeded lets its Job write no status",
        done: "Two indexes fail, whose limit is 0, while the watch of Jobs is held and the gate of \
               read-your-writes is off: their pods are created again, and one succeeds.",
        upstream: "The status has the index as failed and as completed. The server refuses it, for \
                   ever: the Job counts nothing more, and a user has to delete it.",
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

    /// One figure of a bug, with upstream's behaviour and hardened.
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
    fn m13_a_job_that_waits_writes_statuses_that_are_refused() {
        assert_eq!(figure("m13", 0), [4, 0]);
    }

    #[test]
    fn m14_a_gone_pod_is_counted_twice() {
        assert_eq!(figure("m14", 1), [2, 0]);
    }

    #[test]
    fn m15_pods_of_a_gone_job_stay_until_a_user_frees_them() {
        let [upstream, hardened] = figure("m15", 2);
        assert!(
            upstream > 300 && hardened < 60,
            "{upstream} s, {hardened} s"
        );
    }

    #[test]
    fn m16_an_index_with_two_outcomes_ends_all_statuses() {
        let [upstream, hardened] = figure("m16", 0);
        assert!(upstream > 10 && hardened == 0, "{upstream}, {hardened}");
    }
}
