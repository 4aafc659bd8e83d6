//! `loadgen serve`: a simulated cluster with an API server for any client. It runs until it is
//! stopped.

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

/// The options of a served cluster.
#[derive(Debug)]
pub struct ServeOptions {
    /// Controllers, latencies, seed, engine. On the virtual engine, time passes only when a client
    /// advances it, and everything that is due immediately happens right after each write.
    pub sim: SimOptions,
    /// The number of simulated nodes to create at startup, in addition to those in `objects`.
    pub nodes: u64,
    /// The maximum number of pods on each simulated node.
    pub pods_per_node: u32,
    /// The number of zones that the simulated nodes are spread over, round-robin, by the label
    /// `topology.kubernetes.io/zone`: `zone-1` and so on. 0 sets no label.
    pub zones: u64,
    /// How long the cluster waits for silent nodes. A number in `sim.services` takes precedence
    /// over the time here.
    pub node_times: NodeTimes,
    /// How the nodes behave towards clients.
    pub rules: ClientRules,
    /// The objects to load at startup.
    pub objects: Vec<InputObject>,
    /// The content of the log of every container.
    pub log_line: String,
    /// Whether the API server can reach the kubelets, from which it gets logs.
    pub reaches_kubelets: bool,
    /// Whether to create the initial objects of a new cluster: priority classes, roles, priority
    /// levels and flow schemas. Off by default, for servers that tests embed.
    pub bootstraps: bool,
    /// The key that signs service account tokens; `None` creates one. A token is valid in every
    /// cluster that has the same key and in which the token's account has the same UID.
    pub token_key: Option<TokenKey>,
}

impl Default for ServeOptions {
    /// Returns options with three nodes, all controllers except those that
    /// [populate](podstorm::row::ControllerRow::populates) namespaces, and pods that become ready
    /// immediately.
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

/// A running cluster with its API server. Dropping it stops it.
#[derive(Debug)]
pub struct Served {
    harness: Arc<Harness>,
    api: ApiServer,
    simulated: Simulated,
}

/// The options of the simulation, kept for restarts.
#[derive(Clone, Debug)]
struct Simulated {
    sim: SimOptions,
    node_times: NodeTimes,
    rules: ClientRules,
}

impl Served {
    /// Starts the cluster with its namespaces, nodes and objects.
    ///
    /// # Errors
    /// The API server refuses an object ([`Refused`], boxed), or a feature gate is unknown or
    /// locked.
    pub fn start(options: ServeOptions) -> Result<Served> {
        Served::start_with(options, |api| api)
    }

    /// Like [`start`](Served::start), but `set_up` configures the API server first: credentials,
    /// limits, a log.
    ///
    /// # Errors
    /// The same as [`start`](Served::start).
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
        // Load the files first, so that the initial namespaces are those of the files.
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
            let registered = nodes::register(cluster, &name, zone.as_deref(), size, pods, now);
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

    /// Starts the controllers and the API server of a cluster that has all its initial objects.
    fn over(
        harness: Harness,
        simulated: Simulated,
        set_up: impl FnOnce(Builder) -> Builder,
    ) -> Served {
        // Loaded objects may lack their owners. From now on, an owner that was never stored does
        // not exist.
        harness.cluster().set_holds_all_owners();
        // Start only now: a controller that saw a ReplicaSet before its pods would create others.
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

    /// Returns the cluster's time.
    pub fn now(&self) -> Now {
        self.harness.now()
    }

    /// Advances the time of a cluster on the virtual engine. Returns the new time once everything
    /// that is due until then has happened; `None` on the threads engine, whose time passes by
    /// itself. Advancing by zero runs what is due after writes to [`cluster`](Served::cluster).
    pub fn advance(&self, by: Duration) -> Option<Now> {
        let by_ns = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        let now = self.harness.advance(by_ns);
        // Deliver the events that faults have delayed until now.
        self.api.time_has_moved();
        now
    }

    /// Returns the cluster.
    pub fn cluster(&self) -> &Arc<Cluster> {
        self.harness.cluster()
    }

    /// Returns the requests that the ReplicaSet and ReplicationController controllers and their
    /// event writers have sent, by `verb resource code`: `create pods 201`. The API server neither
    /// counts nor logs these requests, because they are sent in-process.
    ///
    /// # Panics
    /// A part of the simulated cluster has panicked.
    pub fn api_calls(&self) -> BTreeMap<String, u64> {
        self.harness.api_calls()
    }

    /// Returns the API server.
    pub fn api(&self) -> &ApiServer {
        &self.api
    }

    /// Serves clients of `listener` until `stop` completes, over TLS if `tls` is given. Creates the
    /// Service `kubernetes` for the API server in the cluster.
    ///
    /// # Errors
    /// The listener fails, or the cluster refuses the Service.
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
    let namespace = Namespace::from_json(namespace).expect("the initial namespaces are valid");
    match cluster.create(namespace, now) {
        // A file has already brought the namespace.
        Err(error) if error.code == 409 => Ok(()),
        other => other.map(drop).with_context(|| format!("Namespace {name}")),
    }
}

/// Adds the default storage class and its driver, unless files contain objects with these names.
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
