//! The token controller: it fills Secrets of the type `kubernetes.io/service-account-token` with a
//! token for the account that they name, and deletes them with the account.
//!
//! It has two queues: one for deleted accounts, whose Secrets must be deleted, and one for Secrets
//! that were added, changed or deleted. One lock guards the Secrets by namespace and the accounts
//! of deleted Secrets. It is not held across a call.
//!
//! Source: `TokensController` in Kubernetes' `pkg/controller/serviceaccount`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use podstorm_objects::{AnyObject, DeleteOptions, DynamicObject, Kind, Now, Object, Str};
use podstorm_runtime::client::ApiError;
use podstorm_runtime::driver::{AsyncWorkload, Calls, Steps, SyncFailure, unless_gone};
use podstorm_runtime::informer::{Handler, Informers};
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::primitives::{Mutex, MutexGuard, lock};
use podstorm_runtime::row::{ControllerRow, Write};
use podstorm_runtime::store::{Change, Keyed, Store};
use podstorm_runtime::workqueue::{End, QueueRow, RateLimitingQueue, Workers};
use serde_json::{Map, Value};

use super::{ACCOUNT_NAME, ACCOUNT_UID, entry};
use crate::controller::{ControllerType, Setup};
use crate::identity::{Identity, TokenOf};

/// The type of token Secrets.
pub const TOKEN_TYPE: &str = "kubernetes.io/service-account-token";

/// The maximum number of retries of a key.
///
/// Source: `maxRetries` of the controller.
const RETRIES_MAX: u32 = 10;

/// The maximum number of attempts to remove a reference from an account when there are conflicts.
const ATTEMPTS: u32 = 10;

/// The token controller, as a [`ControllerType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceAccountTokens;

/// Returns the row of a queue with five workers, upstream's default of
/// `--concurrent-serviceaccount-token-syncs`.
const fn queue(name: &'static str) -> QueueRow {
    QueueRow {
        workers: Workers::Number(5),
        retries_max: Some(RETRIES_MAX),
        ..QueueRow::new(name)
    }
}

impl ControllerType for ServiceAccountTokens {
    type Workload = Controller;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "serviceaccount-token-controller",
        alias: "serviceaccount-token",
        component: "serviceaccount-token-controller",
        purpose: "the tokens of Secrets for service accounts",
        reads: &[Kind::SERVICE_ACCOUNT, Kind::SECRET],
        writes: &[
            Write::new(Kind::SECRET, &["delete", "get", "update"]),
            Write::new(Kind::SERVICE_ACCOUNT, &["get", "update"]),
        ],
        queues: &[
            queue("serviceaccount_tokens_service"),
            queue("serviceaccount_tokens_secret"),
        ],
        served_only: true,
        populates: true,
        ..ControllerRow::DEFAULT
    };

    fn make(setup: &Setup, informers: &mut Informers) -> Arc<Controller> {
        Arc::new(Controller::new(setup.identity.clone(), informers))
    }
}

const ACCOUNTS: usize = 0;
const SECRETS: usize = 1;

/// The token controller. Other controllers may share its informers. A clone is a handle to the same
/// controller.
#[derive(Clone, Debug)]
pub struct Controller(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    identity: Identity,
    accounts: Arc<Store<AnyObject>>,
    secrets: Arc<Store<AnyObject>>,
    queues: [RateLimitingQueue<KeyId>; 2],
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The cached token Secrets, by namespace.
    secrets: BTreeMap<Str, BTreeSet<KeyId>>,
    /// The accounts of deleted token Secrets, by the keys of the Secrets, until the next sync of
    /// the key.
    lost: BTreeMap<KeyId, Claimed>,
}

/// The account that a token Secret names.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claimed {
    name: Str,
    /// The UID of the account; empty if the Secret does not name one.
    uid: Str,
}

