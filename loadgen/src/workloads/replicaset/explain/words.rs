//! Describes ranking fields and deciding rules in words.

use podstorm::ranking::Rule;
use podstorm::replicaset::Ranked;
use podstorm_objects::{Now, PodPhase, Time};

use super::order::{Fate, Outcome, Reason};

/// Describes why the pod at a place is deleted before the next one: `rule 3: not ready`. Empty for
/// the last place.
pub fn reason(outcome: &Outcome, place: usize) -> String {
    let rows = &outcome.rows;
    let (Some(row), Some(next)) = (rows.get(place), rows.get(place + 1)) else {
        return String::new();
    };
    match row.before_next {
        None => String::new(),
        Some(Reason::EarlierSync) => "deleted by the previous sync, which is full".to_owned(),
        Some(Reason::Tie) => "tied with the next".to_owned(),
        Some(Reason::Rule(rule)) => {
            let why = rule_words(rule, &row.ranked, &next.ranked, outcome.now);
            format!("rule {}: {why}", rule.number())
        }
        Some(Reason::Against(rule)) => {
            let why = rule_words(rule, &next.ranked, &row.ranked, outcome.now);
            format!(
                "nothing: rule {} puts the next one first ({why}), other pods reverse it",
                rule.number()
            )
        }
    }
}

/// Describes how `a` differs from `b` by a rule, with the values of both pods.
fn rule_words(rule: Rule, a: &Ranked, b: &Ranked, now: Now) -> String {
    match rule {
        Rule::Unscheduled => "has no node, the next has".to_owned(),
        Rule::Phase => format!("{} before {}", ordinal_word(a), ordinal_word(b)),
        Rule::NotReady => "not ready, the next is".to_owned(),
        Rule::DeletionCost => {
            let (a, b) = (a.fields.deletion_cost(), b.fields.deletion_cost());
            format!("deletion cost {a} before {b}")
        }
        Rule::Colocation => format!(
            "{} related pods on its node, {} on the next one's",
            a.rank, b.rank
        ),
        Rule::ReadyTime => format!(
            "ready {}, the next {}",
            since(a.fields.ready_time(), now),
            since(b.fields.ready_time(), now)
        ),
        Rule::ReadyTimeUid => format!(
            "ready for about as long ({}, {}), smaller UID",
            age(a.fields.ready_time(), now),
            age(b.fields.ready_time(), now)
        ),
        Rule::Restarts => {
            let containers = (a.fields.container_restarts(), b.fields.container_restarts());
            if containers.0 == containers.1 {
                let (a, b) = (a.fields.sidecar_restarts(), b.fields.sidecar_restarts());
                return format!("{a} restarts of a sidecar before {b}");
            }
            format!("{} restarts before {}", containers.0, containers.1)
        }
        Rule::CreationTime => format!(
            "created {}, the next {}",
            ago(a.fields.creation_time(), now),
            ago(b.fields.creation_time(), now)
        ),
        Rule::CreationTimeUid => format!(
            "created at about the same time ({}, {} ago), smaller UID",
            age(a.fields.creation_time(), now),
            age(b.fields.creation_time(), now)
        ),
    }
}

/// Returns the phase in the form in which the rules compare it.
fn ordinal_word(ranked: &Ranked) -> &'static str {
    match ranked.fields.phase_ordinal() {
        0 => "Pending",
        1 => "Unknown",
        _ => "Running",
    }
}

fn since(time: Time, now: Now) -> String {
    match time.is_unset() {
        true => "since an unknown time".to_owned(),
        false => format!("for {}", age(time, now)),
    }
}

fn ago(time: Time, now: Now) -> String {
    match time.is_unset() {
        true => "at an unknown time".to_owned(),
        false => format!("{} ago", age(time, now)),
    }
}

/// Formats the time since `time` in its two largest units: `3d4h`; `unknown` if it is not set.
pub fn age(time: Time, now: Now) -> String {
    let (Some(seconds), Some(now)) = (time.unix_seconds(), now.wall().unix_seconds()) else {
        return "unknown".to_owned();
    };
    let age = now.saturating_sub(seconds);
    let sign = if age < 0 { "-" } else { "" };
    let units = [(86_400, 'd'), (3_600, 'h'), (60, 'm'), (1, 's')];
    let mut left = age.unsigned_abs();
    let first = units.iter().position(|(size, _)| left >= *size);
    let mut text = sign.to_owned();
    for (size, unit) in units.iter().skip(first.unwrap_or(3)).take(2) {
        if left >= *size || text.len() == sign.len() {
            text.push_str(&format!("{}{unit}", left / size));
            left %= size;
        }
    }
    text
}

/// Returns the phase in the pod's status.
pub fn phase(ranked: &Ranked) -> String {
    let status = &ranked.pod.status;
    match status.phase {
        PodPhase::Unset => String::new(),
        PodPhase::Other => {
            let text = status.rest.get("phase");
            let text = text.as_ref().and_then(|text| text.as_str());
            text.unwrap_or_default().to_owned()
        }
        known => format!("{known:?}"),
    }
}

/// Formats the phase and the readiness of a pod: `Running, ready`.
pub fn state(ranked: &Ranked) -> String {
    let ready = if ranked.fields.is_ready() {
        "ready"
    } else {
        "not ready"
    };
    match phase(ranked) {
        phase if phase.is_empty() => ready.to_owned(),
        phase => format!("{phase}, {ready}"),
    }
}

/// Formats a fate for a column of the table.
pub fn fate(fate: Fate) -> &'static str {
    match fate {
        Fate::Deleted => "deleted",
        Fate::DeletedOrKept => "deleted*",
        Fate::KeptOrDeleted => "kept*",
        Fate::Kept => "kept",
    }
}

/// Formats a number of pods: `1 pod`, `2 pods`.
pub fn pods(count: usize) -> String {
    counted(count, "pod")
}

/// Formats a number with its noun, which is in the plural unless the number is one.
pub fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_units() {
        let now = Now {
            mono_ns: 0,
            wall_ns: 1_772_921_233_500_000_000,
        };
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (61, "1m1s"),
            (3_600, "1h"),
            (3_661, "1h1m"),
            (90_000, "1d1h"),
            (86_401, "1d"),
            (-90, "-1m30s"),
        ] {
            let time = Time::from_unix_seconds(1_772_921_233 - seconds);
            assert_eq!(age(time, now), text);
        }
        assert_eq!(age(Time::UNSET, now), "unknown");
    }
}
