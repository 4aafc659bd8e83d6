//! `loadgen explain`: shows which pods a scale-down deletes, what a rollout or Job does next, or
//! which pods a drain evicts, and why.

use std::io;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use clap::error::ErrorKind;
use clap::{Arg, ArgGroup, ArgMatches, Args, Command, Error, FromArgMatches, ValueEnum};
use podstorm::limits::BURST_REPLICAS;
use podstorm_objects::{Now, Selector, Time};
use podstorm_sim::clock::RealClock;

use crate::drain;
use crate::gates;
use crate::manifest;
use crate::units::parse_size;
use crate::values::BehaviourName;
use crate::workloads::explain::selection::Preferred;
use crate::workloads::explain::{Asked, Layout};
use crate::workloads::{self, NameFlag, Workload, kinds_in_words};

/// Flags of `loadgen explain`.
#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("owner").required(true),
    after_help = "More: loadgen explain --help",
    after_long_help = "\
THE RULES, in order; the first rule that distinguishes two pods decides
  1 no node before a node          5 more related pods on its node (those that the selectors
  2 Pending, Unknown, Running        of all ReplicaSets with the same owner match)
  3 not ready before ready         6 ready for a shorter time, on a logarithmic scale
  4 smaller deletion cost          7 more restarts of a container, then of a sidecar
                                   8 created later, on a logarithmic scale
  Ages within one step of the scale (each step is twice as long as the one before) count as equal,
  and the smaller UID goes first; if the times are identical the next rule decides. Rules 6 to 8
  can therefore contradict themselves among some pods; the answer reports where this matters.

EXAMPLES
  kubectl get rs,rc,pods,nodes -A -o json | loadgen explain -f - --replicaset shop/web --replicas 8
      which pods are deleted when shop/web is scaled to 8, and why
  loadgen explain -f loadgen/examples/billing.yaml --replicaset web --replicas 8 -o wide
      the same, with every value that the ranking uses
  loadgen explain -f loadgen/examples/billing.yaml --replicaset web --replicas 8 \\
      --prefer billing=on-demand
      the annotations that put the pods on on-demand nodes first, and how to undo them
  loadgen explain -f dump.json --deployment shop/web --replicas 8
      the same question about the newest ReplicaSet of a Deployment
  kubectl get deploy,rs,pods -n shop -o json | loadgen explain -f - --deployment web
      the next syncs of its rollout, and their reasons
  loadgen explain -f dump.json --deployment shop/web --image registry.example/web:2
      the steps of a rollout to that image
  kubectl get jobs,pods -n shop -o json | loadgen explain -f - --job render
      its next sync, why it failed or does not finish, and when each index is retried
  kubectl get sts,pods,pvc,controllerrevisions -n shop -o json | loadgen explain -f - --statefulset web
      its next syncs, the pod or claim that it waits for, and the pod that blocks a rollout
  loadgen explain -f loadgen/examples/job.yaml --job render --parallelism 1
      which pods are deleted when its parallelism falls to 1
  kubectl get nodes,pods,pdb,deploy,rs,sts,rc -A -o json | loadgen explain -f - --drain node-7
      which pods a drain of the node evicts, and which ones a budget protects
  loadgen explain -f dump.json.gz --replicaset shop/web --replicas 8 -o json |
      jq -r '.pods[] | select(.fate == \"deleted\") | .name'
      the names of the pods that go

JSON FIELDS (-o json)
  schema_version kind namespace name replicas_before replicas now ages_matter active deleted syncs
  released inactive notes[] undecided{first last deleted why} input{taken ignored
    pods{ready not_ready terminating ended still_not_ready}}
  pods[]: place name uid fate sync adopted node phase ready deletion_cost related_pods_on_node
    ready_since restarts sidecar_restarts created before_next{number rule words}
  prefer: matched matched_by_pod_labels matched_by_node_labels deleted_before deleted_after
    annotations[]{pod deletion_cost command undo} unreachable[]{pod reason}
  fate: deleted, kept, or deleted-or-kept and kept-or-deleted where upstream's choice is undefined
  rule: unscheduled phase not-ready deletion-cost colocation ready-time ready-time-uid restarts
    creation-time creation-time-uid, earlier-sync, tie, contradiction

JSON FIELDS OF A ROLLOUT (-o json)
  schema_version kind namespace name strategy paused replicas max_surge max_unavailable
  problems[] end
  steps[]: sync[]{request name replicas[before after] why}, or waits

