//! The real kube-controller-manager, with either server.

use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::Programs;
use crate::client::{Asked, Connection};
use crate::server::{Process, Server, words};
use crate::table::thousands;

const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

/// The result of creating a number of pods.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// Pods per second.
    pub(crate) rate: String,
    /// The CPU time of the server, and of etcd if there is one, per 1,000 pods.
    pub(crate) server: String,
    /// The CPU time of the controller-manager per 1,000 pods, and its memory at the end.
    pub(crate) manager: String,
}

/// Has the controller-manager create the pods of `sets` ReplicaSets with `pods` pods each.
///
/// # Errors
/// Fails if a program doesn't start, or if the pods don't appear within two minutes.
pub(crate) async fn make(
    programs: &Programs<'_>,
    server: &Server,
    sets: u64,
    pods: u64,
) -> anyhow::Result<Made> {
    let mut arguments = words(
        "--controllers=replicaset --leader-elect=false --use-service-account-credentials=false \
         --kube-api-qps=5000 --kube-api-burst=10000 --concurrent-replicaset-syncs=50 \
         --port=0 --secure-port=0",
    );
    arguments.push(format!("--kubeconfig={}", server.kubeconfig.display()));
    let log = programs.folder.join("kube-controller-manager.log");
    let program = programs.control_plane.join("kube-controller-manager");
    let manager = Process::start(&program, &arguments, &log)?;
    let mut connection = Connection::open(server).await?;
    // A first pod shows that the controller-manager has started its work.
    create(&mut connection, "first", 1).await?;
    complete(&mut connection, 1, 1).await?;
    let (server_before, manager_before) = (server.cpu(), manager.cpu());
    let began = Instant::now();
    for number in 0..sets {
        create(&mut connection, &format!("set-{number}"), pods).await?;
    }
    complete(&mut connection, sets + 1, sets * pods + 1).await?;
    let wall = began.elapsed();
    let (server_after, manager_after) = (server.cpu(), manager.cpu());
    let all = (sets * pods) as f64;
    let for_1000 = |cpu: Duration| format!("{:.2}", cpu.as_secs_f64() * 1000.0 / all);
    let own = for_1000(server_after[0] - server_before[0]);
    let server = match server.store {
        Some(_) => format!("{own} + {} s", for_1000(server_after[1] - server_before[1])),
        None => format!("{own} s"),
    };
    Ok(Made {
        rate: format!("{}/s", thousands(all / wall.as_secs_f64())),
        server,
        manager: format!(
            "{} s; {} MB",
            for_1000(manager_after - manager_before),
            thousands(manager.resident() as f64 / 1e6)
        ),
    })
}

async fn create(connection: &mut Connection, name: &str, pods: u64) -> anyhow::Result<()> {
    let labels = json!({"app": name});
    let set = json!({"metadata": {"name": name}, "spec": {"replicas": pods,
        "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "registry.example/web:1"}]}}}});
    connection
        .whole(&Asked::post(REPLICA_SETS, set.to_string()))
        .await?;
    Ok(())
}

/// Waits until this many ReplicaSets report this number of pods in their statuses.
async fn complete(connection: &mut Connection, sets: u64, pods: u64) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let list = connection.whole(&Asked::get(REPLICA_SETS)).await?;
        let list: Value = serde_json::from_slice(&list)?;
        let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        let made = items
            .iter()
            .filter_map(|set| set["status"]["replicas"].as_u64());
        if items.len() as u64 == sets && made.sum::<u64>() == pods {
            return Ok(());
        }
        ensure!(
            began.elapsed() < Duration::from_secs(120),
            "the controller-manager does not create pods"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
