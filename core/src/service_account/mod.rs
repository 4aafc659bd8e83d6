//! The service account controllers: they give each namespace the account `default` and the
//! certificate authority of the API server, and each token Secret its token.
//!
//! `accounts`: the ServiceAccount `default` of each active namespace; `root_ca`: the ConfigMap
//! `kube-root-ca.crt` of each active namespace; `tokens`: Secrets of the type
//! `kubernetes.io/service-account-token`. They are three separate controllers, and a program may
//! run any of them without the others.
//!
//! The controllers have no private keys: the program that runs them passes the root certificate and
//! a signer in an [`Identity`](crate::identity::Identity).
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

/// The annotation of a token Secret that holds the name of its account.
pub const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// The annotation of a token Secret that holds the UID of its account.
pub const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Returns the row of a queue with one worker, as in upstream.
const fn one_worker(name: &'static str) -> QueueRow {
    QueueRow {
        workers: Workers::Number(1),
        ..QueueRow::new(name)
    }
}

/// The namespaces that a controller reads, and the queue of the namespaces to sync.
#[derive(Debug)]
struct Namespaces {
    store: Arc<Store<Arc<Namespace>>>,
    queue: RateLimitingQueue<KeyId>,
}

impl Namespaces {
    /// Returns the namespace with this key; `None` if it does not exist or is being deleted.
    fn active(&self, key: KeyId) -> Option<Arc<Namespace>> {
        let namespace = self.store.get(key)?;
        (!namespace.terminating).then(|| Arc::clone(&*namespace))
    }

    /// Queues the namespace of a changed or deleted object. If the namespace is not cached yet, it
    /// is queued when it arrives.
    fn wake(&self, namespace: &str, now_ns: i64) {
        if let Some(key) = self.store.find("", namespace) {
            self.queue.add(key, now_ns);
        }
    }
}

/// Reports whether a request was refused because its namespace is being deleted.
fn is_terminating(error: &ApiError) -> bool {
    error.has_cause("NamespaceTerminating")
}

/// Builds a new object with these members.
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

/// Returns the string under `key` in a member that is a map, such as `data`; `None` if absent.
fn entry<'a>(fields: &'a Map, member: &str, key: &str) -> Option<&'a str> {
    fields.get(member)?.get(key).and_then(Value::as_str)
}
