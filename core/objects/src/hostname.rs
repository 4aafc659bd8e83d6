//! The host name of a pod that its own names give: `spec.hostname` of the pods of indexed Jobs and of StatefulSets.
//! Once it is taken out, the specs of one template's pods are equal and can be shared.

use super::ObjectMeta;

/// The member of a spec.
pub(super) const HOSTNAME: &str = "hostname";

/// Where `spec.hostname` of a pod is.
///
/// Each pod has one form: a host name that the names of the pod give is never in its spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hostname {
    /// In the spec, or absent.
    #[default]
    OfSpec,
    /// It is the name of the pod.
    Name,
    /// It is `generateName` of the pod without the dash at its end.
    Prefix,
}

impl Hostname {
    /// Creates the form of a host name in a pod with this metadata.
    pub(super) fn new(hostname: &str, meta: &ObjectMeta) -> Hostname {
        let all = [Hostname::Name, Hostname::Prefix];
        let is_it = |form: &Hostname| !hostname.is_empty() && form.of(meta) == Some(hostname);
        all.into_iter().find(is_it).unwrap_or_default()
    }

    /// Returns the host name, unless the spec has it.
    pub(super) fn of(self, meta: &ObjectMeta) -> Option<&str> {
        match self {
            Hostname::OfSpec => None,
            Hostname::Name => Some(&meta.name),
            Hostname::Prefix => meta.generate_name.as_deref()?.strip_suffix('-'),
        }
    }
}
