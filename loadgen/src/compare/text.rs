//! A comparison as text: settings, one table, the accounts, what it does not show, and the result.

use crate::arguments::CompareArguments;
use crate::compare::capacity::{BASE, Capacities};
use crate::compare::server_settings::ServerSettings;
use crate::compare::{CompareReport, ComparedRun};
use crate::plan::Plan;
use crate::report::by_class::ByClass;
use crate::report::json::RunReport;
use crate::report::run_result::Samples;
use crate::report::text::{NOT_KNOWN, cell, conditions, mix, offer, pacer, verdict};
use crate::report::validity::Validity;
use crate::text::{factor, grouped, table, time, wrapped};
use forebay::config::Burn;
use forebay::metrics::{Block, Percentile};
use forebay::stats::{self, Interval, Sample};
use forebay::wire::CLASS_NAMES;
use std::fmt::Write;

/// The percentiles of the table.
const SHOWN: [Percentile; 4] = [Percentile::P50, Percentile::P99, Percentile::P99_9, Percentile::P99_95];

/// The settings, printed before the first run.
pub(crate) fn heading(settings: &ServerSettings, plan: &Plan, arguments: &CompareArguments) -> String {
    let cores = match (settings.burn, settings.workers) {
        (Burn::Cpu, 1) => "1 worker that burns CPU".to_owned(),
        (Burn::Cpu, workers) => format!("{workers} workers that burn CPU"),
        (Burn::Sleep, 1) => "1 emulated worker that sleeps for each cost".to_owned(),
        (Burn::Sleep, workers) => format!("{workers} emulated workers that sleep for each cost"),
    };
    let pools =
        settings.pools.as_ref().map_or_else(String::new, |pools| format!("pools {pools} where policies have pools, "));
    let scaled = if settings.time_scale == 1 { String::new() } else { format!(" x {}", grouped(settings.time_scale)) };
    let slice = time(Some(settings.slice.as_micros_f64()));
    let reserved = settings
        .reserved
        .map_or_else(String::new, |reserved| format!("{reserved} reserved under hybrid and reserve, "));
    let charged = match settings.burn {
        Burn::Cpu => String::new(),
        Burn::Sleep => format!(", overheads {}", settings.overheads.text()),
    };
    let (classify, optimise) = (settings.classify.name(), settings.objective.name());
    let servers =
        format!("{cores}; {pools}{reserved}slice {slice}{scaled}, classify {classify}, optimise {optimise}{charged}");
    let item = |label: &str, text: &str| wrapped(&format!("  {label:<9}"), text, "           ");
    let mut text = format!("Comparing {}\n", arguments.policies.join(", "));
    let load = match plan.load().filter(|_| settings.saturated_for.is_some()) {
        Some(load) => format!("{} at load {} of what {BASE} can do, measured first", mix(plan), factor(Some(load))),
        None => offer(plan),
    };
    text += &item("load", &load);
    let seeds: Vec<String> = arguments.seeds.iter().map(u64::to_string).collect();
    let seeds = if seeds.is_empty() { plan.seed.to_string() } else { seeds.join(", ") };
    text += &item("for", &conditions(plan, &seeds));
    text += &item("servers", &servers);
    text += &item("fits", &settings.fits);
    text
}

/// The whole text.
pub(crate) fn render(report: &CompareReport, settings: &ServerSettings) -> String {
    let Some((first, others)) = report.runs.split_first() else {
        return String::new();
    };
    let mut text = format!("\n{}\n", comparison(first, others));
    for run in &report.runs {
        text += &accounts(run, report.capacity.as_ref());
    }
    text += &pacer(&first.report);
    text.push('\n');
    let runs = format!(
        "One seed ({}) and one run for each policy: intervals are those of this run; what differs between runs is \
         not in them: repeat with others (--seeds 1,2,3). ",
        first.report.seed
    );
    text += &wrapped("", &limits(settings, &runs), "");
    for other in others {
        text += &result(first, other);
    }
    text
}

