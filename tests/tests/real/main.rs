//! Tests that need a program from outside. `cargo test` leaves them out; `cargo real` runs them, and
//! they fail where the program is missing. `.ci/run` installs what they need.

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
