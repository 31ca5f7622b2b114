//! Figures for people: units chosen per value, thousands grouped, columns aligned.

use forebay::metrics::Percentile;
use indicatif::HumanCount;

/// A time in microseconds with three significant digits and a suitable unit; `None` is infinity.
pub fn time(us: Option<f64>) -> String {
    let Some(us) = us else {
        return "inf".to_owned();
    };
    let (value, unit) = match us {
        us if us < 0.9995 => (us * 1e3, "ns"),
        us if us < 999.5 => (us, "us"),
        us if us < 999_500.0 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A factor, such as a slowdown, with three significant digits; `None` is infinity.
pub fn factor(value: Option<f64>) -> String {
    value.map_or_else(|| "inf".to_owned(), three_digits)
}

/// A whole number with its thousands grouped.
pub fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}

/// Requests per second: three digits or more.
pub(crate) fn rate(per_second: f64) -> String {
    if per_second < 100.0 { format!("{per_second:.1}") } else { grouped(per_second.round() as u64) }
}

/// Serialises `value` as it is displayed.
pub(crate) fn as_text<T: std::fmt::Display, S: serde::Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// A number of workers.
pub(crate) fn workers(count: u16) -> String {
    if count == 1 { "1 worker".to_owned() } else { format!("{count} workers") }
}

/// Rows under a header, the first `left` columns aligned to the left, the others to the right.
pub fn table(header: &[String], rows: &[Vec<String>], left: usize) -> String {
    let width = |column: usize| {
        let cells = std::iter::once(header).chain(rows.iter().map(Vec::as_slice)).filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |row: &[String]| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
            if column < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        let text: Vec<String> = cells.collect();
        format!("{}\n", text.join("  ").trim_end())
    };
    std::iter::once(header).chain(rows.iter().map(Vec::as_slice)).map(line).collect()
}

/// The line above the header of `table`. The name of each group of percentiles ends above its
/// `last` one.
pub(crate) fn groups(table: &str, last: Option<&Percentile>, names: [&str; 2]) -> String {
    let last = last.map_or_else(String::new, ToString::to_string);
    let header = table.lines().next().unwrap_or_default();
    let ends = header.match_indices(&last).map(|(at, percentile)| at + percentile.len());
    let mut line = String::new();
    for (end, name) in ends.zip(names) {
        let columns = end - line.len();
        line += &format!("{name:>columns$}");
    }
    line + "\n"
}

/// Text from a server, made safe for a terminal by escaping control characters. They could
/// overwrite or colour other lines.
pub(crate) fn escaped(foreign: &str) -> String {
    let safe = |it: char| if it.is_control() { it.escape_default().to_string() } else { it.to_string() };
    foreign.chars().map(safe).collect()
}

/// Wraps `paragraph` to the columns of a page; the first line begins with `start`, the others with
/// `indent`.
pub fn wrapped(start: &str, paragraph: &str, indent: &str) -> String {
    let (mut text, mut line) = (String::new(), start.to_owned());
    let mut is_first = true;
    for word in paragraph.split_whitespace() {
        if !is_first && line.chars().count() + 1 + word.chars().count() > PAGE_COLUMNS {
            text += &std::mem::replace(&mut line, indent.to_owned());
            text.push('\n');
            is_first = true;
        }
        line += if is_first { "" } else { " " };
        line += word;
        is_first = false;
    }
    text + &line + "\n"
}

/// Columns of running text; the narrowest terminal in common use.
const PAGE_COLUMNS: usize = 80;

fn three_digits(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value < 0.0995 => format!("{value:.3}"),
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value if value < 999_999.5 => grouped(value.round() as u64),
        value => format!("{value:.2e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_factors_and_counts_are_readable() {
        let shown = [0.0, 0.5, 0.9999, 12.345, 999.6, 1_234.5, 999_900.0, 61e6].map(|us| time(Some(us)));
        assert_eq!(shown, ["0 ns", "500 ns", "1.00 us", "12.3 us", "1.00 ms", "1.23 ms", "1.00 s", "61.0 s"]);
        assert_eq!(time(None), "inf");
        let factors = [0.0314, 1.0, 55.5, 634.4, 12_345.0].map(|value| factor(Some(value)));
        assert_eq!(factors, ["0.031", "1.00", "55.5", "634", "12,345"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([1.5, 100.4, 4_200_000.0].map(rate), ["1.5", "100", "4,200,000"]);
    }

    #[test]
    fn what_a_server_says_cannot_move_the_cursor() {
        assert_eq!(escaped("steal"), "steal");
        assert_eq!(escaped("\u{1b}[2Jok\r\n\u{9b}1mü"), "\\u{1b}[2Jok\\r\\n\\u{9b}1mü");
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["all".to_owned(), "1".to_owned()], vec!["short".to_owned(), "12".to_owned()]];
        assert_eq!(table(&["class".to_owned(), "n".to_owned()], &rows, 1), "class   n\nall     1\nshort  12\n");
    }

    #[test]
    fn paragraphs_stay_inside_the_page() {
        let text = wrapped("- ", &"word ".repeat(60), "  ");
        assert!(text.lines().all(|line| line.len() <= PAGE_COLUMNS), "{text}");
        assert!(text.starts_with("- word") && text.lines().skip(1).all(|line| line.starts_with("  word")), "{text}");
        assert_eq!(text.split_whitespace().count(), 61);
        let too_long = "x".repeat(PAGE_COLUMNS + 1);
        assert_eq!(wrapped("", &too_long, "  "), format!("{too_long}\n"));
    }
}
