//! Events about a pod and its containers.

use podstorm::client::EventType;
use podstorm_objects::{Pod, Str};

use super::container::Role;

/// The reason of the Event for a container whose image is now on the node.
pub(in crate::nodes) const PULLED: &str = "Pulled";

/// An Event about a pod or one of its containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::nodes) struct PodEvent {
    pub(in crate::nodes) kind: EventType,
    pub(in crate::nodes) reason: &'static str,
    pub(in crate::nodes) message: Box<str>,
    /// The container that the Event is about, with its role; `None` for the pod itself.
    container: Option<(Str, Role)>,
}

/// A container that Events are about.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContainerRef<'a> {
    pub(super) name: &'a Str,
    pub(super) role: Role,
}

impl ContainerRef<'_> {
    pub(super) fn new(name: &Str, role: Role) -> ContainerRef<'_> {
        ContainerRef { name, role }
    }
}

impl PodEvent {
    /// Returns an Event about the pod.
    pub(in crate::nodes) fn of_pod(
        kind: EventType,
        reason: &'static str,
        message: &str,
    ) -> PodEvent {
        PodEvent {
            kind,
            reason,
            message: message.into(),
            container: None,
        }
    }

    /// Returns the field path of the container, such as `spec.containers{app}`; empty for the pod
    /// itself.
    pub(in crate::nodes) fn field_path(&self) -> String {
        match &self.container {
            None => String::new(),
            Some((name, Role::Regular)) => format!("spec.containers{{{name}}}"),
            Some((name, Role::Init | Role::Sidecar)) => format!("spec.initContainers{{{name}}}"),
        }
    }

    /// Returns the image of the container that the Event is about.
    pub(in crate::nodes) fn image<'a>(&self, pod: &'a Pod) -> Option<&'a Str> {
        let (name, _) = self.container.as_ref()?;
        let mut all = pod.spec.init_containers.iter().chain(&pod.spec.containers);
        all.find(|it| it.name == *name).map(|it| &it.image)
    }
}

/// The Events that have been recorded and not taken yet. Nothing is recorded unless `is_on`.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) is_on: bool,
    list: Vec<PodEvent>,
}

impl Notes {
    pub(super) fn on(is_on: bool) -> Notes {
        Notes {
            is_on,
            list: Vec::new(),
        }
    }

    /// Appends the Events of `others`.
    pub(super) fn and(mut self, others: &mut Notes) -> Notes {
        self.list.append(&mut others.list);
        self
    }

    pub(super) fn take(&mut self) -> Vec<PodEvent> {
        std::mem::take(&mut self.list)
    }

    /// Adds an Event about the pod or one of its containers.
    pub(super) fn add(
        &mut self,
        container: Option<ContainerRef<'_>>,
        kind: EventType,
        reason: &'static str,
        message: impl FnOnce() -> String,
    ) {
        if self.is_on {
            self.list.push(PodEvent {
                kind,
                reason,
                message: message().into(),
                container: container.map(|it| (it.name.clone(), it.role)),
            });
        }
    }
}