fn comparison(first: &ComparedRun, others: &[ComparedRun]) -> String {
    let mut header = ["policy", "class", "latency"].map(str::to_owned).to_vec();
    header.extend(SHOWN.map(|percentile| percentile.to_string()));
    header.push("slowdown".to_owned());
    let mut rows = rows_of(first, None);
    for other in others {
        rows.extend(rows_of(other, Some(first)));
    }
    let mut text = table(&header, &rows, 3);
    let mut explain = |paragraph: &str| text += &wrapped("", paragraph, "  ");
    explain("client: from the intended send to the reply, after the warm-up; what was not answered is inf.");
    explain("server: from the kernel's receive stamp to the send, since its start, so with the warm-up.");
    explain("slowdown: p99.9 of the client's latency over the cost of the request.");
    if !others.is_empty() {
        let policy = &first.arm;
        explain(&format!(
            "vs {policy}: the client's figure over that of {policy}; below 1 is better; ?: its 95 % interval is wider than --precision."
        ));
    }
    let blocks = || others.iter().chain([first]).flat_map(|run| run.report.latency_us.0.iter().map(|(_, block)| block));
    if blocks().any(|block| !block.is_empty() && !block.supports(Percentile::P99_95)) {
        explain(NOT_KNOWN);
    }
    text
}

/// For each class a row for each side, and one of ratios where there is something to compare with.
fn rows_of(run: &ComparedRun, first: Option<&ComparedRun>) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (class, latency) in &run.report.latency_us.0 {
        let slowdown = run.report.slowdown.of(class);
        let mut client = vec![run.arm.clone(), (*class).to_owned(), "client".to_owned()];
        client.extend(SHOWN.map(|percentile| cell(latency, percentile, time)));
        client.push(slowdown.map_or_else(String::new, |block| cell(block, Percentile::P99_9, factor)));
        rows.push(client);
        let side = |name: &str| vec![String::new(), String::new(), name.to_owned()];
        let of_server = |percentile| {
            // The same requests: what the client's interval leaves open, the server's figure does too.
            let mark = if latency.supports(percentile) { "" } else { "?" };
            run.server.total_us(class, percentile).map_or("-".to_owned(), |us| time(Some(us)) + mark)
        };
        let mut server = side("server");
        server.extend(SHOWN.map(of_server));
        rows.push(server);
        if let Some(first) = first {
            let mut ratios = side(&format!("vs {}", first.arm));
            let of = |side, percentile| ratio_cell(ratio_of(&run.report, &first.report, side, class, percentile));
            ratios.extend(SHOWN.map(|percentile| of(&LATENCY, percentile)));
            ratios.push(of(&SLOWDOWN, Percentile::P99_9));
            rows.push(ratios);
        }
    }
    rows
}

/// One figure over another, with the 95 % interval of that ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ratio {
    value: f64,
    interval: Interval,
    /// The widest interval, upper over lower end, of a ratio that counts as known.
    precision: f64,
}

impl Ratio {
    fn mark(self) -> &'static str {
        if self.interval.is_within(self.precision) { "" } else { "?" }
    }

    /// `0.2 to 0.4`, turned over for a ratio below 1 that is shown as its inverse.
    fn range(self, inverse: bool) -> String {
        let Interval { low, high } = self.interval;
        let end = |value: f64| factor(Some(value).filter(|value| value.is_finite()));
        if inverse {
            format!("{} to {}", end(1.0 / high), end(1.0 / low))
        } else {
            format!("{} to {}", end(low), end(high))
        }
    }
}

fn ratio_cell(ratio: Option<Ratio>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{}x{}", factor(Some(ratio.value)), ratio.mark()))
}

/// The ratio of a percentile of `own` and `first`, of a class's latency or slowdown.
fn ratio_of(own: &RunReport, first: &RunReport, side: &Side, class: &str, percentile: Percentile) -> Option<Ratio> {
    let [block, first_block] = [own, first].map(|run| (side.of)(run).of(class));
    let value = ratio(block, first_block, percentile)?;
    let [sample, first_sample] = [own, first].map(|run| (side.sample)(&run.samples).of(class));
    let share = sample?.count() as f64 / (side.sample)(&own.samples).all().count().max(1) as f64;
    let memory = own.samples.memory.of_share(share);
    let interval = stats::ratio(sample?, first_sample?, percentile.quantile(), memory);
    Some(Ratio { value, interval, precision: block?.bounds.map_or(stats::PRECISION, |bounds| bounds.precision()) })
}

