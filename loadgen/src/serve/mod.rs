//! A simulated cluster that runs until it is stopped, with its API server for anybody's
//! clients: `loadgen serve`.

mod access;
pub(crate) mod background;
mod beside;
mod bind;
mod bootstrap;
pub(crate) mod descriptors;
mod fork;
mod identity;
mod kubeconfig;
mod load;
pub(crate) mod memory;
mod own_service;
mod page;
mod request_log;
mod snapshot;
mod token_file;
mod token_keys;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use podstorm::controller::ControllerType as _;
use podstorm::metrics::text_of;
use podstorm_apiserver::{Cluster, Plugin};
use podstorm_http::tls::Tls;
use podstorm_http::{ApiServer, Builder, TokenKey, VirtualTime, listen};
use podstorm_objects::{Kind, Namespace, Now, Resource};
use podstorm_sim::engine::Harness;
use podstorm_sim::nodes::{self, ClientRules, NodeTimes};
use podstorm_sim::options::{EngineKind, SimOptions};
use podstorm_sim::provisioner::{VolumeProvisioner, default_class, driver};
use podstorm_sim::rows::Rows;
use podstorm_sim::services::Controllers;
use serde_json::json;
use tokio::net::TcpListener;

use crate::input::InputObject;
use crate::run::wall_start_ns;

pub use access::{Access, Login};
pub use beside::RunServer;
pub(crate) use bind::{Bound, bind};
pub use fork::Snapshot;
pub use kubeconfig::kubeconfig;
pub use load::Refused;
pub use request_log::RequestLog;
pub use snapshot::write_snapshot;
pub use token_file::read_tokens;
pub use token_keys::read_token_key;

/// The namespaces that every cluster has from the start.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// What is served.
#[derive(Debug)]
pub struct ServeOptions {
    /// Controllers, latencies, seed, engine. On the virtual one time passes only when it is moved, and
    /// every write is followed by all that is due at once.
    pub sim: SimOptions,
    /// Simulated nodes that are made at the start, beside those of `objects`.
    pub nodes: u64,
    /// Most pods of each.
    pub pods_per_node: u32,
    /// How many zones they are in, by the label `topology.kubernetes.io/zone`: `zone-1` and so on, in turn; 0 is none.
    pub zones: u64,
    /// How long the cluster waits for nodes that are silent. A number of a controller that is set in `sim.services` decides
    /// before the time here.
    pub node_times: NodeTimes,
    /// What the nodes do for clients.
    pub rules: ClientRules,
    /// What is loaded first.
    pub objects: Vec<InputObject>,
    /// What the log of every container says.
    pub log_line: String,
    /// Whether the API server reaches the kubelets, which it asks for logs.
    pub reaches_kubelets: bool,
    /// Whether the cluster begins with the objects of a new one: classes of priority, roles, levels and flows of
    /// requests. A server that a test embeds has none, unless it asks for them.
    pub bootstraps: bool,
    /// The key that signs the tokens of service accounts; a new one unless given. Tokens of the same key, of accounts with
    /// the same UIDs, are good in each cluster that has it.
    pub token_key: Option<TokenKey>,
}

impl Default for ServeOptions {
    /// Three nodes, all controllers but those that [populate](podstorm::row::ControllerRow::populates) namespaces, and
    /// pods that are ready at once.
    fn default() -> ServeOptions {
        let mut sim = SimOptions::new(EngineKind::Threads, 1);
        sim.services.controllers = Controllers::that(Rows::installed(), |row| !row.populates);
        ServeOptions {
            sim,
            nodes: 3,
            pods_per_node: 110,
            zones: 0,
            node_times: NodeTimes::default(),
            rules: ClientRules {
                pod_events: true,
                ..ClientRules::default()
            },
            objects: Vec::new(),
            log_line: "a simulated container runs here".to_owned(),
            reaches_kubelets: true,
            bootstraps: false,
            token_key: None,
        }
    }
}

/// A cluster that runs, and the API server in front of it. It stops when it is dropped.
#[derive(Debug)]
pub struct Served {
    harness: Arc<Harness>,
    api: ApiServer,
    simulated: Simulated,
}

/// What the cluster simulates, to simulate it again.
#[derive(Clone, Debug)]
struct Simulated {
    sim: SimOptions,
    node_times: NodeTimes,
    rules: ClientRules,
}

impl Served {
    /// Starts the cluster, with its namespaces, nodes and objects.
    ///
    /// # Errors
    /// An object that the API server refuses, as [`Refused`] in a box; a feature gate that is unknown or locked.
    pub fn start(options: ServeOptions) -> Result<Served> {
        Served::start_with(options, |api| api)
    }

