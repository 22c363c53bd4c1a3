//! Text in aligned columns.
use std::fmt;

/// Spaces between columns.
const GAP: &str = "  ";
/// A cell without a value.
pub const NONE: &str = "-";

/// Rows of cells. Numbers are aligned to the right, text to the left.
#[derive(Default)]
pub struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with a heading.
    pub fn new<const COLUMNS: usize>(heading: [&str; COLUMNS]) -> Self {
        Self {
            heading: heading.map(str::to_owned).to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row<const COLUMNS: usize>(&mut self, cells: [&dyn fmt::Display; COLUMNS]) {
        self.rows
            .push(cells.map(|cell| printable(&cell.to_string())).to_vec());
    }

    fn lines(&self) -> impl Iterator<Item = &Vec<String>> {
        let heading = Some(&self.heading).filter(|heading| !heading.is_empty());
        heading.into_iter().chain(&self.rows)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.lines().map(Vec::len).max().unwrap_or_default();
        let cells = |column: usize| self.lines().filter_map(move |line| line.get(column));
        let length = |cell: &String| cell.chars().count();
        let widths: Vec<usize> = (0..columns)
            .map(|column| cells(column).map(length).max().unwrap_or_default())
            .collect();
        let numbers = |column: usize| {
            let mut cells = self.rows.iter().filter_map(|row| row.get(column));
            let has_one = cells.clone().any(|cell| is_number(cell));
            has_one && cells.all(|cell| is_number(cell) || cell == NONE)
        };
        let right: Vec<bool> = (0..columns).map(numbers).collect();
        for line in self.lines() {
            let aligned: Vec<String> = line
                .iter()
                .zip(widths.iter().zip(&right))
                .map(|(cell, (&width, right))| match right {
                    true => format!("{cell:>width$}"),
                    false => format!("{cell:<width$}"),
                })
                .collect();
            writeln!(formatter, "{}", aligned.join(GAP).trim_end())?;
        }
        Ok(())
    }
}

/// With or without decimals.
fn is_number(cell: &str) -> bool {
    let (whole, decimals) = cell.split_once('.').unwrap_or((cell, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole) && digits(decimals)
}

/// Escapes control characters: a cell may contain what a peer sent, and must not control the operator's terminal.
pub fn printable(cell: &str) -> String {
    let mut text = String::with_capacity(cell.len());
    for letter in cell.chars() {
        if letter.is_control() {
            text.extend(letter.escape_default());
        } else {
            text.push(letter);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_aligned_left_and_numbers_right() {
        let mut table = Table::new(["ADDRESS", "CALLS", "AGENT"]);
        table.row([&"älice@example.org", &7, &""]);
        table.row([&"bob", &12_000, &"baresip"]);
        assert_eq!(
            table.to_string(),
            "ADDRESS            CALLS  AGENT\n\
             älice@example.org      7\n\
             bob                12000  baresip\n"
        );
    }

    #[test]
    fn numbers_with_decimals_and_absent_ones_are_aligned_right() {
        let mut table = Table::new(["LIMIT", "PER SECOND"]);
        table.row([&"a", &0.5]);
        table.row([&"b", &NONE]);
        table.row([&"c", &1_000]);
        assert_eq!(
            table.to_string(),
            "LIMIT  PER SECOND\na             0.5\nb               -\nc            1000\n"
        );
    }

    #[test]
    fn a_table_without_a_heading_begins_with_its_first_row() {
        let mut table = Table::default();
        table.row([&"phase", &"ready"]);
        table.row([&"pid", &7]);
        assert_eq!(table.to_string(), "phase  ready\npid    7\n");
    }

    #[test]
    fn a_peer_cannot_control_the_terminal() {
        let mut table = Table::default();
        table.row([&"phone\u{1b}[2J\u{9b}1m\nx"]);
        assert_eq!(table.to_string(), "phone\\u{1b}[2J\\u{9b}1m\\nx\n");
    }
}
