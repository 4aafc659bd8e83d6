//! `loadgen serve`: a simulated cluster for `kubectl` and other clients.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Error, Result, anyhow, bail};
use clap::{ArgAction, Args, ValueEnum};
use podstorm::identity::Identity;
use podstorm_apiserver::latency::Latency;
use podstorm_apiserver::{Plugin, Plugins};
use podstorm_http::tls::Tls;
use podstorm_http::{Log, MUTATING_REQUESTS_INFLIGHT, Memory, REQUESTS_INFLIGHT, draw_hash_seed};
use podstorm_sim::nodes::{
    ClientRules, Finishing, NodeChoice, NodeSize, NodeTimes, PodNetwork, Script,
};
use podstorm_sim::options::{EngineKind, SimOptions};
use podstorm_sim::rows::Rows;
use podstorm_sim::services::{Controllers, Services};
use tokio::signal::unix::{SignalKind, signal};

use super::access::AccessFlags;
use super::address;
use super::interrupt::{self, Interrupter};
use super::kubeconfig::Kubeconfig;
use super::numbers::NumberFlags;
use super::outputs::Outputs;
use super::snapshots::Snapshots;
use crate::gates;
use crate::manifest::{self, Places};
use crate::report::output::{Inputs, Output};
use crate::scenario::share;
use crate::serve::{
    Access, Bound, Login, Refused, RequestLog, ServeOptions, Served, bind, descriptors, memory,
};
use crate::settings::ppm;
use crate::units::{parse_bytes, parse_duration_ns, parse_latency};
use crate::values::{Bytes, Cores, EngineName, Percent};

/// The default pod startup latency on the threads engine.
const STARTUP: Latency = Latency::Constant(500_000_000);

/// Flags of `loadgen serve`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  loadgen serve                          three nodes, for clients on this machine
  loadgen serve --nodes 100 -f dump.json the objects of a dump, and a hundred more nodes
  loadgen serve --listen 0.0.0.0:8443 --tls --tls-san $(hostname)   also for other machines
  loadgen serve --engine virtual         time stands still until a test advances it
  loadgen serve --controllers '*,-podgc' all controllers except pod garbage collection
  kubectl create -f replicaset.yaml      in another terminal, after the printed export line")]
