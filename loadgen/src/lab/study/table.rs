//! Simulations as one text table, for `simulate` and `plan`: a line for each class of each
//! simulation, and remarks below it. Infinity is `inf`.

use super::goal::Goal;
use super::simulation::{GoalFailure, GoalVerdict, Simulation};
use crate::lab::sim::FATES;
use crate::lab::stats::{Block, PRECISION};
use crate::text::{factor, groups, table, wrapped};
use forebay::fate::CLASS_NAMES;
use forebay::metrics::{ALL_CLASSES, Percentile};
use forebay::time::Nanos;

/// The percentiles of the table, beside the goal's percentile.
const SHOWN: [Percentile; 3] = [Percentile::P50, Percentile::P99, Percentile::P99_9];

/// A simulation, and the first cells of its lines.
pub(crate) type Row<'s> = (Vec<String>, &'s Simulation);

/// The table of `rows`. `titles` are for the first cells. With a goal, only the goal's class is
/// shown.
pub(crate) fn render(titles: &[&str], goal: Option<&Goal>, rows: &[Row<'_>]) -> String {
    let mut shown = SHOWN.to_vec();
    shown.extend(goal.map(|goal| goal.percentile));
    shown.sort_unstable();
    shown.dedup();
    let percentiles = || shown.iter().map(|percentile| format!("{percentile} "));
    let first = titles.iter().copied().chain(["class", "load"]).chain(goal.map(|_| "holds")).map(str::to_owned);
    let header: Vec<String> = first.chain(percentiles()).chain(percentiles()).collect();
    let (mut lines, mut notes, mut before) = (Vec::new(), vec![String::new()], "");
    for (first, simulation) in rows {
        let holds = goal.map(|goal| holds(simulation, goal).to_owned());
        let own = [(simulation.load * 1e3).round() / 1e3].map(|load| load.to_string()).into_iter().chain(holds);
        let own: Vec<String> = own.collect();
        for (number, (class, blocks)) in told(simulation, goal).into_iter().enumerate() {
            let of = |text: &String| if number == 0 { text.clone() } else { String::new() };
            let figures = blocks.iter().flat_map(|block| shown.iter().map(|percentile| figure(block, *percentile)));
            let figures = figures.map(|text| if simulation.is_hopeless() { "- ".to_owned() } else { text });
            let first = first.iter().map(of).chain([class.to_owned()]).chain(own.iter().map(of));
            lines.push(first.chain(figures).collect());
            notes.push(String::new());
        }
        for note in said(simulation, goal, before != simulation.chosen).into_iter().flatten() {
            *notes.last_mut().expect("a line") += &wrapped("    ", &note, "      ");
        }
        before = &simulation.chosen;
    }
    let text = table(&header, &lines, titles.len() + 1);
    let mut all = groups(&text, shown.last(), ["slowdown", "latency, us"]);
    text.lines().zip(notes).for_each(|(line, note)| all += &format!("{line}\n{note}"));
    let marked = format!("?: not known within a factor of {PRECISION} (95 % confidence): a longer run may tell.");
    all + &wrapped("", &format!("slowdown: latency over cost. {marked}"), "")
}

/// Whether `goal` holds, in a word.
fn holds(simulation: &Simulation, goal: &Goal) -> &'static str {
    match simulation.verdict {
        Some(GoalVerdict::Undecided) if simulation.seems(goal) => "yes?",
        Some(GoalVerdict::Undecided) => "no?",
        _ if simulation.holds() => "yes",
        _ => "no",
    }
}

/// The slowdown and the latency to show, by class. With a goal, these are of the goal's class.
/// Without one, they are of all requests together, and then of each class if there are several.
fn told(simulation: &Simulation, goal: Option<&Goal>) -> Vec<(&'static str, [Block; 2])> {
    let blocks = simulation.tally.slowdown().into_iter().zip(simulation.tally.latency_us());
    let mut blocks: Vec<_> = blocks.map(|((class, slowdown), (_, latency))| (class, [slowdown, latency])).collect();
    if let Some(goal) = goal {
        let name = goal.class.map_or(ALL_CLASSES, |class| CLASS_NAMES[usize::from(class)]);
        let place = blocks.iter().position(|(class, _)| *class == name);
        blocks.swap(0, place.unwrap_or(0));
    }
    if goal.is_some() || blocks.len() == 2 {
        blocks.truncate(1);
    }
    blocks
}

