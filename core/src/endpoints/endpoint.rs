//! The content of an endpoint in an EndpointSlice, or of an address in Endpoints, in a form that is
//! compared without JSON. The content comes from a pod, or from a cached object, which is parsed
//! once, when it arrives.

use podstorm_objects::cells::items;
use podstorm_objects::{Address, Str, Uid};
use serde_json::{Value, json};
use smallvec::SmallVec;

/// The addresses of an endpoint.
pub(super) type Addresses = SmallVec<[Address; 1]>;

/// The content of an endpoint. Two values are equal if their JSON is equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Endpoint<'a> {
    pub(super) addresses: &'a [Address],
    pub(super) namespace: &'a str,
    /// The name of the pod.
    pub(super) name: &'a str,
    pub(super) uid: &'a Uid,
    pub(super) node: Option<&'a str>,
    pub(super) zone: Option<&'a str>,
    pub(super) hostname: Option<&'a str>,
    pub(super) conditions: Conditions,
}

/// The conditions of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions {
    pub(super) ready: bool,
    pub(super) serving: bool,
    pub(super) terminating: bool,
}

impl Endpoint<'_> {
    /// Reports whether `other` is the same endpoint, possibly with other conditions: it has the
    /// same pod, host name and addresses.
    pub(super) fn is_same(&self, other: &Endpoint<'_>) -> bool {
        let has_same_addresses = || {
            let sorted = |it: &Endpoint<'_>| {
                let mut texts: Vec<String> = it.addresses.iter().map(Address::to_string).collect();
                texts.sort();
                texts
            };
            self.addresses == other.addresses || sorted(self) == sorted(other)
        };
        self.name == other.name
            && self.namespace == other.namespace
            && self.hostname == other.hostname
            && has_same_addresses()
    }

    /// Returns the key by which new endpoints are sorted before they are put into slices.
    pub(super) fn order(&self) -> impl Ord + use<> {
        let addresses = self.addresses.iter().map(Address::to_string);
        let hostname = self.hostname.unwrap_or("").to_owned();
        (
            self.name.to_owned(),
            hostname,
            addresses.collect::<Vec<_>>(),
        )
    }

    pub(super) fn to_json(self) -> Value {
        let Conditions {
            ready,
            serving,
            terminating,
        } = self.conditions;
        let addresses: Vec<String> = self.addresses.iter().map(Address::to_string).collect();
        let mut endpoint = json!({
            "addresses": addresses,
            "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
            "targetRef": target(self.namespace, self.name, self.uid),
        });
        self.put_others(&mut endpoint);
        endpoint
    }

    /// Returns the JSON of the first address, in the form of Endpoints.
    pub(super) fn to_address(self) -> Value {
        let ip = self.addresses.first().map(Address::to_string);
        let mut address =
            json!({"ip": ip, "targetRef": target(self.namespace, self.name, self.uid)});
        self.put_others(&mut address);
        address
    }

    fn put_others(&self, json: &mut Value) {
        let others = [
            ("nodeName", self.node),
            ("zone", self.zone),
            ("hostname", self.hostname),
        ];
        for (name, value) in others {
            if let Some(value) = value {
                json[name] = value.into();
            }
        }
    }
}

/// Returns the reference to a pod for the `targetRef` of an endpoint.
fn target(namespace: &str, name: &str, uid: &Uid) -> Value {
    json!({"kind": "Pod", "namespace": namespace, "name": name, "uid": uid.to_string()})
}

/// An endpoint in a cached slice, or an address in cached Endpoints.
#[derive(Clone, Debug)]
pub(super) struct StoredEndpoint {
    addresses: Addresses,
    namespace: Str,
    name: Str,
    uid: Uid,
    node: Option<Str>,
    zone: Option<Str>,
    hostname: Option<Str>,
    conditions: Conditions,
    /// Whether the object has no other content for the endpoint, so that this form determines its
    /// JSON.
    pub(super) is_plain: bool,
}

impl StoredEndpoint {
    /// Parses an endpoint. O(bytes of its JSON).
    pub(super) fn read(endpoint: &Value) -> StoredEndpoint {
        let text = |value: &Value| value.as_str().map(Str::from);
        let target = &endpoint["targetRef"];
        let condition = |name: &str| endpoint["conditions"][name] == true;
        let addresses = items(endpoint, "/addresses").filter_map(Value::as_str);
        let mut read = StoredEndpoint {
            addresses: addresses.map(Address::from).collect(),
            namespace: text(&target["namespace"]).unwrap_or_default(),
            name: text(&target["name"]).unwrap_or_default(),
            uid: target["uid"].as_str().unwrap_or("").into(),
            node: text(&endpoint["nodeName"]),
            zone: text(&endpoint["zone"]),
            hostname: text(&endpoint["hostname"]),
            conditions: Conditions {
                ready: condition("ready"),
                serving: condition("serving"),
                terminating: condition("terminating"),
            },
            is_plain: true,
        };
        read.is_plain = read.view().to_json() == *endpoint;
        read
    }

    /// Parses an address in Endpoints. `ready` states in which list it is. O(bytes of its JSON).
    pub(super) fn read_address(address: &Value, ready: bool) -> StoredEndpoint {
        let mut read = StoredEndpoint::read(address);
        read.addresses = address["ip"]
            .as_str()
            .map(Address::from)
            .into_iter()
            .collect();
        read.conditions.ready = ready;
        read.is_plain = read.view().to_address() == *address;
        read
    }

    pub(super) fn view(&self) -> Endpoint<'_> {
        Endpoint {
            addresses: &self.addresses,
            namespace: &self.namespace,
            name: &self.name,
            uid: &self.uid,
            node: self.node.as_deref(),
            zone: self.zone.as_deref(),
            hostname: self.hostname.as_deref(),
            conditions: self.conditions,
        }
    }
}
