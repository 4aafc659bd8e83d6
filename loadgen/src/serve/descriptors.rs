//! The process's limit of open files, of which each connection takes one.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files to the maximum allowed for the process, as Go's runtime does: a
/// shell's usual limit of 1,024 is too low for the clients of a server. If the system refuses, the
/// limit is unchanged, and connections beyond it wait to be accepted.
pub(crate) fn raise_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        let _stays = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
