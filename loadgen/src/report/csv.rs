//! `--csv`: the time series of a run, with one row per sample.

use std::io::{self, Write};

use crate::result::RunResult;

/// The columns: those of `series` in the result, under the same names, and the name of the phase.
const HEADER: &str = "seconds phase phase_name pods_desired pods_existing pods_ready pods_created \
                      pods_deleted queue_depth queue_delayed api_calls resource_version";

/// Writes the time series: a header, then the samples in order of time.
///
/// # Errors
/// Writing to `out` fails.
pub fn write(out: &mut dyn Write, result: &RunResult) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    let header: Vec<&str> = HEADER.split(' ').collect();
    writer.write_record(&header)?;
    let series = &result.series;
    let columns = serde_json::to_value(series).map_err(io::Error::other)?;
    for row in 0..series.len() {
        let phase = series.phase[row];
        let name = result.phases.get(phase).map_or("", |phase| &phase.name);
        let first = [
            series.seconds[row].to_string(),
            phase.to_string(),
            name.to_owned(),
        ];
        let counts = header[first.len()..]
            .iter()
            .map(|name| columns[name][row].to_string());
        writer.write_record(first.into_iter().chain(counts))?;
    }
    writer.flush()
}