fn figure(block: &Block, percentile: Percentile) -> String {
    factor(block.percentile(percentile)) + if block.supports(percentile) { " " } else { "?" }
}

/// Remarks on `simulation` beside its figures. Sizes and budgets are mentioned only if `is_new`,
/// that is if the line above has others.
fn said(simulation: &Simulation, goal: Option<&Goal>, is_new: bool) -> [Option<String>; 7] {
    let Simulation { tally, chosen, measured, .. } = simulation;
    let cause = simulation.cause().filter(|cause| *cause != GoalFailure::Goal).map(|cause| cause.to_string());
    let is_undecided = simulation.verdict == Some(GoalVerdict::Undecided);
    let undecided = || format!("undecided after {measured} requests: raise --requests");
    let changed =
        |(at, to): &(Nanos, String)| format!("change {} of policy after {at:.0}: {to}", tally.changes().len());
    let waiting = |(busy, contended): (f64, f64)| {
        let text = || format!("busy {busy:.3} of the time, {contended:.3} with waiting for one another");
        (goal.is_none() && contended >= 0.000_5).then(text)
    };
    let overload = "OVERLOAD: more comes than all workers can do; figures of what is not shed grow with --requests";
    let fates = tally.fates();
    let (came, dropped) = (fates.arrived().unwrap_or(0), fates.kernel_dropped.unwrap_or(0));
    let (late, wasted) = tally.late_and_wasted();
    let unanswered = || {
        let shed = FATES.into_iter().filter_map(|fate| Some((fates.of(fate), fate.name().strip_prefix("shed_")?)));
        let shed: String = shed.map(|(count, why)| format!("{count} {}, ", why.replace('_', " "))).collect();
        let waste = format!("; {late} answered too late, {wasted:.0} of CPU time wasted");
        let waste = if wasted > Nanos::ZERO { waste } else { String::new() };
        format!("not answered: {shed}{dropped} dropped at the socket, of {came}{waste}")
    };
    [
        (is_new && cause.is_none() && !chosen.is_empty()).then(|| chosen.clone()),
        cause.or(is_undecided.then(undecided)),
        (goal.is_none() && tally.is_unstable()).then(|| "unstable: its backlog grows".to_owned()),
        tally.changes().last().map(changed),
        tally.utilisation().zip(tally.contention()).and_then(waiting),
        (goal.is_none() && simulation.is_overload()).then(|| overload.to_owned()),
        (fates.answered - late < came && !simulation.is_hopeless()).then(unanswered),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::study::scenario::Scenario;
    use crate::lab::workload::Workload;
    use forebay::inside::emulation::overheads::Overheads;

    // With a goal, does the table show only its class? Without one, does it show all classes?
    #[test]
    fn a_goal_tells_its_class_alone() {
        let classes = |workload: &str, goal: Option<&str>| {
            let workload: Workload = workload.parse().expect("a form");
            let scenario = Scenario::new(&workload, 1, Overheads::NONE, 1, 1_000);
            let goal = goal.map(|goal| goal.parse().expect("a goal"));
            told(&scenario.run("global".parse().expect("a policy"), 0.5), goal.as_ref())
                .iter()
                .map(|(class, _)| *class)
                .collect::<Vec<_>>()
        };
        let mixed = "bimodal:0.9:1us:20us";
        assert_eq!(classes(mixed, Some("p99-slowdown-long<=10")), ["long"]);
        assert_eq!(classes(mixed, Some("p99-slowdown<=10")), [ALL_CLASSES]);
        assert_eq!(classes(mixed, None), [ALL_CLASSES, "short", "long"]);
        assert_eq!(classes("fixed:1us", None), [ALL_CLASSES]);
    }
}