pub(super) struct ServeFlags {
    /// Listen address: localhost:PORT, or :PORT for 127.0.0.1:PORT; port 0 selects a free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = address::SERVED,
          value_parser = address::local)]
    listen: SocketAddr,
    /// Number of simulated nodes
    #[arg(long, value_name = "N", default_value_t = ServeOptions::default().nodes)]
    nodes: u64,
    /// Zones to spread the simulated nodes over, by label topology.kubernetes.io/zone; 0 for no
    /// zones
    #[arg(long, value_name = "N", default_value_t = ServeOptions::default().zones)]
    zones: u64,
    /// Maximum number of pods per node
    #[arg(long, value_name = "N", default_value_t = ServeOptions::default().pods_per_node)]
    pods_per_node: u32,
    /// Cores of a node, as a quantity: 500m
    #[arg(
        long,
        value_name = "QUANTITY",
        default_value = "32",
        allow_hyphen_values = true
    )]
    node_cpu: Cores,
    /// Memory of a node, as a quantity of bytes: 64Gi
    #[arg(
        long,
        value_name = "QUANTITY",
        default_value = "256Gi",
        allow_hyphen_values = true
    )]
    node_memory: Bytes,
    /// Time from bound to ready [default: 500ms, so that clients see pending pods; 0s with --engine
    /// virtual]
    #[arg(long, value_name = "LATENCY", value_parser = parse_latency)]
    pod_startup_latency: Option<Latency>,
    /// Time from the deletion of a pod until it no longer exists, limited by its grace period
    #[arg(long, value_name = "LATENCY", default_value = "0s", value_parser = parse_latency)]
    pod_termination_latency: Latency,
    /// Round-trip time of an API call of the controllers
    #[arg(long, value_name = "LATENCY", default_value = "0s", value_parser = parse_latency)]
    api_latency: Latency,
    /// Share of the controllers' API calls, chosen at random, that fail with an internal error: 1%
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = share)]
    api_errors: Percent,
    /// An image that can't be pulled; `*` at either end matches any text
    #[arg(long = "unpullable-image", value_name = "IMAGE")]
    unpullable_images: Vec<String>,
    /// Which of the nodes that fit a pod gets it
    #[arg(long, value_enum, value_name = "CHOICE", default_value = "roomiest")]
    node_choice: NodeChoiceName,
    /// Script of containers in pods without the annotation podstorm/script: 'run=30s exit=1,0'
    #[arg(long, value_name = "SCRIPT", value_parser = Script::parse)]
    pod_script: Option<Script>,
    /// Pods succeed once they have started, unless their restart policy is `Always`
    #[arg(long, group = "finishing")]
    finish_pods: bool,
    /// Like --finish-pods, but pods succeed this long after they have started
    #[arg(long, value_name = "TIME", group = "finishing", value_parser = parse_duration_ns)]
    pod_run_time: Option<i64>,
    /// With --finish-pods or --pod-run-time: the share of these pods that fails, with exit code 1
    #[arg(long, value_name = "PERCENT", default_value = "0%", value_parser = share)]
    pod_failures: Percent,
    /// With --finish-pods or --pod-run-time: pods whose command or arguments contain this text keep
    /// running
    #[arg(long = "endless-command", value_name = "TEXT", requires = "finishing")]
    endless_commands: Vec<String>,
    /// Network for pod addresses: 192.0.2.0/24 [default: a pod has the address of its node]
    #[arg(long, value_name = "CIDR", value_parser = pod_network)]
    pod_network: Option<PodNetwork>,
    /// Container ID in the status of every container
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    container_id: String,
    /// Image ID in the status of every container
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    image_id: String,
    /// Whether the scheduler and the kubelets write Events about pods
    #[arg(long, value_name = "true|false", default_value_t = true, action = ArgAction::Set)]
    pod_events: bool,
    /// Feature gates of the controllers and the server, by upstream's names; defaults are those of
    /// Kubernetes 1.36
    #[arg(long, value_name = "NAME=BOOL,...")]
    feature_gates: Vec<String>,
    /// Whether containers may be privileged
    #[arg(long, value_name = "true|false", default_value_t = true, action = ArgAction::Set)]
    allow_privileged: bool,
    /// Seconds that new pods stay on an unreachable node, unless they have a toleration of their
    /// own
    #[arg(long, value_name = "N", default_value_t = 300)]
    default_unreachable_toleration_seconds: u32,
    /// Load these manifests or dumps first; `-` is standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the kubeconfig here [default: podstorm-PORT.kubeconfig in a private folder,
    /// $XDG_RUNTIME_DIR/podstorm or podstorm-UID in the folder for temporary files; removed when
    /// the server ends]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Write all objects to this private file at the end and on SIGUSR1; -f reads it
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Log of every container
    #[arg(
        long,
        value_name = "TEXT",
        default_value_t = ServeOptions::default().log_line
    )]
    log_line: String,
    /// Whether the API server can reach the kubelets; if not, logs and streams fail as in
    /// Kubernetes
    #[arg(long, value_name = "true|false", default_value_t = true, action = ArgAction::Set)]
    reach_kubelets: bool,
    #[command(flatten)]
    access: AccessFlags,
    /// Maximum number of concurrent read requests; more get a 429; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = REQUESTS_INFLIGHT)]
    max_requests_inflight: u64,
    /// Maximum number of concurrent write requests; more get a 429; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = MUTATING_REQUESTS_INFLIGHT)]
    max_mutating_requests_inflight: u64,
    /// Memory of the process above which lists, watches and most writes get a 503 [default: 90% of
    /// the memory of the machine or control group, or a quarter of `ulimit -v`]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    memory_limit: Option<u64>,
    /// Log every request to standard error: method, path, status, duration, client, user. Lines are
    /// dropped if the reader is too slow; requests never wait for it
    #[arg(long)]
    log_requests: bool,
    /// `threads`: time passes; `virtual`: time stands still until POST /podstorm/clock/advance
    /// moves it
    #[arg(long, value_enum, value_name = "ENGINE", default_value = "threads")]
    engine: EngineName,
    /// Speed of the cluster's time relative to real time, above 0, at most 1000
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0, value_parser = time_scale,
          allow_hyphen_values = true)]
    time_scale: f64,
    /// The controllers to run: `*` is all, NAME is one, -NAME removes one from the list
    #[arg(
        long,
        value_name = "NAME",
        default_value = "*",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    controllers: Vec<String>,
    /// Admission plugins to disable: ServiceAccount, Priority, DefaultTolerationSeconds,
    /// RuntimeClass
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = plugin)]
    disable_admission_plugins: Vec<Plugin>,
    /// Admission plugins to enable; all are enabled by default
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = plugin)]
    enable_admission_plugins: Vec<Plugin>,
    #[command(flatten)]
    numbers: NumberFlags,
    /// Time after which an Event is deleted, counted from its last write; 0s keeps Events
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_duration_ns)]
    event_ttl: i64,
    /// The seed of UIDs and generated names
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Values of `--node-choice`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum NodeChoiceName {
    /// The node with the most free capacity.
    Roomiest,
    /// The first node by name.
    First,
}

