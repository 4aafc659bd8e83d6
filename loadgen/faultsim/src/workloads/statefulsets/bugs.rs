//! The known bugs of upstream's StatefulSet controller, with the schedules that reproduce them.

use crate::bug::{Bug, bug};

/// All known bugs with a schedule, in the order of their IDs.
pub(super) const BUGS: [Bug; 3] = [
    bug! {
        "m17", "broken-pod", "kubernetes#67250",
        title: "a reverted rollout waits for the pod that it broke",
        done: "The last of three pods is updated to a template that can't run. Half a minute \
               later, the user reverts the template.",
        upstream: "The set waits until the broken pod is ready, which it never is. A user has to \
                   delete it.",
        hardened: "The pod is neither ready nor up to date, so the rolling update replaces it.",
    },
    bug! {
        "m18", "broken-budget", "kubernetes#137409",
        title: "with its gate, maxUnavailable is used up by a broken pod",
        done: "The same as M17 in an unordered set, with the gate and maxUnavailable 1.",
        upstream: "The maximum number of pods is unavailable, so no pod is replaced, not even the \
                   broken one. Without the gate, it is.",
        hardened: "A pod that is neither ready nor up to date is replaced anyway.",
    },
    bug! {
        "m19", "early-completion", "kubernetes#136831",
        title: "a rollout is complete before its pods have been ready for minReadySeconds",
        done: "Three pods with minReadySeconds 20 are updated to another template, one after the \
               other.",
        upstream: "The new revision becomes the current one as soon as the last pod is ready, 20 \
                   s too early.",
        hardened: "The new revision becomes the current one once the last pod is available.",
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
