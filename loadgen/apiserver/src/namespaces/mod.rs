//! The namespace controller: one sync of a namespace that is being deleted, request by request as
//! upstream's, for clusters that show users what upstream shows them.
//!
//! [`sync`] decides, and asks a [`NamespaceApi`] for every request. [`StoreApi`] answers from a
//! cluster. When a namespace is due is the caller's: [`FIRST_AFTER_NS`] after its deletion begins, and
//! then as [`Outcome`] says. A cluster without this controller empties namespaces by itself, at
//! once and without conditions (`gc::namespace`).
//!
//! Source: Kubernetes' `pkg/controller/namespace/deletion`.

mod conditions;
mod finalize;
mod store;
mod sync;

pub use store::StoreApi;
pub use sync::{Content, ContentType, Discovery, NamespaceApi, Outcome, Stopped, sync};

/// From the notification that a namespace is being deleted to its sync, ns: other servers may still
/// admit objects to it.
pub const FIRST_AFTER_NS: i64 = 5_000_000_000;

#[cfg(test)]
mod tests;