impl From<NodeChoiceName> for NodeChoice {
    fn from(name: NodeChoiceName) -> NodeChoice {
        match name {
            NodeChoiceName::Roomiest => NodeChoice::Roomiest,
            NodeChoiceName::First => NodeChoice::First,
        }
    }
}

/// Starts a cluster and serves it until Ctrl-C or SIGTERM.
pub(super) fn run(flags: &ServeFlags) -> Result<u8> {
    let engine = flags.engine.0;
    if engine == EngineKind::Virtual && flags.time_scale != 1.0 {
        bail!(
            "--time-scale belongs to --engine threads: virtual time passes only when a client advances it"
        );
    }
    let controllers =
        Controllers::from_words(Rows::installed(), &flags.controllers).context("--controllers")?;
    let gates = gates::parse(flags.feature_gates.iter().map(String::as_str));
    let gates = gates.map_err(|problem| anyhow!("--feature-gates: {problem}"))?;
    draw_hash_seed().context("can't draw random numbers")?;
    let mut inputs = Inputs::default();
    for path in &flags.files {
        inputs.add("-f", path);
    }
    for (flag, path) in flags.access.files() {
        inputs.add(flag, path);
    }
    // Check that the outputs are writable, and not inputs, before reading anything.
    let mut outputs = Outputs::default();
    for (flag, path) in [
        ("--kubeconfig", &flags.kubeconfig),
        ("--snapshot", &flags.snapshot),
    ] {
        outputs.open_by(Output::open_private, flag, path.as_ref(), &inputs)?;
    }
    let access = flags.access.access(flags.listen)?;
    let token_key = flags.access.token_key()?;
    let bound = bind("--listen", flags.listen)?;
    let interrupter = interrupt::watch(&Arc::default(), outputs.temporary(), true);
    let (objects, places) = match flags.files.is_empty() {
        true => Default::default(),
        false => {
            let loaded = manifest::load_served(&flags.files, io::stdin())?;
            super::warn(&loaded.warnings);
            super::tell_left_out(&loaded.left_out);
            (loaded.objects, loaded.places)
        }
    };
    let usual = Identity::default();
    let identity = match &access.login.authority {
        Some(authority) => Identity {
            root_ca: authority.as_str().into(),
            ..usual
        },
        None => usual,
    };
    let mut sim = SimOptions::new(engine, flags.seed);
    sim.time_scale = flags.time_scale;
    sim.services = Services {
        controllers,
        numbers: flags.numbers.0.clone(),
        event_ttl_ns: flags.event_ttl,
        namespaces_wait: true,
        plugins: plugins(flags)?,
        identity,
    };
    sim.latency.pod_startup = flags.pod_startup_latency.unwrap_or(match engine {
        EngineKind::Threads => STARTUP,
        // With a startup latency, pods would stay pending until a client advances the time.
        EngineKind::Virtual => Latency::ZERO,
    });
    sim.latency.pod_termination = flags.pod_termination_latency;
    sim.latency.api = flags.api_latency;
    sim.api_errors = flags.api_errors.0;
    sim.forbids_privileged = !flags.allow_privileged;
    sim.controller.feature_gates = gates;
    let Access {
        credentials,
        tls,
        login,
    } = access;
    let finishes = flags.finish_pods || flags.pod_run_time.is_some();
    let options = ServeOptions {
        sim,
        nodes: flags.nodes,
        pods_per_node: flags.pods_per_node,
        zones: flags.zones,
        node_times: NodeTimes {
            toleration_ns: i64::from(flags.default_unreachable_toleration_seconds) * 1_000_000_000,
            ..NodeTimes::default()
        },
        rules: ClientRules {
            unpullable_images: flags.unpullable_images.clone(),
            node_choice: flags.node_choice.into(),
            node_size: NodeSize {
                cpu: flags.node_cpu.to_string(),
                memory: flags.node_memory.to_string(),
            },
            script: flags.pod_script.clone(),
            finishing: finishes.then(|| Finishing {
                run_ns: flags.pod_run_time.unwrap_or(0),
                failing_ppm: ppm(flags.pod_failures.0),
                endless_commands: flags.endless_commands.clone(),
            }),
            pod_network: flags.pod_network,
            container_id: flags.container_id.clone(),
            image_id: flags.image_id.clone(),
            pod_events: flags.pod_events,
        },
        objects,
        log_line: flags.log_line.clone(),
        reaches_kubelets: flags.reach_kubelets,
        bootstraps: true,
        token_key,
    };
    let log = match flags.log_requests {
        true => Some(Arc::new(RequestLog::start(error_stream()?)?) as Arc<dyn Log>),
        false => None,
    };
    let memory = Arc::new(Memory::default());
    let served = Served::start_with(options, |api| {
        let (reading, mutating) = (
            flags.max_requests_inflight,
            flags.max_mutating_requests_inflight,
        );
        let api = api
            .credentials(credentials)
            .allowed_hosts(flags.access.allowed_hosts().to_vec())
            .memory(Arc::clone(&memory))
            .requests_inflight(reading, mutating);
        match log {
            Some(log) => api.log(log),
            None => api,
        }
    });
    let served = served.map_err(|error| placed(error, &places))?;
    drop(places);
    let config = outputs.take("--kubeconfig");
    // From now on, each snapshot replaces the file.
    drop(outputs);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.context("can't start threads")?;
    runtime.spawn(memory::observe(memory, flags.memory_limit));
    let snapshots = Snapshots::start(flags.snapshot.as_ref(), served.cluster())?;
    let serve = serve(
        &served,
        bound,
        tls,
        &login,
        config,
        &snapshots,
        &interrupter,
    );
    runtime.block_on(serve)?;
    snapshots.finish()?;
    Ok(0)
}

