//! A comparison for people: what was chosen, one table, the accounts, and what it does not show.

use crate::arguments::Burn;
use crate::choices::Choices;
use crate::compare::{CompareReport, ComparedRun};
use crate::plan::Plan;
use crate::run_text::{cell, conditions, offer, verdict};
use crate::text::{factor, grouped, table, time, wrapped};
use forebay::metrics::{Block, Percentile};
use std::fmt::Write;

/// The percentiles of the table.
const SHOWN: [Percentile; 4] = [Percentile::P50, Percentile::P99, Percentile::P99_9, Percentile::P99_95];

/// What was chosen, before the first run.
pub(crate) fn heading(choices: &Choices, plan: &Plan, policies: &[String]) -> String {
    let workers = if choices.workers == 1 { "worker" } else { "workers" };
    let cores = match choices.burn {
        Burn::Cpu => format!("{} {workers} that burn CPU", choices.workers),
        Burn::Sleep => format!("{} emulated {workers} that sleep for each cost", choices.workers),
    };
    let pools = choices.pools.as_deref().unwrap_or("none");
    let slice = time(Some(choices.slice.as_micros_f64()));
    let scaled = if choices.time_scale == 1 { String::new() } else { format!(" x {}", grouped(choices.time_scale)) };
    format!(
        "Comparing {}\n  load     {}\n  for      {}\n  servers  {cores}\n           pools {pools} (where the policy has pools), \
         slice {slice}{scaled}, classify {}\n",
        policies.join(", "),
        offer(plan),
        conditions(plan),
        choices.classify.name(),
    )
}

/// The result.
pub(crate) fn render(report: &CompareReport, choices: &Choices) -> String {
    let mut text = String::from("\n");
    text += &comparison(report);
    text.push('\n');
    for run in &report.runs {
        text += &accounts(run);
    }
    text.push('\n');
    text += &wrapped(&limits(report, choices), "");
    text
}

fn comparison(report: &CompareReport) -> String {
    let Some(first) = report.runs.first() else {
        return String::new();
    };
    let mut header = ["policy", "class", "side"].map(str::to_owned).to_vec();
    header.extend(SHOWN.map(|percentile| percentile.to_string()));
    header.extend(["slowdown", "p99 x", "p99.9 x"].map(str::to_owned));
    let mut rows = Vec::new();
    for run in &report.runs {
        for (class, block) in &run.report.latency_us.0 {
            let of_first = first.report.latency_us.of(class);
            rows.push(client_row(run, class, block, of_first));
            rows.push(server_row(run, class));
        }
    }
    let mut text = table(&header, &rows, 3);
    text += "client: from the intended send to the reply, after the warm-up; what was not answered is inf.\n";
    text += "server: from the kernel's receive stamp to the send, since its start, so with the warm-up.\n";
    let _ = writeln!(
        text,
        "slowdown: p99.9 of latency over cost. p99 x, p99.9 x: the client's latency against that of {}.",
        first.policy
    );
    if report
        .runs
        .iter()
        .any(|run| run.report.latency_us.0.iter().any(|(_, block)| !block.supports(Percentile::P99_95)))
    {
        text += "?: too few samples to bound this percentile (95 % confidence).\n";
    }
    text
}

fn client_row(run: &ComparedRun, class: &str, block: &Block, of_first: Option<&Block>) -> Vec<String> {
    let mut row = vec![run.policy.clone(), class.to_owned(), "client".to_owned()];
    row.extend(SHOWN.map(|percentile| cell(block, percentile, time)));
    let slowdown =
        run.report.slowdown.of(class).map_or_else(String::new, |block| cell(block, Percentile::P99_9, factor));
    row.push(slowdown);
    row.extend([Percentile::P99, Percentile::P99_9].map(|percentile| {
        let ratio = block.percentile(percentile).zip(of_first.and_then(|first| first.percentile(percentile)));
        // Nothing can be said of infinity against anything.
        ratio
            .filter(|(_, first)| *first > 0.0)
            .map_or_else(|| "-".to_owned(), |(own, first)| format!("{}x", factor(Some(own / first))))
    }));
    row
}

fn server_row(run: &ComparedRun, class: &str) -> Vec<String> {
    let mut row = vec![String::new(), String::new(), "server".to_owned()];
    row.extend(
        SHOWN.map(|percentile| {
            run.server.total_us(class, percentile).map_or_else(|| "-".to_owned(), |us| time(Some(us)))
        }),
    );
    row
}

fn accounts(run: &ComparedRun) -> String {
    let counts = run.reconciled;
    let fates = &run.report.fates;
    let mut text = format!("{}: {}", run.policy, verdict(&run.report));
    let _ = writeln!(
        text,
        "  {} sent with the warm-up = {} received + {} dropped by the server's kernel{}",
        grouped(counts.client_sent),
        grouped(counts.server_received),
        grouped(counts.server_kernel_dropped),
        match counts.unaccounted {
            0 => ": nothing unaccounted".to_owned(),
            missing => format!(", UNACCOUNTED {missing}"),
        }
    );
    let slip = time(run.report.slip_us.p99);
    let _ = write!(text, "  {} of {} answered, slip p99 {slip}", grouped(fates.answered), grouped(run.report.sent));
    if let Some(share) = run.server.overshoot_share() {
        let _ = write!(text, ", emulated cores overslept by {:.2} %", share * 100.0);
    }
    text.push('\n');
    text
}

fn limits(report: &CompareReport, choices: &Choices) -> String {
    let mut text = String::from("What this does not show: ");
    if choices.burn == Burn::Sleep {
        let _ = write!(
            text,
            "the cores are emulated, and with costs scaled {} times the kernel's cost per datagram (about 3 us), cache misses \
             and the price of a hand-over are scaled away; divide latencies by {} to compare them with the literature, and \
             expect less from hardware. ",
            grouped(choices.time_scale),
            grouped(choices.time_scale)
        );
    } else {
        text += "generator and server share this machine's caches and memory. ";
    }
    text += "Requests come over loopback, without a network card or its interrupts. ";
    let seed = report.runs.first().map_or(0, |run| run.report.seed);
    let _ = write!(
        text,
        "One seed ({seed}) and one run for each policy: repeat with other seeds before you trust a difference of less than a \
         factor of two. Arrivals are Poisson and costs follow a formula; real traffic does neither."
    );
    text
}
