//! The grid: the dimensions with their values, and the cells, numbered so that the last dimension
//! varies fastest.

use anyhow::{Result, bail};
use serde::Serialize;

/// The maximum number of cells in a grid. A larger grid is unreadable, and probably a typo.
pub const CELLS_MAX: usize = 10_000;

/// A setting that varies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dimension {
    /// The flag's name, without dashes.
    pub name: String,
    /// The flag's values as the user wrote them, cheapest first.
    pub values: Vec<String>,
}

/// All combinations of the dimensions' values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Grid {
    /// The dimensions, in the order of the command line.
    pub dimensions: Vec<Dimension>,
}

impl Grid {
    /// Parses the grid from the values of `--vary`, `NAME=V1,V2,...`. The values of a repeated name
    /// are combined. If a list contains a `;`, semicolons separate its values, and commas are part
    /// of them.
    ///
    /// # Errors
    /// A name or its values are missing, a value is given twice, or there are more cells than
    /// [`CELLS_MAX`].
    pub fn parse(texts: &[String]) -> Result<Grid> {
        let mut dimensions: Vec<Dimension> = Vec::new();
        for text in texts {
            let one = dimension(text)?;
            match dimensions.iter_mut().find(|known| known.name == one.name) {
                Some(known) => known.values.extend(one.values),
                None => dimensions.push(one),
            }
        }
        for dimension in &dimensions {
            for (at, value) in dimension.values.iter().enumerate() {
                if dimension.values[..at].contains(value) {
                    bail!("--vary {}: {value} is given twice", dimension.name);
                }
            }
        }
        let grid = Grid { dimensions };
        grid.refuse_too_many()?;
        Ok(grid)
    }

    fn refuse_too_many(&self) -> Result<()> {
        let sizes = self.dimensions.iter().map(|one| one.values.len());
        let cells = sizes.clone().try_fold(1_usize, usize::checked_mul);
        if cells.is_some_and(|cells| cells <= CELLS_MAX) {
            return Ok(());
        }
        let product: Vec<String> = sizes.map(|size| size.to_string()).collect();
        bail!(
            "--vary asks for {} cells{}; at most {CELLS_MAX} are run: remove values, or sweep \
             one part after the other",
            product.join(" x "),
            cells.map_or_else(String::new, |cells| format!(", {cells} in all")),
        )
    }

    /// Returns the number of cells.
    pub fn cells(&self) -> usize {
        let sizes = self.dimensions.iter().map(|one| one.values.len());
        sizes.product()
    }

    /// Returns the position of a cell in each dimension.
    pub fn position(&self, cell: usize) -> Vec<usize> {
        let mut rest = cell;
        let mut position: Vec<usize> = self
            .dimensions
            .iter()
            .rev()
            .map(|dimension| {
                let at = rest % dimension.values.len();
                rest /= dimension.values.len();
                at
            })
            .collect();
        position.reverse();
        position
    }

    /// Returns the names and values of a cell's dimensions, in the order of the dimensions.
    pub fn values(&self, cell: usize) -> Vec<(&str, &str)> {
        let position = self.position(cell);
        let dimensions = self.dimensions.iter().zip(position);
        dimensions
            .map(|(dimension, at)| (dimension.name.as_str(), dimension.values[at].as_str()))
            .collect()
    }

    /// Formats a cell's name: `pods=1k, burst-replicas=100`.
    pub fn name(&self, cell: usize) -> String {
        let values = self.values(cell);
        let parts: Vec<String> = values
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        parts.join(", ")
    }
}

fn dimension(text: &str) -> Result<Dimension> {
    let example = "--vary burst-replicas=100,250,500";
    let Some((name, values)) = text.split_once('=') else {
        bail!("--vary {text}: the values are missing; write such as {example}");
    };
    let name = name.trim().trim_start_matches('-');
    if name.is_empty() {
        bail!("--vary {text}: the name of a flag is missing; write such as {example}");
    }
    let by = if values.contains(';') { ';' } else { ',' };
    // A trailing separator ends the list, so that one value may contain commas:
    // `p50=3ms,p99=40ms;`.
    let values = values.trim();
    let values = values.strip_suffix(by).unwrap_or(values);
    let values: Vec<String> = values.split(by).map(|one| one.trim().to_owned()).collect();
    if values == [""] {
        bail!("--vary {name}: the values are missing; write such as {example}");
    }
    if values.iter().any(String::is_empty) {
        bail!("--vary {text}: a value is empty");
    }
    Ok(Dimension {
        name: name.to_owned(),
        values,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(texts: &[&str]) -> Result<Grid> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        Grid::parse(&texts)
    }

    #[test]
    fn cells_are_numbered_with_the_last_dimension_fastest() {
        let grid = grid(&["pods=1k,2k", "seed=1,2,3"]).unwrap();
        assert_eq!(grid.cells(), 6);
        assert_eq!(grid.name(0), "pods=1k, seed=1");
        assert_eq!(grid.name(1), "pods=1k, seed=2");
        assert_eq!(grid.name(5), "pods=2k, seed=3");
        assert_eq!(grid.position(5), [1, 2]);
    }

    #[test]
    fn values_with_commas_use_semicolons_or_repeated_flags() {
        for texts in [
            &["api-latency=p50=1ms,p99=2ms;5ms"][..],
            &["api-latency=p50=1ms,p99=2ms;", "api-latency=5ms"],
        ] {
            let grid = grid(texts).unwrap();
            assert_eq!(grid.dimensions.len(), 1);
            assert_eq!(grid.dimensions[0].values, ["p50=1ms,p99=2ms", "5ms"]);
        }
    }

    #[test]
    fn invalid_grids_are_refused() {
        for (texts, words) in [
            (&["pods"][..], "the values are missing"),
            (&["pods="], "the values are missing"),
            (&["=1,2"], "name of a flag is missing"),
            (&["pods=1,,2"], "a value is empty"),
            (&["pods=1,2,1"], "1 is given twice"),
            (&["pods=1,2", "pods=2"], "2 is given twice"),
        ] {
            let problem = grid(texts).unwrap_err().to_string();
            assert!(problem.contains(words), "{texts:?}: {problem}");
        }
        let many: Vec<String> = (0..101).map(|value| value.to_string()).collect();
        let many = |name: &str| format!("{name}={}", many.join(","));
        let problem = |texts: &[String]| Grid::parse(texts).unwrap_err().to_string();
        let large = problem(&[many("a"), many("b")]);
        let words = "101 x 101 cells, 10201 in all; at most 10000";
        assert!(large.contains(words), "{large}");
        let far: Vec<String> = (0..20).map(|n| many(&format!("a{n}"))).collect();
        assert!(problem(&far).contains("101 x 101"));
    }
}