JSON FIELDS OF A STATEFULSET (-o json)
  schema_version kind namespace name now state pod_management strategy partition replicas pods ready
  current_revision update_revision failure delete[] rollout notes[]
  syncs[][]: request name why
  waits[]: rule pod claim revision why
  state: settled waiting stuck failing
  rule of waits: terminating not-ready min-ready-seconds stale-claim

JSON FIELDS OF A JOB (-o json)
  schema_version kind namespace name now state completions parallelism active ready terminating
  succeeded failed removals_to notes[]
  next[] why[] retries[] failures[]: rule pod index time why
  removals[]: place sync pod index rule why
  state: running suspended complete failed ignored
  rule of removals: suspended unknown-index surplus-index repeated-index surplus

JSON FIELDS OF A DRAIN (-o json)
  schema_version node is_cordoned notes[]
  pods[]: namespace name owner fate budgets[] why
  fate: goes, waits (for a budget), stuck (until an operator intervenes), stays
  budgets[]: namespace name expected healthy desired allowed goes waits

EXIT CODES
  0 answered   2 wrong usage or input")]
pub(super) struct ExplainFlags {
    /// The cluster: Kubernetes YAML or JSON with any number of documents and Lists, optionally
    /// gzipped; `-` is standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1.., required = true)]
    files: Vec<PathBuf>,

    /// The object in question.
    #[command(flatten)]
    subject: Subject,

    /// For a workload with rollouts: explain a rollout to this image of the first container
    #[arg(long, value_name = "IMAGE", conflicts_with_all = ["replicas", "prefer", "prefer_pods", "prefer_nodes"])]
    image: Option<String>,

    /// The number of pods after the scale-down [default: its spec.replicas]; for a Job, the new
    /// parallelism [default: 0]
    #[arg(long, visible_alias = "parallelism", value_name = "NUMBER", allow_hyphen_values = true,
          value_parser = clap::value_parser!(i32).range(0..))]
    replicas: Option<i32>,

    /// Prefer to delete pods that match this label selector, by their own labels or by those of
    /// their node; prints the deletion costs that achieve this
    #[arg(long, value_name = "SELECTOR", value_parser = selector, help_heading = "Preference")]
    prefer: Option<(String, Selector)>,

    /// Like --prefer, but matches only labels of pods
    #[arg(long, value_name = "SELECTOR", value_parser = selector, help_heading = "Preference")]
    prefer_pods: Option<(String, Selector)>,

    /// Like --prefer, but matches only labels of nodes
    #[arg(long, value_name = "SELECTOR", value_parser = selector, help_heading = "Preference")]
    prefer_nodes: Option<(String, Selector)>,

    /// Feature gates that change behaviour, as for `loadgen run`; PodDeletionCost=false disables
    /// rule 4
    #[arg(long, value_name = "NAME=BOOL,...", help_heading = "Controller")]
    feature_gates: Vec<String>,

    /// Maximum number of deletes per sync [default: 500]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true,
          help_heading = "Controller")]
    burst_replicas: Option<u64>,

    /// The behaviour: upstream, or hardened (which also counts related pods without an owner)
    #[arg(
        long,
        value_name = "NAME",
        default_value = "upstream",
        help_heading = "Controller"
    )]
    behaviour: BehaviourName,

    /// The time of the ranking, to which ages are relative: 2026-01-02T03:04:05Z [default: now]
    #[arg(long, value_name = "TIME", value_parser = moment, help_heading = "Controller")]
    now: Option<Time>,

    /// Output format: table, wide (with every value that ranks pods) or json
    #[arg(
        short,
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "table",
        help_heading = "Output"
    )]
    output: Format,

    /// Number of rows of the table to show, from the top; the rows around the last deleted pod are
    /// always shown
    #[arg(long, value_name = "NUMBER", value_parser = parse_size, default_value = "20",
          help_heading = "Output")]
    limit: u64,

    /// Show every row
    #[arg(long, conflicts_with = "limit", help_heading = "Output")]
    all: bool,
}

/// The object in question, which exactly one flag names: a workload or a node.
#[derive(Debug)]
enum Subject {
    /// The workload with this name.
    Object(Workload, String),
    /// The node with this name, whose drain is explained.
    Drain(String),
}

/// The flag that names the node to drain.
const DRAIN: NameFlag = NameFlag {
    name: "drain",
    help: "A node: which of its pods go when it is drained, and which ones a budget protects",
};

