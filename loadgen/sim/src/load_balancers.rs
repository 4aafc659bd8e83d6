//! The simulated cloud: assigns addresses to Services of type `LoadBalancer`, if the user
//! configures any addresses. It balances no traffic.
//!
//! Source: the service controller of Kubernetes' `k8s.io/cloud-provider`.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use podstorm::client::EventType::{Normal, Warning};
use podstorm::controller::{ControllerType, Setup};
use podstorm::driver::{AsyncWorkload, Calls, Steps, SyncFailure};
use podstorm::informer::{Handler, Informers};
use podstorm::intern::{KeyId, ObjectKey};
use podstorm::primitives::{Mutex, lock};
use podstorm::row::{ControllerRow, NumberFlag, NumberForm, Write};
use podstorm::store::{Change, Keyed, Store};
use podstorm::workqueue::{End, QueueRow, RateLimitingQueue, Workers};
use podstorm_objects::{ApiError, DynamicObject, Kind, Now};
use serde_json::{Value, json};

/// The flag that sets the number of addresses.
const ADDRESSES: NumberFlag = NumberFlag {
    flag: "load-balancer-addresses",
    default: 0,
    form: NumberForm::Count,
    help: "Number of addresses for Services of type LoadBalancer, from 198.51.100.0/24, at most 254; \
           with 0, such Services wait for an address",
};

/// The network of the addresses: 198.51.100.0/24, reserved for documentation (RFC 5737).
const NETWORK: [u8; 3] = [198, 51, 100];

/// The finalizer that keeps a Service until its load balancer is deleted.
const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

/// The controller type of the simulated load balancers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceLoadBalancers;

/// The simulated cloud's controller. A clone is a handle to the same controller.
#[derive(Clone, Debug)]
pub struct LoadBalancers(Arc<Shared>);

type Cached = Arc<DynamicObject>;

#[derive(Debug)]
struct Shared {
    services: Arc<Store<Cached>>,
    queue: RateLimitingQueue<KeyId>,
    /// The number of addresses; their last octets are 1 to `count`.
    count: u8,
    /// The Service that has each address, by last octet.
    given: Mutex<BTreeMap<u8, KeyId>>,
}

impl ControllerType for ServiceLoadBalancers {
    type Workload = LoadBalancers;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "service-lb-controller",
        alias: "service",
        component: "service-controller",
        purpose: "addresses of load balancers",
        kind: Some(Kind::SERVICE),
        writes: &[
            Write::new(Kind::SERVICE, &["update"]),
            Write::status(Kind::SERVICE),
        ],
        queues: &[QueueRow {
            workers: Workers::Number(1),
            ..QueueRow::new("service")
        }],
        numbers: &[ADDRESSES],
        served_only: true,
        ..ControllerRow::DEFAULT
    };

    fn make(setup: &Setup, informers: &mut Informers) -> Arc<LoadBalancers> {
        let count = ADDRESSES.value(&setup.numbers).clamp(0, 254);
        let shared = Arc::new(Shared {
            services: informers.store(Kind::SERVICE, || ()),
            queue: RateLimitingQueue::from_row(Self::ROW.queues[0]),
            count: u8::try_from(count).unwrap_or(u8::MAX),
            given: Mutex::default(),
        });
        informers.add_handler::<Cached>(Kind::SERVICE, Arc::clone(&shared) as _);
        Arc::new(LoadBalancers(shared))
    }
}

impl Handler<Cached> for Shared {
    fn handle(&self, change: &Change<Cached>, now: Now) {
        // Without addresses, leave Services to another cloud provider.
        if self.count == 0 {
            return;
        }
        match &change.new {
            Some(service) if wants_one(service) || service.metadata.has_finalizer(FINALIZER) => {
                if let Some(number) = number_of(service) {
                    lock(&self.given).entry(number).or_insert(change.key);
                }
                self.queue.add(change.key, now.mono_ns);
            }
            _ => self.take_back(change.key),
        }
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(&self.queue)
    }
}

impl Shared {
    fn take_back(&self, key: KeyId) {
        lock(&self.given).retain(|_, holder| *holder != key);
    }

    /// Returns the last octet of the Service's address: the one that it already has, the one that
    /// it requests, or the first free one. `None` if the requested address or all addresses are in
    /// use.
    fn give(&self, key: KeyId, service: &DynamicObject) -> Option<u8> {
        let mut given = lock(&self.given);
        let known = given.iter().find(|(_, holder)| **holder == key);
        if let Some((number, _)) = known {
            return Some(*number);
        }
        let asked = service.fields.get("spec").map(|it| &it["loadBalancerIP"]);
        let asked = asked.and_then(number_in);
        let mut free = (1..=self.count).filter(|number| !given.contains_key(number));
        let number = match asked {
            Some(number) => free.find(|it| *it == number)?,
            None => free.next()?,
        };
        given.insert(number, key);
        Some(number)
    }
}

