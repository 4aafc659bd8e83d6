//! Finds deletion costs that make preferred pods be deleted first, with as few annotations as
//! possible, and the preferred pods that no cost can help.
//!
//! Costs matter only among pods that are equal by rules 1 to 3 (a class: whether on a node, phase,
//! whether ready). One class is deleted after the other, so costs matter only in the class of which
//! some pods are deleted and some are kept.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use anyhow::Result;
use podstorm::ranking::Rule;

use super::Objects;
use super::order::{Outcome, Question, Row, outcome};
use super::selection::Wished;

/// The recommended annotations and their effect.
#[derive(Clone, Debug)]
pub struct Advice {
    /// The number of preferred pods.
    pub wished: usize,
    /// The place of each pod in the current order, and the cost to set; sorted by place.
    pub costs: Vec<(usize, i32)>,
    /// How many preferred pods are deleted without the costs.
    pub before: usize,
    /// How many preferred pods are deleted with the costs, regardless of what is undefined about
    /// the order.
    pub after: usize,
    /// The preferred pods that are kept anyway: their places in the current order, and the reasons.
    pub unreachable: Vec<(usize, String)>,
    /// The order with the costs.
    pub outcome: Outcome,
}

/// The range of a class's places in the order.
type Class = std::ops::Range<usize>;

/// A class in which costs matter.
struct OpenClass {
    class: Class,
    /// How many pods of the class are deleted.
    places: usize,
    /// How many of these can be preferred pods.
    most: usize,
}

/// Finds the costs, and ranks the pods again to verify the effect.
///
/// # Errors
/// The object's selector can't be compiled.
pub fn advise(
    objects: &Objects,
    question: &Question,
    now: &Outcome,
    wished: &Wished,
) -> Result<Advice> {
    let classes = open_classes(now, wished);
    let most: usize = if now.to_delete > 0 {
        let settled = now.to_delete - classes.iter().map(|open| open.places).sum::<usize>();
        count(wished, 0..settled) + classes.iter().map(|open| open.most).sum::<usize>()
    } else {
        0
    };
    let mut advice = None;
    for plan in [fewest_costs, plain_costs] {
        let mut costs: Vec<(usize, i32)> = Vec::new();
        for open in &classes {
            costs.extend(plan(now, wished, open));
        }
        costs.sort();
        let (tried, after) = check(objects, question, now, wished, &costs)?;
        let is_good = match now.to_delete {
            0 => goes_first_in_classes(now, &tried, wished),
            _ => after == most,
        };
        advice = Some((costs, tried, after));
        if is_good {
            break;
        }
    }
    let (costs, tried, after) = advice.expect("there is at least one plan");
    let unreachable = unreachable(now, &tried, wished);
    Ok(Advice {
        wished: count(wished, 0..now.rows.len()),
        before: certain(now, |place| wished.rows[place]),
        after,
        costs,
        unreachable,
        outcome: tried,
    })
}

/// Returns the classes that require costs. If no pod is deleted, these are all classes, as if as
/// many pods were deleted as are preferred.
fn open_classes(now: &Outcome, wished: &Wished) -> Vec<OpenClass> {
    let mut classes = Vec::new();
    let mut start = 0;
    for same in now
        .rows
        .chunk_by(|a, b| class_of(&a.ranked) == class_of(&b.ranked))
    {
        let class = start..start + same.len();
        start = class.end;
        let wanted = count(wished, class.clone());
        let places = match now.to_delete {
            0 => wanted,
            to_delete => to_delete.saturating_sub(class.start).min(class.len()),
        };
        if places > 0 && places < class.len() {
            classes.push(OpenClass {
                most: places.min(wanted),
                class,
                places,
            });
        }
    }
    classes
}

fn class_of(ranked: &podstorm::replicaset::Ranked) -> (bool, u8, bool) {
    let fields = &ranked.fields;
    (
        fields.is_scheduled(),
        fields.phase_ordinal(),
        fields.is_ready(),
    )
}

fn count(wished: &Wished, places: Class) -> usize {
    wished.rows[places].iter().filter(|wished| **wished).count()
}

/// Returns the smallest set of costs: they make some preferred pods cheaper than all others, and
/// some other pods more expensive.
///
/// Pods without an annotation keep their order. Consider a cut before which all pods are deleted:
/// as many preferred pods after the cut as are missing must become cheap, and as many other pods
/// before it as have no place must become expensive. Only cuts at which the order is defined
/// qualify. O(class).
fn fewest_costs(now: &Outcome, wished: &Wished, open: &OpenClass) -> Vec<(usize, i32)> {
    let others_places = open.places - open.most;
    let ends = now.segments.iter().map(|segment| segment.range.end);
    let cuts = ends.filter(|end| *end > open.class.start && *end <= open.class.end);
    let (mut best, mut fewest) = (open.class.start, open.most);
    let (mut from, mut wished_before, mut others_before) = (open.class.start, 0, 0usize);
    for cut in cuts {
        let more = count(wished, from..cut);
        wished_before += more;
        others_before += cut - from - more;
        from = cut;
        if wished_before > open.most {
            break;
        }
        let needed = open.most - wished_before + others_before.saturating_sub(others_places);
        if needed < fewest {
            (best, fewest) = (cut, needed);
        }
    }
    let wished_before = count(wished, open.class.start..best);
    let cheap: Vec<usize> = (best..open.class.end)
        .filter(|place| wished.rows[*place])
        .take(open.most - wished_before)
        .collect();
    let others = (open.class.start..best).filter(|place| !wished.rows[*place]);
    let dear: Vec<usize> = others.skip(others_places).collect();
    priced(now, open, &cheap, &dear).unwrap_or_default()
}