impl Args for Subject {
    fn augment_args(mut command: Command) -> Command {
        let flags = workloads::ALL.into_iter().map(|it| it.name_flag());
        for NameFlag { name, help } in flags.chain([DRAIN]) {
            let arg = Arg::new(name).long(name).value_name("NAME").help(help);
            command = command.arg(arg.group("owner"));
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Subject::augment_args(command)
    }
}

impl FromArgMatches for Subject {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Subject, Error> {
        let named = |flag: NameFlag| matches.get_one::<String>(flag.name).cloned();
        if let Some(node) = named(DRAIN) {
            return Ok(Subject::Drain(node));
        }
        let given = workloads::ALL
            .into_iter()
            .find_map(|workload| Some(Subject::Object(workload, named(workload.name_flag())?)));
        given.ok_or_else(|| Error::new(ErrorKind::MissingRequiredArgument))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Subject::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Values of `--output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Wide,
    Json,
}

/// Prints the explanation and returns the exit code.
///
/// # Errors
/// The usage or the input is invalid.
pub(super) fn run(flags: &ExplainFlags) -> Result<u8> {
    let gates = gates::parse(flags.feature_gates.iter().map(String::as_str));
    let gates = gates.map_err(|problem| anyhow!("--feature-gates: {problem}"))?;
    let preferred = Preferred {
        either: flags.prefer.clone(),
        pods: flags.prefer_pods.clone(),
        nodes: flags.prefer_nodes.clone(),
    };
    let burst = flags
        .burst_replicas
        .map_or(Ok(BURST_REPLICAS), usize::try_from);
    let burst_replicas = match burst {
        Ok(0) | Err(_) => bail!("--burst-replicas must be more than zero"),
        Ok(burst) => burst,
    };
    let now = match flags.now {
        Some(time) => Now {
            mono_ns: 0,
            wall_ns: time
                .unix_nanos()
                .context("--now is too far from the present")?,
        },
        None => RealClock::start().now(),
    };
    let stdin = io::stdin().lock();
    let loaded = match &flags.subject {
        Subject::Object(workload, _) => {
            if flags.image.is_some() && workload.rollouts().is_none() {
                bail!(
                    "--image: a {} has no rollouts; ask about {}",
                    workload.kind().name(),
                    kinds_in_words(|workload| workload.rollouts().is_some())
                );
            }
            manifest::load(&flags.files, stdin)?
        }
        Subject::Drain(_) => {
            let is_given = [
                ("--image", flags.image.is_some()),
                ("--replicas", flags.replicas.is_some()),
                ("--prefer", !preferred.is_none()),
            ];
            if let Some((flag, _)) = is_given.into_iter().find(|(_, is_given)| *is_given) {
                bail!(
                    "{flag} asks about a workload and --drain about a node; use only one of them"
                );
            }
            // A server stores more kinds than a run: among them PodDisruptionBudgets.
            manifest::load_served(&flags.files, stdin)?
        }
    };
    super::warn(&loaded.warnings);
    let asked = Asked {
        objects: loaded.objects,
        counts: loaded.counts,
        replicas: flags.replicas,
        image: flags.image.clone(),
        preferred,
        gates,
        burst_replicas,
        policy: flags.behaviour.0.policy(),
        now,
    };
    asked.check()?;
    let answer = match &flags.subject {
        Subject::Object(workload, name) => workload.explain(name, asked)?,
        Subject::Drain(node) => drain::explain(node, asked)?,
    };
    if flags.output == Format::Json {
        let mut document = Vec::new();
        answer.write_json(&mut document)?;
        super::print(&String::from_utf8_lossy(&document))?;
        return Ok(0);
    }
    let layout = Layout {
        wide: flags.output == Format::Wide,
        limit: (!flags.all).then(|| usize::try_from(flags.limit).unwrap_or(usize::MAX)),
        width: width(),
    };
    super::print(&answer.text(layout))?;
    Ok(0)
}

/// Returns the width of the terminal, clamped to a readable range; 100 columns without a terminal.
fn width() -> u16 {
    let terminal = terminal_size::terminal_size();
    terminal.map_or(100, |(width, _)| width.0.clamp(60, 160))
}

fn selector(text: &str) -> Result<(String, Selector), String> {
    match Selector::parse(text) {
        Ok(selector) if selector.is_empty() => Err("matches every pod; name a label".to_owned()),
        Ok(selector) => Ok((text.to_owned(), selector)),
        Err(error) => Err(error.to_string()),
    }
}

fn moment(text: &str) -> Result<Time, String> {
    match text.parse::<Time>() {
        Ok(time) if time.is_unset() => Err("expected a time after 0001-01-01T00:00:00Z".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}
