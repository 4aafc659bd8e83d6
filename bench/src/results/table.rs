//! The rows with their figures: ours, the rival's, and what became of the target.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::figure::{self, Measured};
use super::machine::Machine;
use super::targets::Target;

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Line {
    /// What is to be reached.
    pub target: Target,
    /// Our figure, stale or not.
    pub ours: Option<Measured>,
    /// The plain rival's, when it belongs to the same run.
    pub rival: Option<Measured>,
    /// What became of it.
    pub verdict: Verdict,
}

/// What became of a target.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Our own raised target is reached.
    MetRaised,
    /// The given target is reached; there is no raised one.
    Met,
    /// The given target is reached, the raised one is not.
    MissedRaised,
    /// Measured, and not reached.
    Missed,
    /// Measured; there is no target.
    Known,
    /// There is a figure, but an older one than asked for: so much older.
    Stale(Duration),
    /// There is none.
    NotMeasured,
    /// There can't be one, for that reason.
    Cannot(String),
    /// The file counts something else than the row.
    WrongUnit,
}

impl Verdict {
    /// In words.
    pub fn text(&self) -> String {
        match self {
            Verdict::MetRaised => "met, raised too".to_owned(),
            Verdict::Met => "met".to_owned(),
            Verdict::MissedRaised => "met, raised missed".to_owned(),
            Verdict::Missed => "missed".to_owned(),
            Verdict::Known => "–".to_owned(),
            Verdict::Stale(age) => format!("stale by {}", age_text(*age)),
            Verdict::NotMeasured => "not measured".to_owned(),
            Verdict::Cannot(why) => format!("not measured: {why}"),
            Verdict::WrongUnit => "measured in another unit".to_owned(),
        }
    }

    /// Whether the row is as it should be after a run, whatever its figure.
    pub fn is_complete(&self) -> bool {
        !matches!(
            self,
            Verdict::Stale(_) | Verdict::NotMeasured | Verdict::WrongUnit
        )
    }

    /// Whether the row's figure may be shown as the figure of this run.
    pub fn is_measured(&self) -> bool {
        matches!(
            self,
            Verdict::MetRaised
                | Verdict::Met
                | Verdict::MissedRaised
                | Verdict::Missed
                | Verdict::Known
        )
    }
}

