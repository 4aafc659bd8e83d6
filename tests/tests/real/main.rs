//! Tests that need external programs. `cargo test` skips them, and `cargo real` runs them; they
//! fail if the program is missing. `.ci/run` installs the programs.

mod apply;
mod browser;
mod control_plane;
mod helm;
mod identities;
mod jobs;
mod kubectl;
mod live_page;
mod manifests;
mod outside;
mod page;
mod scheduling;
mod served;
mod surroundings;
mod transcripts;
mod walkthroughs;
mod web_pages;
