//! Cases of `ranking`: which pods to delete when there are too many.
//!
//! In addition to the choice, everything that is recorded about the relation is recomputed: the
//! pairs, whether the relation is an order, and the groups that every sort respects.

use std::cmp::Ordering;

use podstorm::object::{Pod, Resource as _};
use podstorm::ranking::{
    Candidate, NodeCounts, RankFields, RankOptions, Ranker, before, check_admissible, deciding_rule,
};
use serde_json::Value;

use super::{Fields, expect_eq};

const PROFILES: [&str; 7] = [
    "mixed",
    "mixed-mid",
    "realistic",
    "realistic-mid",
    "edge",
    "ties",
    "large",
];

/// The recorded outputs.
struct Recorded {
    rank: Vec<u32>,
    /// The recorded pairs; `None` if there are more than 12 pods.
    less: Option<Vec<Value>>,
    swo: bool,
    groups: Vec<usize>,
    sorted_order: Vec<usize>,
    chosen: Vec<usize>,
    chosen_unique: bool,
    diff: usize,
}

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let profile = case.text("profile")?;
    if !PROFILES.contains(&&*profile) {
        return Err(format!("unknown profile {profile:?}"));
    }
    let options = options(case)?;
    let pods = case.all("pods", decode_pod)?;
    let related = case.all("relatedPods", decode_pod)?;
    let recorded = Recorded {
        rank: numbers(case.list("rank")?)?,
        less: case
            .take("less")
            .map(|rows| rows.as_array().cloned().unwrap_or_default()),
        swo: case.flag("swo")?,
        groups: numbers(case.list("groups")?)?,
        sorted_order: numbers(case.list("sortedOrder")?)?,
        chosen: numbers(case.list("chosen")?)?,
        chosen_unique: case.flag("chosenUnique")?,
        diff: usize::try_from(case.int("diff")?).map_err(|error| error.to_string())?,
    };

    let (fields, counts) = ranked(&pods, &related);
    let ranks: Vec<u32> = fields
        .iter()
        .map(|fields| counts.get(fields.node()))
        .collect();
    expect_eq("rank", &ranks, &recorded.rank)?;
    let candidates: Vec<Candidate<'_>> = fields
        .iter()
        .zip(ranks)
        .map(|(fields, rank)| Candidate { fields, rank })
        .collect();
    check_relation(&candidates, &options, &recorded)?;
    check_record(&recorded, pods.len())?;
    check_choice(&candidates, &counts, &options, &recorded)
}

fn options(case: &mut Fields) -> Result<RankOptions, String> {
    let now = case.text("now")?;
    let now_wall_ns = case.opt_int("nowUnixNano")?;
    let mut gates = case.object("featureGates")?;
    let options = RankOptions {
        now_wall_ns,
        pod_deletion_cost: gates.flag("PodDeletionCost")?,
        logarithmic_scale_down: gates.flag("LogarithmicScaleDown")?,
    };
    gates.finish()?;
    // The same instant in two forms. Only the fractions are easy to compare.
    let fraction = now
        .trim_end_matches('Z')
        .split_once('.')
        .map_or("", |(_, digits)| digits);
    let nanos = format!("{fraction:0<9}")
        .parse()
        .map_err(|_| format!("now: {now:?}"))?;
    expect_eq("now is set", &now.is_empty(), &now_wall_ns.is_none())?;
    expect_eq(
        "fraction of now",
        &now_wall_ns.map_or(0, |ns| ns % 1_000_000_000),
        &nanos,
    )?;
    Ok(options)
}

/// Returns the ranking fields of the pods, and the number of active pods for each node number in
/// these fields.
fn ranked(pods: &[Pod], related: &[Pod]) -> (Vec<RankFields>, NodeCounts) {
    let mut names = vec!["".into()];
    let mut number = |pod: &Pod| {
        let name = pod.node_name.clone().unwrap_or_else(|| "".into());
        let known = names
            .iter()
            .position(|known| *known == name)
            .unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            });
        known as u32
    };
    let mut counts = NodeCounts::new();
    for pod in pods.iter().chain(related).filter(|pod| pod.is_active()) {
        counts.add(number(pod));
    }
    let fields = pods
        .iter()
        .map(|pod| RankFields::from_pod(pod, number(pod)))
        .collect();
    (fields, counts)
}