impl Claimed {
    /// Returns the account that a token Secret names; `None` for other objects.
    fn by(secret: &dyn Object) -> Option<Claimed> {
        let secret = secret.downcast_ref::<DynamicObject>()?;
        let annotations = &secret.metadata.annotations;
        let annotation = |key| annotations.get(key).map_or("", |text| text).into();
        (secret.fields.get("type")? == TOKEN_TYPE).then(|| Claimed {
            name: annotation(ACCOUNT_NAME),
            uid: annotation(ACCOUNT_UID),
        })
    }

    fn is(&self, account: &dyn Object) -> bool {
        self.uid.is_empty() || *self.uid == *account.metadata().uid.to_string()
    }
}

impl Controller {
    /// Creates a controller that reads accounts and Secrets from `informers`.
    pub fn new(identity: Identity, informers: &mut Informers) -> Controller {
        let shared = Arc::new(Shared {
            identity,
            accounts: informers.store(Kind::SERVICE_ACCOUNT, || ()),
            secrets: informers.store(Kind::SECRET, || ()),
            queues: [ACCOUNTS, SECRETS]
                .map(|queue| RateLimitingQueue::from_row(ServiceAccountTokens::ROW.queues[queue])),
            known: Mutex::default(),
        });
        let accounts = Arc::new(Accounts(Arc::clone(&shared)));
        informers.add_handler::<AnyObject>(Kind::SERVICE_ACCOUNT, accounts);
        informers.add_handler::<AnyObject>(Kind::SECRET, Arc::clone(&shared) as _);
        Controller(shared)
    }
}

/// The handler that queues deleted accounts, even if another account has taken the name.
struct Accounts(Arc<Shared>);

impl Handler<AnyObject> for Accounts {
    fn handle(&self, change: &Change<AnyObject>, now: Now) {
        let uid = |object: &Arc<AnyObject>| object.metadata().uid.clone();
        if change.old.as_ref().map(uid) != change.new.as_ref().map(uid)
            && (change.old.is_some() || change.last.is_some())
        {
            self.0.queues[ACCOUNTS].add(change.key, now.mono_ns);
        }
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(&self.0.queues[ACCOUNTS])
    }
}

impl Handler<AnyObject> for Shared {
    fn handle(&self, change: &Change<AnyObject>, now: Now) {
        let new = change.new.as_ref().map(|new| &***new);
        let object = new.or(change.last.as_deref());
        let Some((object, claimed)) = object.and_then(|it| Some((it, Claimed::by(it)?))) else {
            return;
        };
        let namespace = &object.metadata().namespace;
        let mut known = self.lock();
        if new.is_some() {
            let secrets = known.secrets.entry(namespace.clone()).or_default();
            secrets.insert(change.key);
        } else {
            if let Some(secrets) = known.secrets.get_mut(namespace) {
                secrets.remove(&change.key);
                if secrets.is_empty() {
                    known.secrets.remove(namespace);
                }
            }
            known.lost.insert(change.key, claimed);
        }
        drop(known);
        self.queues[SECRETS].add(change.key, now.mono_ns);
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(self)
    }
}

/// The state of the controller under the keys of Secrets.
impl Keyed for Shared {
    fn is_idle(&self, key: KeyId) -> bool {
        self.queues[SECRETS].is_idle(key)
    }

    fn forget(&self, key: KeyId) {
        self.queues[SECRETS].forget(key);
        self.lock().lost.remove(&key);
    }
}

impl AsyncWorkload for Controller {
    fn name(&self, queue: usize, key: KeyId) -> ObjectKey {
        match queue {
            ACCOUNTS => self.0.accounts.name(key),
            _ => self.0.secrets.name(key),
        }
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        &self.0.queues
    }

    fn steps(&self, queue: usize, key: KeyId, calls: Calls) -> impl Steps {
        let shared = Arc::clone(&self.0);
        async move {
            match queue {
                ACCOUNTS => sync_account(shared, key, calls).await,
                _ => sync_secret(shared, key, calls).await,
            }
        }
    }
}

