//! The settings of a run, declared once. Each field of [`ScenarioSettings`] is a flag of `loadgen run`, a
//! member of a scenario file under the flag's name, a property of the file's schema, and a line of
//! `--print-scenario`.
//!
//! The type of a field (`Size`, `Time`, `LatencyText` …) says how a value is read and written, in flags and in
//! files alike. The macro `settings!` makes from the fields the struct, [`ScenarioSettings::or`], which puts one
//! set of settings over another, and [`ScenarioSettings::members`], which says what is set. Where a value
//! comes from is therefore a question to the sets before they are merged: flags, scenario, or else a default.
//!
//! What a run comes to is another type, `settings::Settings`: nothing in it is optional, sizes and the client
//! limit are decided there, and its form is that of published results.

use std::collections::BTreeMap;

use clap::Args;
use podstorm_objects::Kind;
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
use crate::workloads::Sizes;

/// A field of the settings.
pub(super) trait Member: Serialize + Sized {
    /// Whether it is not set.
    fn is_unset(&self) -> bool;

    /// This value, or the fallback where it is not set.
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

/// Feature gates as `NAME=BOOL,...`. A gate that is named here is left out of the fallback.
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

/// Declares settings: the struct, and how one set of them is put over another.
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
            /// The names of the fields, in the order of declaration.
            const FIELDS: &[&str] = &[$(stringify!($field)),*];

            /// These settings, and those of the fallback where these are not set.
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
    /// Settings by the long names of their flags; absent where they are not set.
    #[derive(Args, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case", deny_unknown_fields, default, remote = "Self")]
    pub struct ScenarioSettings {
        /// threads: real time on every core; virtual: simulated time, the same result for the same seed
        /// [default: threads, unless the scenario says virtual; of a sweep: virtual]
        #[arg(long, value_enum)]
        engine: Option<EngineName>,

        /// The seed of everything that is drawn [default: 1]
        #[arg(long, value_name = "NUMBER")]
        seed: Option<u64>,

        /// Machine threads of the threads engine [default: all cores]
        #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
        threads: Option<Size>,

        /// Pods at 100 % [default: 100k, unless the scenario says otherwise]
        #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = SIZE)]
        pods: Option<Size>,

        /// What rows declare.
        #[command(flatten)]
        #[serde(flatten, skip_deserializing)]
        #[schemars(!skip_deserializing)]
        rows: RowFlags,

        /// Nodes [default: pods/20, or those of the files]
        #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = SIZE)]
        nodes: Option<Size>,

        /// Zones that generated nodes are in, in turn, by their label topology.kubernetes.io/zone [default: none]
        #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = SIZE)]
        zones: Option<Size>,

        /// Cores of a generated node, as a quantity: 4, 500m. What pods request must fit then [default: enough]
        #[arg(long, value_name = "QUANTITY", allow_hyphen_values = true, help_heading = SIZE)]
        node_cpu: Option<Cores>,

        /// Memory of a generated node, as a quantity of bytes: 64Gi. What pods request must fit then
        /// [default: enough]
        #[arg(long, value_name = "QUANTITY", allow_hyphen_values = true, help_heading = SIZE)]
        node_memory: Option<Bytes>,

        /// Namespaces [default: 100]
        #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = SIZE)]
        namespaces: Option<Size>,

        /// Start the pods of files that can't start, and new pods of their workloads: those that wait for an image
        /// or a node, for example. Without it they stay as they came
        #[arg(long)]
        start_stuck_pods: bool,

        /// Pods that fit on a node [default: 110]
        #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = SIZE)]
        pods_per_node: Option<Size>,

        /// Most creates or deletes in one sync [default: 500]
        #[arg(long, value_name = "SIZE", allow_hyphen_values = true, help_heading = CONTROLLER)]
        burst_replicas: Option<Size>,

        /// Requests per second of the controller's client, events included [default: those of the scenario,
        /// or unlimited]
        #[arg(long, value_name = "NUMBER", value_parser = qps, allow_hyphen_values = true, help_heading = CONTROLLER)]
        kube_api_qps: Option<Positive>,

        /// Requests above --kube-api-qps that may be saved up [default: those of the scenario, or 30]
        #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, help_heading = CONTROLLER)]
        kube_api_burst: Option<Size>,

        /// The client limit of a stock controller-manager: 20 QPS, burst 30, in place of both numbers of
        /// the scenario where it has a limit of its own
        #[arg(long, help_heading = CONTROLLER)]
        upstream_defaults: bool,

        /// minReadySeconds of the generated workloads, with its unit: 10s [default: 0s]
        #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = CONTROLLER)]
        min_ready_seconds: Option<Time>,

        /// Feature gates.
        #[arg(long, value_name = "NAME=BOOL,...", help = gates::help(), help_heading = CONTROLLER)]
        #[serde(with = "gate_map")]
        #[schemars(with = "BTreeMap<String, bool>", description = gates::help())]
        feature_gates: Vec<String>,

        /// Whose behaviour: upstream is that of Kubernetes 1.36; hardened is the same without the races and
        /// delays that upstream is known for, at the cost of some reads and waiting [default: upstream]
        #[arg(long, value_name = "NAME", help_heading = CONTROLLER)]
        behaviour: Option<BehaviourName>,

        /// From a pod's being bound to its being ready [default: 0s]
        #[arg(long, value_name = "LATENCY", allow_hyphen_values = true, help_heading = LATENCIES)]
        pod_startup_latency: Option<LatencyText>,

        /// From a pod's deletion to its being gone, its grace period at most [default: 0s]
        #[arg(long, value_name = "LATENCY", allow_hyphen_values = true, help_heading = LATENCIES)]
        pod_termination_latency: Option<LatencyText>,

