//! Coverage: the steps of a controller's work that each class of faults can affect, and those that
//! it has affected.

use std::collections::BTreeMap;

use podstorm_sim::faults::{BatchPosition, Call, FaultClass};

/// The steps of a controller's work at which a fault can hit.
pub const STEPS: [&str; 10] = [
    "idle",
    "waiting",
    "creating the first",
    "creating more",
    "deleting",
    "patching",
    "reading the ReplicaSet",
    "writing the status",
    "reading a version",
    "writing an Event",
];

/// Pairs of fault classes and affected steps, with the number of seeds in which each occurred.
pub type Pairs = BTreeMap<(FaultClass, &'static str), u64>;

/// Returns the step of a sync that makes this call at this position in the sync.
pub fn step_of(call: Call, place: BatchPosition) -> &'static str {
    match call {
        Call::CreatePod if place.batch == 0 => "creating the first",
        Call::CreatePod => "creating more",
        Call::DeletePod => "deleting",
        Call::PatchPod => "patching",
        Call::GetOwner => "reading the ReplicaSet",
        // The next two are not in `STEPS`, because the controllers whose coverage is measured do
        // not make these calls.
        Call::WriteObject => "writing a ReplicaSet",
        Call::ReadOther => "reading something else",
        Call::PutStatus => "writing the status",
        Call::ReadVersion => "reading a version",
        Call::WriteEvent => "writing an Event",
    }
}

/// Reports whether a fault of the class can affect the step. Faults of requests affect the calls
/// for which they are drawn. All other faults come from outside and affect any step except writes
/// of Events, which are not part of a sync.
pub fn is_reachable(class: FaultClass, step: &str) -> bool {
    let any_call = STEPS[2..9].contains(&step);
    match class {
        FaultClass::ApiError | FaultClass::Overload => any_call,
        FaultClass::AmbiguousWrite => {
            any_call && step != "reading the ReplicaSet" && step != "reading a version"
        }
        FaultClass::PartialBatch | FaultClass::Admission => step.starts_with("creating"),
        FaultClass::LowerRetry => {
            step.starts_with("creating") || step == "deleting" || step == "patching"
        }
        FaultClass::EventSink => step == "writing an Event",
        _ => step != "writing an Event",
    }
}

/// A possible pair of a fault class and an affected step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// The class of faults.
    pub class: FaultClass,
    /// The step of a controller's work.
    pub step: &'static str,
    /// The number of seeds in which the pair occurred.
    pub seeds: u64,
    /// The number of seeds in which the pair occurred, per million seeds.
    pub per_million: f64,
}

/// Returns every possible pair, with how often it occurred in `seeds` seeds, the rarest first.
pub fn pairs(met: &Pairs, seeds: u64) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for class in FaultClass::ALL {
        for step in STEPS.into_iter().filter(|step| is_reachable(class, step)) {
            let met = met.get(&(class, step)).copied().unwrap_or(0);
            pairs.push(Pair {
                class,
                step,
                seeds: met,
                per_million: met as f64 * 1e6 / seeds.max(1) as f64,
            });
        }
    }
    pairs.sort_by_key(|pair| pair.seeds);
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_reachable_steps_and_rare_pairs_come_first() {
        let mut met = Pairs::new();
        let all = pairs(&met, 0);
        let mut unmet = all.iter();
        assert!(unmet.all(|pair| (pair.seeds, pair.per_million) == (0, 0.0)));
        for class in FaultClass::ALL {
            let mut steps = STEPS.iter();
            assert!(steps.any(|step| is_reachable(class, step)), "{class}");
        }
        met.extend(all.iter().map(|pair| ((pair.class, pair.step), 3)));
        met.insert((FaultClass::EventSink, "writing an Event"), 1);
        let pairs = pairs(&met, 4_000_000);
        assert_eq!(pairs.len(), all.len());
        assert_eq!(pairs[0].class, FaultClass::EventSink);
        assert_eq!(pairs[0].per_million, 0.25);
        assert_eq!((pairs[1].seeds, pairs[1].per_million), (3, 0.75));
    }
}
