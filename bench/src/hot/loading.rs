//! Loading dumps: lists of pods, as `kubectl get -o json` and `-o yaml` write them, sorted by
//! owner.

use std::path::PathBuf;

use podstorm_loadgen::manifest;

/// A pod, with placeholders for the parts that differ between pods.
const JSON: &str = include_str!("../../../core/fixtures/dump/pod.json");
const YAML: &str = include_str!("../../../core/fixtures/dump/pod.yaml");

/// Loads a dump.
pub fn load(dump: String) -> impl FnMut() -> u64 {
    let stdin = [PathBuf::from("-")];
    move || {
        let loaded = manifest::load(&stdin, dump.as_bytes()).expect("the dump is valid");
        loaded.objects.len() as u64
    }
}

/// Returns one pod of a JSON dump.
pub fn json_pod() -> String {
    texts(JSON, 1, 1).collect()
}

/// Returns `pods` pods of a JSON dump, each with its own name.
pub(super) fn json_pods(pods: usize) -> impl Iterator<Item = String> {
    texts(JSON, pods, 1)
}

/// Returns a JSON dump of `pods` pods, equally distributed among the ReplicaSets.
pub fn json(pods: usize, replicasets: usize) -> String {
    let items: Vec<String> = texts(JSON, pods, replicasets).collect();
    let items = items.join(",\n");
    format!("{{\n\"apiVersion\": \"v1\",\n\"items\": [\n{items}\n],\n\"kind\": \"List\"\n}}\n")
}

/// Returns a YAML dump of `pods` pods, equally distributed among the ReplicaSets.
pub fn yaml(pods: usize, replicasets: usize) -> String {
    let items: String = texts(YAML, pods, replicasets).collect();
    format!("apiVersion: v1\nitems:\n{items}kind: List\n")
}

fn texts(pattern: &str, pods: usize, replicasets: usize) -> impl Iterator<Item = String> {
    let of_each = pods / replicasets;
    (0..pods).map(move |number| {
        let owner = number / of_each;
        let time = |offset: usize| {
            let second = number + offset;
            format!("2026-01-02T03:{:02}:{:02}Z", second / 60 % 60, second % 60)
        };
        [
            ("web-1-", format!("web-{owner}-")),
            ("$NAME", format!("web-{owner}-{number:05}")),
            ("$UID", format!("00000000-0000-4000-8000-{number:012x}")),
            ("$VERSION", format!("{}", number + 1)),
            ("$CREATED", time(0)),
            ("$SINCE", time(7)),
            ("$ENDED", time(3)),
            (
                "$CIDR",
                format!("10.1.{}.{}/32", number / 250, number % 250),
            ),
            ("$NODE", format!("node-{:04}", number % 50)),
            ("$LETTERS", format!("{number:05}")),
            ("$HOST", format!("10.0.0.{}", number % 50)),
            ("$IP", format!("10.1.{}.{}", number / 250, number % 250)),
            ("$ID", format!("containerd://{number:064x}")),
            ("$COUNT", "1".to_owned()),
        ]
        .iter()
        .fold(pattern.to_owned(), |text, (word, value)| {
            text.replace(word, value)
        })
    })
}
