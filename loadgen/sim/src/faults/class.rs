//! The classes of faults, each with its number, its name and what it is.

use serde::{Deserialize, Serialize};

/// A class of faults: what a seed switches on or off, and what is counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultClass {
    /// F1.
    ApiError,
    /// F2.
    AmbiguousWrite,
    /// F3.
    PartialBatch,
    /// F4.
    EventDropped,
    /// F5.
    EventDuplicated,
    /// F6.
    StreamSkew,
    /// F7.
    WatchStall,
    /// F8.
    Compaction,
    /// F9.
    StaleServer,
    /// F10.
    Crash,
    /// F11.
    SecondController,
    /// F12.
    Clock,
    /// F13.
    NamespaceTermination,
    /// F14.
    Quota,
    /// F15.
    Admission,
    /// F16.
    StatusConflict,
    /// F17.
    PodKill,
    /// F18.
    NodeFailure,
    /// F19.
    Tampering,
    /// F20.
    SpecChange,
    /// F21.
    StuckPod,
    /// F22.
    Recreate,
    /// F23.
    ExpectationTimeout,
    /// F24.
    Overload,
    /// F25.
    LowerRetry,
    /// F26.
    EventSink,
}

impl FaultClass {
    /// Every class, in order of their numbers.
    pub const ALL: [FaultClass; 26] = [
        FaultClass::ApiError,
        FaultClass::AmbiguousWrite,
        FaultClass::PartialBatch,
        FaultClass::EventDropped,
        FaultClass::EventDuplicated,
        FaultClass::StreamSkew,
        FaultClass::WatchStall,
        FaultClass::Compaction,
        FaultClass::StaleServer,
        FaultClass::Crash,
        FaultClass::SecondController,
        FaultClass::Clock,
        FaultClass::NamespaceTermination,
        FaultClass::Quota,
        FaultClass::Admission,
        FaultClass::StatusConflict,
        FaultClass::PodKill,
        FaultClass::NodeFailure,
        FaultClass::Tampering,
        FaultClass::SpecChange,
        FaultClass::StuckPod,
        FaultClass::Recreate,
        FaultClass::ExpectationTimeout,
        FaultClass::Overload,
        FaultClass::LowerRetry,
        FaultClass::EventSink,
    ];

    /// Its number, 1 to 26: F1 to F26 of the reliability plan.
    pub fn number(self) -> usize {
        self as usize + 1
    }

    /// Its name, as flags, schedules and reports spell it.
    pub const fn name(self) -> &'static str {
        self.text().0
    }

    /// What it is, in one line.
    pub const fn description(self) -> &'static str {
        self.text().1
    }

    const fn text(self) -> (&'static str, &'static str) {
        match self {
            FaultClass::ApiError => ("api-error", "a call is refused before it changes anything"),
            FaultClass::AmbiguousWrite => (
                "ambiguous-write",
                "a write is committed, or may be yet, and its answer is lost",
            ),
            FaultClass::PartialBatch => {
                ("partial-batch", "one call in the middle of a batch fails")
            }
            FaultClass::EventDropped => (
                "event-dropped",
                "watch events are lost until the next list shows what they said",
            ),
            FaultClass::EventDuplicated => (
                "event-duplicated",
                "watch events come twice, or old ones come again",
            ),
            FaultClass::StreamSkew => ("stream-skew", "one of the two watches lags the other"),
            FaultClass::WatchStall => ("watch-stall", "all watches stall, then burst"),
            FaultClass::Compaction => (
                "compaction",
                "a watch ends, or its version is gone (410), and a new list is needed",
            ),
            FaultClass::StaleServer => (
                "stale-server",
                "lists and watches are served by a server that lags",
            ),
            FaultClass::Crash => ("crash", "the controller dies at any step and starts again"),
            FaultClass::SecondController => (
                "second-controller",
                "two controllers run at the same time for a while",
            ),
            FaultClass::Clock => (
                "clock",
                "the controller's clock jumps, or the process stops",
            ),
            FaultClass::NamespaceTermination => {
                ("namespace-termination", "a namespace is deleted under way")
            }
            FaultClass::Quota => ("quota", "a quota refuses pods, and is lifted later"),
            FaultClass::Admission => (
                "admission",
                "admission refuses, fails or changes what is to be created",
            ),
            FaultClass::StatusConflict => {
                ("status-conflict", "somebody else writes the status as well")
            }
            FaultClass::PodKill => ("pod-kill", "pods are deleted, end or fail in numbers"),
            FaultClass::NodeFailure => (
                "node-failure",
                "a node goes away with its pods, flaps, or refuses them",
            ),
            FaultClass::Tampering => (
                "tampering",
                "labels and owner references of pods are changed by others",
            ),
            FaultClass::SpecChange => (
                "spec-change",
                "templates change; ReplicaSets with overlapping selectors come",
            ),
            FaultClass::StuckPod => ("stuck-pod", "a finalizer keeps deleted pods for a while"),
            FaultClass::Recreate => (
                "recreate",
                "a ReplicaSet is deleted and created again under its name",
            ),
            FaultClass::ExpectationTimeout => (
                "expectation-timeout",
                "pod events stay away for longer than expectations last",
            ),
            FaultClass::Overload => ("overload", "calls take long, and one key fails constantly"),
            FaultClass::LowerRetry => (
                "lower-retry",
                "a layer below sends a request again by itself",
            ),
            FaultClass::EventSink => ("event-sink", "Events can't be written, or only slowly"),
        }
    }

    /// The class of that name or number (`crash`, `F10`).
    pub fn by_name(name: &str) -> Option<FaultClass> {
        FaultClass::ALL.into_iter().find(|class| {
            class.name() == name || name.eq_ignore_ascii_case(&format!("f{}", class.number()))
        })
    }
}

impl std::fmt::Display for FaultClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_found_by_its_name_and_by_its_number() {
        for (index, class) in FaultClass::ALL.into_iter().enumerate() {
            assert_eq!(class.number(), index + 1);
            assert_eq!(FaultClass::by_name(class.name()), Some(class));
            assert_eq!(FaultClass::by_name(&format!("F{}", index + 1)), Some(class));
            let written = serde_json::to_value(class).unwrap();
            assert_eq!(written, class.name());
        }
        assert_eq!(FaultClass::by_name("F27"), None);
        assert_eq!(FaultClass::by_name("earthquake"), None);
    }
}
