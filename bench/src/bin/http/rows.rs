//! The measurements, one for each row of the table.

use anyhow::Context;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::time::Instant;

use crate::client::{Asked, Connection, Taken, Watch, first_answer, load};
use crate::manager;
use crate::server::Server;
use crate::table::{Row, megabytes, thousands};
use crate::{Programs, wrk};

const PODS: &str = "/api/v1/namespaces/default/pods";
/// The number of concurrent connections.
const CONNECTIONS: usize = 32;
/// The number of rounds, of which the median counts.
const ROUNDS: usize = 3;

/// The sizes of the measurements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// The number of requests in a round against our server. The real server gets a tenth of it.
    pub(crate) requests: u64,
    /// The number of pods in a list.
    pub(crate) listed: u64,
    /// The number of pods in the long list, which only our server gets.
    pub(crate) listed_long: u64,
    /// The number of watches that receive the events of pods.
    pub(crate) watches: usize,
    /// The number of watches on an idle server.
    pub(crate) idle_watches: usize,
    /// The duration of a run of `wrk`, in seconds.
    pub(crate) seconds: u32,
    /// The pods that the controller-manager creates: the number of ReplicaSets, and of pods per
    /// ReplicaSet.
    pub(crate) made: (u64, u64),
}

impl Sizes {
    /// The sizes for the published table.
    pub(crate) const FULL: Sizes = Sizes {
        requests: 20_000,
        listed: 10_000,
        listed_long: 100_000,
        watches: 100,
        idle_watches: 10_000,
        seconds: 5,
        made: (50, 20),
    };
    /// Small sizes, to show that everything runs.
    pub(crate) const SMALL: Sizes = Sizes {
        requests: 200,
        listed: 100,
        listed_long: 200,
        watches: 5,
        idle_watches: 20,
        seconds: 1,
        made: (2, 5),
    };
}

/// A server, in the order of the cells of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    Plain,
    Tls,
    Real,
}
const ALL: [Which; 3] = [Which::Plain, Which::Tls, Which::Real];

impl Which {
    fn start(self, programs: &Programs<'_>) -> anyhow::Result<Server> {
        match self {
            Which::Plain => Server::ours(programs, false),
            Which::Tls => Server::ours(programs, true),
            Which::Real => Server::real(programs),
        }
    }

    fn requests(self, sizes: &Sizes) -> u64 {
        match self {
            Which::Real => sizes.requests / 10,
            _ => sizes.requests,
        }
    }
}

/// The measurements, one per row of the table, in order.
#[derive(Clone, Copy)]
enum Work {
    Start,
    Create,
    CreateByWrk,
    Get,
    GetByWrk,
    PatchStatus,
    List,
    ListLong,
    Watch,
    IdleWatches,
    Memory,
    MadeRate,
    MadeServer,
    MadeManager,
}

/// The title and the target of each row.
const ROWS: [(&str, &str); 14] = [
    (
        "time from start to the first answer; resident memory after it",
        "20 ms; 15 MB",
    ),
    (
        "create a pod of 1.2 kB, 32 connections",
        "50 µs CPU, 12,000/s",
    ),
    ("the same with `wrk`", ""),
    ("get a pod, 32 connections", "20 µs CPU"),
    ("the same with `wrk`", ""),
    (
        "patch a pod's status (strategic merge), 32 connections",
        "60 µs CPU",
    ),
    (
        "list 10,000 pods of 3.9 kB: first byte; rate; memory beyond the store",
        "10 ms; 500 MB/s; 5 MB",
    ),
    ("list 100,000 such pods", "10 ms; 500 MB/s; 5 MB"),
    (
        "send a pod of 3 kB to 100 watches: events; CPU of one",
        "500,000 events/s",
    ),
    ("10,000 idle watches: resident memory", "200 MB"),
    (
        "resident memory with the 10,000 pods and 100 watches; with 100,000 pods",
        "60 MB; 250 MB",
    ),
    (
        "kube-controller-manager creates 1,000 pods of 50 ReplicaSets",
        "",
    ),
    ("… CPU of the server (+ etcd) for them", "0.1 s"),
    ("… CPU of kube-controller-manager for them; its memory", ""),
];

