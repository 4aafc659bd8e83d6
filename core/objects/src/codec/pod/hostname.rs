//! Host names of pods: reads, sets and compares them, whether they are in the spec or determined by
//! the pod's names.

use std::sync::Arc;

use serde_json::Value;

use crate::hostname::HOSTNAME;
use crate::json::{JsonValue, Tape};
use crate::{DecodeError, Hostname, Map, Pod, PodSpec};

impl Pod {
    /// Returns `spec.hostname` if the pod's names determine it; otherwise `None`.
    pub fn own_hostname(&self) -> Option<&str> {
        self.hostname.resolve(&self.metadata)
    }

    /// Returns `spec.hostname`; `None` if it is absent. O(bytes of the spec) if the spec holds it.
    pub fn hostname(&self) -> Option<String> {
        if let Some(own) = self.own_hostname() {
            return Some(own.to_owned());
        }
        let of_spec = self.spec.has_hostname.then(|| self.spec.get(HOSTNAME));
        of_spec.flatten()?.as_str().map(str::to_owned)
    }

    /// Sets `spec.hostname`. O(1) if the pod's names determine it and the spec has none.
    ///
    /// # Errors
    /// Fails only if the spec can't be read.
    pub fn set_hostname(&mut self, hostname: &str) -> Result<(), DecodeError> {
        self.hostname = Hostname::new(hostname, &self.metadata);
        if self.hostname == Hostname::OfSpec || self.spec.has_hostname {
            let mut members = self.spec.to_map(None);
            members.remove(HOSTNAME);
            if self.hostname == Hostname::OfSpec {
                members.insert(HOSTNAME.to_owned(), hostname.into());
            }
            self.spec = Arc::new(self.spec.with_members(members)?);
        }
        Ok(())
    }

    /// Returns the members of the spec except `nodeName`, as JSON trees. O(bytes).
    pub fn spec_map(&self) -> Map {
        let mut members = self.spec.to_map(self.token_volume);
        if let Some(hostname) = self.own_hostname() {
            members.insert(HOSTNAME.to_owned(), hostname.into());
        }
        members
    }

    /// Calls `look` with the members of the spec except `nodeName`. O(bytes).
    pub fn look_at_spec<R>(&self, look: impl FnOnce(JsonValue<'_>) -> R) -> R {
        if self.own_hostname().is_none() {
            return self.spec.look(self.token_volume, look);
        }
        let members = Value::Object(self.spec_map());
        look(Tape::new(&members).root())
    }

    /// Reports whether the specs of this pod and `other` are equal.
    pub fn has_spec_of(&self, other: &Pod) -> bool {
        if self.node_name != other.node_name {
            return false;
        }
        let same_names =
            self.hostname == other.hostname && self.own_hostname() == other.own_hostname();
        match same_names && self.token_volume == other.token_volume {
            true => self.spec == other.spec,
            false => self.spec_map() == other.spec_map(),
        }
    }

    /// Copies the spec of another pod, whose `generateName` may differ.
    pub fn take_spec_of(&mut self, other: &Pod) {
        self.spec = Arc::clone(&other.spec);
        self.node_name.clone_from(&other.node_name);
        self.token_volume = other.token_volume;
        self.hostname = other.hostname;
        let hostname = other.own_hostname();
        if self.own_hostname() != hostname
            && let Some(hostname) = hostname
        {
            // Does not fail, because the spec has been read before.
            let _ = self.set_hostname(hostname);
        }
    }
}

impl PodSpec {
    /// Reports whether the spec has the member `hostname`.
    pub fn has_hostname(&self) -> bool {
        self.has_hostname
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Object as _, Resource as _};

    fn pod(name: &str, prefix: &str, hostname: &str) -> Pod {
        let pod = json!({"metadata": {"name": name, "generateName": prefix},
            "spec": {"containers": [{"name": "c", "image": "i"}], "hostname": hostname,
                "nodeName": "n", "subdomain": "s"}});
        let read = Pod::from_json(pod.clone()).expect("a pod");
        assert_eq!(read.to_json()["spec"], pod["spec"]);
        assert_eq!(read.hostname().as_deref(), Some(hostname));
        read.look_at_spec(|spec| {
            let found = spec.get("hostname").and_then(|it| it.as_str());
            assert_eq!(found, Some(hostname));
        });
        read
    }

    #[test]
    fn pods_whose_names_determine_the_host_name_share_a_spec() {
        let first = pod("array-0-abcde", "array-0-", "array-0");
        let second = pod("array-1-fghij", "array-1-", "array-1");
        let third = pod("db-2", "", "db-2");
        assert_eq!(first.hostname, Hostname::Prefix);
        assert_eq!(third.hostname, Hostname::Name);
        assert_eq!(first.spec, second.spec);
        assert_eq!(first.spec, third.spec);
        assert!(!first.spec.has_hostname());
        assert!(!first.has_spec_of(&second), "their host names differ");
        for other in [pod("a", "b-", "c"), pod("a", "b", "b")] {
            assert_eq!(other.hostname, Hostname::OfSpec);
            assert!(other.spec.has_hostname());
        }
    }

    #[test]
    fn a_host_name_stays_when_the_prefix_changes() {
        let old = pod("a-0-x", "a-0-", "a-0");
        let renamed = pod("a-0-x", "other-", "a-0");
        assert!(old.has_spec_of(&renamed));
        let mut kept = pod("a-0-x", "other-", "gone");
        kept.take_spec_of(&old);
        assert_eq!(kept, renamed);
        let mut same = pod("a-0-x", "a-0-", "gone");
        same.take_spec_of(&old);
        assert!(Arc::ptr_eq(&same.spec, &old.spec));
        assert_eq!(same.hostname().as_deref(), Some("a-0"));
    }

    #[test]
    fn setting_a_host_name_gives_the_form_that_reading_gives() {
        for hostname in ["a-0-x", "a-0", "other"] {
            for before in ["a-0", "gone"] {
                let mut set = pod("a-0-x", "a-0-", before);
                set.set_hostname(hostname).expect("a readable spec");
                assert_eq!(set, pod("a-0-x", "a-0-", hostname));
            }
        }
    }
}
