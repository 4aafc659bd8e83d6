//! The effective settings by flag name: the output of `--print-scenario`, and the command that
//! repeats a run.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serializer;
use serde_json::{Value, json};

use crate::input::InputSize;
use crate::metrics::Threshold;
use crate::scenario::{Positive, RowFlags, Scenario, ScenarioSettings};
use crate::settings::resolve::{Machine, SettingsRequest, resolve};
use crate::settings::{EngineKind, Settings};
use crate::units::{NS_PER_SECOND, shell_path, shell_word};
use crate::values::{BehaviourName, EngineName, LatencyText, Percent, Rate, Size, Time};
use crate::workloads;
use crate::workloads::flags::{Flag, FlagValue};

/// Returns the flags that produce these settings, except those without effect on the run.
fn flags(settings: &Settings, has_files: bool) -> ScenarioSettings {
    let size = |count: u64| Some(Size(count));
    let (scenario, controller) = (&settings.scenario, &settings.controller);
    let (cluster, latency) = (&settings.size, &settings.latency);
    let gates = controller.feature_gates.iter();
    let min_ready_ns = i64::from(settings.min_ready_seconds) * NS_PER_SECOND;
    let mut rows = RowFlags::of_workers(&controller.workers);
    for (flag, ns) in &settings.controller_times {
        rows.set(flag, Some(FlagValue::Time(Time(*ns))));
    }
    if !has_files {
        let is_created = |flag: &Flag| {
            let mut created = workloads::ALL
                .into_iter()
                .filter(|it| settings.creates(*it));
            created.any(|workload| workload.flags().contains(flag))
        };
        for (flag, value) in settings.workloads.filled(is_created) {
            rows.set(flag, (value != FlagValue::Switch(false)).then_some(value));
        }
        // Without a total, the scenario's groups determine the numbers of workloads; no flag can.
        if cluster.pods_asked.is_none() {
            for it in &cluster.counts.0 {
                rows.set(it.sizes.count, Some(FlagValue::Size(Size(it.count))));
            }
        }
        if scenario.is_mixed() {
            for (it, &(_, each)) in cluster.counts.0.iter().zip(&cluster.groups) {
                let each = Size(u64::try_from(each).unwrap_or(0));
                rows.set(it.sizes.each, Some(FlagValue::Size(each)));
            }
        }
    }
    ScenarioSettings {
        engine: Some(EngineName(settings.engine)),
        seed: Some(settings.seed),
        threads: size(settings.threads as u64).filter(|_| settings.engine == EngineKind::Threads),
        duration: scenario
            .uses_duration()
            .then_some(Time(settings.duration_ns)),
        churn_rate: scenario
            .uses_churn_rate()
            .then_some(Rate(settings.churn_pods_per_second)),
        burst: size(settings.burst_pods.into()).filter(|_| scenario.uses_burst()),
        time_limit: Some(Time(settings.time_limit_ns)),
        pods: size(cluster.pods_asked.unwrap_or(cluster.pods))
            .filter(|_| !has_files && !scenario.is_mixed()),
        nodes: size(cluster.nodes).filter(|nodes| !has_files || nodes.0 > 0),
        zones: cluster.zones.map(Size),
        node_cpu: cluster.node_cpu.clone(),
        node_memory: cluster.node_memory.clone(),
        namespaces: size(cluster.namespaces).filter(|_| !has_files),
        start_stuck_pods: settings.start_stuck_pods,
        pods_per_node: size(cluster.pods_per_node.into()),
        rows,
        burst_replicas: size(controller.burst_replicas.into()),
        kube_api_qps: controller.kube_api_qps.map(Positive),
        kube_api_burst: size(controller.kube_api_burst.into())
            .filter(|_| controller.kube_api_qps.is_some()),
        upstream_defaults: false,
        min_ready_seconds: (!has_files).then_some(Time(min_ready_ns)),
        feature_gates: gates.map(|(gate, on)| format!("{gate}={on}")).collect(),
        behaviour: Some(BehaviourName(settings.behaviour)),
        pod_startup_latency: Some(LatencyText(latency.pod_startup)),
        pod_termination_latency: Some(LatencyText(latency.pod_termination)),
        api_latency: Some(LatencyText(latency.api)),
        api_errors: Some(Percent(settings.api_errors)),
        pod_run_time: settings.pod_run_time_ns.map(Time),
        pod_failures: (settings.pod_failures > 0.0).then_some(Percent(settings.pod_failures)),
        watch_latency: Some(LatencyText(latency.watch)),
        scheduling_latency: Some(LatencyText(latency.scheduling)),
    }
}

