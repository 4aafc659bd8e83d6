//! Makes a pod of the first of its pattern and its own values.
//!
//! Each value is judged here as narrowly as leaves no doubt what the slow way would make of it.
//! `None` stands for doubt.

use std::sync::Arc;

use podstorm_apiserver::validation::is_dns_subdomain;
use podstorm_objects::{
    Address, ContainerDetails, ContainerId, ContainerStatus, Labels, Pod, PodStart,
    ResourceVersion, Str, Time, TokenVolume, Uid,
};
use serde_json::Value;

use super::Language;
use super::place::{Container, Ended, OWN_ANNOTATIONS, Slot, State};

/// The pod that is `first` with these values. O(values).
pub(super) fn fill<'a>(
    first: &Pod,
    language: Language,
    values: impl Iterator<Item = (Slot, &'a str)>,
) -> Option<Box<Pod>> {
    let mut pod = Box::new(first.clone());
    let mut start = Start::default();
    let mut letters = None;
    for (slot, value) in values {
        let is_text = match language {
            Language::Json => true,
            Language::Yaml => is_text_without_quotes(slot, value),
        };
        is_text.then_some(())?;
        match slot {
            Slot::Name => pod.metadata.name = dns_subdomain(value)?.into(),
            Slot::Uid => pod.metadata.uid = uuid(value)?,
            Slot::ResourceVersion => {
                pod.metadata.resource_version = ResourceVersion::new(value);
                pod.metadata.resource_version.number()?;
            }
            Slot::Created => pod.metadata.creation_timestamp = time(value)?,
            Slot::Annotation(number) => {
                let key = OWN_ANNOTATIONS[usize::from(number)];
                set_annotation(&mut pod.metadata.annotations, key, value)?;
            }
            Slot::NodeName => set_node_name(pod.node_name.as_mut()?, dns_subdomain(value)?),
            Slot::TokenVolume => {
                // A spec with two names is kept in full.
                (*letters.get_or_insert(value) == value).then_some(())?;
            }
            Slot::Transition(number) => {
                let condition = pod.status.conditions.get_mut(usize::from(number))?;
                condition.last_transition_time = time(value)?.into();
            }
            Slot::HostIp => start.host_ip.put(value)?,
            Slot::PodIp => start.pod_ip.put(value)?,
            Slot::Started => start.time = Some(time(value)?),
            Slot::ContainerId(of) => {
                details_mut(&mut pod, of)?.id.as_mut()?;
                details_mut(&mut pod, of)?.id = Some(ContainerId::new(value));
            }
            Slot::RestartCount(of) => {
                container_mut(&mut pod, of)?.restart_count = count(value)?;
            }
            Slot::RunningSince(of) => {
                let since = &mut details_mut(&mut pod, of)?.running_since;
                (!since.get().is_unset()).then_some(())?;
                *since = time(value)?.into();
            }
            Slot::Ended(of, state, ended) => {
                let text = ended_mut(details_mut(&mut pod, of)?, state, ended)?;
                if ended != Ended::ContainerId {
                    time(value)?;
                }
                value.clone_into(text);
            }
        }
    }
    if let Some(letters) = letters {
        pod.token_volume.as_mut()?;
        pod.token_volume = Some(TokenVolume::with_letters(letters)?);
    }
    start.put_into(&mut pod)?;
    Some(pod)
}

/// What a status says of the start of a pod, twice but for the time.
#[derive(Default)]
struct Start<'a> {
    host_ip: Twice<'a>,
    pod_ip: Twice<'a>,
    time: Option<Time>,
}

/// A value that is given twice alike, or never.
#[derive(Default)]
struct Twice<'a> {
    value: Option<&'a str>,
    times: u8,
}

impl<'a> Twice<'a> {
    fn put(&mut self, value: &'a str) -> Option<()> {
        self.times += 1;
        (*self.value.get_or_insert(value) == value).then_some(())
    }
}

