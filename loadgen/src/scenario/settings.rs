//! The settings of a run, declared once. Each field of [`ScenarioSettings`] is a flag of
//! `loadgen run`, a member of a scenario file with the same name, a property of the file's schema,
//! and a line of `--print-scenario`.
//!
//! The type of a field (`Size`, `Time`, `LatencyText` …) determines its syntax in flags and in
//! files. From the fields, the macro `settings!` generates the struct, [`ScenarioSettings::or`],
//! which overlays one set of settings on another, and [`ScenarioSettings::members`], which lists
//! the values. The origin of a value (flags, scenario or default) is therefore known until the sets
//! are merged.
//!
//! Resolved settings have a different type, `settings::Settings`: none of them is optional, the
//! sizes and the client limit are decided, and they have the form of published results.

use std::collections::BTreeMap;

use clap::Args;
use podstorm_sim::options::{UPSTREAM_BURST, UPSTREAM_QPS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::load_shape::Positive;
use super::row_flags::{self, RowFlags};
use crate::gates;
use crate::values::{
    BehaviourName, Bytes, Cores, EngineName, LatencyText, Percent, Rate, Size, Time,
};
use crate::workloads::SizedKind;

/// The type of a field of the settings.
pub(super) trait Member: Serialize + Sized {
    /// Reports whether the field has no value.
    fn is_unset(&self) -> bool;

    /// Returns this value, or `fallback` if it is not set.
    fn or(&self, fallback: &Self) -> Self;
}

impl<T: Clone + Serialize> Member for Option<T> {
    fn is_unset(&self) -> bool {
        self.is_none()
    }

    fn or(&self, fallback: &Self) -> Self {
        self.as_ref().or(fallback.as_ref()).cloned()
    }
}

impl Member for bool {
    fn is_unset(&self) -> bool {
        !self
    }

    fn or(&self, fallback: &bool) -> bool {
        *self || *fallback
    }
}

/// Feature gates as `NAME=BOOL,...`. A gate that is set here takes precedence over the fallback.
impl Member for Vec<String> {
    fn is_unset(&self) -> bool {
        self.is_empty()
    }

    fn or(&self, fallback: &Self) -> Self {
        let is_named = |given: &String| {
            let gate = given.split('=').next().unwrap_or_default();
            gates::names(self.iter().map(String::as_str), gate)
        };
        let others = fallback.iter().filter(|given| !is_named(given));
        others.chain(self).cloned().collect()
    }
}

/// Declares settings: the struct, and the methods that overlay and list the fields.
macro_rules! settings {
    ($(#[$about:meta])* pub struct $name:ident {
        $($(#[$meta:meta])* $field:ident: $type:ty,)*
    }) => {
        $(#[$about])*
        pub struct $name {
            $(
                $(#[$meta])*
                #[serde(skip_serializing_if = "Member::is_unset")]
                pub $field: $type,
            )*
        }

        impl $name {
            /// The names of the fields, in the order of their declaration.
            const FIELDS: &[&str] = &[$(stringify!($field)),*];

            /// Returns these settings, in which those that are not set come from `fallback`.
            pub fn or(&self, fallback: &$name) -> $name {
                $name {
                    $($field: Member::or(&self.$field, &fallback.$field),)*
                }
            }
        }
    };
}

pub(super) const SIZE: &str = "Size of the generated cluster";
pub(super) const CONTROLLER: &str = "Controller";
const LATENCIES: &str = "Latencies";

settings! {
    /// Settings by the long names of their flags; unset ones are absent.
    #[derive(Args, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case", deny_unknown_fields, default, remote = "Self")]
    pub struct ScenarioSettings {
        /// threads: real time on every core; virtual: simulated time, with the same result for the
        /// same seed [default: threads, unless the scenario sets virtual; for a sweep: virtual]
        #[arg(long, value_enum)]
        engine: Option<EngineName>,

        /// The seed of all random choices [default: 1]
        #[arg(long, value_name = "NUMBER")]
        seed: Option<u64>,

        /// OS threads of the threads engine [default: all cores]
        #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
        threads: Option<Size>,

        /// Pods at 100 % [default: 100k, unless the scenario sets another number]
        #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = SIZE)]
        pods: Option<Size>,

        /// The settings that rows declare.
        #[command(flatten)]
        #[serde(flatten, skip_deserializing)]
        #[schemars(!skip_deserializing)]
        rows: RowFlags,

        /// Nodes [default: pods/20, or the nodes of the files]
        #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = SIZE)]
        nodes: Option<Size>,

        /// Zones to spread generated nodes over, by label topology.kubernetes.io/zone [default:
        /// none]
        #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = SIZE)]
        zones: Option<Size>,

        /// Cores of a generated node, as a quantity: 4, 500m. Pods then fit by their requests
        /// [default: enough]
        #[arg(long, value_name = "QUANTITY", allow_hyphen_values = true, help_heading = SIZE)]
        node_cpu: Option<Cores>,

        /// Memory of a generated node, as a quantity of bytes: 64Gi. Pods then fit by their
        /// requests [default: enough]
        #[arg(long, value_name = "QUANTITY", allow_hyphen_values = true, help_heading = SIZE)]
        node_memory: Option<Bytes>,

        /// Namespaces [default: 100]
        #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = SIZE)]
        namespaces: Option<Size>,

        /// Start the stuck pods of files and new pods of their workloads, such as those that wait
        /// for an image or a node. By default they stay stuck
        #[arg(long)]
        start_stuck_pods: bool,

        /// Pods that fit on a node [default: 110]
        #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = SIZE)]
        pods_per_node: Option<Size>,

        /// Maximum number of creates or deletes per sync [default: 500]
        #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = CONTROLLER)]
        burst_replicas: Option<Size>,

        /// Requests per second of the controllers' client, including Events [default: the
        /// scenario's limit, or unlimited]
        #[arg(long, value_name = "NUMBER", value_parser = qps, allow_hyphen_values = true, help_heading = CONTROLLER)]
        kube_api_qps: Option<Positive>,

        /// Unused requests that the client may save up above --kube-api-qps [default: the
        /// scenario's, or 30]
        #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, help_heading = CONTROLLER)]
        kube_api_burst: Option<Size>,

        /// Use the client limit of a stock controller-manager, 20 QPS with burst 30, instead of the
        /// scenario's limit
        #[arg(long, help_heading = CONTROLLER)]
        upstream_defaults: bool,

        /// minReadySeconds of the generated workloads, with a unit: 10s [default: 0s]
        #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = CONTROLLER)]
        min_ready_seconds: Option<Time>,

        /// Feature gates.
        #[arg(long, value_name = "NAME=BOOL,...", help = gates::help(), help_heading = CONTROLLER)]
        #[serde(with = "gate_map")]
        #[schemars(with = "BTreeMap<String, bool>", description = gates::help())]
        feature_gates: Vec<String>,

        /// upstream: as in Kubernetes 1.36; hardened: without upstream's known races and delays, at
        /// the cost of some reads and waiting [default: upstream]
        #[arg(long, value_name = "NAME", help_heading = CONTROLLER)]
        behaviour: Option<BehaviourName>,

        /// Time from bound to ready of a pod [default: 0s]
        #[arg(long, value_name = "LATENCY", allow_hyphen_values = true, help_heading = LATENCIES)]
        pod_startup_latency: Option<LatencyText>,

        /// Time from the deletion of a pod until it no longer exists, limited by its grace period
        /// [default: 0s]
        #[arg(long, value_name = "LATENCY", allow_hyphen_values = true, help_heading = LATENCIES)]
        pod_termination_latency: Option<LatencyText>,

        /// Pods whose restart policy is not Always, including those of Jobs, end this long after
        /// their start [default: they keep running, unless they have a script]
        #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = LATENCIES)]
        pod_run_time: Option<Time>,

        /// The share of these pods, chosen at random, that fails with exit code 1: 5% [default: 0%]
        #[arg(long, value_name = "PERCENT", value_parser = share, allow_hyphen_values = true, help_heading = LATENCIES)]
        pod_failures: Option<Percent>,

        /// Round-trip time of an API call of the controllers [default: 0s]
        #[arg(long, value_name = "LATENCY", allow_hyphen_values = true, help_heading = LATENCIES)]
        api_latency: Option<LatencyText>,

        /// Share of the controllers' API calls, chosen at random, that fail with an internal error:
        /// 1% [default: 0%]
        #[arg(long, value_name = "PERCENT", value_parser = share, allow_hyphen_values = true, help_heading = LATENCIES)]
        api_errors: Option<Percent>,

        /// Time from a write until the controllers see it [default: 0s]
        #[arg(long, value_name = "LATENCY", allow_hyphen_values = true, help_heading = LATENCIES)]
        watch_latency: Option<LatencyText>,

        /// Time from the creation of a pod until it is bound [default: 0s]
        #[arg(long, value_name = "LATENCY", allow_hyphen_values = true, help_heading = LATENCIES)]
        scheduling_latency: Option<LatencyText>,

        /// Duration of the steady part of churn [default: 60s]
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        duration: Option<Time>,

        /// Give up after this time [default: 10m; virtual engine: 1d]
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        time_limit: Option<Time>,

        /// Rate at which pods are deleted from outside (scenario churn) [default: 100/s]
        #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
        churn_rate: Option<Rate>,

        /// Pods that are suddenly added and removed (scenario burst) [default: 500]
        #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
        burst: Option<Size>,
    }
}

impl Serialize for ScenarioSettings {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        ScenarioSettings::serialize(self, to)
    }
}

/// Serialization of feature gates in a file: a map from names to booleans.
mod gate_map {
    use super::{BTreeMap, Deserialize};
    use serde::{Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(gates: &[String], to: S) -> Result<S::Ok, S::Error> {
        let gates = gates.iter().filter_map(|given| given.split_once('='));
        let gates: BTreeMap<&str, bool> = gates.map(|(gate, on)| (gate, on == "true")).collect();
        gates.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
        let gates = BTreeMap::<String, bool>::deserialize(from)?;
        let gates = gates.iter().map(|(gate, on)| format!("{gate}={on}"));
        Ok(gates.collect())
    }
}

/// Parses the value of `--kube-api-qps`, whose range `settings::resolve` checks.
fn qps(text: &str) -> Result<Positive, &'static str> {
    match text.parse::<f64>() {
        Ok(qps) if qps.is_finite() && qps > 0.0 => Ok(Positive(qps)),
        Ok(0.0) => Err("must be more than zero; omit the flag for no limit"),
        Ok(_) => Err("must be a finite number greater than zero"),
        Err(_) => Err("expected a number of requests per second, such as 20"),
    }
}

/// Parses the value of `--api-errors` or `--pod-failures`, which can't exceed 100%, unlike other
/// percentages.
pub(crate) fn share(text: &str) -> Result<Percent, &'static str> {
    let share = text.parse().ok();
    share
        .filter(|share: &Percent| share.0 <= 1.0)
        .ok_or("expected a percentage from 0% to 100%, such as 1%")
}

impl ScenarioSettings {
    /// Returns every field by flag name, in the order of declaration. Fields that are not set are
    /// null.
    pub fn members(&self) -> Vec<(String, Value)> {
        let all = serde_json::to_value(self).expect("settings serialize to an object");
        let value = |name: &str| all.get(name).cloned().unwrap_or_default();
        let names = Self::names().into_iter();
        names.map(|name| (name.clone(), value(&name))).collect()
    }

    /// Returns the names of all flags, in the order of declaration.
    pub(super) fn names() -> Vec<String> {
        let of_field = |field: &&str| match *field {
            "rows" => row_flags::names().map(str::to_owned).collect(),
            field => vec![field.replace('_', "-")],
        };
        Self::FIELDS.iter().flat_map(of_field).collect()
    }

    /// Reports whether the flags also set one of these settings.
    pub(crate) fn is_given_by(&self, flags: &ScenarioSettings) -> bool {
        let own = self.members();
        let mut both = own.iter().zip(flags.members());
        both.any(|((_, own), (_, given))| !own.is_null() && !given.is_null())
            || flags.upstream_defaults && self.kube_api_qps.is_some()
    }

    /// Returns these settings of a scenario, overlaid with those of the flags. `has_input` says
    /// whether objects come from files. `kinds` are the kinds that the scenario generates, each
    /// with the flags that size it.
    pub(crate) fn under(
        &self,
        flags: &ScenarioSettings,
        has_input: bool,
        kinds: &[SizedKind],
    ) -> ScenarioSettings {
        let mut own = self.clone();
        // Each flag for the client limit replaces one number; `--upstream-defaults` replaces both.
        if own.upstream_defaults {
            own.kube_api_qps = Some(Positive(UPSTREAM_QPS));
            own.kube_api_burst = Some(Size(UPSTREAM_BURST.into()));
            own.upstream_defaults = false;
        }
        if flags.upstream_defaults {
            (own.kube_api_qps, own.kube_api_burst) = (None, None);
        }
        if has_input {
            // These settings apply only to generated objects, and files contain their own.
            own.min_ready_seconds = None;
            own.rows.forget_generated();
            own.pods = None;
            (own.nodes, own.namespaces) = (None, None);
        }
        // Two of pods, workloads and pods per workload determine the third: drop the scenario's
        // value for the third.
        let mut keeps_pods = false;
        for SizedKind { sizes, .. } in kinds {
            let is_given = [
                flags.pods.is_some(),
                flags.rows.has(sizes.count),
                flags.rows.has(sizes.each),
            ];
            let given = is_given.iter().filter(|is_given| **is_given).count();
            let mut left = 2 - given.min(2);
            let mut keeps = |is_given: bool, is_own: bool| {
                let keeps = is_own && !is_given && left > 0;
                left -= usize::from(keeps);
                keeps
            };
            keeps_pods |= keeps(is_given[0], own.pods.is_some());
            for (flag, is_given) in [(sizes.count, is_given[1]), (sizes.each, is_given[2])] {
                if !keeps(is_given, own.rows.has(flag)) {
                    own.rows.set(flag, None);
                }
            }
        }
        if !keeps_pods {
            own.pods = None;
        }
        flags.or(&own)
    }

    /// Checks that the client limit is consistent.
    ///
    /// # Errors
    /// The invalid field, and how to fix it.
    pub(super) fn check_client_limit(&self) -> Result<(), (String, String)> {
        let contradicts = |field: &str, means: String, says: String| {
            let problem = format!(
                "upstream-defaults sets {field} to {means}, but {field} is {says}: use only one of \
                 them"
            );
            Err((format!("settings.{field}"), problem))
        };
        if !self.upstream_defaults {
            return Ok(());
        }
        if let Some(qps) = self.kube_api_qps.filter(|qps| qps.0 != UPSTREAM_QPS) {
            return contradicts("kube-api-qps", UPSTREAM_QPS.to_string(), qps.0.to_string());
        }
        let other = |burst: &Size| burst.0 != u64::from(UPSTREAM_BURST);
        if let Some(burst) = self.kube_api_burst.filter(other) {
            let (means, says) = (UPSTREAM_BURST.to_string(), burst.0.to_string());
            return contradicts("kube-api-burst", means, says);
        }
        Ok(())
    }
}
