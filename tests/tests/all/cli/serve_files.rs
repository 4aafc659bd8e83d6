//! The files of `loadgen serve` with secrets: their permissions, and planted files in their place.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use podstorm_tests::command::{command, refusal, send};

use super::serve::{Serving, kubeconfigs, runtime_folder, until};
use super::{folder, folder_of, names_in, read};

/// Runs the remaining arguments as a command, with a umask of 0.
const OPEN: [&str; 4] = ["sh", "-c", "umask 0; exec \"$@\"", "sh"];

fn mode(path: impl AsRef<Path>) -> u32 {
    let found = fs::symlink_metadata(path).expect("the file exists");
    assert!(!found.is_symlink());
    found.permissions().mode() & 0o777
}

#[test]
fn secret_files_are_private_and_replace_planted_links() {
    let folder = folder_of(&[("victim", "precious")]);
    for name in ["config", "snap"] {
        symlink("victim", folder.path().join(name)).expect("a link can be created");
    }
    let line = "serve --listen :0 --kubeconfig config --snapshot snap";
    let mut serving = Serving::start_by(&OPEN, &folder, line, false);
    assert_eq!(mode(folder.path().join("config")), 0o600);
    send("USR1", &serving.child);
    let snap = folder.path().join("snap");
    until(
        || fs::symlink_metadata(&snap).is_ok_and(|found| found.is_file()),
        "no snapshot",
    );
    assert_eq!(mode(&snap), 0o600);
    send("TERM", &serving.child);
    assert!(serving.child.wait().expect("an exit status").success());
    assert_eq!(mode(&snap), 0o600);
    assert_eq!(read(&folder, "victim"), "precious");
    assert_eq!(names_in(&folder), ["config", "snap", "victim"]);
}

#[test]
fn a_temporary_kubeconfig_is_in_a_private_folder() {
    let folder = folder();
    let mut serving = Serving::start_by(&OPEN, &folder, "serve --listen :0", false);
    let own = runtime_folder(&folder);
    assert_eq!(mode(&own), 0o700);
    let [name] = &kubeconfigs(&folder)[..] else {
        panic!("{:?}", kubeconfigs(&folder));
    };
    assert_eq!(mode(own.join(name)), 0o600);
    // The file of a running server stays; that of a killed one is removed.
    let second = Serving::start(&folder, "serve --listen :0", false);
    assert_eq!(kubeconfigs(&folder).len(), 2);
    send("KILL", &serving.child);
    let _killed = serving.child.wait().expect("an exit status");
    fs::write(own.join(".a.podstorm-aaaaaa.tmp"), "half").expect("a file can be created");
    let third = Serving::start(&folder, "serve --listen :0", false);
    let left = kubeconfigs(&folder);
    assert!(left.len() == 2 && !left.contains(name), "{left:?}");
    drop((second, third));
}

#[test]
fn a_planted_runtime_folder_is_refused() {
    let planted = folder();
    let folder = folder();
    symlink(planted.path(), runtime_folder(&folder)).expect("a link can be created");
    let mut refused = command("serve --listen :0");
    refused.env("TMPDIR", folder.path());
    refused.env_remove("XDG_RUNTIME_DIR");
    let output = refused.output().expect("the command starts");
    refusal(
        &output,
        "must be a folder that only this user can access | XDG_RUNTIME_DIR",
    )
    .expect("refused");
    assert_eq!(names_in(&planted), [""; 0]);
}

#[test]
fn only_a_private_session_folder_is_used() {
    for (session_mode, is_taken) in [(0o700, true), (0o755, false)] {
        let folder = folder();
        let session = folder.path().join("session");
        fs::create_dir(&session).expect("a folder can be created");
        fs::set_permissions(&session, fs::Permissions::from_mode(session_mode))
            .expect("our own folder");
        let session = format!("XDG_RUNTIME_DIR={}", session.display());
        let serving = Serving::start_by(&["env", &session], &folder, "serve --listen :0", false);
        let is_there = folder.path().join("session/podstorm").exists();
        assert_eq!(is_there, is_taken, "{}", serving.said);
        assert_eq!(runtime_folder(&folder).exists(), !is_taken);
    }
}
