//! The fault classes, with the number, name and description of each.

use serde::{Deserialize, Serialize};

/// Declares the classes in the order of their numbers, each with its variant, name and description.
macro_rules! fault_classes {
    ($($variant:ident $name:literal $description:literal)+) => {
        /// A class of faults. The seed of a run decides which classes are enabled, and hits are
        /// counted by class.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum FaultClass {
            $(#[doc = concat!("`", $name, "`: ", $description, ".")] $variant,)+
        }

        impl FaultClass {
            /// Every class, in the order of the numbers.
            pub const ALL: [FaultClass; TEXTS.len()] = [$(FaultClass::$variant),+];
        }

        /// The name and description of each class.
        const TEXTS: [(&str, &str); [$($name),+].len()] = [$(($name, $description)),+];
    };
}

fault_classes! {
    ApiError "api-error" "a call fails before it changes anything"
    AmbiguousWrite "ambiguous-write" "a write is committed, or may be later, and its answer is lost"
    PartialBatch "partial-batch" "one call in the middle of a batch fails"
    EventDropped "event-dropped" "watch events are lost until the next list restores the state"
    EventDuplicated "event-duplicated" "watch events are delivered twice, or old ones are replayed"
    StreamSkew "stream-skew" "one of the two watches lags the other"
    WatchStall "watch-stall" "all watches stall, then burst"
    Compaction "compaction" "a watch ends or its version expires (410), which forces a new list"
    StaleServer "stale-server" "lists and watches are served by a server that lags"
    Crash "crash" "the controller crashes at any step and restarts"
    SecondController "second-controller" "two controllers run at the same time for a while"
    Clock "clock" "the controller's clock jumps, or the process stops"
    NamespaceTermination "namespace-termination" "a namespace is deleted during the run"
    Quota "quota" "a quota rejects pods, and is lifted later"
    Admission "admission" "admission rejects new objects, fails or changes them"
    StatusConflict "status-conflict" "another client also writes the status"
    PodKill "pod-kill" "many pods are deleted, finish or fail"
    NodeFailure "node-failure" "a node disappears with its pods, flaps or rejects them"
    Tampering "tampering" "other clients change labels and owner references of pods"
    SpecChange "spec-change" "templates change, and ReplicaSets with overlapping selectors appear"
    StuckPod "stuck-pod" "a finalizer keeps deleted pods for a while"
    Recreate "recreate" "a ReplicaSet is deleted and recreated under the same name"
    ExpectationTimeout "expectation-timeout" "pod events are delayed until expectations expire"
    Overload "overload" "calls are slow, and one key always fails"
    LowerRetry "lower-retry" "a lower layer retries a request on its own"
    EventSink "event-sink" "writes of Events fail or are slow"
}

impl FaultClass {
    /// Returns the number of the class, 1 to 26: F1 to F26 of the reliability plan.
    pub fn number(self) -> usize {
        self as usize + 1
    }

    /// Returns the name of the class in flags, schedules and reports.
    pub const fn name(self) -> &'static str {
        TEXTS[self as usize].0
    }

    /// Returns the description of the class, one line.
    pub const fn description(self) -> &'static str {
        TEXTS[self as usize].1
    }

    /// Returns the class with the given name or number (`crash`, `F10`); `None` if there is none.
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
    fn a_class_is_found_by_name_or_number() {
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
