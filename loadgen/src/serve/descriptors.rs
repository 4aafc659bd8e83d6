//! The process's limit of open files: each connection takes one.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files to the most that the process may have, as Go's runtime does: the
/// usual limit of a shell, 1,024, is less than a server's clients need. Where the system refuses,
/// the limit stays, and connections beyond it wait to be accepted.
pub(crate) fn raise_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        let _stays = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
