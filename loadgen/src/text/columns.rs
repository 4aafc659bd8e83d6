//! Tables for the terminal: aligned columns without rules or trailing spaces.

use comfy_table::{CellAlignment, Table, presets};

/// Formats rows below their header. The columns that `is_text` selects are aligned to the left; the
/// others, which contain numbers, are aligned to the right.
pub(crate) fn columns(
    header: &[String],
    rows: &[Vec<String>],
    is_text: impl Fn(usize) -> bool,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for at in 0..header.len() {
        if !is_text(at)
            && let Some(column) = table.column_mut(at)
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    lines(&table)
}

/// Formats a table without trailing spaces.
pub(crate) fn lines(table: &Table) -> String {
    let lines = table.lines();
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_aligned_to_the_right() {
        let owned = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect();
        let header: Vec<String> = owned(&["name", "size", "note"]);
        let rows = [owned(&["a", "5", ""]), owned(&["long name", "1,000", "x"])];
        let text = columns(&header, &rows, |at| at != 1);
        let expected = " name        size  note\n a              5\n long name  1,000  x\n";
        assert_eq!(text, expected);
    }
}