impl Start<'_> {
    fn put_into(self, pod: &mut Pod) -> Option<()> {
        let (host, pod_ip) = (self.host_ip, self.pod_ip);
        if (host.times, pod_ip.times, self.time) == (0, 0, None) {
            return Some(());
        }
        // An address that stands there once is kept in another way.
        let is_whole = |address: &Twice<'_>| address.times == 0 || address.times == 2;
        (is_whole(&host) && is_whole(&pod_ip)).then_some(())?;
        let first = pod.status.started.as_deref()?;
        let address = |own: Option<&str>, first: &Address| own.map_or(first.clone(), Address::from);
        let own = PodStart {
            host_ip: address(host.value, &first.host_ip),
            pod_ip: address(pod_ip.value, &first.pod_ip),
            time: self.time.unwrap_or(first.time),
        };
        pod.status.started = Some(Arc::new(own));
        Some(())
    }
}

/// Whether YAML takes a value without quotes for the text that it is. Times and versions have
/// quotes wherever they have a place.
fn is_text_without_quotes(slot: Slot, value: &str) -> bool {
    const WORDS: [&str; 10] = [
        "null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan",
    ];
    match slot {
        // Numbers begin with other characters.
        Slot::Name | Slot::NodeName => {
            value.starts_with(|c: char| c.is_ascii_lowercase()) && !WORDS.contains(&value)
        }
        Slot::HostIp | Slot::PodIp => value.split('.').count() == 4,
        Slot::ContainerId(_) | Slot::Ended(_, _, Ended::ContainerId) => {
            value.split_once("://").is_some_and(|(runtime, id)| {
                let is_word = |c: char| c.is_ascii_lowercase() || c == '-';
                runtime.starts_with(is_word)
                    && runtime.chars().all(is_word)
                    && !id.is_empty()
                    && id.chars().all(|c| c.is_ascii_hexdigit())
            })
        }
        _ => true,
    }
}

fn dns_subdomain(value: &str) -> Option<&str> {
    is_dns_subdomain(value).then_some(value)
}

/// A UID in the form that API servers write.
fn uuid(value: &str) -> Option<Uid> {
    let uid = Uid::new(value);
    uid.as_u128().is_some().then_some(uid)
}

/// A time in the form that API servers write, `2026-01-02T03:04:05Z`.
fn time(value: &str) -> Option<Time> {
    (value.len() == 20 && value.ends_with('Z')).then_some(())?;
    let time: Time = value.parse().ok()?;
    (!time.is_unset()).then_some(time)
}

/// A count in the form that JSON writes.
fn count(value: &str) -> Option<i32> {
    (value == "0" || !value.starts_with('0')).then_some(())?;
    value.parse().ok()
}

fn set_node_name(name: &mut Str, value: &str) {
    if **name != *value {
        *name = value.into();
    }
}

fn set_annotation(annotations: &mut Labels, key: &str, value: &str) -> Option<()> {
    if **annotations.get(key)? == *value {
        return Some(());
    }
    *annotations = annotations.with(key, value);
    Some(())
}

fn container_mut(pod: &mut Pod, of: Container) -> Option<&mut ContainerStatus> {
    let number = usize::from(of.number);
    match of.is_init {
        true => pod.status.init_container_statuses.as_mut()?.get_mut(number),
        false => pod.status.container_statuses.get_mut(number),
    }
}

fn details_mut(pod: &mut Pod, of: Container) -> Option<&mut ContainerDetails> {
    Some(Arc::make_mut(container_mut(pod, of)?.details.as_mut()?))
}

/// The text of a member of a state that is kept as it is.
fn ended_mut(details: &mut ContainerDetails, state: State, ended: Ended) -> Option<&mut String> {
    let rest = Arc::make_mut(details.rest.as_mut()?);
    let terminated = rest.get_mut(state.member())?.get_mut("terminated")?;
    match terminated.get_mut(ended.member())? {
        Value::String(text) => Some(text),
        _ => None,
    }
}
