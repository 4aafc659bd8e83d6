//! Settings under the names of their flags: what `--print-scenario` shows, and the command that
//! repeats a run.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serializer;
use serde::ser::SerializeMap;
use serde_json::{Value, json};

use crate::metrics::Threshold;
use crate::scenario::{Percent, Scenario};
use crate::settings::resolve::{Machine, SettingsRequest, resolve};
use crate::settings::{EngineKind, Settings};
use crate::size::InputSize;
use crate::units::{NS_PER_SECOND, duration_text, latency_text, shell_path, shell_word};

/// Every setting that bears on the run, by the name of its flag; null is "not limited".
pub(super) fn settings(settings: &Settings, files: &[PathBuf]) -> Vec<(&'static str, Value)> {
    let latency = |latency| json!(latency_text(latency));
    let scenario = &settings.scenario;
    let mut all = vec![
        ("scenario", json!(scenario_word(settings))),
        ("engine", json!(settings.engine.name())),
        ("seed", json!(settings.seed)),
    ];
    if settings.engine == EngineKind::Threads {
        all.push(("threads", json!(settings.threads)));
    }
    if scenario.uses_duration() {
        all.push(("duration", json!(duration_text(settings.duration_ns))));
    }
    if scenario.uses_churn_rate() {
        let rate = format!("{}/s", settings.churn_pods_per_second);
        all.push(("churn-rate", json!(rate)));
    }
    if scenario.uses_burst() {
        all.push(("burst", json!(settings.burst_pods)));
    }
    all.push(("time-limit", json!(duration_text(settings.time_limit_ns))));
    if !files.is_empty() {
        let files: Vec<String> = files
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        all.push(("filename", json!(files)));
        if settings.size.nodes > 0 {
            all.push(("nodes", json!(settings.size.nodes)));
        }
    } else {
        let size = &settings.size;
        match size.pods_asked {
            // The scenario's groups say how many ReplicaSets that makes, and --replicasets can't.
            Some(pods) => all.push(("pods", json!(pods))),
            None => all.extend([
                ("pods", json!(size.pods)),
                ("replicasets", json!(size.replicasets)),
            ]),
        }
        all.extend([
            ("nodes", json!(size.nodes)),
            ("namespaces", json!(size.namespaces)),
        ]);
    }
    all.push(("pods-per-node", json!(settings.size.pods_per_node)));
    let controller = &settings.controller;
    all.extend([
        (
            "concurrent-replicaset-syncs",
            json!(controller.concurrent_replicaset_syncs),
        ),
        ("concurrent-rc-syncs", json!(controller.concurrent_rc_syncs)),
        ("burst-replicas", json!(controller.burst_replicas)),
        ("kube-api-qps", json!(controller.kube_api_qps)),
    ]);
    if controller.kube_api_qps.is_some() {
        all.push(("kube-api-burst", json!(controller.kube_api_burst)));
    }
    if files.is_empty() {
        let min_ready_ns = i64::from(settings.min_ready_seconds) * NS_PER_SECOND;
        all.push(("min-ready-seconds", json!(duration_text(min_ready_ns))));
    }
    all.extend([
        ("feature-gates", json!(controller.feature_gates)),
        ("behaviour", json!(settings.behaviour.as_str())),
        ("pod-startup-latency", latency(settings.latency.pod_startup)),
        (
            "pod-termination-latency",
            latency(settings.latency.pod_termination),
        ),
        ("api-latency", latency(settings.latency.api)),
        ("api-errors", json!(Percent(settings.api_errors))),
        ("watch-latency", latency(settings.latency.watch)),
        ("scheduling-latency", latency(settings.latency.scheduling)),
    ]);
    all
}

/// The settings as a reader is shown them: name and value.
pub(super) fn shown(given: &Settings, files: &[PathBuf]) -> Vec<(&'static str, String)> {
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
        .map(|(name, value)| (*name, text(value)))
        .collect()
}