        /// Pods whose restart policy is not Always, those of Jobs among them, end that long after their start
        /// [default: they run on, but for those with a script]
        #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = LATENCIES)]
        pod_run_time: Option<Time>,

        /// The share of these pods that fails, with exit code 1, at random: 5% [default: 0%]
        #[arg(long, value_name = "PERCENT", value_parser = share, allow_hyphen_values = true, help_heading = LATENCIES)]
        pod_failures: Option<Percent>,

        /// One API call of the controller, there and back [default: 0s]
        #[arg(long, value_name = "LATENCY", allow_hyphen_values = true, help_heading = LATENCIES)]
        api_latency: Option<LatencyText>,

        /// API calls of the controller that are refused with an internal error, at random: 1% [default: 0%]
        #[arg(long, value_name = "PERCENT", value_parser = share, allow_hyphen_values = true, help_heading = LATENCIES)]
        api_errors: Option<Percent>,

        /// From a write to the controller's seeing it [default: 0s]
        #[arg(long, value_name = "LATENCY", allow_hyphen_values = true, help_heading = LATENCIES)]
        watch_latency: Option<LatencyText>,

        /// From a pod's creation to its being bound [default: 0s]
        #[arg(long, value_name = "LATENCY", allow_hyphen_values = true, help_heading = LATENCIES)]
        scheduling_latency: Option<LatencyText>,

        /// How long the steady part of churn lasts [default: 60s]
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        duration: Option<Time>,

        /// Give up after this time [default: 10m; virtual engine: 1d]
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        time_limit: Option<Time>,

        /// Pods deleted from outside (scenario churn) [default: 100/s]
        #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
        churn_rate: Option<Rate>,

        /// Pods added and removed at once (scenario burst) [default: 500]
        #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
        burst: Option<Size>,
    }
}

impl Serialize for ScenarioSettings {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        ScenarioSettings::serialize(self, to)
    }
}

/// Feature gates in a file: a map from names to whether they are on.
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

/// Reads `--kube-api-qps`, whose range `settings::resolve` checks.
fn qps(text: &str) -> Result<Positive, &'static str> {
    match text.parse::<f64>() {
        Ok(qps) if qps.is_finite() && qps > 0.0 => Ok(Positive(qps)),
        Ok(0.0) => Err("must be more than zero; leave the flag out for no limit"),
        Ok(_) => Err("must be a finite number more than zero"),
        Err(_) => Err("expected a number of requests per second, such as 20"),
    }
}

/// Reads `--api-errors` and `--pod-failures`: unlike other percentages it can't be more than 100%.
pub(crate) fn share(text: &str) -> Result<Percent, &'static str> {
    let share = text.parse().ok();
    share
        .filter(|share: &Percent| share.0 <= 1.0)
        .ok_or("expected a percentage from 0% to 100%, such as 1%")
}

impl ScenarioSettings {
    /// Every field by the name of its flag, in the order of declaration; null where it is not set.
    pub fn members(&self) -> Vec<(String, Value)> {
        let all = serde_json::to_value(self).expect("names and texts make an object");
        let value = |name: &str| all.get(name).cloned().unwrap_or_default();
        let names = Self::names().into_iter();
        names.map(|name| (name.clone(), value(&name))).collect()
    }

    /// The names of the flags, in the order of declaration.
    pub(super) fn names() -> Vec<String> {
        let of_field = |field: &&str| match *field {
            "rows" => row_flags::names().map(str::to_owned).collect(),
            field => vec![field.replace('_', "-")],
        };
        Self::FIELDS.iter().flat_map(of_field).collect()
    }

    /// Whether flags give one of these settings too.
    pub(crate) fn is_given_by(&self, flags: &ScenarioSettings) -> bool {
        let own = self.members();
        let mut both = own.iter().zip(flags.members());
        both.any(|((_, own), (_, given))| !own.is_null() && !given.is_null())
            || flags.upstream_defaults && self.kube_api_qps.is_some()
    }

    /// These settings of a scenario under those of flags, `has_input` where files bring objects; `kinds` are those that
    /// the scenario generates, with the flags that size them.
    pub(crate) fn under(
        &self,
        flags: &ScenarioSettings,
        has_input: bool,
        kinds: &[(Kind, Sizes)],
    ) -> ScenarioSettings {
        let mut own = self.clone();
        // Each flag of the client limit replaces what it names; --upstream-defaults names both.
        if own.upstream_defaults {
            own.kube_api_qps = Some(Positive(UPSTREAM_QPS));
            own.kube_api_burst = Some(Size(UPSTREAM_BURST.into()));
            own.upstream_defaults = false;
        }
        if flags.upstream_defaults {
            (own.kube_api_qps, own.kube_api_burst) = (None, None);
        }
        if has_input {
            // Files say what there is. Only what is generated takes these.
            own.min_ready_seconds = None;
            own.rows.forget_generated();
            own.pods = None;
            (own.nodes, own.namespaces) = (None, None);
        }
        // Of pods, workloads and pods of each two decide; the scenario's third is left out.
        let mut keeps_pods = false;
        for (_, sizes) in kinds {
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

    /// Whether the client limit contradicts itself.
    ///
    /// # Errors
    /// The field, and what to do about it.
    pub(super) fn check_client_limit(&self) -> Result<(), (String, String)> {
        let contradicts = |field: &str, means: String, says: String| {
            let problem = format!(
                "upstream-defaults means {field} {means}, and {field} says {says}: leave one of \
                 them out"
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
