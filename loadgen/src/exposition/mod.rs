//! `--metrics-addr`: the metrics of a run for Prometheus, over HTTP while the run goes on.

mod server;
mod text;

pub use server::{MetricsServer, ServerError};
