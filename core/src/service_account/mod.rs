//! The controllers that give namespaces and service accounts what a cluster gives them: the account `default`, the
//! certificate authority of the API server, and tokens in Secrets.
//!
//! `accounts`: the ServiceAccount `default` of each active namespace; `root_ca`: the ConfigMap `kube-root-ca.crt` of
//! each active namespace; `tokens`: Secrets of the type `kubernetes.io/service-account-token`. Each is a controller
//! of its own, which a program can leave to others.
//!
//! None holds a key: a program that runs them passes the authority and a [`SignTokens`] in an [`Identity`].
//!
//! Source: Kubernetes' `pkg/controller/serviceaccount` and `pkg/controller/certificates/rootcacertpublisher`.

mod accounts;
mod root_ca;
mod tokens;

#[cfg(test)]
mod harness;

use std::fmt::Debug;
use std::sync::Arc;

use podstorm_objects::{Kind, Map, Namespace, ObjectMeta};
use podstorm_runtime::client::ApiError;
use podstorm_runtime::driver::SyncFailure;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::store::Store;
use podstorm_runtime::workqueue::{QueueRow, RateLimitingQueue, Workers};
use serde_json::Value;

pub use accounts::ServiceAccounts;
pub use root_ca::{CONFIG_MAP, RootCa, root_ca_map};
pub use tokens::{ServiceAccountTokens, TOKEN_TYPE};

/// The account that every active namespace has.
pub const DEFAULT_ACCOUNT: &str = "default";

/// The annotation of a token Secret that names its account.
pub const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// The annotation of a token Secret with the UID of its account.
pub const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// Signs tokens for service accounts.
pub trait SignTokens: Debug + Send + Sync {
    /// The token of a Secret, which is valid until the Secret or its account goes. `None` if no token can be signed
    /// now.
    fn sign(&self, of: &TokenOf<'_>) -> Option<String>;
}

/// The Secret that a token is for.
#[derive(Clone, Copy, Debug)]
pub struct TokenOf<'a> {
    /// The service account, with its namespace and UID.
    pub account: &'a ObjectMeta,
    /// The name of the Secret.
    pub secret: &'a str,
}

/// What the cluster proves its identity and that of its accounts with.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificates of the authorities by which clients know the API server, as PEM.
    pub root_ca: Arc<str>,
    /// What signs tokens. Without it Secrets get no tokens.
    pub signer: Option<Arc<dyn SignTokens>>,
}

impl Default for Identity {
    /// An [authority](PLACEHOLDER_CA) that signs nothing, and no tokens.
    fn default() -> Identity {
        Identity {
            root_ca: PLACEHOLDER_CA.into(),
            signer: None,
        }
    }
}

impl PartialEq for Identity {
    /// Whether both have the same text and the same signer in memory.
    fn eq(&self, other: &Identity) -> bool {
        let signer = |of: &Identity| of.signer.as_ref().map(|signer| Arc::as_ptr(signer).addr());
        self.root_ca == other.root_ca && signer(self) == signer(other)
    }
}

/// A self-signed certificate for clusters whose API server speaks no TLS: pods expect a certificate in
/// `kube-root-ca.crt`. Its key was discarded, so no server can pass as one that the certificate vouches for. It is
/// the same everywhere, so that equal runs write equal objects.
pub const PLACEHOLDER_CA: &str = include_str!("placeholder_ca.pem");

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
    /// The name of the namespace of this key, if it is there and not being deleted.
    fn active(&self, key: KeyId) -> Option<Arc<Arc<Namespace>>> {
        let namespace = self.store.get(key)?;
        (!namespace.terminating).then_some(namespace)
    }

    /// Queues the namespace of an object that has changed or is gone. One that is not cached yet is queued when it
    /// comes.
    fn wake(&self, namespace: &str, now_ns: i64) {
        if let Some(key) = self.store.find("", namespace) {
            self.queue.add(key, now_ns);
        }
    }
}

fn failure(label: &'static str, error: ApiError) -> SyncFailure {
    SyncFailure {
        label,
        message: error.message,
        is_final: false,
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