/// The settings that come first in the output; the others follow in the order of their declaration.
const FIRST: [&str; 9] = [
    "scenario",
    "engine",
    "seed",
    "threads",
    "duration",
    "churn-rate",
    "burst",
    "time-limit",
    "filename",
];

/// Returns every setting that affects the run, by flag name. Null means "not limited".
pub(super) fn settings(settings: &Settings, files: &[PathBuf]) -> Vec<(String, Value)> {
    let number = |value: Value| {
        let number = value.as_str().and_then(|text| text.parse::<u64>().ok());
        number.map_or(value, Value::from)
    };
    let files = files.iter().map(|file| json!(file.display().to_string()));
    let files: Vec<Value> = files.collect();
    let scenario = json!(scenario_word(settings));
    let mut all = flags(settings, !files.is_empty()).members();
    all.retain(|(name, value)| !value.is_null() || name == "kube-api-qps");
    for (_, value) in &mut all {
        *value = number(value.take());
    }
    all.push(("scenario".to_owned(), scenario));
    if !files.is_empty() {
        all.push(("filename".to_owned(), json!(files)));
    }
    let place = |name: &str| FIRST.iter().position(|first| *first == name);
    all.sort_by_key(|(name, _)| place(name).unwrap_or(FIRST.len()));
    all
}

/// Returns the names and values of the settings, formatted for readers.
pub(super) fn shown(given: &Settings, files: &[PathBuf]) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => "unlimited".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(scalar).collect();
            items.join(", ")
        }
        Value::Object(members) => {
            let members = members.iter();
            let members: Vec<String> = members
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            members.join(", ")
        }
        value => value.to_string(),
    };
    let all = settings(given, files);
    all.iter()
        .map(|(name, value)| (name.clone(), text(value)))
        .collect()
}

/// Formats the settings as YAML, one per line.
pub(super) fn yaml(settings: &[(String, Value)]) -> String {
    let mut text = String::new();
    for (name, value) in settings {
        match value {
            Value::Object(members) => {
                text.push_str(&format!("{name}:\n"));
                for (member, value) in members {
                    text.push_str(&format!("  {member}: {}\n", scalar(value)));
                }
            }
            Value::Array(items) => {
                text.push_str(&format!("{name}:\n"));
                for item in items {
                    text.push_str(&format!("- {}\n", scalar(item)));
                }
            }
            Value::Null => text.push_str(&format!("{name}: null  # unlimited\n")),
            value => text.push_str(&format!("{name}: {}\n", scalar(value))),
        }
    }
    text
}

/// Formats a scalar as YAML: the same as in JSON, but without quotes where YAML needs none.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        value => value.to_string(),
    }
}

/// Reports whether YAML parses the unquoted string as this same string: a letter followed by plain
/// characters, or digits followed by a unit.
fn is_plain(text: &str) -> bool {
    let safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'/' | b'_');
    let ambiguous = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let lower = text.to_ascii_lowercase();
    text.bytes().all(safe)
        && text.ends_with(|c: char| c.is_ascii_alphabetic())
        && !text.starts_with(['-', '.', '/'])
        && !ambiguous.contains(&lower.as_str())
        && !lower.starts_with("0x")
}

