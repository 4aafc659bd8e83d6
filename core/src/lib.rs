//! Podstorm: Kubernetes workload controllers built for speed.
#![doc = ""]
#![doc = include_str!("../README.md")]

pub mod cache;
pub mod controller;
pub mod deployment;
pub mod disruption;
mod disruption_target;
pub mod endpoints;
pub mod identity;
pub mod job;
pub mod namespace;
mod node;
pub mod node_lifecycle;
pub mod pod_gc;
mod pod_key;
pub mod policy;
pub mod ranking;
pub mod registry;
pub mod replicaset;
pub mod revisions;
pub mod role_aggregation;
pub mod service_account;
pub mod statefulset;
pub mod taint_eviction;
pub mod template;
pub mod ttl_after_finished;
pub mod volumes;

pub use podstorm_objects as object;
pub use podstorm_runtime::{
    claim, client, consistency, driver, expectations, informer, intern, limits, metrics, owned,
    primitives, reflector, row, slow_start, store, workqueue,
};
