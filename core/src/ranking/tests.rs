//! Tests that compare the ranker with the rules, on random pods.

use podstorm_objects::{
    ConditionStatus, ConditionType, ContainerStatus, Labels, Pod, PodPhase, Time, Uid,
};
use proptest::prelude::*;

use super::*;

const NOW_SECONDS: i64 = 1_772_921_233;
const NOW_NS: i64 = NOW_SECONDS * 1_000_000_000 + 123;

/// Generates pods whose fields have few values each, so that every rule decides in some cases.
fn pod() -> impl Strategy<Value = Pod> {
    let ages = || prop_oneof![4 => (0i64..90).prop_map(Some), 1 => Just(None), 1 => (0i64..900_000).prop_map(Some)];
    let uid = prop_oneof![
        9 => any::<u128>().prop_map(Uid::from_u128),
        1 => (0u8..4).prop_map(|n| Uid::new(&format!("u{n}"))),
    ];
    (
        0u8..3,
        0u8..6,
        prop::option::of(-2i32..3),
        ages(),
        ages(),
        0i32..3,
        uid,
    )
        .prop_map(|(node, state, cost, ready_age, age, restarts, uid)| {
            let time = |age: Option<i64>| {
                age.map_or(Time::UNSET, |age| {
                    Time::from_unix_seconds(NOW_SECONDS - age)
                })
            };
            let node_name = (node > 0 || state > 2).then(|| format!("n{node}").as_str().into());
            let mut pod = Pod {
                node_name,
                ..Pod::default()
            };
            pod.metadata.uid = uid;
            pod.metadata.creation_timestamp = time(age);
            if let Some(cost) = cost {
                let text = cost.to_string();
                pod.metadata.annotations =
                    Labels::from_pairs([(DELETION_COST_ANNOTATION, text.as_str())]);
            }
            pod.status.phase = match state {
                0 => PodPhase::Pending,
                1 => PodPhase::Unknown,
                _ => PodPhase::Running,
            };
            let status = if state > 2 {
                ConditionStatus::True
            } else {
                ConditionStatus::False
            };
            let conditions = &mut pod.status.conditions;
            conditions.set(ConditionType::Ready, status, time(ready_age));
            pod.status.container_statuses.push(ContainerStatus {
                name: "c".into(),
                restart_count: restarts * 100,
                ready: true,
                details: None,
            });
            pod
        })
}

fn node_number(pod: &Pod) -> u32 {
    pod.node_name
        .as_deref()
        .map_or(0, |name| 1 + u32::from(name.as_bytes()[1] - b'0'))
}

fn options() -> impl Strategy<Value = RankOptions> {
    let now = prop_oneof![5 => Just(Some(NOW_NS)), 1 => Just(None)];
    (now, prop::bool::weighted(0.8), prop::bool::weighted(0.8)).prop_map(|(now, cost, log)| {
        RankOptions {
            now_wall_ns: now,
            pod_deletion_cost: cost,
            logarithmic_scale_down: log,
        }
    })
}

proptest! {
    #[test]
    fn choices_are_admissible_and_orders_begin_with_them(
        pods in prop::collection::vec(pod(), 1..60),
        options in options(),
        ranks in [0u32..3, 0..3, 0..3, 0..3],
        // Some nodes have more pods than fit into the fine keys.
        crowd in prop_oneof![6 => Just(1u32), 1 => Just(3_000_000u32)],
        k in 0usize..60,
    ) {
        let k = k.min(pods.len());
        let fields: Vec<RankFields> =
            pods.iter().map(|pod| RankFields::from_pod(pod, node_number(pod))).collect();
        let rank_of_node = |node: u32| ranks[node as usize] * crowd;
        let candidates: Vec<Candidate<'_>> = fields
            .iter()
            .map(|fields| Candidate { fields, rank: rank_of_node(fields.node()) })
            .collect();
        // The numbers by which the caller knows the pods differ from the positions.
        let numbered = (0u32..).map(|n| n * 3 + 7).zip(&fields);
        let mut ranker = Ranker::new();
        let chosen = ranker.choose(numbered.clone(), rank_of_node, &options, k).to_vec();
        prop_assert_eq!(chosen.len(), k);
        let mut flags = vec![false; pods.len()];
        for number in &chosen {
            let at = (number - 7) as usize / 3;
            prop_assert!(!flags[at], "twice");
            flags[at] = true;
        }
        prop_assert_eq!(check_admissible(&candidates, &flags, &options), Ok(()));
        prop_assert_eq!(ranker.choose(numbered.clone(), rank_of_node, &options, k), &chosen[..]);

        let order = ranker.order(numbered, rank_of_node, &options, k, true).to_vec();
        let sorted = |numbers: &[u32]| {
            let mut numbers = numbers.to_vec();
            numbers.sort_unstable();
            numbers
        };
        prop_assert_eq!(sorted(&order[..k]), sorted(&chosen));
        for cut in 0..=order.len() {
            let mut flags = vec![false; pods.len()];
            order[..cut].iter().for_each(|number| flags[(number - 7) as usize / 3] = true);
            // The order inside a contradicting group may depend on `k`. In such groups
            // `check_admissible` checks only the order between groups.
            prop_assert_eq!(check_admissible(&candidates, &flags, &options), Ok(()));
        }
    }

    #[test]
    fn a_deciding_rule_puts_exactly_one_pod_first(a in pod(), b in pod(), options in options()) {
        let fields = [&a, &b].map(|pod| RankFields::from_pod(pod, node_number(pod)));
        let [a, b] = fields.each_ref().map(|fields| Candidate { fields, rank: 1 });
        let decided = deciding_rule(a, b, &options);
        prop_assert_eq!(decided, deciding_rule(b, a, &options));
        prop_assert_eq!(before(a, b, &options) != before(b, a, &options), decided.is_some());
        prop_assert!(!before(a, a, &options));
    }
}