/// Formats the settings as indented JSON, in the same order.
pub(super) fn json(settings: &[(String, Value)]) -> String {
    let mut bytes = Vec::new();
    serde_json::Serializer::pretty(&mut bytes)
        .collect_map(settings.iter().map(|(name, value)| (name, value)))
        .expect("writing to a Vec does not fail, and the keys are strings");
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

/// The settings that together determine the size of the cluster.
const SIZES: [&str; 4] = ["burst", "pods", "nodes", "pods-per-node"];

/// Returns the command that repeats a run. It has every setting that the scenario, the engine and
/// the files don't imply, as numbers and names that parse to the same settings.
pub(super) fn command(given: &Settings, files: &[PathBuf]) -> String {
    let mut command = String::from("loadgen run");
    let mut add = |flag: &str, value: &str| {
        command.push_str(&format!(" --{flag} {}", shell_word(value)));
    };
    let scenario = &given.scenario;
    let is_manifests = scenario.path.is_none() && scenario.name == Scenario::manifests().name;
    let baseline = SettingsRequest {
        scenario: Some(Arc::clone(&given.scenario)),
        input: (!files.is_empty()).then(InputSize::default),
        settings: ScenarioSettings {
            engine: Some(EngineName(given.engine)),
            ..ScenarioSettings::default()
        },
        ..SettingsRequest::default()
    };
    let baseline =
        resolve(&baseline, Machine::with_cpus(0)).map(|defaults| settings(&defaults, files));
    let baseline = baseline.unwrap_or_default();
    let default_gates = baseline.iter().find(|(name, _)| name == "feature-gates");
    let default_gates = default_gates.and_then(|(_, gates)| gates.as_object());
    let all = settings(given, files);
    let differs = |name: &str, value: &Value| {
        let mut baseline = baseline.iter();
        !baseline.any(|(other, default)| other == name && default == value)
    };
    // The default of each size depends on the other sizes: set all of them, or none.
    let mut counts: Vec<&str> = Vec::new();
    for it in &given.size.counts.0 {
        counts.push(it.sizes.count);
        counts.extend(scenario.is_mixed().then_some(it.sizes.each));
    }
    let is_size = |name: &str| SIZES.contains(&name) || counts.contains(&name);
    let mut sizes = all.iter().filter(|(name, _)| is_size(name));
    let is_sized = sizes.any(|(name, value)| differs(name, value));
    for (name, value) in &all {
        match (&**name, value) {
            // Readers look for the seed and the scenario, so they are always shown.
            ("scenario", Value::String(scenario)) if !is_manifests => add(name, scenario),
            // The default number of threads depends on the machine. Files with nodes set the
            // default number of generated nodes to 0.
            ("seed" | "threads", value) => add(name, &value.to_string()),
            ("nodes", value) if !files.is_empty() => add(name, &value.to_string()),
            ("pods" | "nodes", value) if is_sized => add(name, &value.to_string()),
            (name, value) if is_sized && counts.contains(&name) => add(name, &value.to_string()),
            ("engine", Value::String(engine))
                if given.engine == EngineKind::Virtual || scenario.settings.engine.is_some() =>
            {
                add(name, engine);
            }
            // The files come last, as `-f`.
            ("scenario" | "filename", _) | (_, Value::Null) => {}
            (name, value) if !differs(name, value) => {}
            ("feature-gates", Value::Object(gates)) => {
                let all: Vec<String> = gates
                    .iter()
                    .filter(|(gate, on)| default_gates.and_then(|all| all.get(*gate)) != Some(*on))
                    .map(|(gate, on)| format!("{gate}={on}"))
                    .collect();
                add(name, &all.join(","));
            }
            (_, Value::String(text)) => add(name, text),
            (_, value) => add(name, &value.to_string()),
        }
    }
    for file in files {
        command.push_str(&format!(" -f {}", shell_path(file)));
    }
    command
}

/// Formats thresholds as flags that can be appended to a command.
pub(super) fn thresholds(thresholds: &[Threshold]) -> String {
    let words = thresholds.iter().map(|threshold| {
        let word = shell_word(&threshold.to_string());
        format!(" --threshold {word}")
    });
    words.collect()
}

/// Returns the value of `--scenario` that selects the scenario of these settings.
fn scenario_word(settings: &Settings) -> &str {
    let scenario = &settings.scenario;
    scenario.path.as_deref().unwrap_or(&scenario.name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser as _;
    use podstorm_objects::Kind;

    use super::super::{Cli, Command};
    use super::*;

    fn resolved(flags: &str) -> Settings {
        Settings::of_flags(flags, 2).unwrap()
    }

    /// Resolves the settings of a run with these flags and with files of this size.
    fn beside(input: InputSize, flags: &str) -> Settings {
        let request = SettingsRequest::read(flags.split_whitespace()).unwrap();
        resolve(&request.with_input(Some(input)), Machine::with_cpus(2)).unwrap()
    }

    #[test]
    fn the_command_has_the_seed_and_what_differs() {
        let flags = "--scenario up-down --engine virtual --seed 7 --kube-api-qps 20 --feature-gates \
                     PodDeletionCost=false --pods 1000";
        let command = command(&resolved(flags), &[]);
        assert_eq!(
            command,
            "loadgen run --scenario up-down --engine virtual --seed 7 --pods 1000 \
             --replicasets 20 --nodes 50 --kube-api-qps 20.0 --kube-api-burst 30 --feature-gates \
             PodDeletionCost=false"
        );
    }

    /// Parses the flags of a command, on a machine with `cpus` cores.
    fn read_back(command: &str, cpus: usize, input: Option<InputSize>) -> Settings {
        let words = command.split(' ').map(|word| word.trim_matches('\''));
        let flags = Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{command}: {error}"));
        let Command::Run(flags) = flags.command else {
            panic!("{command}");
        };
        let settings = resolve(&flags.shape.with_input(input), Machine::with_cpus(cpus));
        settings.unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    #[test]
    fn the_command_parses_to_the_same_settings() {
        for flags in [
            "",
            "--scenario up-down",
            "--scenario up-down --threads 1",
            "--pods 1m --replicasets 2k",
            "--pods 1k --nodes 5k",
            "--replicasets 10",
            "--scenario burst --burst 200k --nodes 15k",
            "--pods-per-node 10",
            "--zones 3",
            "--node-cpu 0.5 --node-memory 1.5Gi",
            "--scenario cl2-load",
            "--scenario cl2-load --pods 4k --seed 5",
            "--scenario cl2-load --engine threads --threads 1",
            "--scenario cl2-load --kube-api-qps 50",
            "--scenario cl2-load --kube-api-qps 100",
            "--scenario cl2-load --kube-api-burst 7",
            "--scenario cl2-load --upstream-defaults",
            "--scenario kubelet-reject --kube-api-qps 50",
            "--scenario churn --churn-rate 7/m --time-limit 30s",
            "--scenario stale-watch --feature-gates StaleControllerConsistencyReplicaSet=true",
            "--scenario stale-watch --feature-gates PodDeletionCost=false,WatchListClient=false",
            "--scenario slow-api --api-errors 33.333333333% --api-latency 5ms",
            "--min-ready-seconds 3s --watch-latency uniform:1ms,5ms --behaviour hardened",
        ] {
            let given = format!("loadgen run {flags}");
            let settings = read_back(given.trim(), 2, None);
            let command = command(&settings, &[]);
            assert_eq!(
                read_back(&command, 96, None),
                settings,
                "{given}: {command}"
            );
        }
    }

    #[test]
    fn with_files_the_command_has_the_nodes_and_the_scenario() {
        let input = InputSize {
            pods: 10,
            owners: 1,
            workloads: BTreeSet::from([Kind::REPLICA_SET]),
            nodes: 2,
            namespaces: 1,
            places: 220,
            nodes_without_capacity: 0,
            ..InputSize::default()
        };
        let files = [PathBuf::from("dump.json")];
        for (flags, is_named) in [
            ("", false),
            ("--nodes 1", false),
            ("--scenario recreate --nodes 3", true),
            ("--scenario manifests", false),
        ] {
            let settings = beside(input.clone(), flags);
            let command = command(&settings, &files);
            assert_eq!(
                read_back(&command, 96, Some(input.clone())),
                settings,
                "{command}"
            );
            assert_eq!(command.contains("--scenario"), is_named, "{command}");
        }
    }

    #[test]
    fn groups_keep_the_requested_number_of_pods() {
        let settings = resolved("--scenario cl2-load --pods 400");
        assert_eq!(settings.size.pods, 540, "250 + 3 x 30 + 40 x 5");
        let command = command(&settings, &[]);
        assert!(command.contains(" --pods 400 --nodes 100"), "{command}");
        assert!(!command.contains("--replicasets"), "{command}");
    }

    #[test]
    fn the_command_has_the_size_of_each_kind() {
        for flags in [
            "",
            "--pods 403",
            "--pods 400 --statefulsets 3",
            "--completions 7 --nodes 300",
        ] {
            let given = format!("loadgen run --scenario node-drain {flags}");
            let settings = read_back(given.trim(), 2, None);
            let command = command(&settings, &[]);
            assert_eq!(
                read_back(&command, 96, None),
                settings,
                "{given}: {command}"
            );
            assert!(!command.contains("--pods "), "{command}");
        }
        let command = command(&resolved("--scenario node-drain --pods 403"), &[]);
        let sizes = " --batch-jobs 25 --completions 4";
        assert!(command.contains(sizes), "{command}");
    }

    #[test]
    fn file_names_are_quoted_for_a_shell() {
        let settings = beside(InputSize::default(), "");
        let names = ["my web.yaml", "it's", "two\nlines", "-"];
        let command = command(&settings, &names.map(PathBuf::from));
        let end = r" -f 'my web.yaml' -f 'it'\''s' -f $'two\x0alines' -f -";
        assert!(command.ends_with(end), "{command}");
        assert!(!command.contains("--scenario"), "{command}");
    }

    #[test]
    fn yaml_and_json_have_the_same_settings() {
        let settings = settings(&resolved(""), &[]);
        let json: Value = serde_json::from_str(&json(&settings)).unwrap();
        let yaml: Value = serde_saphyr::from_str(&yaml(&settings)).unwrap();
        assert_eq!(json, yaml);
        assert_eq!(json["pods"], 100_000);
    }
}
