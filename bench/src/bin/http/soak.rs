//! A server under mixed load for minutes: it must answer without internal errors, and its memory
//! must stay flat.
//!
//! Objects of many kinds are created, changed and deleted under recurring names, so that there are
//! as many objects at the end as after the first minute. Growing memory therefore means that
//! something is kept for deleted objects.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use fastrand::Rng;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::client::{Asked, Connection, Watch, first_answer};
use crate::server::{Server, words};
use crate::table::megabytes;

/// The maximum relative difference of the memory in the second half.
const FLAT: f64 = 0.05;
/// The number of object names per kind.
const NAMES: u32 = 40;
/// The number of writing connections: enough that within some minutes, each kind has as many
/// changes as the server's history keeps.
const WRITERS: u64 = 16;
/// The number of open watches whose clients read nothing.
const WATCHES: u64 = 8;
/// The namespace that exists throughout the soak.
const STEADY: &str = "steady";

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAMESPACES: &str = "/api/v1/namespaces";

/// A kind under load, in a namespace.
#[derive(Clone, Copy)]
struct LoadedKind {
    /// The path of the kind's group and version.
    prefix: &'static str,
    resource: &'static str,
    /// The content of an object of this kind, as JSON.
    object: &'static str,
}

const fn kind(prefix: &'static str, resource: &'static str, object: &'static str) -> LoadedKind {
    LoadedKind {
        prefix,
        resource,
        object,
    }
}