/// Measures everything. Reports progress to `say`.
///
/// # Errors
/// Fails if a program is missing or fails.
pub(crate) async fn all(
    programs: &Programs<'_>,
    sizes: &Sizes,
    say: impl Fn(&str),
) -> anyhow::Result<Vec<Row>> {
    let mut rows = ROWS.map(|(work, target)| Row {
        work,
        cells: Default::default(),
        target,
    });
    for which in ALL {
        let name = ["ours, plain", "ours, TLS and token", "the real one"][which as usize];
        let mut put = |work: Work, text: String| {
            let row = &mut rows[work as usize];
            say(&format!("{name}: {}: {text}", row.work));
            row.cells[which as usize] = text;
        };
        let server = which.start(programs)?;
        let ready = first_answer(&server)
            .await
            .with_context(|| name.to_owned())?;
        let memory = memory(&server);
        put(
            Work::Start,
            format!("{} ms; {memory}", thousands(ready.as_secs_f64() * 1e3)),
        );
        put(Work::Watch, watch(&server, sizes, which).await?);
        let requests = which.requests(sizes);
        let pods = Pods::new(1_200, "created");
        let create = || rounds(&server, requests, |_| pods.create());
        put(Work::Create, create().await?);
        let body = pod(1_200, "generateName");
        put(
            Work::CreateByWrk,
            wrk::run(programs, &server, PODS, Some(&body), sizes.seconds)?,
        );
        let names = names(&server).await?;
        let path = |number: u64| format!("{PODS}/{}", names[number as usize % names.len()]);
        let get = || rounds(&server, requests * 2, |number| Asked::get(path(number)));
        put(Work::Get, get().await?);
        put(
            Work::GetByWrk,
            wrk::run(programs, &server, &path(0), None, sizes.seconds)?,
        );
        let patch = || rounds(&server, requests, |number| patch(path(number), number));
        put(Work::PatchStatus, patch().await?);
        drop(server);

        let server = which.start(programs)?;
        first_answer(&server).await?;
        fill(&server, sizes.listed, "listed").await?;
        put(Work::List, list(&server).await?);
        let watches = open(&server, sizes.watches).await?;
        let with_watches = self::memory(&server);
        drop(watches);
        if which == Which::Plain {
            fill(&server, sizes.listed_long - sizes.listed, "more").await?;
            put(Work::ListLong, list(&server).await?);
            put(
                Work::Memory,
                format!("{with_watches}; {}", self::memory(&server)),
            );
        } else {
            put(Work::Memory, with_watches);
        }
        drop(server);

        let server = which.start(programs)?;
        first_answer(&server).await?;
        if which != Which::Real {
            let watches = open(&server, sizes.idle_watches).await?;
            put(Work::IdleWatches, self::memory(&server));
            drop(watches);
        }
        let (sets, pods) = sizes.made;
        let made = manager::make(programs, &server, sets, pods).await?;
        put(Work::MadeRate, made.rate);
        put(Work::MadeServer, made.server);
        put(Work::MadeManager, made.manager);
    }
    Ok(rows.into())
}

/// Formats the resident memory of the server and of its store.
fn memory(server: &Server) -> String {
    let own = megabytes(server.api.resident());
    match &server.store {
        Some(store) => format!("{own} + {}", megabytes(store.resident())),
        None => own,
    }
}

/// Returns the median of several rounds, by CPU time.
async fn rounds(
    server: &Server,
    requests: u64,
    ask: impl Fn(u64) -> Asked,
) -> anyhow::Result<String> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(load(server, CONNECTIONS, requests, &ask).await?);
    }
    rounds.sort_by_key(|round: &Taken| round.cpu[0]);
    Ok(rounds[ROUNDS / 2].text(server))
}

/// A source of pods with an owner, each as JSON of about `bytes` bytes with its own name.
struct Pods {
    /// The text before and after the name.
    text: [String; 2],
    prefix: &'static str,
    made: AtomicU64,
}

impl Pods {
    fn new(bytes: usize, prefix: &'static str) -> Pods {
        let pod = pod(bytes, "name");
        let (before, after) = pod.split_once(NAME).expect("the pod has a name");
        Pods {
            text: [before.to_owned(), after.to_owned()],
            prefix,
            made: AtomicU64::new(0),
        }
    }

    /// Returns the request that creates the next pod.
    fn create(&self) -> Asked {
        // Relaxed: the numbers only have to be unique.
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let [before, after] = &self.text;
        let prefix = self.prefix;
        Asked::post(PODS, format!("{before}{prefix}-{number:08}{after}"))
    }
}

const NAME: &str = "web-7d4b9c6f5-";

