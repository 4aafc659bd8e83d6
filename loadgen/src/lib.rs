//! The load laboratory of the `loadgen` command: scenarios, settings, manifests, runs, reports.
//!
//! The command is a thin program over this library: [`cli::main`] reads the command line.
//!
//! | module | content |
//! |---|---|
//! | [`cli`] | a file for each command; conversion of settings to flags, and the command that repeats a run |
//! | [`scenario`], [`settings`], [`gates`], [`size`], [`values`], [`units`] | scenarios as data; the settings of a run, declared once for flags, files, schema and results; syntax of values |
//! | [`manifest`], [`input`] | `-f`: YAML and JSON to checked objects, the initial state of a run |
//! | [`run`] | runs one scenario on one simulated cluster: phases, convergence, samples, the result |
//! | `workloads` | a folder for each kind of workload, with its `explain`; the other modules use the list and name no workload |
//! | `drain`, `owned_pods` | the effects of draining a node; the pods of one owner among the objects of files |
//! | [`result`], [`metrics`] | the result of a run with its JSON Schema; every metric of a result by name |
//! | [`compare`], [`sweep`] | comparison of two results with verdicts; a grid of settings, and repeated runs |
//! | [`report`], `text`, [`exposition`] | terminal, progress, full screen, pages, CSV, JUnit; JSON formatting of results; metrics for Prometheus over HTTP |
//! | [`serve`] | a simulated cluster that keeps running behind the API server of `podstorm-http`; snapshots, forks, the page at `/` |
//! | `profile` | stacks sampled by a timer, as a flamegraph, folded stacks, or for `go tool pprof` (feature `profile`) |
//!
//! `OUTPUTS.md` describes every output; `schemas/` has the published schemas of scenario files and results.

pub mod cli;
pub mod compare;
mod drain;
pub mod exposition;
pub mod gates;
pub mod input;
pub mod manifest;
pub mod metrics;
mod owned_pods;
#[cfg(feature = "profile")]
pub mod profile;
pub mod report;
pub mod result;
pub mod run;
pub mod scenario;
pub mod serve;
pub mod settings;
pub mod size;
pub mod sweep;
mod text;
pub mod units;
pub mod values;
mod workloads;

pub use workloads::explain;
