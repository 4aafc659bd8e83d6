//! Known bugs of upstream controllers, and the schedules that reproduce them.

/// A known bug.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// The ID of the bug: `m01` and so on.
    pub id: &'static str,
    /// The descriptive name, as in the name of the schedule's file.
    pub name: &'static str,
    /// The upstream thread that reports it.
    pub thread: &'static str,
    /// A one-line description.
    pub title: &'static str,
    /// The status of the fix in this project.
    pub done: &'static str,
    /// What happens with upstream's behaviour.
    pub upstream: &'static str,
    /// What happens with the hardened behaviour.
    pub hardened: &'static str,
    /// The schedule that reproduces the bug, as YAML.
    pub text: &'static str,
}

impl Bug {
    /// Reports whether `text` is the bug's ID, number or name: `m01`, `M1`, `stale-watch`,
    /// `m01-stale-watch`.
    pub fn is_called(&self, text: &str) -> bool {
        let text = text.to_ascii_lowercase();
        let number = text.strip_prefix('m').and_then(|n| n.parse::<u32>().ok());
        self.id == text
            || self.name == text
            || self.full_name() == text
            || number.is_some() && self.id[1..].parse().ok() == number
    }

    /// Returns the ID and name, for example `m01-stale-watch`.
    pub fn full_name(&self) -> String {
        format!("{}-{}", self.id, self.name)
    }
}

/// Declares a known bug whose schedule is in `loadgen/faultsim/bugs`.
macro_rules! bug {
    ($id:literal, $name:literal, $thread:literal, $($field:ident: $text:literal,)*) => {
        Bug {
            id: $id,
            name: $name,
            thread: $thread,
            $($field: $text,)*
            text: include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"), "/bugs/", $id, "-", $name, ".yaml"
            )),
        }
    };
}
pub(crate) use bug;
