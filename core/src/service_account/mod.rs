//! The controllers that give namespaces and service accounts what a cluster gives them: the account `default`, the
//! certificate authority of the API server, and tokens in Secrets.
//!
//! `accounts`: the ServiceAccount `default` of each active namespace; `root_ca`: the ConfigMap `kube-root-ca.crt` of
//! each active namespace; `tokens`: Secrets of the type `kubernetes.io/service-account-token`. Each is a controller
//! of its own, which a program can leave to others.
//!
//! None holds a key: a program that runs them passes the authority and a signer in an
//! [`Identity`](crate::identity::Identity).
//!
//! Source: Kubernetes' `pkg/controller/serviceaccount` and `pkg/controller/certificates/rootcacertpublisher`.

mod accounts;
mod root_ca;
mod tokens;

#[cfg(test)]
mod harness;

use std::sync::Arc;

use podstorm_objects::{Kind, Map, Namespace};
use podstorm_runtime::client::ApiError;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::store::Store;
use podstorm_runtime::workqueue::{QueueRow, RateLimitingQueue, Workers};
use serde_json::Value;

pub use accounts::ServiceAccounts;
pub use root_ca::{CONFIG_MAP, RootCa, root_ca_map};
pub use tokens::{ServiceAccountTokens, TOKEN_TYPE};

/// The annotation of a token Secret that names its account.
pub const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// The annotation of a token Secret with the UID of its account.
pub const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// A queue with one worker, as upstream.
const fn one_worker(name: &'static str) -> QueueRow {
    QueueRow {
        workers: Workers::Number(1),
        ..QueueRow::new(name)
    }
}

/// The namespaces of a controller, and the queue of those that it syncs.
#[derive(Debug)]
struct Namespaces {
    store: Arc<Store<Arc<Namespace>>>,
    queue: RateLimitingQueue<KeyId>,
}

impl Namespaces {
    /// The namespace of this key, if it is there and not being deleted.
    fn active(&self, key: KeyId) -> Option<Arc<Namespace>> {
        let namespace = self.store.get(key)?;
        (!namespace.terminating).then(|| Arc::clone(&*namespace))
    }

    /// Queues the namespace of an object that has changed or is gone. One that is not cached yet is queued when it
    /// comes.
    fn wake(&self, namespace: &str, now_ns: i64) {
        if let Some(key) = self.store.find("", namespace) {
            self.queue.add(key, now_ns);
        }
    }
}

/// Whether the namespace does not take objects any more.
fn is_terminating(error: &ApiError) -> bool {
    error.has_cause("NamespaceTerminating")
}

/// A new object of a kind without a type of its own.
fn object(
    kind: Kind,
    namespace: &str,
    name: &str,
    members: Map,
) -> podstorm_objects::DynamicObject {
    let mut object = podstorm_objects::DynamicObject::new(kind);
    object.metadata.namespace = namespace.into();
    object.metadata.name = name.into();
    object.fields = members;
    object
}

/// A member of a member that is a map: `data` and a key.
fn entry<'a>(fields: &'a Map, member: &str, key: &str) -> Option<&'a str> {
    fields.get(member)?.get(key).and_then(Value::as_str)
}
