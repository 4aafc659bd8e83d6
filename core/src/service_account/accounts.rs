//! The service account controller: it creates the ServiceAccount `default` in each active
//! namespace, and recreates it after a deletion.
//!
//! Source: `ServiceAccountsController` in Kubernetes' `pkg/controller/serviceaccount`.

use std::sync::Arc;

use podstorm_objects::{AnyObject, Kind, Map, Namespace, Now};
use podstorm_runtime::driver::{AsyncWorkload, Calls, Steps, SyncFailure};
use podstorm_runtime::informer::{Handler, Informers};
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::row::{ControllerRow, Write};
use podstorm_runtime::store::{Change, Keyed, Store};
use podstorm_runtime::workqueue::{End, RateLimitingQueue};

use super::{Namespaces, is_terminating, object, one_worker};
use crate::controller::{ControllerType, Setup};
use crate::identity::DEFAULT_ACCOUNT;

/// The service account controller, as a [`ControllerType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceAccounts;

impl ControllerType for ServiceAccounts {
    type Workload = Controller;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "serviceaccount-controller",
        alias: "serviceaccount",
        component: "serviceaccount-controller",
        purpose: "the ServiceAccount `default` of each namespace",
        reads: &[Kind::NAMESPACE, Kind::SERVICE_ACCOUNT],
        writes: &[Write::new(Kind::SERVICE_ACCOUNT, &["create"])],
        queues: &[one_worker("serviceaccount")],
        served_only: true,
        populates: true,
        ..ControllerRow::DEFAULT
    };

    fn make(_: &Setup, informers: &mut Informers) -> Arc<Controller> {
        Arc::new(Controller::new(informers))
    }
}

/// The service account controller. Other controllers may share its informers. A clone is a handle
/// to the same controller.
#[derive(Clone, Debug)]
pub struct Controller(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    namespaces: Namespaces,
    accounts: Arc<Store<AnyObject>>,
}

/// The handler that wakes the namespace of a deleted account.
struct Accounts(Arc<Shared>);

impl Controller {
    /// Creates a controller that reads namespaces and accounts from `informers`.
    pub fn new(informers: &mut Informers) -> Controller {
        let shared = Arc::new(Shared {
            namespaces: Namespaces {
                store: informers.store(Kind::NAMESPACE, || ()),
                queue: RateLimitingQueue::from_row(ServiceAccounts::ROW.queues[0]),
            },
            accounts: informers.store(Kind::SERVICE_ACCOUNT, || ()),
        });
        informers.add_handler::<Arc<Namespace>>(Kind::NAMESPACE, Arc::clone(&shared) as _);
        let accounts = Arc::new(Accounts(Arc::clone(&shared)));
        informers.add_handler::<AnyObject>(Kind::SERVICE_ACCOUNT, accounts);
        Controller(shared)
    }
}

impl Handler<Arc<Namespace>> for Shared {
    fn handle(&self, change: &Change<Arc<Namespace>>, now: Now) {
        if change.new.is_some() {
            self.namespaces.queue.add(change.key, now.mono_ns);
        }
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(&self.namespaces.queue)
    }
}

impl Handler<AnyObject> for Accounts {
    fn handle(&self, change: &Change<AnyObject>, now: Now) {
        if let Some(gone) = &change.last {
            let namespace = &gone.metadata().namespace;
            self.0.namespaces.wake(namespace, now.mono_ns);
        }
    }
}

impl AsyncWorkload for Controller {
    fn name(&self, _: usize, key: KeyId) -> ObjectKey {
        self.0.namespaces.store.name(key)
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(&self.0.namespaces.queue)
    }

    fn steps(&self, _: usize, key: KeyId, calls: Calls) -> impl Steps {
        run(Arc::clone(&self.0), key, calls)
    }
}

/// Creates the account of a namespace unless the cache has it. As in upstream, the sync fails if
/// the account exists but is not cached yet; the retry then finds it in the cache.
async fn run(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let Some(namespace) = shared.namespaces.active(key) else {
        return Ok(End::Forget);
    };
    let name = &namespace.metadata.name;
    if shared.accounts.get_named(name, DEFAULT_ACCOUNT).is_some() {
        return Ok(End::Forget);
    }
    let account = object(Kind::SERVICE_ACCOUNT, name, DEFAULT_ACCOUNT, Map::new());
    match calls.create(account).await {
        Err(error) if !is_terminating(&error) => Err(SyncFailure::at("create failed")(error)),
        _ => Ok(End::Forget),
    }
}

#[cfg(test)]
mod tests {
    use super::super::harness::{World, at};
    use super::*;

    fn world() -> World<Controller> {
        World::new(&[Kind::NAMESPACE, Kind::SERVICE_ACCOUNT], Controller::new)
    }

    #[test]
    fn a_namespace_gets_its_account_once() {
        let mut world = world();
        world.namespace("shop", "Active");
        assert_eq!(world.sync(0), ["create ServiceAccount shop/default: 201"]);
        world.namespace("shop", "Active");
        assert!(world.sync(1).is_empty());
    }

    #[test]
    fn a_deleted_account_is_recreated() {
        let mut world = world();
        world.namespace("shop", "Active");
        world.sync(0);
        world.delete(Kind::SERVICE_ACCOUNT, "shop", "default");
        assert_eq!(world.sync(1), ["create ServiceAccount shop/default: 201"]);
        // The controller ignores other accounts.
        world.put(Kind::SERVICE_ACCOUNT, "shop", "builder", &[]);
        world.delete(Kind::SERVICE_ACCOUNT, "shop", "builder");
        assert!(world.sync(2).is_empty());
    }

    #[test]
    fn a_terminating_namespace_gets_nothing() {
        let mut world = world();
        world.namespace("shop", "Terminating");
        assert!(world.sync(0).is_empty());
        // The deletion begins before the cache shows it.
        world.namespace("late", "Active");
        world.refuse_namespace("late");
        assert_eq!(world.sync(1), ["create ServiceAccount late/default: 403"]);
        assert_eq!(world.next_due(), None, "nothing is retried");
        // The namespace of an account that is deleted with it is no longer in the cache.
        world.namespace("gone", "Active");
        world.sync(2);
        world.delete(Kind::NAMESPACE, "", "gone");
        world.delete(Kind::SERVICE_ACCOUNT, "gone", "default");
        assert!(world.sync(3).is_empty());
    }

    #[test]
    fn the_retry_finds_an_account_that_was_not_cached() {
        let mut world = world();
        world.hold_back(Kind::SERVICE_ACCOUNT);
        world.namespace("shop", "Active");
        world.sync(0);
        world.namespace("shop", "Active");
        assert_eq!(world.sync(1), ["create ServiceAccount shop/default: 409"]);
        assert_eq!(world.outcomes(), ["ok", "create failed"]);
        world.release(Kind::SERVICE_ACCOUNT);
        assert!(
            world
                .next_due()
                .is_some_and(|due_ns| due_ns <= at(2).mono_ns)
        );
        assert!(world.sync(2).is_empty());
        assert_eq!(world.next_due(), None);
    }

    #[test]
    fn an_existing_account_is_kept() {
        let mut world = world();
        world.put(Kind::SERVICE_ACCOUNT, "shop", "default", &[]);
        world.namespace("shop", "Active");
        assert!(world.sync(0).is_empty());
    }
}