/// Returns a pod of about this size. The member `named` of the metadata contains its name, or the
/// prefix of a generated name.
fn pod(bytes: usize, named: &str) -> String {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {named: NAME,
        "labels": {"app": "web", "pod-template-hash": "7d4b9c6f5"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b9c6f5",
            "uid": "5f2a3b1c-8d4e-4f6a-9b7c-1d2e3f4a5b6c", "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"containers": [{"name": "web", "image": "registry.example/shop/web:1.27.3",
            "ports": [{"name": "http", "containerPort": 8080}],
            "env": [{"name": "SETTINGS", "value": ""}, {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5}}]}});
    let missing = bytes.saturating_sub(pod.to_string().len());
    // As in real pods, most of the content is the same in all pods of an owner.
    pod["spec"]["containers"][0]["env"][0]["value"] = "x".repeat(missing).into();
    pod.to_string()
}

fn patch(path: String, number: u64) -> Asked {
    let status = ["False", "True"][usize::from(number.is_multiple_of(2))];
    let body = json!({"status": {"conditions": [{"type": "Ready", "status": status,
        "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    Asked {
        method: "PATCH",
        path: format!("{path}/status"),
        media: "application/strategic-merge-patch+json",
        body: body.to_string().into(),
    }
}

/// Returns the names of the first thousand pods.
async fn names(server: &Server) -> anyhow::Result<Vec<String>> {
    let mut connection = Connection::open(server).await?;
    let list = connection
        .whole(&Asked::get(format!("{PODS}?limit=1000")))
        .await?;
    let list: Value = serde_json::from_slice(&list)?;
    let items = list["items"].as_array().context("a list")?;
    let name = |pod: &Value| pod["metadata"]["name"].as_str().map(str::to_owned);
    items
        .iter()
        .map(|pod| name(pod).context("a name"))
        .collect()
}

async fn fill(server: &Server, pods: u64, prefix: &'static str) -> anyhow::Result<()> {
    let made = Pods::new(3_400, prefix);
    load(server, CONNECTIONS, pods, |_| made.create()).await?;
    Ok(())
}

/// Lists all pods on one page. Returns the median time to the first byte, the rate, and the growth
/// of memory in that time.
async fn list(server: &Server) -> anyhow::Result<String> {
    let mut connection = Connection::open(server).await?;
    let before = server.api.resident();
    server.api.forget_peak()?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let mut body = connection.send(&Asked::get(PODS)).await?;
        let (mut first, mut bytes) = (None, 0);
        while let Some(frame) = body.frame().await {
            let frame = frame?;
            let length = frame.data_ref().map_or(0, |data| data.len());
            bytes += length;
            first = first.or((length > 0).then(|| began.elapsed()));
        }
        let first = first.context("an empty list")?;
        rounds.push((began.elapsed(), first, bytes));
    }
    rounds.sort();
    let (wall, first, bytes) = rounds[ROUNDS / 2];
    Ok(format!(
        "{:.1} ms; {} MB/s; {}",
        first.as_secs_f64() * 1e3,
        thousands(bytes as f64 / 1e6 / wall.as_secs_f64()),
        megabytes(server.api.peak().saturating_sub(before))
    ))
}

async fn open(server: &Server, watches: usize) -> anyhow::Result<Vec<Watch>> {
    // Watch from the current version, without the existing objects.
    let list = Connection::open(server)
        .await?
        .whole(&Asked::get(format!("{PODS}?limit=1")))
        .await?;
    let list: Value = serde_json::from_slice(&list)?;
    let now = list["metadata"]["resourceVersion"].as_str();
    let path = format!(
        "{PODS}?watch=true&resourceVersion={}",
        now.context("a version")?
    );
    let mut open = Vec::with_capacity(watches);
    for _ in 0..watches {
        open.push(Watch::open(server, &path).await?);
    }
    Ok(open)
}

/// Creates pods while watches receive their events.
async fn watch(server: &Server, sizes: &Sizes, which: Which) -> anyhow::Result<String> {
    let pods = which.requests(sizes) / 4;
    let watches = open(server, sizes.watches).await?;
    let made = Pods::new(3_000, "watched");
    let (before, began) = (server.cpu(), Instant::now());
    let read = |mut watch: Watch| tokio::spawn(async move { watch.added(pods).await });
    let readers: Vec<_> = watches.into_iter().map(read).collect();
    load(server, CONNECTIONS, pods, |_| made.create()).await?;
    let mut events = 0.0;
    for reader in readers {
        events += reader.await?? as f64;
    }
    let (wall, after) = (began.elapsed(), server.cpu());
    Ok(format!(
        "{} events/s; {:.1} µs CPU",
        thousands(events / wall.as_secs_f64()),
        (after[0] - before[0]).as_secs_f64() * 1e6 / events
    ))
}
