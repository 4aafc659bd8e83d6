//! A bug that an upstream controller is known for, and the schedule that shows it.

/// A known bug.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// `m01` and so on.
    pub id: &'static str,
    /// A name for people, as in the schedule's file name.
    pub name: &'static str,
    /// The upstream thread that reports it.
    pub thread: &'static str,
    /// What it is, in one line.
    pub title: &'static str,
    /// What is done here.
    pub done: &'static str,
    /// What upstream's behaviour makes of it.
    pub upstream: &'static str,
    /// What the hardened behaviour makes of it.
    pub hardened: &'static str,
    /// The schedule, YAML.
    pub text: &'static str,
}

impl Bug {
    /// Whether this is its id, number or name: `m01`, `M1`, `stale-watch`, `m01-stale-watch`.
    pub fn is_called(&self, text: &str) -> bool {
        let text = text.to_ascii_lowercase();
        let number = text.strip_prefix('m').and_then(|n| n.parse::<u32>().ok());
        self.id == text
            || self.name == text
            || self.full_name() == text
            || number.is_some() && self.id[1..].parse().ok() == number
    }

    /// Id and name, e.g. `m01-stale-watch`.
    pub fn full_name(&self) -> String {
        format!("{}-{}", self.id, self.name)
    }
}

/// A known bug whose schedule is in `loadgen/faultsim/bugs`.
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