/// Returns costs that make as many preferred pods as have a place cheaper than all others.
fn plain_costs(now: &Outcome, wished: &Wished, open: &OpenClass) -> Vec<(usize, i32)> {
    let all = open.class.clone();
    let cheap: Vec<usize> = all
        .filter(|place| wished.rows[*place])
        .take(open.most)
        .collect();
    priced(now, open, &cheap, &[]).unwrap_or_else(|| {
        // Other pods already have the minimum cost, so they must be raised by one.
        let cost = |place: usize| now.rows[place].ranked.fields.deletion_cost();
        let others = open.class.clone().filter(|place| !cheap.contains(place));
        let moved = others.filter(|place| cost(*place) == i32::MIN);
        let moved: Vec<(usize, i32)> = moved.map(|place| (place, i32::MIN + 1)).collect();
        let cheap = cheap.iter().filter(|place| cost(**place) != i32::MIN);
        cheap.map(|place| (*place, i32::MIN)).chain(moved).collect()
    })
}

/// Returns costs below and above those of the rest of the class; `None` if there are no such costs.
fn priced(
    now: &Outcome,
    open: &OpenClass,
    cheap: &[usize],
    dear: &[usize],
) -> Option<Vec<(usize, i32)>> {
    let cost = |place: usize| now.rows[place].ranked.fields.deletion_cost();
    let rest = |without: &[usize]| -> Vec<i32> {
        let mut without = without.iter().copied().peekable();
        let places = open.class.clone();
        places
            .filter(|place| without.next_if_eq(place).is_none())
            .map(cost)
            .collect()
    };
    let mut costs = Vec::with_capacity(cheap.len() + dear.len());
    if !cheap.is_empty() {
        let least = rest(cheap).into_iter().min().unwrap_or(0);
        let below = least.min(0).checked_sub(1)?;
        costs.extend(cheap.iter().map(|place| (*place, below)));
    }
    if !dear.is_empty() {
        let most = rest(dear).into_iter().max().unwrap_or(0);
        let above = most.max(0).checked_add(1)?;
        costs.extend(dear.iter().map(|place| (*place, above)));
    }
    Some(costs)
}

/// Ranks the pods again with the costs, and returns how many preferred pods are certain to be
/// deleted.
fn check(
    objects: &Objects,
    question: &Question,
    now: &Outcome,
    wished: &Wished,
    costs: &[(usize, i32)],
) -> Result<(Outcome, usize)> {
    let named = |(at, cost): &(usize, i32)| (name_of(&now.rows[*at]).to_owned(), *cost);
    let named: Vec<(String, i32)> = costs.iter().map(named).collect();
    let tried = outcome(objects, question, &named)?;
    let names = wished_names(now, wished);
    let after = certain(&tried, |place| names.contains(name_of(&tried.rows[place])));
    Ok((tried, after))
}

fn name_of(row: &Row) -> &str {
    &row.ranked.pod.metadata.name
}

/// Returns the names of the preferred pods.
fn wished_names<'a>(now: &'a Outcome, wished: &Wished) -> BTreeSet<&'a str> {
    let rows = now.rows.iter().zip(&wished.rows);
    let rows = rows.filter(|(_, wished)| **wished);
    rows.map(|(row, _)| name_of(row)).collect()
}

/// Returns the minimum number of preferred pods that are deleted, whichever pods of an undefined
/// segment are deleted.
fn certain(outcome: &Outcome, is_wished: impl Fn(usize) -> bool) -> usize {
    let settled = outcome
        .open
        .as_ref()
        .map_or(outcome.to_delete, |open| open.range.start);
    let mut wished = (0..settled).filter(|place| is_wished(*place)).count();
    if let Some(open) = &outcome.open {
        // The other pods of the segment may be deleted first.
        let others = open
            .range
            .clone()
            .filter(|place| !is_wished(*place))
            .count();
        wished += (outcome.to_delete - settled).saturating_sub(others);
    }
    wished
}

/// Reports whether the preferred pods come before the others in every class.
fn goes_first_in_classes(now: &Outcome, tried: &Outcome, wished: &Wished) -> bool {
    let names = wished_names(now, wished);
    let rows = &tried.rows;
    rows.chunk_by(|a, b| class_of(&a.ranked) == class_of(&b.ranked))
        .all(|class| class.is_sorted_by_key(|row| !names.contains(name_of(row))))
}

/// Returns the preferred pods that are kept, with the reasons.
fn unreachable(now: &Outcome, tried: &Outcome, wished: &Wished) -> Vec<(usize, String)> {
    if now.to_delete == 0 {
        return Vec::new();
    }
    let stays: BTreeSet<&str> = tried.rows[tried.to_delete..].iter().map(name_of).collect();
    let stays = |place: &usize| wished.rows[*place] && stays.contains(name_of(&now.rows[*place]));
    let places = (0..now.rows.len()).filter(stays);
    places.map(|place| (place, why(now, place))).collect()
}

fn why(now: &Outcome, place: usize) -> String {
    let last = &now.rows[now.to_delete - 1].ranked;
    let own = class_of(&now.rows[place].ranked);
    let rule = match class_of(last).cmp(&own) {
        Ordering::Less if class_of(last).0 != own.0 => Rule::Unscheduled,
        Ordering::Less if class_of(last).1 != own.1 => Rule::Phase,
        Ordering::Less => Rule::NotReady,
        _ => {
            return format!(
                "other preferred pods take all places that are left ({} go in all)",
                now.to_delete
            );
        }
    };
    let others = match rule {
        Rule::Unscheduled => "pods without a node",
        Rule::Phase => "pods in an earlier phase",
        _ => "pods that are not ready",
    };
    format!(
        "rule {}, which precedes costs: {others} go first, and there are enough of them",
        rule.number()
    )
}
