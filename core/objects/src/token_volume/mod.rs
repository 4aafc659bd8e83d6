//! The volume with the token of a pod's service account. Admission gives it a new name for every
//! pod: `kube-api-access-` and five characters, in the list of volumes and in the mounts of every
//! container. Once the names are taken out, the specs of one template's pods are equal and can be
//! shared.

use std::fmt;

use super::json::JsonValue;

/// The placeholder for the name in a spec. It is not a valid volume name, because names have no
/// `*`.
pub(super) const MARKER: &str = "kube-api-access-*";

/// The name of a pod's own service-account volume: `kube-api-access-` and five characters `a`..`z`
/// and `0`..`9`. Only the five characters are stored.
///
/// The name is taken out of a spec that has exactly one volume name of this form, which may occur
/// more than once. It is taken only out of the list of volumes and the containers' mounts. Any
/// other spec, for example one with a volume named `kube-api-access-*`, is kept unchanged.
/// Therefore, putting the name back always restores the spec exactly.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenVolume([u8; 5]);

/// A pod has room of eight bytes for an optional volume.
const _: () = assert!(size_of::<Option<TokenVolume>>() <= 8);

impl TokenVolume {
    /// The prefix of the names.
    pub const PREFIX: &str = "kube-api-access-";

    /// The members of a pod spec that list containers.
    pub(super) const CONTAINERS: [&str; 3] =
        ["containers", "initContainers", "ephemeralContainers"];

    /// Creates the volume with this name; `None` for a name of another form.
    pub fn new(name: &str) -> Option<TokenVolume> {
        TokenVolume::with_letters(name.strip_prefix(Self::PREFIX)?)
    }

    /// Returns the volume whose name ends with these five characters; `None` if they have another
    /// form.
    pub fn with_letters(letters: &str) -> Option<TokenVolume> {
        let letters: [u8; 5] = letters.as_bytes().try_into().ok()?;
        let is_usual = |letter: &u8| letter.is_ascii_lowercase() || letter.is_ascii_digit();
        letters.iter().all(is_usual).then_some(TokenVolume(letters))
    }

    /// Returns the five characters.
    pub(super) fn letters(&self) -> &str {
        str::from_utf8(&self.0).expect("letters and digits are ASCII")
    }

    /// Returns the volume whose name can be taken out of a pod spec; `None` if there is none.
    pub(super) fn find(spec: JsonValue<'_>) -> Option<TokenVolume> {
        let volumes = || names_in(spec.get("volumes"));
        let mut own = volumes().filter_map(TokenVolume::new);
        let found = own.next()?;
        let is_plain = own.all(|other| other == found)
            && volumes().all(|name| name != MARKER)
            && mounts(spec).all(|name| name != MARKER);
        is_plain.then_some(found)
    }
}

impl fmt::Display for TokenVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::PREFIX)?;
        f.write_str(self.letters())
    }
}

impl fmt::Debug for TokenVolume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// Returns the names of the items of a list.
fn names_in(list: Option<JsonValue<'_>>) -> impl Iterator<Item = &str> {
    let items = list.into_iter().flat_map(|list| list.items());
    items.filter_map(|item| item.get("name")?.as_str())
}

/// Returns the names of the volumes that the containers mount.
fn mounts(spec: JsonValue<'_>) -> impl Iterator<Item = &str> {
    let lists = TokenVolume::CONTAINERS
        .into_iter()
        .filter_map(move |list| spec.get(list));
    let containers = lists.flat_map(|list| list.items());
    containers.flat_map(|container| names_in(container.get("volumeMounts")))
}

#[cfg(test)]
mod tests;
