//! The tables: for each number of cores and mix one of what was measured and one of virtual time beside it.

use super::matrix::BASE;
use super::mix::Mix;
use super::results::{CapacityEntry, Figures, Results, RunEntry, fact};
use crate::figures::median;
use crate::tables::line;
use forebay::sched::PolicyName;
use loadgen::text::{factor, grouped};
use std::collections::BTreeMap;

/// All tables, in Markdown.
pub(super) fn render(results: &Results) -> String {
    let conditions = &results.conditions;
    let valid = results.runs.iter().filter(|run| run.is_valid()).count();
    let seconds = |ms: u64| format!("{} s", ms as f64 / 1e3);
    let mut text = format!(
        "\n{}; commit {}; each run {} after {} of warm-up; virtual time with `{}`. {valid} of {} runs are VALID.\n",
        conditions.machine,
        conditions.commit,
        seconds(conditions.duration_ms),
        seconds(conditions.warmup_ms),
        conditions.overheads,
        results.runs.len(),
    );
    reasons(&mut text, results);
    let mut cores: Vec<usize> = results.runs.iter().map(|run| run.cell.cores).collect();
    cores.sort_unstable();
    cores.dedup();
    for cores in cores {
        for mix in Mix::ALL {
            let is_here = |run: &&RunEntry| run.cell.cores == cores && run.cell.mix == mix.name();
            let runs: Vec<&RunEntry> = results.runs.iter().filter(is_here).collect();
            if !runs.is_empty() {
                let workers = if cores == 1 { "1 worker".to_owned() } else { format!("{cores} workers") };
                line(&mut text, &format!("\n### {workers}, {}\n", mix.title()));
                capacities(&mut text, results, cores, mix);
                let groups = groups(&runs);
                measured(&mut text, &groups);
                beside(&mut text, &groups);
            }
        }
    }
    text
}

/// How often runs are INVALID for which reason.
fn reasons(text: &mut String, results: &Results) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for reason in results.runs.iter().flat_map(|run| &run.reasons) {
        *counts.entry(kind(reason)).or_default() += 1;
    }
    if !counts.is_empty() {
        line(text, "\nINVALID because:\n");
        counts.iter().for_each(|(kind, count)| line(text, &format!("- {count} times: {kind}")));
    }
}

/// A reason without its figures and its advice.
fn kind(reason: &str) -> String {
    let mut kind = String::new();
    for word in fact(reason).split_whitespace() {
        let word = if word.starts_with(|first: char| first.is_ascii_digit()) { ".." } else { word };
        kind.push_str(if kind.is_empty() { "" } else { " " });
        kind.push_str(word);
    }
    kind
}

/// The runs of a policy at a load, over the seeds.
struct Group<'a> {
    load: f64,
    policy: &'a str,
    /// The VALID ones, or all if none is.
    runs: Vec<&'a RunEntry>,
    valid: usize,
    all: usize,
}

/// By load, then by policy in the order of help.
fn groups<'a>(runs: &[&'a RunEntry]) -> Vec<Group<'a>> {
    let mut loads: Vec<f64> = runs.iter().map(|run| run.load).collect();
    loads.sort_unstable_by(f64::total_cmp);
    loads.dedup();
    let mut groups = Vec::new();
    for load in loads {
        for policy in PolicyName::ALL {
            let is_here = |run: &&&RunEntry| run.load == load && run.cell.policy == policy.name();
            let all: Vec<&RunEntry> = runs.iter().filter(is_here).copied().collect();
            let valid: Vec<&RunEntry> = all.iter().copied().filter(|run| run.is_valid()).collect();
            if !all.is_empty() {
                let (count, policy) = (valid.len(), policy.name());
                let used = if valid.is_empty() { all.clone() } else { valid };
                groups.push(Group { load, policy, runs: used, valid: count, all: all.len() });
            }
        }
    }
    groups
}

fn capacities(text: &mut String, results: &Results, cores: usize, mix: Mix) {
    let of = |policy: &str| -> Option<(f64, bool)> {
        let is_here = |entry: &&CapacityEntry| {
            entry.cell.cores == cores && entry.cell.mix == mix.name() && entry.cell.policy == policy
        };
        let entries: Vec<&CapacityEntry> = results.capacities.iter().filter(is_here).collect();
        let is_reached = entries.iter().all(|entry| entry.is_reached);
        Some((median(entries.iter().map(|entry| entry.cpus).collect())?, is_reached))
    };
    let Some((base, _)) = of(BASE) else { return };
    let shown = PolicyName::ALL.iter().filter_map(|policy| {
        let (cpus, is_reached) = of(policy.name())?;
        let bound = if is_reached { "" } else { "at least " };
        Some(format!("{policy} {bound}{cpus:.2} ({:.2})", cpus / base))
    });
    let shown: Vec<String> = shown.collect();
    line(text, &format!("Capacity in CPUs, medians, and over that of `{BASE}`: {}.\n", shown.join(", ")));
}

