//! The service account controllers: they give each namespace the account `default` and the
//! certificate authority of the API server, and each token Secret its token.
//!
//! `accounts`: the ServiceAccount `default` of each active namespace; `root_ca`: the ConfigMap
//! `kube-root-ca.crt` of each active namespace; `tokens`: Secrets of the type
//! `kubernetes.io/service-account-token`. They are three separate controllers, and a program may
//! leave each of them to others.
//!
//! No controller has a private key: the program that runs them passes the authority and a signer in
//! an [`Identity`](crate::identity::Identity).
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

/// The annotation of a token Secret with the name of its account.
pub const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// The annotation of a token Secret with the UID of its account.
pub const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// A queue with one worker, as in upstream.
const fn one_worker(name: &'static str) -> QueueRow {
    QueueRow {
        workers: Workers::Number(1),
        ..QueueRow::new(name)
    }
}

/// The namespaces of a controller, and the queue of those to sync.
#[derive(Debug)]
struct Namespaces {
    store: Arc<Store<Arc<Namespace>>>,
    queue: RateLimitingQueue<KeyId>,
}

impl Namespaces {
    /// Returns the namespace of this key if it exists and is not being deleted.
    fn active(&self, key: KeyId) -> Option<Arc<Namespace>> {
        let namespace = self.store.get(key)?;
        (!namespace.terminating).then(|| Arc::clone(&*namespace))
    }

    /// Queues the namespace of a changed or deleted object. A namespace that is not cached yet is
    /// queued when it arrives.
    fn wake(&self, namespace: &str, now_ns: i64) {
        if let Some(key) = self.store.find("", namespace) {
            self.queue.add(key, now_ns);
        }
    }
}

/// Reports whether the namespace refuses new objects.
fn is_terminating(error: &ApiError) -> bool {
    error.has_cause("NamespaceTerminating")
}

/// Builds a new dynamic object.
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

/// Returns a value of a member that is a map, such as `data`, by its key.
fn entry<'a>(fields: &'a Map, member: &str, key: &str) -> Option<&'a str> {
    fields.get(member)?.get(key).and_then(Value::as_str)
}
