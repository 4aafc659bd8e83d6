//! Host names that a pod's own names determine: `spec.hostname` of the pods of indexed Jobs and of
//! StatefulSets. Once such a name is taken out, the specs of one template's pods are equal and can
//! be shared.

use super::ObjectMeta;

/// The name of the member in a spec.
pub(super) const HOSTNAME: &str = "hostname";

/// Where a pod's `spec.hostname` is stored.
///
/// Each pod has exactly one form: a host name that the pod's names determine is never in its spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hostname {
    /// In the spec, or absent.
    #[default]
    OfSpec,
    /// Equal to the name of the pod.
    Name,
    /// Equal to the pod's `generateName` without the final dash.
    Prefix,
}

impl Hostname {
    /// Returns how a pod with this metadata stores this host name.
    pub(super) fn new(hostname: &str, meta: &ObjectMeta) -> Hostname {
        let all = [Hostname::Name, Hostname::Prefix];
        let is_it = |form: &Hostname| !hostname.is_empty() && form.resolve(meta) == Some(hostname);
        all.into_iter().find(is_it).unwrap_or_default()
    }

    /// Returns the host name if the pod's names determine it; `None` if it is in the spec.
    pub(super) fn resolve(self, meta: &ObjectMeta) -> Option<&str> {
        match self {
            Hostname::OfSpec => None,
            Hostname::Name => Some(&meta.name),
            Hostname::Prefix => meta.generate_name.as_deref()?.strip_suffix('-'),
        }
    }
}