fn measured(text: &mut String, groups: &[Group<'_>]) {
    line(
        text,
        "| load | policy | requests/s | light: p50 | p99 | p99.9 | heavy: p50 | p99 | p99.9 | useful/CPU | useful/handlers | wait, % | VALID |",
    );
    line(text, "|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for group in groups {
        let mut cells = vec![group.load.to_string(), group.policy.to_owned()];
        cells.push(group.cell(|run| Some(run.rate_rps), |rate| grouped(rate.unwrap_or_default().round() as u64)));
        for figures in [light, heavy] {
            cells.push(group.figure(figures, 0));
            cells.extend([1, 2].map(|place| group.with_spread(figures, place)));
        }
        let share = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{share:.2}"));
        cells.push(group.cell(|run| run.useful_over_cpu, share));
        cells.push(group.cell(|run| run.useful_over_handlers, share));
        let percent =
            |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.2}", share * 100.0));
        cells.push(group.cell(|run| run.run_queue_share, percent));
        cells.push(group.verdict());
        line(text, &format!("| {} |", cells.join(" | ")));
    }
}

fn beside(text: &mut String, groups: &[Group<'_>]) {
    line(text, "\nIn virtual time at the same rate, and what was measured over it (bold: not within 25 %):\n");
    line(
        text,
        "| load | load there | policy | light: p99 | measured/virtual | p99.9 | measured/virtual | heavy: p99 | measured/virtual | p99.9 | measured/virtual |",
    );
    line(text, "|---|---|---|---|---|---|---|---|---|---|---|");
    let mut near = [[0; 2]; 4];
    for group in groups {
        let load_there =
            group.cell(|run| Some(run.virtual_time.load), |load| format!("{:.2}", load.unwrap_or_default()));
        let mut cells = vec![group.load.to_string(), load_there, group.policy.to_owned()];
        let columns = [
            (light as Of, light_there as Of, 1),
            (light, light_there, 2),
            (heavy, heavy_there, 1),
            (heavy, heavy_there, 2),
        ];
        for ((real, there, place), near) in columns.into_iter().zip(&mut near) {
            cells.push(group.figure(there, place));
            let both = group.runs.iter().filter(|run| !real(run).is_empty && !there(run).is_empty);
            let ratios = both.filter_map(|run| Some(real(run).values[place]? / there(run).values[place]?));
            let ratio = median(ratios.collect());
            near[0] += usize::from(ratio.is_some_and(is_near));
            near[1] += 1;
            cells.push(match ratio {
                Some(ratio) if is_near(ratio) => factor(Some(ratio)),
                Some(ratio) => format!("**{}**", factor(Some(ratio))),
                None => "-".to_owned(),
            });
        }
        line(text, &format!("| {} |", cells.join(" | ")));
    }
    let [[light_p99, all], [light_p99_9, _], [heavy_p99, _], [heavy_p99_9, _]] = near;
    line(
        text,
        &format!(
            "\nWithin 25 %, of {all}: light p99 {light_p99}, p99.9 {light_p99_9}; heavy p99 {heavy_p99}, p99.9 {heavy_p99_9}."
        ),
    );
}

/// Whether the simulated figure differs from the measured one by a quarter of it at most.
fn is_near(measured_over_virtual: f64) -> bool {
    (1.0 / measured_over_virtual - 1.0).abs() <= 0.25
}

fn shown(value: f64) -> String {
    factor(Some(value).filter(|value| value.is_finite()))
}

type Of = fn(&RunEntry) -> &Figures;

fn light(run: &RunEntry) -> &Figures {
    &run.light
}

fn heavy(run: &RunEntry) -> &Figures {
    &run.heavy
}

fn light_there(run: &RunEntry) -> &Figures {
    &run.virtual_time.light
}

fn heavy_there(run: &RunEntry) -> &Figures {
    &run.virtual_time.heavy
}

impl Group<'_> {
    /// The median of what the runs say, `None` being infinity.
    fn cell(&self, of: impl Fn(&RunEntry) -> Option<f64>, show: impl Fn(Option<f64>) -> String) -> String {
        let values = self.runs.iter().map(|run| of(run).unwrap_or(f64::INFINITY));
        show(median(values.collect()).filter(|median| median.is_finite()))
    }

    /// What each run with such requests says, in ascending order.
    fn values(&self, of: Of, place: usize) -> Vec<f64> {
        let figures = self.runs.iter().map(|run| of(run)).filter(|figures| !figures.is_empty);
        let mut values: Vec<f64> = figures.map(|figures| figures.values[place].unwrap_or(f64::INFINITY)).collect();
        values.sort_unstable_by(f64::total_cmp);
        values
    }

    /// The median of a figure, marked where a sample is too small for it.
    fn figure(&self, of: Of, place: usize) -> String {
        median(self.values(of, place)).map_or_else(|| "-".to_owned(), |median| shown(median) + self.mark(of, place))
    }

    /// The same, with the smallest and the largest.
    fn with_spread(&self, of: Of, place: usize) -> String {
        let values = self.values(of, place);
        let spread =
            values.first().zip(values.last()).map(|(least, most)| format!(" ({}..{})", shown(*least), shown(*most)));
        self.figure(of, place) + &spread.unwrap_or_default()
    }

    /// The mark of a figure whose sample is too small for it.
    fn mark(&self, of: Of, place: usize) -> &'static str {
        if self.runs.iter().all(|run| of(run).supported[place]) { "" } else { "?" }
    }

    fn verdict(&self) -> String {
        match self.valid {
            0 => format!("**INVALID**, 0 of {}", self.all),
            valid => format!("{valid} of {}", self.all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::matrix::Key;
    use super::super::results::Conditions;
    use super::super::virtual_time::VirtualTime;
    use super::*;

    fn run(policy: &str, seed: u64, p99: Option<f64>, reasons: &[&str]) -> RunEntry {
        let figures = |p99| Figures { values: [Some(1.5), p99, p99], is_empty: false, supported: [true, true, false] };
        RunEntry {
            cell: Key { cores: 1, mix: "1ms".to_owned(), policy: policy.to_owned(), seed },
            load: 0.5,
            rate_rps: 20_000.0,
            light: figures(p99),
            heavy: figures(Some(3.0)),
            useful_over_cpu: Some(0.5),
            useful_over_handlers: Some(0.9),
            run_queue_share: Some(0.031),
            reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
            virtual_time: VirtualTime { load: 0.45, light: figures(Some(10.0)), heavy: figures(Some(3.0)) },
        }
    }

    fn results() -> Results {
        let [machine, commit, overheads] = ["a machine", "a commit", "stock"].map(str::to_owned);
        let conditions = Conditions { machine, commit, overheads, duration_ms: 10_000, warmup_ms: 3_000 };
        Results::open(None, conditions).expect("not of this form")
    }

    // Are medians over VALID runs alone, and is what has none shown as INVALID, with the reason?
    #[test]
    fn what_is_invalid_is_shown_as_such() {
        let mut results = results();
        let waited = "the server's workers waited for a CPU for 3.1 % of the run, above 2 %: something else ran there";
        results.note_run(run("isolated", 1, Some(12.0), &[]));
        results.note_run(run("isolated", 2, Some(99.0), &[waited]));
        results.note_run(run("isolated", 3, Some(14.0), &[]));
        results.note_run(run("ondemand", 1, None, &[waited]));
        let text = render(&results);
        for part in [
            "each run 10 s after 3 s of warm-up; virtual time with `stock`. 2 of 4 runs are VALID.",
            "- 2 times: the server's workers waited for a CPU for .. % of the run, above .. %",
            "### 1 worker, 99/1 % of 10 us/1 ms",
            "| 0.5 | isolated | 20,000 | 1.50 | 12.0 (12.0..14.0) | 12.0? (12.0..14.0) | 1.50 | 3.00 (3.00..3.00) |",
            "| 0.50 | 0.90 | 3.10 | 2 of 3 |",
            "| 0.5 | ondemand | 20,000 | 1.50 | inf (inf..inf) |",
            "| **INVALID**, 0 of 1 |",
            "| 0.5 | 0.45 | isolated | 10.0 | 1.20 | 10.0? | 1.20 | 3.00 | 1.00 | 3.00? | 1.00 |",
            "| 0.5 | 0.45 | ondemand | 10.0 | - |",
            "Within 25 %, of 2: light p99 1, p99.9 1; heavy p99 2, p99.9 2.",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    // Is a kind of which there was no request left out, and not shown as infinitely fast or slow?
    #[test]
    fn what_did_not_occur_is_a_dash() {
        let mut results = results();
        let mut without = run("isolated", 1, Some(12.0), &[]);
        without.heavy.is_empty = true;
        results.note_run(without);
        let text = render(&results);
        for part in ["| 1.50 | 12.0 (12.0..12.0) | 12.0? (12.0..12.0) | - | - | - | 0.50 |", "| 3.00 | - | 3.00? | - |"]
        {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn near_is_a_quarter_of_the_measured_figure() {
        let near = [0.81, 1.0, 1.32].map(is_near);
        assert_eq!((near, [0.79, 1.34].map(is_near)), ([true; 3], [false; 2]));
    }
}
