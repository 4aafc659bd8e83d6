//! Bugs that upstream's controller of StatefulSets is known for, each as a schedule that shows it.

use crate::bug::{Bug, bug};

/// Every known bug that is shown, in order.
pub(super) const BUGS: [Bug; 3] = [
    bug! {
        "m17", "broken-pod", "kubernetes#67250",
        title: "a rollout that is reverted waits for the pod that it broke",
        done: "Of three pods the last one is updated to a template that can't run. Half a minute later the \
               user goes back to the template of before.",
        upstream: "The set waits until the broken pod is ready, which it never is. A user has to delete it.",
        hardened: "The pod is neither ready nor up to date, so the rolling update replaces it.",
    },
    bug! {
        "m18", "broken-budget", "kubernetes#137409",
        title: "with its gate, maxUnavailable is used up by a pod that is broken",
        done: "The same in a set without an order, with the gate and maxUnavailable 1.",
        upstream: "As many pods are unavailable as may be, so none is replaced, not even the broken one. \
                   Without the gate it is.",
        hardened: "A pod that is neither ready nor up to date is replaced all the same.",
    },
    bug! {
        "m19", "early-completion", "kubernetes#136831",
        title: "a rollout is complete before its pods have been ready for minReadySeconds",
        done: "Three pods with minReadySeconds 20 are updated to another template, one after the other.",
        upstream: "The new revision is the current one as soon as the last pod is ready, 20 s too early.",
        hardened: "The new revision is the current one once the last pod is available.",
    },
];

#[cfg(test)]
mod tests {
    use podstorm::policy::Behaviour;
    use podstorm::statefulset::StatefulSets;

    use crate::plan::How;
    use crate::play::play;
    use crate::rows;
    use crate::subject::Schedule;

    #[test]
    fn m17_and_m18_a_broken_pod_stays_until_a_user_deletes_it() {
        for id in ["m17", "m18"] {
            let schedule = rows::bug(id).expect("a known bug").text;
            let schedule = Schedule::<StatefulSets>::read(schedule).expect("a schedule");
            let [upstream, hardened] = Behaviour::ALL.map(|behaviour| {
                let (verdict, _) = play(&schedule, How::untold(behaviour));
                assert_eq!(verdict.violation, None, "{id}");
                verdict.figures[2].1
            });
            let kept = format!("{id}: {upstream} s, {hardened} s");
            assert!(upstream > 600 && hardened < 5, "{kept}");
        }
    }

    #[test]
    fn m19_a_rollout_is_complete_before_its_pods_are_available() {
        let schedule = rows::bug("m19").expect("a known bug").text;
        let schedule = Schedule::<StatefulSets>::read(schedule).expect("a schedule");
        let early = Behaviour::ALL.map(|behaviour| {
            let (verdict, _) = play(&schedule, How::untold(behaviour));
            assert_eq!(verdict.violation, None);
            verdict.figures[3].1
        });
        assert_eq!(early, [1, 0]);
    }
}
