//! The parts that every Kubernetes controller needs.
#![doc = ""]
#![doc = include_str!("../README.md")]
//!
//! No module knows which workload is controlled. [`cache`] is the informer cache, [`workqueue`] the
//! queue, [`expectations`] and [`consistency`] keep a sync from acting on an old cache, [`claim`]
//! adopts and releases objects, [`owned`] says which owners an event wakes, [`store`] keeps objects in the
//! form that controllers read, [`informer`] fills the stores of all kinds, [`driver`] runs syncs, [`client`] is the layer before the API, and a [`row`] says what
//! a controller is to those who run it.

pub mod cache;
pub mod claim;
pub mod client;
pub mod consistency;
pub mod driver;
pub mod expectations;
pub mod informer;
pub mod intern;
pub mod limits;
pub mod metrics;
pub mod owned;
pub mod primitives;
pub mod reflector;
pub mod row;
pub mod slow_start;
pub mod store;
pub mod workqueue;
