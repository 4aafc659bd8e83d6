//! Selectors, compared with the plain way: for each question, the selector is converted to
//! requirements; labels are in a tree of strings; and owners are found by a scan.

use std::hint::black_box;

use podstorm::object::LabelSelector;
use podstorm_bench::clusters::Plan;
use podstorm_bench::hot::selectors;
use podstorm_bench::plain::{self, Map, PlainReplicaSet, PlainSelector};

use super::Timed;

pub(crate) fn timed() -> Vec<Timed> {
    vec![
        Timed::new("selectors/match-labels-plain/2", || {
            matching(&selectors::match_labels())
        }),
        Timed::new("selectors/match-expressions-plain/4", || {
            matching(&selectors::match_expressions())
        }),
        Timed::new("selectors/compile-plain/4", || {
            let selector = PlainSelector::from_selector(&selectors::match_expressions());
            move || black_box(&selector).convert().len() as u64
        }),
        Timed::slow("selectors/owners-plain/2000", owners),
    ]
}

fn matching(selector: &LabelSelector) -> impl FnMut() -> u64 + use<> {
    let (selector, mut turn) = (PlainSelector::from_selector(selector), 0);
    let labels: Vec<Map> = selectors::labels().iter().map(plain::map).collect();
    move || {
        turn = (turn + 1) % labels.len();
        plain::matches(&selector.convert(), black_box(&labels[turn])).into()
    }
}

fn owners() -> impl FnMut() -> u64 {
    let drawn = Plan::new(2_000, 0).draw();
    let owners: Vec<PlainReplicaSet> = drawn
        .iter()
        .map(|(owner, _)| PlainReplicaSet::from_replica_set(owner))
        .collect();
    let mut turn = 0;
    move || {
        turn = (turn + 7_919) % owners.len();
        let labels = &owners[turn].template_labels;
        let matching = owners
            .iter()
            .filter(|owner| plain::matches(&owner.selector.convert(), black_box(labels)));
        matching.count() as u64
    }
}