/// Checks pairs, `swo` and groups.
fn check_relation(
    candidates: &[Candidate<'_>],
    options: &RankOptions,
    recorded: &Recorded,
) -> Result<(), String> {
    let length = candidates.len();
    let goes: Vec<Vec<bool>> = candidates
        .iter()
        .map(|a| candidates.iter().map(|b| before(*a, *b, options)).collect())
        .collect();
    for (a, row) in goes.iter().enumerate() {
        for (b, goes_before) in row.iter().enumerate() {
            let rule = deciding_rule(candidates[a], candidates[b], options);
            expect_eq(
                "a rule decides",
                &rule.is_some(),
                &(*goes_before || goes[b][a]),
            )?;
        }
    }
    expect_eq(
        "less is recorded",
        &recorded.less.is_some(),
        &(length <= 12),
    )?;
    if let Some(less) = &recorded.less {
        let row_text = |row: &Vec<bool>| -> Value {
            row.iter()
                .map(|goes| if *goes { '1' } else { '0' })
                .collect::<String>()
                .into()
        };
        expect_eq("less", &goes.iter().map(row_text).collect::<Vec<_>>(), less)?;
    }

    // A relation is a strict weak order if and only if it compares the numbers of predecessors.
    let before_it = |a: usize| goes.iter().filter(|row| row[a]).count();
    let behind_it = |a: usize| goes[a].iter().filter(|goes| **goes).count();
    let predecessors: Vec<usize> = (0..length).map(before_it).collect();
    let is_order =
        (0..length).all(|a| (0..length).all(|b| goes[a][b] == (predecessors[a] < predecessors[b])));
    expect_eq("swo", &is_order, &recorded.swo)?;

    // At a cut, every pod in front precedes every pod behind. The number of predecessors minus the
    // number of successors is therefore smaller in front, so every cut is a prefix of this order.
    let mut order: Vec<usize> = (0..length).collect();
    order.sort_by_key(|a| predecessors[*a] as isize - behind_it(*a) as isize);
    let mut groups = vec![0; length];
    let (mut group, mut pairs_across) = (0, 0);
    for (index, &pod) in order.iter().enumerate() {
        groups[pod] = group;
        let (front, behind) = (&order[..index], &order[index + 1..]);
        pairs_across += behind.iter().filter(|other| goes[pod][**other]).count();
        pairs_across -= front.iter().filter(|other| goes[**other][pod]).count();
        if pairs_across == (index + 1) * behind.len() {
            group += 1;
        }
    }
    expect_eq("groups", &groups, &recorded.groups)
}

/// Checks that the recording is consistent, because the other checks depend on it.
fn check_record(recorded: &Recorded, length: usize) -> Result<(), String> {
    let mut positions = recorded.sorted_order.clone();
    positions.sort_unstable();
    expect_eq(
        "positions in sortedOrder",
        &positions,
        &(0..length).collect(),
    )?;
    let group_at = |index: usize| recorded.groups[recorded.sorted_order[index]];
    for index in 1..length {
        if group_at(index - 1) > group_at(index) {
            return Err(format!("sortedOrder decreases at {index}"));
        }
    }
    let mut first = recorded.sorted_order[..recorded.diff].to_vec();
    first.sort_unstable();
    expect_eq("the first of sortedOrder", &first, &recorded.chosen)?;
    let cut = recorded.diff;
    let unique = cut == length || cut == 0 || group_at(cut - 1) != group_at(cut);
    expect_eq("chosenUnique", &unique, &recorded.chosen_unique)
}

/// Checks the ranker's choice for both orders of the input, and its full order.
fn check_choice(
    candidates: &[Candidate<'_>],
    counts: &NodeCounts,
    options: &RankOptions,
    recorded: &Recorded,
) -> Result<(), String> {
    let mut ranker = Ranker::new();
    let rank_of_node = |node| counts.get(node);
    let numbered = (0u32..).zip(candidates.iter().map(|candidate| candidate.fields));
    let backwards = (0..candidates.len() as u32)
        .rev()
        .map(|at| (at, candidates[at as usize].fields));

    let forth = ranker
        .choose(numbered.clone(), rank_of_node, options, recorded.diff)
        .to_vec();
    check_set("chosen", &forth, recorded)?;
    let back = ranker
        .choose(backwards, rank_of_node, options, recorded.diff)
        .to_vec();
    check_set("chosen from the reverse", &back, recorded)?;
    for (what, set) in [("ours", &forth), ("ours from the reverse", &back)] {
        let flags: Vec<bool> = (0..candidates.len() as u32)
            .map(|position| set.contains(&position))
            .collect();
        check_admissible(candidates, &flags, options)
            .map_err(|error| format!("{what}: {error}"))?;
    }
    let flags: Vec<bool> = (0..candidates.len())
        .map(|position| recorded.chosen.contains(&position))
        .collect();
    check_admissible(candidates, &flags, options).map_err(|error| format!("recorded: {error}"))?;

    let order = ranker.order(numbered, rank_of_node, options, recorded.diff, true);
    let groups: Vec<usize> = order
        .iter()
        .map(|at| recorded.groups[*at as usize])
        .collect();
    let mut sorted_groups = recorded.groups.clone();
    sorted_groups.sort_unstable();
    expect_eq("groups along the full order", &groups, &sorted_groups)?;
    check_set("first of the full order", &order[..recorded.diff], recorded)
}

/// Checks that a set contains all groups before the cut and none after it. If the recorded set is
/// the only possible one, the set must equal it.
fn check_set(what: &str, ours: &[u32], recorded: &Recorded) -> Result<(), String> {
    let mut ours: Vec<usize> = ours.iter().map(|position| *position as usize).collect();
    ours.sort_unstable();
    ours.dedup();
    expect_eq(&format!("size of {what}"), &ours.len(), &recorded.diff)?;
    if recorded.chosen_unique {
        return expect_eq(what, &ours, &recorded.chosen);
    }
    let cut = recorded.groups[recorded.sorted_order[recorded.diff]];
    for (pod, group) in recorded.groups.iter().enumerate() {
        let is_chosen = ours.binary_search(&pod).is_ok();
        match group.cmp(&cut) {
            Ordering::Less if !is_chosen => return Err(format!("{what}: pod {pod} is missing")),
            Ordering::Greater if is_chosen => {
                return Err(format!("{what}: pod {pod} should not be in it"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn numbers<T: TryFrom<u64>>(list: Vec<Value>) -> Result<Vec<T>, String> {
    let number = |value: &Value| value.as_u64().and_then(|number| T::try_from(number).ok());
    list.iter()
        .map(|value| number(value).ok_or_else(|| format!("expected a number: {value}")))
        .collect()
}

/// Decodes a pod of a case.
pub(super) fn decode_pod(pod: Value) -> Result<Pod, String> {
    Pod::from_json(pod).map_err(|error| error.to_string())
}