/// Deletes the token Secrets of all accounts of this name, except those of the current account.
async fn sync_account(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let ObjectKey { namespace, name } = shared.accounts.name(key);
    let account = shared.accounts.get(key);
    for secret in shared.secrets_of(&namespace) {
        let Some(claimed) = Claimed::by(&**secret) else {
            continue;
        };
        let is_current = account
            .as_ref()
            .is_some_and(|account| claimed.is(&***account));
        if *claimed.name == *name && !claimed.uid.is_empty() && !is_current {
            delete(&**secret, &calls).await?;
        }
    }
    Ok(End::Forget)
}

/// Fills a Secret. Deletes a Secret whose account no longer exists. Removes the reference to a
/// deleted Secret from its account.
async fn sync_secret(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let ObjectKey { namespace, name } = shared.secrets.name(key);
    let lost = shared.lock().lost.remove(&key);
    let secret = shared.secrets.get(key);
    let Some((secret, claimed)) =
        secret.and_then(|it| Some((Arc::clone(&it), Claimed::by(&**it)?)))
    else {
        if let Some(claimed) = lost {
            let forgotten = shared
                .forget_secret(&namespace, &claimed, &name, &calls)
                .await;
            if forgotten.is_err() {
                // The retry needs the account.
                shared.lock().lost.entry(key).or_insert(claimed);
            }
            forgotten?;
        }
        return Ok(End::Forget);
    };
    match shared.account(&namespace, &claimed, &calls).await? {
        None => delete(&**secret, &calls).await?,
        Some(account) => shared.fill(&*account, &**secret, &calls).await?,
    }
    Ok(End::Forget)
}

/// Deletes a Secret. A Secret that no longer exists counts as deleted.
async fn delete(secret: &dyn Object, calls: &Calls) -> Result<(), SyncFailure> {
    let meta = secret.metadata();
    let options = DeleteOptions {
        precondition_uid: Some(meta.uid.clone()),
        ..DeleteOptions::default()
    };
    let deleted = calls.delete(Kind::SECRET, meta, Some(options)).await;
    unless_gone(deleted)
        .map(drop)
        .map_err(SyncFailure::at("delete failed"))
}

/// Reads an object from the server; `None` if it does not exist.
async fn read(
    kind: Kind,
    namespace: &Str,
    name: &str,
    calls: &Calls,
) -> Result<Option<AnyObject>, SyncFailure> {
    let read = calls.read(kind, namespace, name).await;
    unless_gone(read).map_err(SyncFailure::at("read failed"))
}

