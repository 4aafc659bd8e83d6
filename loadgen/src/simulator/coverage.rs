//! Which faults can meet which steps of a controller's work, and which have.

use std::collections::BTreeSet;

use crate::faults::{Call, FaultClass, Place};

/// A step of a controller's work, as it is when a fault strikes.
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

/// The step of a sync that makes such a call there.
pub fn step_of(call: Call, place: Place) -> &'static str {
    match call {
        Call::CreatePod if place.batch == 0 => "creating the first",
        Call::CreatePod => "creating more",
        Call::DeletePod => "deleting",
        Call::PatchPod => "patching",
        Call::GetParent => "reading the ReplicaSet",
        Call::PutStatus => "writing the status",
        Call::ReadVersion => "reading a version",
        Call::WriteEvent => "writing an Event",
    }
}

/// Whether a fault of the class can meet the step. Faults of requests meet the calls that they are
/// drawn for; all others come from outside, at any step but the writing of Events, which is no
/// step of a sync.
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

/// Pairs that can meet, and those of them that have not.
pub fn missing(met: &BTreeSet<(FaultClass, &'static str)>) -> (usize, Vec<String>) {
    let mut reachable = 0;
    let mut missing = Vec::new();
    for class in FaultClass::ALL {
        for step in STEPS.into_iter().filter(|step| is_reachable(class, step)) {
            reachable += 1;
            if !met.contains(&(class, step)) {
                missing.push(format!("{class} x {step}"));
            }
        }
    }
    (reachable, missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_can_meet_something_and_what_was_met_is_not_missing() {
        let mut met = BTreeSet::new();
        let (reachable, all) = missing(&met);
        assert_eq!(reachable, all.len());
        for class in FaultClass::ALL {
            assert!(
                STEPS.iter().any(|step| is_reachable(class, step)),
                "{class}"
            );
        }
        met.insert((FaultClass::EventSink, "writing an Event"));
        assert_eq!(missing(&met).1.len(), reachable - 1);
    }
}
