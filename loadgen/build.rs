//! Tells the program what it is built from: the commit, whether the source differs from it, and the
//! compiler. Without git or outside a checkout the commit is unknown, and nothing fails.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the program is made of, relative to the root of the workspace.
const SOURCES: [&str; 4] = ["core", "loadgen", "Cargo.toml", "Cargo.lock"];

fn main() {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = package.parent().unwrap_or(&package);
    println!("cargo::rerun-if-env-changed=PODSTORM_COMMIT");
    let (commit, dirty) = match env::var("PODSTORM_COMMIT") {
        // The one who names it answers for it.
        Ok(named) if is_word(&named) => (named, String::new()),
        _ => of_checkout(root).unwrap_or_default(),
    };
    println!("cargo::rustc-env=PODSTORM_COMMIT={commit}");
    println!("cargo::rustc-env=PODSTORM_DIRTY={dirty}");
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let version = output(Command::new(rustc).arg("--version")).unwrap_or_default();
    println!("cargo::rustc-env=PODSTORM_RUSTC={version}");
}

/// The commit of the checkout whose root is `root`, and whether the sources differ from it. A
/// package unpacked inside of somebody else's checkout is not that checkout.
fn of_checkout(root: &Path) -> Option<(String, String)> {
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
    }
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        // Looks, and writes nothing.
        command.arg("--no-optional-locks").arg("-C").arg(root);
        output(command.args(arguments))
    };
    let top = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?);
    if top.canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let commit = git(&["rev-parse", "HEAD"])?;
    // What a commit or a checkout touches. A branch may lie in a file of its own or be packed, so the
    // log of HEAD is watched besides.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name])?;
        let path = root.join(path);
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    let mut status = vec!["status", "--porcelain", "--"];
    status.extend(SOURCES);
    let dirty = git(&status).map_or(String::new(), |lines| (!lines.is_empty()).to_string());
    Some((commit, dirty))
}

/// What a command says on one line, if it succeeds.
fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|it| it.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    let line = text.trim().lines().next().unwrap_or_default();
    Some(line.to_owned())
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}