/// Reports whether a Service needs an address. A Service with a class waits for the controller of
/// that class.
fn wants_one(service: &DynamicObject) -> bool {
    let spec = service.fields.get("spec").unwrap_or(&Value::Null);
    spec["type"] == "LoadBalancer"
        && spec["loadBalancerClass"].is_null()
        && !service.metadata.is_deleting()
}

/// Returns the last octet of an address in the network; `None` for any other value.
fn number_in(address: &Value) -> Option<u8> {
    let octets = address.as_str()?.parse::<Ipv4Addr>().ok()?.octets();
    (octets[..3] == NETWORK).then_some(octets[3])
}

fn number_of(service: &DynamicObject) -> Option<u8> {
    let status = service.fields.get("status")?;
    number_in(&status["loadBalancer"]["ingress"][0]["ip"])
}

async fn run(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let Some(service) = shared.services.get(key) else {
        return Ok(End::Forget);
    };
    let service = Cached::clone(&service);
    match wants_one(&service) {
        true => ensure(&shared, key, service, &calls).await?,
        false if service.metadata.has_finalizer(FINALIZER) => {
            clean_up(&shared, key, service, &calls).await?
        }
        false => {}
    }
    Ok(End::Forget)
}

async fn ensure(
    shared: &Shared,
    key: KeyId,
    service: Cached,
    calls: &Calls,
) -> Result<(), SyncFailure> {
    if number_of(&service).is_some() && service.metadata.has_finalizer(FINALIZER) {
        return Ok(());
    }
    let text = "Ensuring load balancer";
    calls.report(&*service, Normal, "EnsuringLoadBalancer", text);
    let Some(number) = shared.give(key, &service) else {
        let problem = format!(
            "failed to ensure load balancer: none of the {} addresses is free, or not the one that \
             spec.loadBalancerIP names",
            shared.count
        );
        let text = format!("Error syncing load balancer: {problem}");
        calls.report(&*service, Warning, "SyncLoadBalancerFailed", text);
        return Err(SyncFailure::new("no address", problem));
    };
    let service = match service.metadata.has_finalizer(FINALIZER) {
        true => service,
        false => {
            let mut new = DynamicObject::clone(&service);
            new.metadata.add_finalizer(FINALIZER);
            calls.put(new).await.map_err(unwritten())?
        }
    };
    let [a, b, c] = NETWORK;
    let ip = Ipv4Addr::new(a, b, c, number).to_string();
    let mut new = DynamicObject::clone(&service);
    let balancer = json!({"loadBalancer": {"ingress": [{"ip": ip, "ipMode": "VIP"}]}});
    new.fields.insert("status".to_owned(), balancer);
    let service = calls.put_status(new).await.map_err(unwritten())?;
    let text = "Ensured load balancer";
    calls.report(&*service, Normal, "EnsuredLoadBalancer", text);
    Ok(())
}

fn unwritten() -> impl Fn(ApiError) -> SyncFailure {
    SyncFailure::at("write failed")
}

/// Removes the address and the finalizer of a Service that changed its type or is being deleted.
async fn clean_up(
    shared: &Shared,
    key: KeyId,
    service: Cached,
    calls: &Calls,
) -> Result<(), SyncFailure> {
    let text = "Deleting load balancer";
    calls.report(&*service, Normal, "DeletingLoadBalancer", text);
    let service = match number_of(&service) {
        None => service,
        Some(_) => {
            let mut new = DynamicObject::clone(&service);
            new.fields
                .insert("status".to_owned(), json!({"loadBalancer": {}}));
            calls.put_status(new).await.map_err(unwritten())?
        }
    };
    let text = "Deleted load balancer";
    calls.report(&*service, Normal, "DeletedLoadBalancer", text);
    let mut new = DynamicObject::clone(&service);
    new.metadata.remove_finalizer(FINALIZER);
    calls.put(new).await.map_err(unwritten())?;
    shared.take_back(key);
    Ok(())
}

impl AsyncWorkload for LoadBalancers {
    fn name(&self, _: usize, key: KeyId) -> ObjectKey {
        self.0.services.name(key)
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(&self.0.queue)
    }

    fn steps(&self, _: usize, key: KeyId, calls: Calls) -> impl Steps {
        run(Arc::clone(&self.0), key, calls)
    }
}
