//! The rows of the table: the figures, those of the rivals, and the verdicts on the targets.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::figure::{self, Measured};
use super::machine::Machine;
use super::targets::Target;

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Line {
    /// The target.
    pub target: Target,
    /// Our figure, stale or not.
    pub ours: Option<Measured>,
    /// The plain rival's figure, if it belongs to the same run.
    pub rival: Option<Measured>,
    /// The verdict on the target.
    pub verdict: Verdict,
}

/// The verdict on a target.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Our own stricter target is reached.
    MetRaised,
    /// The given target is reached, and there is no stricter one.
    Met,
    /// The given target is reached, but not the stricter one.
    MissedRaised,
    /// There is a figure, but it does not reach the target.
    Missed,
    /// There is a figure, but no target.
    Known,
    /// There is a figure, but it is too old, by this much.
    Stale(Duration),
    /// There is no figure.
    NotMeasured,
    /// This machine can't measure the figure, for this reason.
    Cannot(String),
    /// The recorded figure has a different unit than the row.
    WrongUnit,
}

impl Verdict {
    /// Returns the verdict in words.
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

    /// Reports whether the row needs no further measurement after a run, regardless of its figure.
    pub fn is_complete(&self) -> bool {
        !matches!(
            self,
            Verdict::Stale(_) | Verdict::NotMeasured | Verdict::WrongUnit
        )
    }

    /// Reports whether the row's figure may be shown as a figure of this run.
    pub fn is_measured(&self) -> bool {
        self.is_complete() && !matches!(self, Verdict::Cannot(_))
    }
}

/// Formats an age: `42 s`, `12 min`, `3 h`, `5 days`.
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
    /// Returns how many times better the figure is than upstream's recorded figure; `None` if
    /// either is missing.
    pub fn gain_over_upstream(&self) -> Option<f64> {
        let (ours, upstream) = (self.fresh()?, self.target.upstream_value?);
        Some(self.target.better.gain(ours.value, upstream))
    }

    /// Returns how many times better the figure is than the plain rival's; `None` if either is
    /// missing.
    pub fn gain_over_rival(&self) -> Option<f64> {
        let (ours, rival) = (self.fresh()?, self.rival.as_ref()?);
        Some(self.target.better.gain(ours.value, rival.value))
    }

    /// Returns our figure if it belongs to this run, or `None`.
    pub fn fresh(&self) -> Option<&Measured> {
        self.ours.as_ref().filter(|_| self.verdict.is_measured())
    }
}

/// Combines the targets with the figures. Figures written before `since` are stale. `machine`
/// determines which figures can't be measured.
///
/// # Errors
/// Fails if a file of figures can't be read or parsed.
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
    use crate::results::{Figure, Unit, targets};

    /// Returns a row that has these members in addition to the required ones.
    fn target(id: &str, members: &str) -> Target {
        let row = format!(
            r#"
            [[row]]
            id = "{id}"
            work = "w"
            upstream = "1 µs"
            upstream_value = 1000
            unit = "B"
            rival = "r"
            limit = "l"
            {}"#,
            members.replace("; ", "\n")
        );
        targets::parse(&row).unwrap().remove(0)
    }

    /// Returns a machine on which some figures can't be measured.
    fn small() -> Machine {
        Machine {
            cores: 2,
            memory_bytes: 8_000_000_000,
            ..Machine::here()
        }
    }

    fn write(folder: &Path, id: &str, value: f64, unit: Unit) {
        let figure = Figure::of_runs(id, &[value], unit);
        figure.write(folder).unwrap();
    }

    #[test]
    fn a_row_has_the_verdict_on_its_target() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a/met/1", 90.0, Unit::Bytes);
        write(folder.path(), "a/met-plain/1", 180.0, Unit::Bytes);
        write(folder.path(), "a/raised/1", 50.0, Unit::Bytes);
        write(folder.path(), "a/missed/1", 101.0, Unit::Bytes);
        write(folder.path(), "a/known/1", 7.0, Unit::Bytes);
        write(folder.path(), "a/unit/1", 7.0, Unit::Seconds);
        let cannot = |why: &str| Verdict::Cannot(why.to_owned());
        let raised = "target = 100; raised = 50";
        let (many, much) = ("target = 100; cores = 16", "target = 100; memory_gb = 12");
        let later = r#"target = 100; unmeasured = "not built""#;
        let cases = [
            ("a/met/1", raised, Verdict::MissedRaised, true),
            ("a/raised/1", raised, Verdict::MetRaised, true),
            ("a/met/1", "target = 100", Verdict::Met, true),
            ("a/missed/1", raised, Verdict::Missed, true),
            ("a/known/1", "", Verdict::Known, true),
            ("a/unit/1", raised, Verdict::WrongUnit, false),
            ("a/absent/1", raised, Verdict::NotMeasured, false),
            ("a/far/1", many, cannot("needs 16 cores"), true),
            ("a/huge/1", much, cannot("needs 12 GB of memory"), true),
            ("a/later/1", later, cannot("not built"), true),
        ];
        let rows = cases.iter().map(|(id, members, ..)| target(id, members));
        let since = SystemTime::UNIX_EPOCH;
        let lines = lines(rows.collect(), folder.path(), since, &small()).unwrap();
        for (line, (_, _, verdict, is_complete)) in lines.iter().zip(cases) {
            assert_eq!(line.verdict, verdict);
            assert_eq!(line.verdict.is_complete(), is_complete, "{verdict:?}");
        }
        assert_eq!(lines[0].gain_over_rival(), Some(2.0));
        assert_eq!(lines[1].gain_over_upstream(), Some(20.0));
        assert_eq!(lines[5].gain_over_upstream(), None);
    }

    #[test]
    fn a_gain_over_the_rival_is_a_target_too() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a/b/1", 10.0, Unit::Bytes);
        let verdict = |gain: &str| {
            let (rows, since) = (vec![target("a/b/1", gain)], SystemTime::UNIX_EPOCH);
            let mut lines = lines(rows, folder.path(), since, &small()).unwrap();
            lines.remove(0).verdict
        };
        let unknown = verdict("gain = 1.5");
        assert_eq!(unknown, Verdict::NotMeasured, "there is no rival yet");
        write(folder.path(), "a/b-plain/1", 16.0, Unit::Bytes);
        assert_eq!(verdict("gain = 1.5"), Verdict::Met);
        assert_eq!(verdict("gain = 1.7"), Verdict::Missed);
    }

    #[test]
    fn an_older_figure_is_stale_and_its_ratios_are_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a/old/1", 1.0, Unit::Bytes);
        write(folder.path(), "a/old-plain/1", 2.0, Unit::Bytes);
        let figure = figure::read(folder.path(), "a/old/1").unwrap().unwrap();
        let since = figure.written + Duration::from_secs(3_600 * 3);
        let rows = vec![target("a/old/1", "target = 9")];
        let lines = lines(rows, folder.path(), since, &small()).unwrap();
        assert_eq!(lines[0].verdict.text(), "stale by 3 h");
        assert!(!lines[0].verdict.is_complete());
        assert_eq!(lines[0].gain_over_upstream(), None);
        assert_eq!(lines[0].rival, None);
    }
}
