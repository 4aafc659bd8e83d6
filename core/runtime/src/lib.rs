//! The building blocks of a Kubernetes controller.
#![doc = ""]
#![doc = include_str!("../README.md")]

pub mod cache;
pub mod claim;
pub mod client;
pub mod consistency;
pub mod driver;
pub mod expectations;
pub mod informer;
pub mod intern;
pub mod key_states;
pub mod limits;
pub mod metrics;
pub mod owned;
pub mod primitives;
pub mod reflector;
pub mod row;
pub mod slow_start;
pub mod store;
pub mod workqueue;