/// Latency or slowdown of a run.
struct Side {
    of: fn(&RunReport) -> &ByClass<Block>,
    sample: fn(&Samples) -> &ByClass<Sample>,
}

const LATENCY: Side = Side { of: |report| &report.latency_us, sample: |samples| &samples.latency_us };
const SLOWDOWN: Side = Side { of: |report| &report.slowdown, sample: |samples| &samples.slowdown };

/// The ratio of two percentiles; `None` if either is infinite or has no requests.
fn ratio(own: Option<&Block>, first: Option<&Block>, percentile: Percentile) -> Option<f64> {
    let (own, first) = (own?.percentile(percentile)?, first?.percentile(percentile)?);
    (own > 0.0 && first > 0.0).then(|| own / first)
}

/// What became of the datagrams of a run, and whether its figures may be used.
pub(crate) fn accounts(run: &ComparedRun, capacity: Option<&Capacities>) -> String {
    let fates = &run.report.fates;
    let mut text = format!("{}: {}", run.arm, verdict(&run.report));
    if let Some(counts) = run.report.reconciled {
        let _ = writeln!(
            text,
            "  in all: {} sent = {} received + {} kernel drops{}",
            grouped(counts.client_sent),
            grouped(counts.server_received),
            counts.server_kernel_dropped.map_or_else(|| "unknown".to_owned(), grouped),
            match counts.unaccounted {
                0 => ": nothing unaccounted".to_owned(),
                missing => format!(", UNACCOUNTED {missing}"),
            }
        );
    }
    let slip = cell(&run.report.slip_us, Percentile::P99, time);
    let (answered, sent) = (grouped(fates.answered), grouped(run.report.sent));
    let mut measured = format!("measured: {answered} of {sent} answered; slip p99 {slip}");
    if let Some(utilisation) = run.report.utilisation {
        let _ = write!(measured, "; workers busy {:.1} %", utilisation * 100.0);
    }
    let policy = run.report.policy.as_deref().unwrap_or_default();
    if let Some(said) = capacity.and_then(|capacity| capacity.share_said(policy, run.report.offered_rps)) {
        let _ = write!(measured, "; {said}");
    }
    if let Some(share) = run.report.run_queue_share {
        let _ = write!(measured, "; workers waited for a CPU {:.2} %", share * 100.0);
    }
    if let Some(share) = run.server.overshoot_share() {
        let _ = write!(measured, "; cores overslept {:.2} %", share * 100.0);
    }
    text + &wrapped("  ", &measured, "    ")
}

/// Limits of what a comparison shows; `runs` is the number of runs in words.
pub(crate) fn limits(settings: &ServerSettings, runs: &str) -> String {
    let mut text = String::from("What this does not show: ");
    if settings.burn == Burn::Sleep {
        let _ = write!(
            text,
            "the cores are emulated and scaled {} times; beside costs they are charged {}, and caches nothing; divide latencies \
             by {} to compare them with the literature, and expect less from hardware. ",
            grouped(settings.time_scale),
            settings.overheads,
            grouped(settings.time_scale)
        );
    } else {
        text += "generator and server share this machine's caches and memory. ";
        if settings.time_scale > 1 {
            let _ = write!(
                text,
                "Costs are scaled {} times, so that the packets fit one generator: the kernel's cost per datagram (about 3 us) \
                 weighs that much less than on a server at this load. ",
                grouped(settings.time_scale)
            );
        }
    }
    text += "Requests come over loopback, without a network card or its interrupts. ";
    text += runs;
    text += "Arrivals are Poisson and costs follow a formula; real traffic does neither.";
    text
}

/// One figure of a comparison's result.
struct Figure {
    name: &'static str,
    class: &'static str,
    percentile: Percentile,
    side: Side,
    show: fn(Option<f64>) -> String,
}

/// The result of a comparison: what cheap requests gain, and what costly ones pay for it.
const RESULT: [Figure; 2] = [
    Figure { name: "slowdown", class: CLASS_NAMES[0], percentile: Percentile::P99_9, side: SLOWDOWN, show: factor },
    Figure { name: "latency", class: CLASS_NAMES[1], percentile: Percentile::P99, side: LATENCY, show: time },
];

