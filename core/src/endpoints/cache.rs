//! Services, EndpointSlices and Endpoints in the forms that the endpoints controllers read.

use std::sync::Arc;

use podstorm_objects::{AnyObject, DynamicObject, Labels, ObjectMeta, Selector, Str};
use podstorm_runtime::informer::Informed;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::store::Cached;
use serde_json::Value;

use super::endpoint::StoredEndpoint;
use super::slices::{endpoints_of, ports_key};
use super::subsets::StoredSubsets;

/// The label of a slice that holds the name of its Service.
pub(super) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The label of a slice that holds the name of its writer.
pub(super) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// The name of this controller as a writer of slices.
pub(super) const MANAGER: &str = "endpointslice-controller.k8s.io";

/// The name of the mirroring controller as a writer of slices.
pub(super) const MIRRORING_MANAGER: &str = "endpointslicemirroring-controller.k8s.io";

/// A cached Service with its compiled selector.
#[derive(Debug)]
pub(super) struct CachedService {
    object: Arc<DynamicObject>,
    /// The selector of the Service's pods; `None` if other programs manage the endpoints.
    selector: Option<Arc<Selector>>,
}

impl CachedService {
    pub(super) fn meta(&self) -> &ObjectMeta {
        &self.object.metadata
    }

    pub(super) fn spec(&self) -> &Value {
        self.object.fields.get("spec").unwrap_or(&Value::Null)
    }

    /// Returns the selector of a Service whose endpoints the controllers manage; otherwise `None`.
    pub(super) fn pods(&self) -> Option<&Arc<Selector>> {
        let selector = self.selector.as_ref()?;
        (self.spec()["type"] != "ExternalName").then_some(selector)
    }

    pub(super) fn is_headless(&self) -> bool {
        self.spec()["clusterIP"] == "None"
    }

    /// Reports whether pods that are not ready count as ready.
    pub(super) fn publishes_unready(&self) -> bool {
        self.spec()["publishNotReadyAddresses"] == true
    }
}

impl Cached for CachedService {
    type Object = DynamicObject;
    type Context = ();

    fn derive(object: Arc<DynamicObject>, _: KeyId, old: Option<&Self>, (): &()) -> Self {
        let spec = |object: &DynamicObject| object.fields.get("spec")?.get("selector").cloned();
        let selector = match old {
            Some(old) if spec(&old.object) == spec(&object) => old.selector.clone(),
            _ => {
                let labels = spec(&object).and_then(|it| Labels::from_json(it).ok());
                let labels = labels.filter(|labels| !labels.is_empty());
                labels.map(|labels| Arc::new(Selector::of_pairs(&labels)))
            }
        };
        CachedService { object, selector }
    }

    fn object(&self) -> &Arc<DynamicObject> {
        &self.object
    }

    fn selector(&self) -> Option<&Arc<Selector>> {
        self.selector.as_ref()
    }
}

impl Informed for CachedService {
    fn read(object: AnyObject) -> Option<Arc<DynamicObject>> {
        object.downcast()
    }
}

/// A cached EndpointSlice. Found by the Service that controls it.
#[derive(Debug)]
pub(super) struct CachedSlice {
    object: Arc<DynamicObject>,
    /// The endpoints of the slice in order; empty if another controller writes the slice.
    pub(super) endpoints: Box<[StoredEndpoint]>,
    /// A string that identifies the ports of the slice.
    pub(super) ports_key: String,
}

impl CachedSlice {
    /// Returns the name of the slice's Service; `None` unless the EndpointSlice controller writes
    /// it.
    pub(super) fn service(&self) -> Option<&Str> {
        self.service_if_by(MANAGER)
    }

    /// Returns the name of the Endpoints that a slice mirrors, which is also that of their Service;
    /// `None` unless the mirroring controller writes it.
    pub(super) fn mirrors(&self) -> Option<&Str> {
        self.service_if_by(MIRRORING_MANAGER)
    }

    fn service_if_by(&self, manager: &str) -> Option<&Str> {
        let labels = &self.object.metadata.labels;
        let is_own = labels.get(MANAGED_BY).is_some_and(|by| **by == *manager);
        labels.get(SERVICE_NAME).filter(|_| is_own)
    }

    pub(super) fn family(&self) -> Option<&str> {
        self.object.fields.get("addressType")?.as_str()
    }

    pub(super) fn namespace(&self) -> &Str {
        &self.object.metadata.namespace
    }
}

impl Cached for CachedSlice {
    type Object = DynamicObject;
    type Context = ();

    const BY_CONTROLLER: bool = true;

    fn derive(object: Arc<DynamicObject>, _: KeyId, _: Option<&Self>, (): &()) -> Self {
        let mut slice = CachedSlice {
            object,
            endpoints: Box::default(),
            ports_key: String::new(),
        };
        if slice.service().is_some() {
            let ports = slice.object.fields.get("ports").and_then(Value::as_array);
            slice.ports_key = ports_key(ports.map_or(&[], Vec::as_slice));
            let endpoints = endpoints_of(&slice.object).iter();
            slice.endpoints = endpoints.map(StoredEndpoint::read).collect();
        }
        slice
    }

    fn object(&self) -> &Arc<DynamicObject> {
        &self.object
    }
}

/// A cached Endpoints object.
#[derive(Debug)]
pub(super) struct CachedEndpoints {
    object: Arc<DynamicObject>,
    /// The subsets; `None` if the Endpoints controller would write the same addresses in another
    /// form.
    pub(super) stored: Option<StoredSubsets>,
}

impl Cached for CachedEndpoints {
    type Object = DynamicObject;
    type Context = ();

    fn derive(object: Arc<DynamicObject>, _: KeyId, _: Option<&Self>, (): &()) -> Self {
        CachedEndpoints {
            stored: StoredSubsets::read(&object),
            object,
        }
    }

    fn object(&self) -> &Arc<DynamicObject> {
        &self.object
    }
}

impl Informed for CachedEndpoints {
    fn read(object: AnyObject) -> Option<Arc<DynamicObject>> {
        object.downcast()
    }
}

impl Informed for CachedSlice {
    fn read(object: AnyObject) -> Option<Arc<DynamicObject>> {
        object.downcast()
    }
}
