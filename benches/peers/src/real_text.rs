//! The tables of section `real`.

use crate::cpus::Division;
use crate::figures::{Figures, Tables};
use crate::lineup::is_yielding_rival;
use crate::mixes::{Mix, REAL};
use crate::real::{CORES, LOADS, at, division, table};
use crate::tables::{doubt, grouped, line, row, times, to_best, value, with_spread};
use anyhow::Result;

/// The tables, as far as there are figures.
///
/// # Errors
/// If the system does not tell which CPUs there are.
pub(crate) fn render(tables: &Tables) -> Result<String> {
    let mut text = String::new();
    for cores in CORES {
        let division = division(cores)?;
        for mix in &REAL {
            if let Some(figures) = tables.of(&table(cores, mix)) {
                LOADS.iter().for_each(|load| render_load(&mut text, figures, &division, cores, mix, *load));
            } else if division == Division::Shared {
                line(&mut text, &format!("\n{} on {cores} real cores: left out, there are too few CPUs.", mix.name));
            }
        }
    }
    Ok(text)
}

fn render_load(text: &mut String, figures: &Figures, division: &Division, cores: usize, mix: &Mix, load: f64) {
    let Some(first) = figures.peers.first() else { return };
    let is_one = cores == 1;
    line(text, &format!("\n### real, {cores} core{}, {}, load {load}\n", if is_one { "" } else { "s" }, mix.name));
    let sharing = sharing_needs(cores, load);
    let lights = figures.peers.iter().filter_map(|peer| peer.spread(&at(load, "lights"))).map(|spread| spread.0);
    line(
        text,
        &format!(
            "{division}; {} requests/s, {load} of what `{}` can do; medians of {} rounds, smallest..largest in \
             parentheses. Light: multiples of {} us, over at least {} requests. Heavy: multiples of {} ms, and of what \
             processor sharing needs, {sharing:.2}. To best: beside the best rival that yields. ?: in half of the rounds or more not \
             known within a factor of two.\n",
            value(first, &at(load, "rate_rps"), grouped),
            first.peer,
            first.rounds.len(),
            mix.light_us,
            grouped(lights.reduce(f64::min).unwrap_or_default()),
            mix.heavy_us / 1e3,
        ),
    );
    line(
        text,
        "| peer | uses | capacity, CPUs | light: p50 | p90 | to best | p99 | to best | p99.9 | to best | heavy: p50 | of sharing | CPUs | valid |",
    );
    line(text, "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    let bests = ["p90", "p99", "p99_9"].map(|name| figures.least(&at(load, name), is_yielding_rival));
    for peer in &figures.peers {
        let valid = peer.values(&at(load, "valid"));
        let cells = [
            peer.uses.clone(),
            with_spread(peer, "capacity", |cpus| format!("{cpus:.2}")),
            value(peer, &at(load, "p50"), times),
            with_spread(peer, &at(load, "p90"), times),
            to_best(peer, bests[0], &at(load, "p90")),
            with_spread(peer, &at(load, "p99"), times) + doubt(peer, &at(load, "p99_known")),
            to_best(peer, bests[1], &at(load, "p99")),
            with_spread(peer, &at(load, "p99_9"), times) + doubt(peer, &at(load, "p99_9_known")),
            to_best(peer, bests[2], &at(load, "p99_9")),
            with_spread(peer, &at(load, "heavy_p50"), |times| format!("{times:.2}")),
            value(peer, &at(load, "heavy_p50"), |times| format!("{:.2}", times / sharing)),
            value(peer, &at(load, "cpus"), |cpus| format!("{cpus:.2}")),
            format!("{:.0} of {}", valid.iter().sum::<f64>(), valid.len()),
        ];
        row(text, &peer.peer, &cells);
    }
    if let [Some(p90), Some(p99), Some(p99_9)] = bests.map(|best| best.map(|best| &best.peer)) {
        line(text, &format!("\nBest rival that yields: by p90 {p90}, by p99 {p99}, by p99.9 {p99_9}."));
    }
}

/// Mean slowdown under processor sharing by this many servers at `load` (Poisson arrivals, any costs; for two the M/M/2
/// formula, which is near).
fn sharing_needs(cores: usize, load: f64) -> f64 {
    1.0 / (1.0 - load.powi(cores as i32))
}
