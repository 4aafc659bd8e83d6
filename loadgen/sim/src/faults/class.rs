//! The classes of faults: number, name and description of each.

use serde::{Deserialize, Serialize};

/// Declares the classes in order of their numbers: variant, name, description.
macro_rules! fault_classes {
    ($($variant:ident $name:literal $description:literal)+) => {
        /// A class of faults. A seed switches classes on and off, and hits are counted by class.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum FaultClass {
            $(#[doc = concat!("`", $name, "`: ", $description, ".")] $variant,)+
        }

        impl FaultClass {
            /// Every class, in order of their numbers.
            pub const ALL: [FaultClass; TEXTS.len()] = [$(FaultClass::$variant),+];
        }

        /// Name and description of each class.
        const TEXTS: [(&str, &str); [$($name),+].len()] = [$(($name, $description)),+];
    };
}

fault_classes! {
    ApiError "api-error" "a call is refused before it changes anything"
    AmbiguousWrite "ambiguous-write" "a write is committed, or may be yet, and its answer is lost"
    PartialBatch "partial-batch" "one call in the middle of a batch fails"
    EventDropped "event-dropped" "watch events are lost until the next list shows what they said"
    EventDuplicated "event-duplicated" "watch events come twice, or old ones come again"
    StreamSkew "stream-skew" "one of the two watches lags the other"
    WatchStall "watch-stall" "all watches stall, then burst"
    Compaction "compaction" "a watch ends, or its version is gone (410), and a new list is needed"
    StaleServer "stale-server" "lists and watches are served by a server that lags"
    Crash "crash" "the controller dies at any step and starts again"
    SecondController "second-controller" "two controllers run at the same time for a while"
    Clock "clock" "the controller's clock jumps, or the process stops"
    NamespaceTermination "namespace-termination" "a namespace is deleted under way"
    Quota "quota" "a quota refuses pods, and is lifted later"
    Admission "admission" "admission refuses, fails or changes what is to be created"
    StatusConflict "status-conflict" "somebody else writes the status as well"
    PodKill "pod-kill" "pods are deleted, end or fail in numbers"
    NodeFailure "node-failure" "a node goes away with its pods, flaps, or refuses them"
    Tampering "tampering" "labels and owner references of pods are changed by others"
    SpecChange "spec-change" "templates change; ReplicaSets with overlapping selectors come"
    StuckPod "stuck-pod" "a finalizer keeps deleted pods for a while"
    Recreate "recreate" "a ReplicaSet is deleted and created again under its name"
    ExpectationTimeout "expectation-timeout" "pod events stay away for longer than expectations last"
    Overload "overload" "calls take long, and one key fails constantly"
    LowerRetry "lower-retry" "a layer below sends a request again by itself"
    EventSink "event-sink" "Events can't be written, or only slowly"
}

impl FaultClass {
    /// The number, 1 to 26: F1 to F26 of the reliability plan.
    pub fn number(self) -> usize {
        self as usize + 1
    }

    /// The name in flags, schedules and reports.
    pub const fn name(self) -> &'static str {
        TEXTS[self as usize].0
    }

    /// The description, in one line.
    pub const fn description(self) -> &'static str {
        TEXTS[self as usize].1
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