/// Adds the place of the object in its file to an error about it.
fn placed(error: Error, places: &Places) -> Error {
    let placed = error.downcast_ref::<Box<Refused>>().and_then(|refused| {
        let problem = refused.problem.to_string();
        places.error(refused.number?, &refused.object, problem)
    });
    placed.map_or(error, Error::new)
}

/// Returns standard error as a file of its own, without the lock of other writers: a writer that
/// waits for its reader does not block them.
fn error_stream() -> Result<File> {
    let copied = io::stderr().as_fd().try_clone_to_owned();
    Ok(copied.context("can't write to standard error")?.into())
}

async fn serve(
    served: &Served,
    bound: Bound,
    tls: Option<Tls>,
    login: &Login,
    config: Option<Output>,
    snapshots: &Snapshots,
    interrupter: &Interrupter,
) -> Result<()> {
    let mut asked = signal(SignalKind::user_defined1()).context("can't catch signals")?;
    descriptors::raise_limit();
    let listener = bound.listen()?;
    let address = listener.local_addr();
    let address = address.context("the listener has no address")?;
    let mut kubeconfig = Kubeconfig::write(address, login, config, interrupter)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    interrupter.begin();
    announce(&format!("{scheme}://{address}"), &kubeconfig.export())?;
    let stop = async {
        loop {
            tokio::select! {
                () = interrupter.stopped() => break,
                _ = asked.recv() => snapshots.ask(),
            }
        }
        kubeconfig.remove_temporary();
    };
    served.listen(listener, tls, stop).await
}

fn announce(url: &str, export: &str) -> Result<()> {
    super::print(&match export {
        "" => format!("Serving {url} until Ctrl-C.\n"),
        export => format!(
            "Serving {url} until Ctrl-C. In another terminal:\n\n  {export}\n  kubectl get \
             nodes\n\n"
        ),
    })
}

fn plugin(name: &str) -> Result<Plugin, String> {
    Plugin::named(name).ok_or_else(|| {
        let [first @ .., last] = Plugin::ALL.map(Plugin::name);
        format!(
            "it is not an admission plugin that can be switched; there are {} and {last}",
            first.join(", ")
        )
    })
}

/// Returns the enabled admission plugins.
fn plugins(flags: &ServeFlags) -> Result<Plugins> {
    let off = &flags.disable_admission_plugins;
    if let Some(both) = flags
        .enable_admission_plugins
        .iter()
        .find(|on| off.contains(on))
    {
        let name = both.name();
        bail!(
            "{name} is in --enable-admission-plugins and in --disable-admission-plugins; use only one of them"
        );
    }
    Ok(off
        .iter()
        .fold(Plugins::ALL, |on, plugin| on.with(*plugin, false)))
}

fn pod_network(text: &str) -> Result<PodNetwork, String> {
    PodNetwork::parse(text)
        .ok_or_else(|| "expected a range large enough for pods: 192.0.2.0/24".to_owned())
}

fn time_scale(text: &str) -> Result<f64, String> {
    let scale: f64 = text.parse().unwrap_or(f64::NAN);
    match scale > 0.0 && scale <= 1000.0 {
        true => Ok(scale),
        false => Err("expected a number above 0, at most 1000".to_owned()),
    }
}