/// Reports whether the object no longer exists or has a newer version. In both cases another event
/// of the object wakes the Secret.
fn is_overtaken(error: &ApiError) -> bool {
    matches!(error.code, 404 | 409)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }

    /// Returns the token Secrets of a namespace.
    fn secrets_of(&self, namespace: &str) -> Vec<Arc<AnyObject>> {
        let keys = self.lock().secrets.get(namespace).cloned();
        let keys = keys.into_iter().flatten();
        keys.filter_map(|key| self.secrets.get(key)).collect()
    }

    /// Returns the account that a Secret names, from the cache or, failing that, from the server;
    /// `None` if it does not exist.
    async fn account(
        &self,
        namespace: &Str,
        claimed: &Claimed,
        calls: &Calls,
    ) -> Result<Option<AnyObject>, SyncFailure> {
        let cached = self.accounts.get_named(namespace, &claimed.name);
        if let Some(cached) = cached.filter(|account| claimed.is(&***account)) {
            return Ok(Some(AnyObject::clone(&cached)));
        }
        let live = read(Kind::SERVICE_ACCOUNT, namespace, &claimed.name, calls).await?;
        Ok(live.filter(|account| claimed.is(&**account)))
    }

    /// Reports whether a Secret lacks data that the controller can add.
    fn lacks(&self, secret: &DynamicObject) -> bool {
        let has = |key| entry(&secret.fields, "data", key).is_some_and(|text| !text.is_empty());
        let authority = BASE64_STANDARD.encode(&*self.identity.root_ca);
        entry(&secret.fields, "data", "ca.crt") != Some(&authority)
            || !has("namespace")
            || !has("token") && self.identity.signer.is_some()
    }

    /// Adds the missing data to a Secret, unless the cached version is outdated.
    async fn fill(
        &self,
        account: &dyn Object,
        cached: &dyn Object,
        calls: &Calls,
    ) -> Result<(), SyncFailure> {
        let lacks = |secret: &dyn Object| {
            let secret = secret.downcast_ref::<DynamicObject>();
            secret.is_some_and(|secret| self.lacks(secret))
        };
        if !lacks(cached) {
            return Ok(());
        }
        let meta = cached.metadata();
        let live = read(Kind::SECRET, &meta.namespace, &meta.name, calls).await?;
        let is_current = |live: &AnyObject| {
            live.metadata().resource_version == meta.resource_version && lacks(&**live)
        };
        let live = live.filter(is_current);
        let Some(live) = live
            .as_ref()
            .and_then(|it| it.downcast_ref::<DynamicObject>())
        else {
            return Ok(());
        };
        let mut secret = live.clone();
        let data = secret.fields.entry("data").or_insert(Value::Null);
        if !data.is_object() {
            *data = Value::Object(Map::new());
        }
        let mut put = |key: &str, text: &str| data[key] = BASE64_STANDARD.encode(text).into();
        put("ca.crt", &self.identity.root_ca);
        if entry(&live.fields, "data", "namespace").is_none_or(str::is_empty) {
            put("namespace", &meta.namespace);
        }
        if entry(&live.fields, "data", "token").is_none_or(str::is_empty)
            && let Some(signer) = &self.identity.signer
        {
            let token = signer.sign(&TokenOf {
                account: account.metadata(),
                secret: &meta.name,
            });
            let token = token.ok_or_else(|| {
                let problem = format!("can't sign a token for the Secret {}", meta.name);
                SyncFailure::new("not signed", problem)
            })?;
            put("token", &token);
        }
        let account = account.metadata();
        let annotations = &mut secret.metadata.annotations;
        *annotations = annotations
            .with(ACCOUNT_NAME, &account.name)
            .with(ACCOUNT_UID, &account.uid.to_string());
        match calls.put(secret).await {
            Err(error) if !is_overtaken(&error) => Err(SyncFailure::at("update failed")(error)),
            _ => Ok(()),
        }
    }

    /// Removes the reference to a deleted Secret from its account, if the account is cached.
    async fn forget_secret(
        &self,
        namespace: &Str,
        claimed: &Claimed,
        secret: &str,
        calls: &Calls,
    ) -> Result<(), SyncFailure> {
        let names = |account: &DynamicObject| {
            let secrets = account.fields.get("secrets").and_then(Value::as_array);
            secrets.is_some_and(|all| all.iter().any(|one| one["name"] == secret))
        };
        let cached = self.accounts.get_named(namespace, &claimed.name);
        if !cached.is_some_and(|account| claimed.is(&**account)) {
            return Ok(());
        }
        for _ in 0..ATTEMPTS {
            let live = read(Kind::SERVICE_ACCOUNT, namespace, &claimed.name, calls).await?;
            let live = live.filter(|account| claimed.is(&**account));
            let Some(live) = live
                .as_ref()
                .and_then(|it| it.downcast_ref::<DynamicObject>())
            else {
                return Ok(());
            };
            if !names(live) {
                return Ok(());
            }
            let mut account = live.clone();
            if let Some(Value::Array(secrets)) = account.fields.get_mut("secrets") {
                secrets.retain(|one| one["name"] != secret);
                if secrets.is_empty() {
                    account.fields.remove("secrets");
                }
            }
            match calls.put(account).await {
                Err(error) if error.code == 409 => {}
                Err(error) if !error.is_not_found() => {
                    return Err(SyncFailure::at("update failed")(error));
                }
                _ => return Ok(()),
            }
        }
        let problem = format!(
            "the ServiceAccount {namespace}/{} changed during every attempt to remove {secret}",
            claimed.name
        );
        Err(SyncFailure::new("conflict", problem))
    }
}

#[cfg(test)]
#[path = "tokens_tests.rs"]
mod tests;
