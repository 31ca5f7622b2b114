//! A picture of a comparison for the terminal: one bar for each policy, on a log scale.

use crate::compare::pooled::Figures;
use crate::text::factor;
use forebay::metrics::Percentile;
use std::fmt::Write;

/// The percentiles of a bar, and what fills it up to each.
const SHADES: [(Percentile, char); 3] = [(Percentile::P50, '█'), (Percentile::P99, '▓'), (Percentile::P99_9, '░')];
/// Columns of the longest bar.
const COLUMNS: usize = 44;

/// The bars of `rows`, each a name with its slowdowns, and their scale, in 80 columns.
pub(crate) fn bars(rows: &[(&str, &Figures)]) -> String {
    let name_columns = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let values = |figures: &Figures| SHADES.map(|(percentile, _)| figures.of(percentile).value);
    let most = rows.iter().flat_map(|(_, figures)| values(figures)).flatten().fold(10.0, f64::max);
    let decades = most.log10().ceil().max(1.0);
    // A slowdown is at least 1, which is one column wide. What was never answered reaches the end.
    let columns_of = |value: Option<f64>| {
        let share = value.map_or(1.0, |value| value.max(1.0).log10() / decades);
        1 + (share * (COLUMNS - 1) as f64).round() as usize
    };
    let mut text = String::new();
    for (name, figures) in rows {
        let mut bar = String::new();
        for (value, (_, shade)) in values(figures).into_iter().zip(SHADES) {
            let columns = columns_of(value);
            bar.extend(std::iter::repeat_n(shade, columns.saturating_sub(bar.chars().count())));
        }
        let told = SHADES.map(|(percentile, _)| cell(figures, percentile));
        let line = format!("{name:name_columns$}  {bar:COLUMNS$} {:>7} {:>7} {:>7}", told[0], told[1], told[2]);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text + &scale(name_columns, decades as usize)
}

/// A percentile as tables show it, with a column for its mark.
pub(crate) fn cell(figures: &Figures, percentile: Percentile) -> String {
    let figure = figures.of(percentile);
    factor(figure.value) + if figure.known { " " } else { "?" }
}

/// The powers of ten below the bars, and the legend above the figures.
fn scale(name_columns: usize, decades: usize) -> String {
    let mut line = " ".repeat(name_columns + 2);
    for power in 0..=decades {
        let place = name_columns + 2 + power * (COLUMNS - 1) / decades;
        let label = crate::text::grouped(10_u64.pow(power as u32));
        // Not beyond the bars, where the legend is.
        let start = place.min(name_columns + 2 + COLUMNS - label.len());
        line.extend(std::iter::repeat_n(' ', start.saturating_sub(line.chars().count())));
        line += &label;
    }
    let legend = SHADES.map(|(percentile, shade)| format!("{shade} {percentile}"));
    let end = name_columns + 2 + COLUMNS;
    format!("{line:end$} {:>6}  {:>6}  {:>6}\n", legend[0], legend[1], legend[2])
}