/// The settings as YAML, one line each.
pub(super) fn yaml(settings: &[(&'static str, Value)]) -> String {
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

/// A scalar as YAML: JSON's own form, without quotes where they say nothing.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        value => value.to_string(),
    }
}

/// Whether YAML reads the unquoted text as that text: a letter, then nothing special; or digits
/// that end in a unit.
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

/// The settings as indented JSON, in the same order.
pub(super) fn json(settings: &[(&'static str, Value)]) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::pretty(&mut bytes);
    let mut write = || {
        let mut map = serializer.serialize_map(Some(settings.len()))?;
        for (name, value) in settings {
            map.serialize_entry(name, value)?;
        }
        SerializeMap::end(map)
    };
    write().expect("a Vec takes everything and the keys are texts");
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

/// What decides together how large the cluster is.
const SIZES: [&str; 5] = ["burst", "pods", "replicasets", "nodes", "pods-per-node"];

/// The command that repeats a run: every setting that the scenario, the engine and the files don't
/// imply, as numbers and names that are read back as the same settings.
pub(super) fn command(given: &Settings, files: &[PathBuf]) -> String {
    let mut command = String::from("loadgen run");
    let mut add = |flag: &str, value: &str| {
        command.push_str(&format!(" --{flag} {}", shell_word(value)));
    };
    let scenario = &given.scenario;
    let is_manifests = scenario.path.is_none() && scenario.name == Scenario::manifests().name;
    let baseline = SettingsRequest {
        scenario: Some(Arc::clone(&given.scenario)),
        engine: Some(given.engine),
        input: (!files.is_empty()).then(InputSize::default),
        ..SettingsRequest::default()
    };
    let machine = Machine {
        cpus: 0,
        memory_bytes: None,
    };
    let baseline = resolve(&baseline, machine).map(|defaults| settings(&defaults, files));
    let baseline = baseline.unwrap_or_default();
    let default_gates = baseline.iter().find(|(name, _)| *name == "feature-gates");
    let default_gates = default_gates.and_then(|(_, gates)| gates.as_object());
    let all = settings(given, files);
    let differs = |name: &str, value: &Value| {
        let mut baseline = baseline.iter();
        !baseline.any(|(other, default)| *other == name && default == value)
    };
    // What one of the sizes is by default depends on the others.
    let is_sized = all
        .iter()
        .any(|(name, value)| SIZES.contains(name) && differs(name, value));
    for (name, value) in &all {
        let name = *name;
        match (name, value) {
            // The seed and the scenario are what one looks for; they are always said.
            ("scenario", Value::String(scenario)) if !is_manifests => add(name, scenario),
            // By default there are as many threads as the machine has cores, and where files bring
            // nodes none is generated.
            ("seed" | "threads", value) => add(name, &value.to_string()),
            ("nodes", value) if !files.is_empty() => add(name, &value.to_string()),
            ("pods" | "replicasets" | "nodes", value) if is_sized => add(name, &value.to_string()),
            ("engine", Value::String(engine))
                if given.engine == EngineKind::Virtual || scenario.settings.engine.is_some() =>
            {
                add(name, engine);
            }
            // The files come last, with -f.
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

/// The thresholds of flags, to be put after a command.
pub(super) fn thresholds(thresholds: &[Threshold]) -> String {
    let words = thresholds.iter().map(|threshold| {
        let word = shell_word(&threshold.to_string());
        format!(" --threshold {word}")
    });
    words.collect()
}

/// What `--scenario` takes to mean this one.
fn scenario_word(settings: &Settings) -> &str {
    let scenario = &settings.scenario;
    scenario.path.as_deref().unwrap_or(&scenario.name)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::{Cli, Command};
    use super::*;
    use crate::size::SizeRequest;

    fn resolved(request: &SettingsRequest) -> Settings {
        let machine = Machine {
            cpus: 2,
            memory_bytes: None,
        };
        resolve(request, machine).unwrap()
    }

    #[test]
    fn the_command_says_what_differs_and_the_seed() {
        let request = SettingsRequest {
            engine: Some(EngineKind::Virtual),
            seed: Some(7),
            kube_api_qps: Some(20.0),
            feature_gates: vec!["PodDeletionCost=false".into()],
            size: SizeRequest {
                pods: Some(1000),
                ..SizeRequest::default()
            },
            ..SettingsRequest::default()
        };
        let command = command(&resolved(&request), &[]);
        assert_eq!(
            command,
            "loadgen run --scenario up-down --engine virtual --seed 7 --pods 1000 \
             --replicasets 20 --nodes 50 --kube-api-qps 20.0 --kube-api-burst 30 --feature-gates \
             PodDeletionCost=false"
        );
    }

    /// What a command's text means on a machine with so many cores.
    fn read_back(command: &str, cpus: usize, input: Option<InputSize>) -> Settings {
        let words = command.split(' ').map(|word| word.trim_matches('\''));
        let flags = Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{command}: {error}"));
        let Command::Run(flags) = flags.command else {
            panic!("{command}");
        };
        let machine = Machine {
            cpus,
            memory_bytes: None,
        };
        let settings = resolve(&flags.shape.request(input), machine);
        settings.unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    #[test]
    fn the_command_is_read_back_as_the_same_settings() {
        for flags in [
            "",
            "--threads 1",
            "--pods 1m --replicasets 2k",
            "--pods 1k --nodes 5k",
            "--replicasets 10",
            "--scenario burst --burst 200k --nodes 15k",
            "--pods-per-node 10",
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
    fn the_command_names_the_nodes_beside_files_and_the_scenario_over_them() {
        let input = InputSize {
            pods: 10,
            owners: 1,
            replication_controllers: 0,
            nodes: 2,
            namespaces: 1,
            places: 220,
            nodes_without_capacity: 0,
        };
        let files = [PathBuf::from("dump.json")];
        for (scenario, nodes) in [
            (None, None),
            (None, Some(1)),
            (Scenario::built_in("recreate"), Some(3)),
            (Some(Scenario::manifests()), None),
        ] {
            let request = SettingsRequest {
                scenario: scenario.clone(),
                input: Some(input),
                size: SizeRequest {
                    nodes,
                    ..SizeRequest::default()
                },
                ..SettingsRequest::default()
            };
            let settings = resolved(&request);
            let command = command(&settings, &files);
            assert_eq!(read_back(&command, 96, Some(input)), settings, "{command}");
            let is_named = scenario.is_some_and(|scenario| scenario.name != "manifests");
            assert_eq!(command.contains("--scenario"), is_named, "{command}");
        }
    }

    #[test]
    fn the_pods_of_groups_are_those_that_were_asked_for() {
        let request = SettingsRequest {
            scenario: Scenario::built_in("cl2-load"),
            size: SizeRequest {
                pods: Some(400),
                ..SizeRequest::default()
            },
            ..SettingsRequest::default()
        };
        let settings = resolved(&request);
        assert_eq!(settings.size.pods, 540, "250 + 3 x 30 + 40 x 5");
        let command = command(&settings, &[]);
        assert!(command.contains(" --pods 400 --nodes 100"), "{command}");
        assert!(!command.contains("--replicasets"), "{command}");
    }

    #[test]
    fn files_are_named_as_a_shell_takes_them() {
        let request = SettingsRequest {
            input: Some(InputSize::default()),
            ..SettingsRequest::default()
        };
        let names = ["my web.yaml", "it's", "two\nlines", "-"];
        let command = command(&resolved(&request), &names.map(PathBuf::from));
        let end = r" -f 'my web.yaml' -f 'it'\''s' -f $'two\x0alines' -f -";
        assert!(command.ends_with(end), "{command}");
        assert!(!command.contains("--scenario"), "{command}");
    }

    #[test]
    fn yaml_and_json_hold_the_same() {
        let settings = settings(&resolved(&SettingsRequest::default()), &[]);
        let json: Value = serde_json::from_str(&json(&settings)).unwrap();
        let yaml: Value = serde_saphyr::from_str(&yaml(&settings)).unwrap();
        assert_eq!(json, yaml);
        assert_eq!(json["pods"], 100_000);
    }
}