/// The kinds under load. Updates change the labels of objects.
const KINDS: [LoadedKind; 9] = [
    kind("api/v1", "configmaps", r#"{"data": {"a": "b"}}"#),
    kind("api/v1", "secrets", r#"{"stringData": {"a": "b"}}"#),
    kind("api/v1", "serviceaccounts", "{}"),
    kind(
        "api/v1",
        "services",
        r#"{"spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}}"#,
    ),
    kind(
        "api/v1",
        "pods",
        r#"{"spec": {"containers": [{"name": "c", "image": "i"}]}}"#,
    ),
    kind(
        "apis/coordination.k8s.io/v1",
        "leases",
        r#"{"spec": {"holderIdentity": "h"}}"#,
    ),
    kind(
        "apis/apps/v1",
        "deployments",
        r#"{"spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template":
            {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}"#,
    ),
    kind(
        "apis/policy/v1",
        "poddisruptionbudgets",
        r#"{"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "a"}}}}"#,
    ),
    kind(
        "apis/example.com/v1",
        "things",
        r#"{"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"size": 1}}"#,
    ),
];

/// Runs a server under load for this many minutes. Returns whether its memory was flat.
///
/// # Errors
/// Fails if the server doesn't start or ends early, answers with 5xx, or drops a connection.
pub(crate) async fn soak(loadgen: PathBuf, minutes: u64) -> anyhow::Result<bool> {
    let folder = tempfile::TempDir::new().context("cannot create a temporary folder")?;
    // By default, Events are kept for an hour; a minute is sufficient here.
    let flags = words("serve --nodes 3 --pods-per-node 1000 --event-ttl 1m");
    let server = Server::served(&loadgen, folder.path(), flags, false)?;
    first_answer(&server).await?;
    let asked = AtomicU64::new(0);
    let (server, asked) = (Arc::new(server), Arc::new(asked));
    let end = Instant::now() + Duration::from_secs(60 * minutes);
    let mut tasks = JoinSet::new();
    let load = |seed| Load {
        server: server.clone(),
        asked: asked.clone(),
        end,
        random: Rng::with_seed(seed),
    };
    load(0).set_up().await?;
    for seed in 0..WRITERS {
        tasks.spawn(load(seed).write());
    }
    for seed in 0..WATCHES {
        tasks.spawn(load(100 + seed).watch());
    }
    tasks.spawn(load(200).page());
    tasks.spawn(load(201).define());
    tasks.spawn(load(202).events());
    tasks.spawn(load(203).namespaces());
    let mut resident = Vec::new();
    let began = Instant::now();
    for minute in 1..=minutes {
        let mut samples = Vec::new();
        while began.elapsed() < Duration::from_secs(60 * minute) {
            sleep(Duration::from_secs(1)).await;
            samples.push(server.api.resident());
            // A task that ends early has failed.
            while let Some(ended) = tasks.try_join_next() {
                ended.context("a task of the load panicked")??;
            }
        }
        samples.sort_unstable();
        let median = samples[samples.len() / 2];
        ensure!(median > 0, "the server has ended early");
        // Relaxed: the number is only printed.
        let requests = asked.load(Ordering::Relaxed);
        say(&format!(
            "minute {minute}: {} resident, {requests} requests so far",
            megabytes(median)
        ))?;
        resident.push(median);
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a task of the load panicked")??;
    }
    let half = &resident[resident.len() / 2..];
    let (least, most) = half.iter().fold((u64::MAX, 0), |(least, most), &it| {
        (least.min(it), most.max(it))
    });
    let spread = (most - least) as f64 / least as f64;
    let is_flat = spread <= FLAT;
    let verdict = if is_flat { "flat" } else { "not flat" };
    say(&format!(
        "{verdict}: {} to {} in the second half, a difference of {:.1} %; up to {:.0} % counts as flat",
        megabytes(least),
        megabytes(most),
        100.0 * spread,
        100.0 * FLAT
    ))?;
    Ok(is_flat)
}

fn say(line: &str) -> anyhow::Result<()> {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// The load that one task produces.
struct Load {
    server: Arc<Server>,
    asked: Arc<AtomicU64>,
    end: Instant,
    random: Rng,
}

impl Load {
    fn goes_on(&self) -> bool {
        Instant::now() < self.end
    }

    async fn rest(&mut self, most_ms: u64) {
        let until = Instant::now() + Duration::from_millis(self.random.u64(1..=most_ms));
        sleep_until(until.min(self.end)).await;
    }

    /// Sends a request and returns the status code. Client errors are part of the load, server
    /// errors end it.
    async fn ask(
        &self,
        connection: &mut Connection,
        asked: &Asked,
    ) -> anyhow::Result<(u16, Value)> {
        let answer = connection.ask(asked).await?;
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await?.to_bytes();
        // Relaxed: the number is only printed.
        self.asked.fetch_add(1, Ordering::Relaxed);
        if code >= 500 {
            bail!(
                "{} {}: {code}: {}",
                asked.method,
                asked.path,
                String::from_utf8_lossy(&body)
            );
        }
        Ok((code, serde_json::from_slice(&body).unwrap_or_default()))
    }

    async fn set_up(self) -> anyhow::Result<()> {
        let mut connection = Connection::open(&self.server).await?;
        let namespace = json!({"metadata": {"name": STEADY}});
        for (path, body) in [(NAMESPACES, namespace), (DEFINITIONS, definition(0))] {
            let (code, answer) = self
                .ask(&mut connection, &Asked::post(path, body.to_string()))
                .await?;
            ensure!(code == 201, "{answer}");
        }
        Ok(())
    }

    /// Creates, changes and deletes objects of random kinds.
    async fn write(mut self) -> anyhow::Result<()> {
        let mut connection = Connection::open(&self.server).await?;
        while self.goes_on() {
            let kind = KINDS[self.random.usize(..KINDS.len())];
            let name = format!("n{}", self.random.u32(..NAMES));
            self.touch(&mut connection, kind, STEADY, &name).await?;
            self.rest(10).await;
        }
        Ok(())
    }

    async fn touch(
        &mut self,
        connection: &mut Connection,
        kind: LoadedKind,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<()> {
        let LoadedKind {
            prefix,
            resource,
            object,
        } = kind;
        let collection = format!("/{prefix}/namespaces/{namespace}/{resource}");
        let path = format!("{collection}/{name}");
        let asked = match self.random.u32(..10) {
            0..4 => {
                let mut object: Value = serde_json::from_str(object)?;
                object["metadata"] = json!({"name": name, "labels": {"app": "a"}});
                Asked::post(&collection, object.to_string())
            }
            4..6 => {
                let (_, mut object) = self.ask(connection, &Asked::get(&path)).await?;
                object["metadata"]["labels"] =
                    json!({"app": "a", "b": self.random.u8(..).to_string()});
                Asked {
                    method: "PUT",
                    ..Asked::post(&path, object.to_string())
                }
            }
            6..8 => patch(
                &path,
                &json!({"metadata": {"annotations": {"a": "x".repeat(self.random.usize(..2_000))}}}),
            ),
            _ => Asked {
                method: "DELETE",
                ..Asked::get(&path)
            },
        };
        self.ask(connection, &asked).await?;
        Ok(())
    }

    /// Opens watches, reads nothing from them, and drops them.
    async fn watch(mut self) -> anyhow::Result<()> {
        while self.goes_on() {
            let LoadedKind {
                prefix, resource, ..
            } = KINDS[self.random.usize(..KINDS.len())];
            let all = if self.random.bool() {
                ""
            } else {
                "namespaces/steady/"
            };
            let path = format!("/{prefix}/{all}{resource}?watch=true&allowWatchBookmarks=true");
            // The kind may not exist at this moment.
            let _open = Watch::open(&self.server, &path).await.ok();
            self.rest(10_000).await;
        }
        Ok(())
    }

    /// Lists objects page by page, not always to the end.
    async fn page(mut self) -> anyhow::Result<()> {
        let mut connection = Connection::open(&self.server).await?;
        while self.goes_on() {
            let LoadedKind {
                prefix, resource, ..
            } = KINDS[self.random.usize(..KINDS.len())];
            let mut token = String::new();
            loop {
                let path = format!("/{prefix}/{resource}?limit=7&continue={token}");
                let (_, list) = self.ask(&mut connection, &Asked::get(path)).await?;
                token = list["metadata"]["continue"]
                    .as_str()
                    .unwrap_or("")
                    .to_owned();
                if token.is_empty() || self.random.u32(..5) == 0 {
                    break;
                }
            }
            self.rest(50).await;
        }
        Ok(())
    }

    /// Changes a definition, and deletes and recreates it.
    async fn define(mut self) -> anyhow::Result<()> {
        let mut connection = Connection::open(&self.server).await?;
        let path = format!("{DEFINITIONS}/things.example.com");
        for number in 0u64.. {
            if !self.goes_on() {
                break;
            }
            let asked = match number % 20 {
                19 => Asked {
                    method: "DELETE",
                    ..Asked::get(&path)
                },
                _ => patch(&path, &definition(number % 10)),
            };
            let (code, _) = self.ask(&mut connection, &asked).await?;
            if code == 404 {
                let asked = Asked::post(DEFINITIONS, definition(0).to_string());
                self.ask(&mut connection, &asked).await?;
            }
            self.rest(1_000).await;
        }
        Ok(())
    }

    /// Creates Events and increases their counts.
    async fn events(mut self) -> anyhow::Result<()> {
        let mut connection = Connection::open(&self.server).await?;
        let path = format!("{NAMESPACES}/{STEADY}/events");
        while self.goes_on() {
            let name = format!("e{}", self.random.u32(..10 * NAMES));
            let event = json!({"metadata": {"name": name}, "reason": "Seen", "type": "Normal", "count": 1,
                "involvedObject": {"kind": "Pod", "namespace": STEADY, "name": "n1"}});
            let (code, _) = self
                .ask(&mut connection, &Asked::post(&path, event.to_string()))
                .await?;
            if code == 409 {
                let count = patch(
                    &format!("{path}/{name}"),
                    &json!({"count": self.random.u16(2..)}),
                );
                self.ask(&mut connection, &count).await?;
            }
            self.rest(20).await;
        }
        Ok(())
    }

    /// Creates a namespace, fills it, deletes it and waits until it no longer exists.
    async fn namespaces(mut self) -> anyhow::Result<()> {
        let mut connection = Connection::open(&self.server).await?;
        for number in 0u64.. {
            if !self.goes_on() {
                break;
            }
            // Names that are never used again.
            let name = format!("passing-{number}");
            let namespace = json!({"metadata": {"name": name}});
            self.ask(
                &mut connection,
                &Asked::post(NAMESPACES, namespace.to_string()),
            )
            .await?;
            for kind in KINDS {
                for at in 0..5 {
                    self.touch(&mut connection, kind, &name, &format!("n{at}"))
                        .await?;
                }
            }
            let path = format!("{NAMESPACES}/{name}");
            self.ask(
                &mut connection,
                &Asked {
                    method: "DELETE",
                    ..Asked::get(&path)
                },
            )
            .await?;
            while self.goes_on() && self.ask(&mut connection, &Asked::get(&path)).await?.0 != 404 {
                self.rest(200).await;
            }
        }
        Ok(())
    }
}

fn patch(path: &str, body: &Value) -> Asked {
    Asked {
        method: "PATCH",
        media: "application/merge-patch+json",
        ..Asked::post(path, body.to_string())
    }
}

/// Returns a CustomResourceDefinition whose schema has a member with this number.
fn definition(number: u64) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer"}, format!("m{number}"): {"type": "string"}}}}});
    json!({"metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}
