//! Tells the crate its target and flags: counts for one set of target features say little about
//! those for another.

use std::env;

fn main() {
    // Cargo runs this again when the compiler or the flags change, regardless of this list.
    println!("cargo:rerun-if-changed=build.rs");
    let of = |name| env::var(name).unwrap_or_default();
    let mut flags = format!("{} +{}", of("TARGET"), of("CARGO_CFG_TARGET_FEATURE"));
    for flag in of("CARGO_ENCODED_RUSTFLAGS").split('\x1f') {
        if !flag.is_empty() {
            flags.push(' ');
            flags.push_str(flag);
        }
    }
    println!("cargo:rustc-env=PODSTORM_FLAGS={flags}");
}
