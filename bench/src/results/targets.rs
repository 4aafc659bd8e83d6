//! The rows of `bench/targets.toml`, validated.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use super::Unit;
use super::machine::Machine;

/// A performance target: one figure to reach. The file itself documents each member.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The id, `subject/variant/size`.
    pub id: String,
    /// The section of the table to which the row belongs.
    #[serde(default)]
    pub section: Section,
    /// The measured work.
    pub work: String,
    /// Upstream's recorded figure, in words.
    pub upstream: Option<String>,
    /// Upstream's recorded figure in `unit`.
    pub upstream_value: Option<f64>,
    /// The unit of the figure.
    pub unit: Unit,
    /// The figure to reach. Without a target, the row is only informative.
    pub target: Option<f64>,
    /// Our own, stricter target.
    pub raised: Option<f64>,
    /// The target as a ratio: how many times better than the plain rival the figure must be.
    pub gain: Option<f64>,
    /// The direction in which the figure gets better.
    #[serde(default)]
    pub better: Better,
    /// The plain rival's method, or the reason why there is no rival.
    pub rival: String,
    /// The allocations in the steady state.
    pub allocations: Option<String>,
    /// The physical limit, in words.
    pub limit: String,
    /// The reason why the target is missed.
    pub note: Option<String>,
    /// The reason why there is no figure yet.
    pub unmeasured: Option<String>,
    /// The number of cores that the machine needs for the figure.
    pub cores: Option<usize>,
    /// The memory that the machine needs, in 10⁹ bytes.
    pub memory_gb: Option<u64>,
}

impl Target {
    /// Returns the first segment of the id.
    pub fn subject(&self) -> &str {
        self.id.split('/').next().unwrap_or_default()
    }

    /// Returns what a machine lacks to measure this row; `None` if it lacks nothing.
    pub fn lacks(&self, machine: &Machine) -> Option<String> {
        if let Some(cores) = self.cores.filter(|&cores| cores > machine.cores) {
            return Some(format!("needs {cores} cores"));
        }
        let memory = self.memory_gb?;
        (memory * 1_000_000_000 > machine.memory_bytes)
            .then(|| format!("needs {memory} GB of memory"))
    }
}

/// A section of the table of targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Section {
    /// Parts of the controller, one thread.
    #[default]
    Parts,
    /// Whole runs of `loadgen`.
    Runs,
    /// Throughput by number of threads.
    Cores,
    /// Packages, each compared with doing without it.
    Packages,
}

impl Section {
    /// All sections, in the order of the document.
    pub const ALL: [Section; 4] = [
        Section::Parts,
        Section::Runs,
        Section::Cores,
        Section::Packages,
    ];

    /// Returns the heading of the section.
    pub fn heading(self) -> &'static str {
        match self {
            Section::Parts => "Parts of the controller",
            Section::Runs => "Whole runs",
            Section::Cores => "Across cores",
            Section::Packages => "Packages",
        }
    }
}

/// The direction in which a figure gets better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Lower is better: times, bytes.
    #[default]
    Lower,
    /// Higher is better: throughputs, shares.
    Higher,
}

impl Better {
    /// Reports whether a figure reaches a target.
    pub fn reaches(self, value: f64, target: f64) -> bool {
        match self {
            Better::Lower => value <= target,
            Better::Higher => value >= target,
        }
    }

    /// Returns how many times better `value` is than `other`.
    pub fn gain(self, value: f64, other: f64) -> f64 {
        match self {
            Better::Lower => other / value,
            Better::Higher => value / other,
        }
    }
}

impl Target {
    /// Returns the plain rival's id, with `-plain` appended to the variant; `None` if there is no
    /// rival.
    pub fn rival_id(&self) -> Option<String> {
        if self.rival.starts_with("none") {
            return None;
        }
        let (start, size) = self.id.rsplit_once('/')?;
        Some(format!("{start}-plain/{size}"))
    }

    /// Returns the target in words: `8 µs`, `at least 0.80`, `1.5 × the rival`; `None` if there is
    /// no target.
    pub fn aim_text(&self) -> Option<String> {
        let gain = self.gain.map(|gain| format!("{gain} × the rival"));
        self.target.map(|target| self.target_text(target)).or(gain)
    }

    /// Formats a value of the target in words.
    pub fn target_text(&self, target: f64) -> String {
        let text = self.unit.text(target);
        match (self.better, self.unit) {
            (_, Unit::Holds) | (Better::Lower, _) => text,
            (Better::Higher, _) => format!("at least {text}"),
        }
    }