/// `42 s`, `12 min`, `3 h`, `5 days`.
pub fn age_text(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7_199 => format!("{} min", seconds / 60),
        7_200..=172_799 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

impl Line {
    /// How many times better than upstream's recorded figure.
    pub fn gain_over_upstream(&self) -> Option<f64> {
        let (ours, upstream) = (self.fresh()?, self.target.upstream_value?);
        Some(self.target.better.gain(ours.value, upstream))
    }

    /// How many times better than the plain rival.
    pub fn gain_over_rival(&self) -> Option<f64> {
        let (ours, rival) = (self.fresh()?, self.rival.as_ref()?);
        Some(self.target.better.gain(ours.value, rival.value))
    }

    /// Our figure, when it belongs to this run.
    pub fn fresh(&self) -> Option<&Measured> {
        self.ours.as_ref().filter(|_| self.verdict.is_measured())
    }
}

/// Puts figures to targets. What was written before `since` is stale; on `machine` some
/// figures can't be had.
///
/// # Errors
///
/// A file of figures that can't be read or understood.
pub fn lines(
    targets: Vec<Target>,
    measurements: &Path,
    since: SystemTime,
    machine: &Machine,
) -> anyhow::Result<Vec<Line>> {
    let line = |target: Target| {
        let ours = figure::read(measurements, &target.id)?;
        let rival = match target.rival_id() {
            Some(id) => figure::read(measurements, &id)?,
            None => None,
        };
        let rival = rival.filter(|rival| rival.unit == target.unit && rival.written >= since);
        let verdict = verdict(&target, ours.as_ref(), rival.as_ref(), since, machine);
        Ok(Line {
            target,
            ours,
            rival,
            verdict,
        })
    };
    targets.into_iter().map(line).collect()
}

fn verdict(
    target: &Target,
    ours: Option<&Measured>,
    rival: Option<&Measured>,
    since: SystemTime,
    machine: &Machine,
) -> Verdict {
    let Some(ours) = ours else {
        let why = target.unmeasured.clone().or_else(|| target.lacks(machine));
        return why.map_or(Verdict::NotMeasured, Verdict::Cannot);
    };
    if let Ok(age) = since.duration_since(ours.written)
        && !age.is_zero()
    {
        return Verdict::Stale(age);
    }
    if ours.unit != target.unit {
        return Verdict::WrongUnit;
    }
    let reached = |figure: Option<f64>| {
        figure.is_some_and(|figure| target.better.reaches(ours.value, figure))
    };
    if let Some(gain) = target.gain {
        return match rival {
            None => Verdict::NotMeasured,
            Some(rival) if target.better.gain(ours.value, rival.value) >= gain => Verdict::Met,
            Some(_) => Verdict::Missed,
        };
    }
    match target.target {
        None => Verdict::Known,
        Some(_) if reached(target.raised) => Verdict::MetRaised,
        Some(_) if !reached(target.target) => Verdict::Missed,
        Some(_) if target.raised.is_some() => Verdict::MissedRaised,
        Some(_) => Verdict::Met,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::targets::{Better, Section};
    use crate::results::{Figure, Unit};

    fn target(id: &str, figure: Option<f64>) -> Target {
        Target {
            id: id.to_owned(),
            section: Section::Parts,
            work: "w".to_owned(),
            upstream: Some("1 µs".to_owned()),
            upstream_value: Some(1000.0),
            unit: Unit::Bytes,
            target: figure,
            raised: figure.map(|figure| figure / 2.0),
            gain: None,
            better: Better::Lower,
            rival: "r".to_owned(),
            allocations: None,
            limit: "l".to_owned(),
            note: None,
            unmeasured: None,
            cores: None,
            memory_gb: None,
        }
    }

    /// A machine on which some figures can't be had.
    fn small() -> Machine {
        Machine {
            cores: 2,
            memory_bytes: 8_000_000_000,
            ..Machine::here()
        }
    }

    fn write(folder: &Path, id: &str, value: f64, unit: Unit) {
        let new = folder.join(id).join("new");
        std::fs::create_dir_all(&new).unwrap();
        let figure = Figure {
            id: id.to_owned(),
            value,
            unit,
            low: value,
            high: value,
            runs: 1,
        };
        let text = serde_json::to_string(&figure).unwrap();
        std::fs::write(new.join("figure.json"), text).unwrap();
    }

    #[test]
    fn a_row_tells_what_became_of_its_target() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a/met/1", 90.0, Unit::Bytes);
        write(folder.path(), "a/met-plain/1", 180.0, Unit::Bytes);
        write(folder.path(), "a/raised/1", 50.0, Unit::Bytes);
        write(folder.path(), "a/missed/1", 101.0, Unit::Bytes);
        write(folder.path(), "a/known/1", 7.0, Unit::Bytes);
        write(folder.path(), "a/unit/1", 7.0, Unit::Seconds);
        let mut plain = target("a/met/1", Some(100.0));
        plain.raised = None;
        let mut far = target("a/far/1", Some(100.0));
        far.cores = Some(16);
        let mut huge = target("a/huge/1", Some(100.0));
        huge.memory_gb = Some(12);
        let mut later = target("a/later/1", Some(100.0));
        later.unmeasured = Some("not built".to_owned());
        let targets = vec![
            target("a/met/1", Some(100.0)),
            target("a/raised/1", Some(100.0)),
            plain,
            target("a/missed/1", Some(100.0)),
            target("a/known/1", None),
            target("a/unit/1", Some(100.0)),
            target("a/absent/1", Some(100.0)),
            far,
            huge,
            later,
        ];
        let lines = lines(targets, folder.path(), SystemTime::UNIX_EPOCH, &small()).unwrap();
        let verdicts: Vec<Verdict> = lines.iter().map(|line| line.verdict.clone()).collect();
        let expected = [
            Verdict::MissedRaised,
            Verdict::MetRaised,
            Verdict::Met,
            Verdict::Missed,
            Verdict::Known,
            Verdict::WrongUnit,
            Verdict::NotMeasured,
            Verdict::Cannot("needs 16 cores".to_owned()),
            Verdict::Cannot("needs 12 GB of memory".to_owned()),
            Verdict::Cannot("not built".to_owned()),
        ];
        assert_eq!(verdicts, expected);
        assert_eq!(lines[0].gain_over_rival(), Some(2.0));
        assert_eq!(lines[1].gain_over_upstream(), Some(20.0));
        assert_eq!(lines[5].gain_over_upstream(), None);
        let complete: Vec<bool> = verdicts.iter().map(Verdict::is_complete).collect();
        assert_eq!(
            complete,
            [true, true, true, true, true, false, false, true, true, true]
        );
    }

    #[test]
    fn a_gain_over_the_rival_is_a_target_too() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a/b/1", 10.0, Unit::Bytes);
        let verdict = |gain| {
            let mut target = target("a/b/1", None);
            target.gain = Some(gain);
            let since = SystemTime::UNIX_EPOCH;
            lines(vec![target], folder.path(), since, &small()).unwrap()[0]
                .verdict
                .clone()
        };
        assert_eq!(verdict(1.5), Verdict::NotMeasured, "there is no rival yet");
        write(folder.path(), "a/b-plain/1", 16.0, Unit::Bytes);
        assert_eq!(verdict(1.5), Verdict::Met);
        assert_eq!(verdict(1.7), Verdict::Missed);
    }

    #[test]
    fn an_older_figure_is_stale_and_its_ratios_are_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a/old/1", 1.0, Unit::Bytes);
        write(folder.path(), "a/old-plain/1", 2.0, Unit::Bytes);
        let since = figure::read(folder.path(), "a/old/1")
            .unwrap()
            .unwrap()
            .written
            + Duration::from_secs(3_600 * 3);
        let lines = lines(
            vec![target("a/old/1", Some(9.0))],
            folder.path(),
            since,
            &small(),
        )
        .unwrap();
        assert_eq!(lines[0].verdict.text(), "stale by 3 h");
        assert!(!lines[0].verdict.is_complete());
        assert_eq!(lines[0].gain_over_upstream(), None);
        assert_eq!(lines[0].rival, None);
    }
}
