//! Podstorm: a Kubernetes ReplicaSet controller built for speed.
#![doc = ""]
#![doc = include_str!("../README.md")]

pub mod cache;
pub mod client;
pub mod consistency;
pub mod controller;
pub mod expectations;
pub mod intern;
pub mod limits;
pub mod metrics;
pub mod object;
pub mod policy;
pub mod primitives;
pub mod ranking;
pub mod reconcile;
pub mod reflector;
pub mod slow_start;
pub mod workqueue;