    fn check(&self) -> anyhow::Result<()> {
        let parts: Vec<&str> = self.id.split('/').collect();
        ensure!(
            parts.len() == 3 && parts.iter().all(|part| !part.is_empty()),
            "the id is not of the form subject/variant/size"
        );
        for (name, value) in [
            ("target", self.target),
            ("raised", self.raised),
            ("gain", self.gain),
            ("upstream_value", self.upstream_value),
        ] {
            ensure!(
                value.is_none_or(|value| value.is_finite() && value > 0.0),
                "{name} is not a positive number"
            );
        }
        ensure!(
            self.upstream_value.is_none() || self.upstream.is_some(),
            "upstream_value needs upstream"
        );
        ensure!(
            self.gain.is_none() || (self.target.is_none() && self.rival_id().is_some()),
            "gain replaces target and needs a rival"
        );
        if let Some(raised) = self.raised {
            ensure!(
                self.target
                    .is_some_and(|target| self.better.reaches(raised, target)),
                "raised is easier than target"
            );
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "row", default)]
    rows: Vec<Target>,
}

/// Returns the rows of a file, in the order of the file.
///
/// # Errors
/// Fails if the file can't be read or parsed, or if a row is invalid. The error contains the row's
/// id.
pub fn load(path: &Path) -> anyhow::Result<Vec<Target>> {
    let rows = fs::read_to_string(path)
        .map_err(anyhow::Error::from)
        .and_then(|text| parse(&text));
    rows.with_context(|| {
        let name = path.display();
        format!("{name} (its head describes the rows; version control has an older version)")
    })
}

/// Returns the rows of `bench/targets.toml`.
///
/// # Errors
/// The same as [`load`].
pub fn load_own() -> anyhow::Result<Vec<Target>> {
    load(&super::package_directory().join("targets.toml"))
}

pub(super) fn parse(text: &str) -> anyhow::Result<Vec<Target>> {
    let file: File = toml::from_str(text)?;
    let mut seen = BTreeSet::new();
    for row in &file.rows {
        row.check().with_context(|| format!("row {:?}", row.id))?;
        ensure!(seen.insert(&row.id), "duplicate row {:?}", row.id);
    }
    ensure!(!file.rows.is_empty(), "there is no [[row]]");
    Ok(file.rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = r#"
        [[row]]
        id = "a/b/1"
        work = "w"
        unit = "ns"
        target = 10
        rival = "r"
        limit = "l"
    "#;

    #[test]
    fn the_projects_rows_are_well_formed() {
        let rows = load_own().unwrap();
        assert!(rows.len() > 40, "{}", rows.len());
        // The document lists the rows by section.
        assert!(rows.is_sorted_by_key(|row| row.section));
    }

    #[test]
    fn an_invalid_row_is_reported_by_its_id() {
        assert_eq!(parse(ROW).unwrap().len(), 1);
        let twice = format!("{ROW}{ROW}");
        for (text, said) in [
            (twice.as_str(), "duplicate"),
            (&ROW.replace("a/b/1", "a/b"), "subject/variant/size"),
            (&ROW.replace("= 10", "= -10"), "positive"),
            (
                &ROW.replace("target = 10", "target = 10\nraised = 11"),
                "easier",
            ),
            (&ROW.replace("unit =", "gain = 2\nunit ="), "gain"),
            (&ROW.replace("limit", "limits"), "limits"),
            (&ROW.replace("\"ns\"", "\"parsecs\""), "parsecs"),
            ("", "there is no [[row]]"),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(said), "{said:?} is not in {error:?}");
        }
    }

    #[test]
    fn an_unreadable_file_is_reported_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("targets.toml");
        let error = || format!("{:#}", load(&path).unwrap_err());
        for (content, said) in [
            (None, "No such file"),
            (Some(&b"\xff"[..]), "UTF-8"),
            (Some(b""), "there is no [[row]]"),
            (Some(b"[[row]]\nid = 3"), "line 2"),
        ] {
            if let Some(content) = content {
                fs::write(&path, content).unwrap();
            }
            for said in [said, "targets.toml", "version control"] {
                assert!(error().contains(said), "{said} is not in {}", error());
            }
        }
    }

    #[test]
    fn the_rivals_id_has_the_variant_with_a_suffix() {
        let row = &parse(ROW).unwrap()[0];
        assert_eq!(row.rival_id().as_deref(), Some("a/b-plain/1"));
        let without = ROW.replace("rival = \"r\"", "rival = \"none: there is no other way\"");
        assert_eq!(parse(&without).unwrap()[0].rival_id(), None);
    }
}