    /// As [`start`](Served::start); `set_up` sets up the API server: credentials, limits, a log.
    ///
    /// # Errors
    /// As there.
    pub fn start_with(
        mut options: ServeOptions,
        set_up: impl FnOnce(Builder) -> Builder,
    ) -> Result<Served> {
        Rows::installed().check_gates(&options.sim.controller.feature_gates)?;
        let wall_start_ns = wall_start_ns(&options.objects);
        let token_key = identity::add_signer(&mut options.sim.services, options.token_key)?;
        let simulated = Simulated {
            sim: options.sim,
            node_times: options.node_times,
            rules: options.rules,
        };
        let harness = Harness::serving(
            &simulated.sim,
            simulated.node_times,
            simulated.rules.clone(),
        );
        let harness = harness.starting_at(wall_start_ns);
        let (cluster, now) = (harness.cluster(), harness.now());
        // First, so that the namespaces that every cluster has are the ones that were loaded.
        let makes_accounts =
            identity::is_sent(&simulated.sim.services, "create", Kind::SERVICE_ACCOUNT)
                && cluster.has_plugin(Plugin::ServiceAccount);
        load::load(cluster, options.objects, makes_accounts, now)?;
        for name in NAMESPACES {
            add_namespace(cluster, name, now)?;
        }
        if options.bootstraps {
            bootstrap::create(cluster, now)?;
        }
        let controllers = &simulated.sim.services.controllers;
        if controllers.has(VolumeProvisioner::ROW) {
            add_storage(cluster, now)?;
        }
        for number in 1..=options.nodes {
            let name = format!("node-{number}");
            let zone = (options.zones > 0).then(|| (number - 1) % options.zones + 1);
            let zone = zone.map(|zone| format!("zone-{zone}"));
            let (size, pods) = (&simulated.rules.node_size, options.pods_per_node);
            let registered = nodes::register(cluster, &name, zone.as_deref(), (size, pods), now);
            registered.with_context(|| format!("Node {name}"))?;
        }
        let (log_line, reaches_kubelets) = (options.log_line, options.reaches_kubelets);
        Ok(Served::over(harness, simulated, |api| {
            let api = api.log_line(log_line).reaches_kubelets(reaches_kubelets);
            set_up(match token_key {
                Some(key) => api.token_key(key),
                None => api,
            })
        }))
    }

    /// Starts the controllers of a cluster that has all its objects, and its API server.
    fn over(
        harness: Harness,
        simulated: Simulated,
        set_up: impl FnOnce(Builder) -> Builder,
    ) -> Served {
        // What was loaded may lack the owners of its workloads; from here on there are no others.
        harness.cluster().set_holds_all_owners();
        // Only now: a controller that saw a ReplicaSet before its pods would make others.
        let harness = Arc::new(harness.started());
        harness.advance(0);
        let (clock, controllers) = (Arc::clone(&harness), Arc::clone(&harness));
        let mut api = ApiServer::builder(Arc::clone(harness.cluster()))
            .clock(Arc::new(move || clock.now()))
            .further_metrics(Arc::new(move || text_of(&controllers.families())))
            .page(page::html(None));
        if simulated.sim.engine == EngineKind::Virtual {
            api = api.virtual_time(Arc::new(Time(Arc::clone(&harness))));
        }
        let api = set_up(api).build();
        Served {
            harness,
            api,
            simulated,
        }
    }

    /// The time of the cluster.
    pub fn now(&self) -> Now {
        self.harness.now()
    }

    /// Moves the time of a cluster on the virtual engine; everything that is due until then has
    /// happened when it returns the new time. `None` on the threads engine, whose time passes by
    /// itself. By nothing it lets happen what is due after writes to [`cluster`](Served::cluster).
    pub fn advance(&self, by: Duration) -> Option<Now> {
        let by_ns = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        let now = self.harness.advance(by_ns);
        // What faults have held back until now.
        self.api.time_has_moved();
        now
    }

    /// The cluster.
    pub fn cluster(&self) -> &Arc<Cluster> {
        self.harness.cluster()
    }

    /// The requests of the controllers of ReplicaSets and ReplicationControllers so far, and of their
    /// Events' writers, by `verb resource code`: `create pods 201`. They are made in process, so the API
    /// server neither counts nor logs them.
    ///
    /// # Panics
    /// When a part of the simulated cluster has panicked.
    pub fn api_calls(&self) -> BTreeMap<String, u64> {
        self.harness.api_calls()
    }

    /// The API server.
    pub fn api(&self) -> &ApiServer {
        &self.api
    }

    /// Answers what comes to the listener until `stop` is done, with TLS where it is given. From its call on
    /// the cluster has a Service `kubernetes` for its API server.
    ///
    /// # Errors
    /// The listener can't be used any more, or the cluster refuses the Service.
    pub async fn listen(
        &self,
        listener: TcpListener,
        tls: Option<Tls>,
        stop: impl Future<Output = ()>,
    ) -> Result<()> {
        own_service::make(self.cluster(), listener.local_addr()?, self.now())?;
        listen::serve_with(self.api.clone(), listener, tls, stop).await?;
        Ok(())
    }
}

/// The time of a cluster on the virtual engine.
struct Time(Arc<Harness>);

impl VirtualTime for Time {
    fn advance(&self, by_ns: i64) -> Now {
        self.0.advance(by_ns).unwrap_or_else(|| self.0.now())
    }

    fn rest(&self) {
        self.0.advance(0);
    }
}

fn add_namespace(cluster: &Cluster, name: &str, now: Now) -> Result<()> {
    let labels = json!({"kubernetes.io/metadata.name": name});
    let namespace = json!({"metadata": {"name": name, "labels": labels}});
    let namespace = Namespace::from_json(namespace).expect("a namespace of ours is one");
    match cluster.create(namespace, now) {
        // It was loaded.
        Err(error) if error.code == 409 => Ok(()),
        other => other.map(drop).with_context(|| format!("Namespace {name}")),
    }
}

/// The class of claims that name none and the driver of its volumes, unless files bring some of these names.
fn add_storage(cluster: &Cluster, now: Now) -> Result<()> {
    for object in [default_class(), driver()] {
        let described = format!("{} {}", object.kind().name(), object.metadata.name);
        match cluster.api(object.kind()).create(Arc::new(object), now) {
            Err(error) if error.code == 409 => {}
            other => drop(other.context(described)?),
        }
    }
    Ok(())
}