/// Builds a ready pod on node 1. `ready_age` and `age` are in seconds.
fn ready(uid: &str, ready_age: i64, age: i64, restarts: i32) -> RankFields {
    ready_on(1, uid, ready_age, age, restarts)
}

fn ready_on(node: u32, uid: &str, ready_age: i64, age: i64, restarts: i32) -> RankFields {
    let mut pod = Pod {
        node_name: Some("a".into()),
        ..Pod::default()
    };
    pod.metadata.uid = uid.into();
    pod.metadata.creation_timestamp = Time::from_unix_seconds(NOW_SECONDS - age);
    pod.status.phase = PodPhase::Running;
    let since = Time::from_unix_seconds(NOW_SECONDS - ready_age);
    let conditions = &mut pod.status.conditions;
    conditions.set(ConditionType::Ready, ConditionStatus::True, since);
    pod.status.container_statuses.push(ContainerStatus {
        name: "c".into(),
        restart_count: restarts,
        ready: true,
        details: None,
    });
    RankFields::from_pod(&pod, node)
}

fn rule(a: &RankFields, b: &RankFields) -> Option<Rule> {
    let [a, b] = [a, b].map(|fields| Candidate { fields, rank: 1 });
    let options = RankOptions::at(NOW_NS);
    assert!(!before(b, a, &options));
    deciding_rule(a, b, &options)
}

#[test]
fn rules_decide_in_their_order() {
    let old = ready("m", 8 * 3600, 9 * 3600, 0);
    let unscheduled = RankFields::from_pod(&Pod::default(), 0);
    assert_eq!(rule(&unscheduled, &old), Some(Rule::Unscheduled));
    for (uid, ready_hours, age_hours, restarts, decides) in [
        ("z", 2, 9, 0, Some(Rule::ReadyTime)),
        ("a", 5, 9, 0, Some(Rule::ReadyTimeUid)),
        ("z", 8, 9, 1, Some(Rule::Restarts)),
        ("z", 8, 0, 0, Some(Rule::CreationTime)),
        ("a", 8, 7, 0, Some(Rule::CreationTimeUid)),
        ("a", 8, 9, 0, None),
        // The same bucket and the same UID: no later rule applies.
        ("m", 7, 9, 0, None),
        ("m", 7, 9, 5, None),
    ] {
        let other = ready(uid, ready_hours * 3600, age_hours * 3600, restarts);
        assert_eq!(rule(&other, &old), decides, "{uid} {ready_hours}");
    }
}

#[test]
fn cycles_of_rules_are_tolerated() {
    // Two pods with the same ready time whose restarts contradict their UIDs, and one pod in
    // between.
    let circle = [
        ready("a", 100, 200, 0),
        ready("b", 100, 200, 5),
        ready("aa", 101, 200, 0),
    ];
    let goes = |a: usize, b: usize| rule(&circle[a], &circle[b]).is_some();
    assert!(goes(0, 2));
    assert!(goes(2, 1));
    assert!(goes(1, 0));
    let mut ranker = Ranker::new();
    for k in 0..=3 {
        let candidates = (0u32..).zip(&circle);
        let options = RankOptions::at(NOW_NS);
        let chosen = ranker.choose(candidates, |_| 1, &options, k);
        assert_eq!(chosen.len(), k);
    }
}

/// Returns a generator of pseudo-random numbers, the same in every run.
fn drawn(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

#[test]
fn large_choices_are_admissible_too() {
    // Pods spread over weeks, in one burst, and in a burst among others: all keys differ, all are
    // equal, or many are equal. The sizes and shares are below and above those at which a bound is
    // sampled.
    let mut ranker = Ranker::new();
    for (seed, spread_days, crowd) in [(1, 30, 40), (2, 0, 1), (3, 1, 1), (4, 0, 3)] {
        for count in [1_000usize, 1_100, 2_500] {
            let mut drawn = drawn(seed);
            let fields: Vec<RankFields> = (0..count as u32)
                .map(|node| {
                    let uid = Uid::from_u128(u128::from(drawn(1 << 31)) << 96).to_string();
                    let ready_age = 20_000 + drawn(60 + spread_days * 86_400) as i64;
                    ready_on(node, &uid, ready_age, ready_age + 9, drawn(20) as i32 / 18)
                })
                .collect();
            // Nodes are used round-robin, with a rank by node.
            let rank_of_node = |node: u32| node % crowd;
            let candidates: Vec<Candidate<'_>> = fields
                .iter()
                .map(|fields| Candidate {
                    fields,
                    rank: rank_of_node(fields.node()),
                })
                .collect();
            for k in [1, 255, 620, 900] {
                let options = RankOptions::at(NOW_NS);
                let chosen = ranker.choose((0u32..).zip(&fields), rank_of_node, &options, k);
                assert_eq!(chosen.len(), k);
                let mut flags = vec![false; count];
                chosen.iter().for_each(|at| flags[*at as usize] = true);
                assert_eq!(flags.iter().filter(|flag| **flag).count(), k);
                assert_eq!(check_admissible(&candidates, &flags, &options), Ok(()));
            }
        }
    }
}