fn result(first: &ComparedRun, other: &ComparedRun) -> String {
    let mut text = format!("\n{} against {}", other.arm, first.arm);
    if [first, other].iter().any(|run| run.report.verdict == Validity::Invalid) {
        text += ", not to be used because a run is INVALID";
    }
    text += ":\n";
    for Figure { name, class, percentile, side, show } in RESULT {
        let [before, after] = [first, other].map(|run| (side.of)(&run.report).of(class));
        let (Some(before), Some(after)) = (before, after) else { continue };
        for percentile in told(percentile, |percentile| before.supports(percentile) && after.supports(percentile)) {
            let _ = writeln!(
                text,
                "  {percentile} {name} of {class}: {} {}, {} {}{}",
                first.arm,
                cell(before, percentile, show),
                other.arm,
                cell(after, percentile, show),
                ratio_of(&other.report, &first.report, &side, class, percentile).map_or_else(String::new, judged)
            );
        }
    }
    text
}

/// The percentile that a figure is about, and where that is not known the highest one below it that is. Which one that is
/// does not depend on what the comparison shows there.
fn told(about: Percentile, known: impl Fn(Percentile) -> bool) -> impl Iterator<Item = Percentile> {
    let below = Percentile::ALL.into_iter().rev().find(|percentile| *percentile <= about && known(*percentile));
    [Some(about), below.filter(|percentile| *percentile != about)].into_iter().flatten()
}

/// Better or worse with the interval, or no difference shown where that holds 1.
fn judged(ratio: Ratio) -> String {
    match ratio.value {
        _ if ratio.interval.holds(1.0) => format!(" (no difference shown: the ratio is {})", ratio.range(false)),
        value if value < 1.0 => format!(" ({}x better, {})", factor(Some(1.0 / value)), ratio.range(true)),
        value => format!(" ({}x worse, {})", factor(Some(value)), ratio.range(false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_better_worse_or_the_same() {
        let judged = |value, low, high| judged(Ratio { value, interval: Interval { low, high }, precision: 2.0 });
        assert_eq!(judged(15.6 / 407.0, 0.03, 0.05), " (26.1x better, 20.0 to 33.3)");
        assert_eq!(judged(1.16, 1.02, 1.5), " (1.16x worse, 1.02 to 1.50)");
        assert_eq!(judged(1.16, 0.9, f64::INFINITY), " (no difference shown: the ratio is 0.90 to inf)");
    }

    // Is a run that is too short for p99.9 told by the highest percentile that it knows, and one that knows it by that alone?
    #[test]
    fn what_is_told_is_also_something_known() {
        use Percentile::{P50, P90, P99, P99_9, P99_95};
        let told =
            |about, known: &[Percentile]| told(about, |percentile| known.contains(&percentile)).collect::<Vec<_>>();
        assert_eq!(told(P99_9, &[P50, P90]), [P99_9, P90]);
        assert_eq!(told(P99, &[P50, P90, P99, P99_9, P99_95]), [P99]);
        assert_eq!(told(P99_9, &[P99_95]), [P99_9]);
        assert_eq!(told(P99_9, &[]), [P99_9]);
    }

    // Is a ratio marked where its interval is too wide, and only there?
    #[test]
    fn a_ratio_with_a_wide_interval_is_marked() {
        let shown =
            |low, high| ratio_cell(Some(Ratio { value: 1.0, interval: Interval { low, high }, precision: 2.0 }));
        assert_eq!(shown(0.8, 1.6), "1.00x");
        assert_eq!(shown(0.8, 1.7), "1.00x?");
        assert_eq!(shown(0.8, f64::INFINITY), "1.00x?");
        assert_eq!(ratio_cell(None), "-");
    }

    #[test]
    fn infinity_and_nothing_have_no_ratio() {
        let [one, never, none] = [&[1.0][..], &[f64::INFINITY], &[]].map(Block::from_sorted);
        assert_eq!(ratio(Some(&one), Some(&one), Percentile::P99), Some(1.0));
        for other in [&never, &none] {
            assert_eq!(ratio(Some(&one), Some(other), Percentile::P99), None);
            assert_eq!(ratio(Some(other), Some(&one), Percentile::P99), None);
        }
        assert_eq!(ratio(Some(&one), None, Percentile::P99), None);
    }
}
