//! Every run so far, in memory and in a file, so that hours of measuring can be stopped and gone on with.

use super::matrix::{BASE, Cell, Job, Key};
use super::virtual_time::VirtualTime;
use crate::trial::OTHERS_SHARE_MAX;
use anyhow::{Context, Result, bail};
use forebay::metrics::{Block, Percentile};
use loadgen::report::validity::RUN_QUEUE_SHARE_MAX;
use loadgen::saturation::Capacity;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

const SCHEMA: &str = "forebay-policies/1";

/// What all runs have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Conditions {
    /// Processor, CPUs and kernel.
    pub(super) machine: String,
    /// Of the sources.
    pub(super) commit: String,
    /// Of virtual time.
    pub(super) overheads: String,
    /// Time measured in each run.
    pub(super) duration_ms: u64,
    /// Time before it.
    pub(super) warmup_ms: u64,
}

impl Conditions {
    /// What is otherwise in `earlier`, in words.
    fn differences(&self, earlier: &Conditions) -> Vec<String> {
        let rows = |it: &Conditions| {
            let ms = |ms: u64| format!("{} s", ms as f64 / 1e3);
            let texts = [&it.machine, &it.commit, &it.overheads].map(String::clone);
            let [machine, commit, overheads] = texts;
            let times = [("--duration", ms(it.duration_ms)), ("--warmup", ms(it.warmup_ms))];
            [("machine", machine), ("commit", commit), ("--overheads", overheads)].into_iter().chain(times)
        };
        let pairs = rows(self).zip(rows(earlier)).filter(|(here, there)| here != there);
        pairs.map(|((name, here), (_, there))| format!("{name}: there {there}, here {here}")).collect()
    }
}

/// All capacities and runs, in the order in which they were measured (`forebay-policies/1`).
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Results {
    schema: String,
    /// Of all of them.
    pub(super) conditions: Conditions,
    /// Capacities.
    pub(super) capacities: Vec<CapacityEntry>,
    /// Runs.
    pub(super) runs: Vec<RunEntry>,
    #[serde(skip)]
    path: Option<PathBuf>,
}

/// The capacity of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CapacityEntry {
    #[serde(flatten)]
    pub(super) cell: Key,
    /// Seconds of cost completed per second.
    pub(super) cpus: f64,
    /// False if the server kept up with all that was sent.
    pub(super) is_reached: bool,
    /// The share of the time that each worker waited for a CPU.
    pub(super) run_queue_share: Option<f64>,
    /// The share of the server's CPUs that others took.
    pub(super) others: f64,
}

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RunEntry {
    #[serde(flatten)]
    pub(super) cell: Key,
    /// The share of the base's capacity.
    pub(super) load: f64,
    /// Requests per second.
    pub(super) rate_rps: f64,
    /// Latency of light requests over their cost.
    pub(super) light: Figures,
    /// Latency of heavy requests over their cost.
    pub(super) heavy: Figures,
    /// Cost of the requests served over the CPU time of the server's process.
    pub(super) useful_over_cpu: Option<f64>,
    /// The same over the time that workers spent in handlers.
    pub(super) useful_over_handlers: Option<f64>,
    /// The share of the run that each worker waited for a CPU.
    pub(super) run_queue_share: Option<f64>,
    /// Why the run is INVALID; empty if it is VALID.
    pub(super) reasons: Vec<String>,
    /// The same policy at the same rate in virtual time.
    pub(super) virtual_time: VirtualTime,
}

/// Three percentiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Figures {
    /// p50, p99, p99.9; `None` is infinity.
    pub(super) values: [Option<f64>; 3],
    /// Whether there was no request of the kind: then the percentiles mean nothing.
    pub(super) is_empty: bool,
    /// Whether the sample is large enough to bound each.
    pub(super) supported: [bool; 3],
}

/// The percentiles of [`Figures`].
pub(super) const PERCENTILES: [Percentile; 3] = [Percentile::P50, Percentile::P99, Percentile::P99_9];

impl Figures {
    /// Those of `block`.
    pub(super) fn of(block: &Block) -> Figures {
        Figures {
            values: PERCENTILES.map(|percentile| block.percentile(percentile)),
            is_empty: block.is_empty(),
            supported: PERCENTILES.map(|percentile| block.supports(percentile)),
        }
    }
}

impl CapacityEntry {
    /// `capacity` of the server of `cell`.
    pub(super) fn new(cell: &Cell, capacity: &Capacity, others: f64) -> CapacityEntry {
        let Capacity { cpus, is_reached, run_queue_share, .. } = *capacity;
        CapacityEntry { cell: cell.key(), cpus, is_reached, run_queue_share, others }
    }

    /// Why no load may be a share of it, if so.
    pub(super) fn objection(&self) -> Option<String> {
        let policy = &self.cell.policy;
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let waited = self.run_queue_share.filter(|share| *share > RUN_QUEUE_SHARE_MAX);
        match waited {
            _ if !self.is_reached => {
                Some(format!("the capacity of {policy} is not known: it kept up with all that was sent"))
            }
            Some(share) => Some(format!(
                "the capacity of {policy} was disturbed: its workers waited for a CPU for {} of the time",
                percent(share)
            )),
            None if self.others > OTHERS_SHARE_MAX => Some(format!(
                "the capacity of {policy} was disturbed: others took {} of its CPUs",
                percent(self.others)
            )),
            None => None,
        }
    }

    /// What came of it, in a few words.
    pub(super) fn said(&self) -> String {
        let objection = self.objection().map_or_else(String::new, |objection| format!("; {objection}"));
        format!("{:.2} CPUs{objection}", self.cpus)
    }
}

impl RunEntry {
    /// Whether the figures may be used.
    pub(super) fn is_valid(&self) -> bool {
        self.reasons.is_empty()
    }

    /// What came of the run, in a few words.
    pub(super) fn said(&self) -> String {
        let shown = |figures: &Figures, place: usize| match figures.is_empty {
            true => "-".to_owned(),
            false => loadgen::text::factor(figures.values[place]),
        };
        let verdict = match self.reasons.first() {
            None => "VALID".to_owned(),
            Some(reason) => {
                let more = if self.reasons.len() > 1 { ", among others" } else { "" };
                format!("INVALID: {}{more}", fact(reason))
            }
        };
        let [p99, p99_9, heavy] = [shown(&self.light, 1), shown(&self.light, 2), shown(&self.heavy, 0)];
        format!("light p99 {p99}, p99.9 {p99_9}, heavy p50 {heavy}; {verdict}")
    }
}

/// A reason without its advice.
pub(super) fn fact(reason: &str) -> &str {
    reason.split([':', ';']).next().unwrap_or_default()
}

impl Results {
    /// The results at `path`, or none yet, which are written there.
    ///
    /// # Errors
    /// If it were measured under other conditions, cannot be read, or cannot be written.
    pub(super) fn open(path: Option<&Path>, conditions: Conditions) -> Result<Results> {
        let (capacities, runs) = (Vec::new(), Vec::new());
        let mut results = Results { schema: SCHEMA.to_owned(), conditions, capacities, runs, path: None };
        if let Some(path) = path {
            match fs::read_to_string(path) {
                Ok(text) => results = results.on_from(&text).with_context(|| format!("--json {}", path.display()))?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(|| format!("--json {} cannot be read", path.display())),
            }
            results.path = Some(path.to_owned());
            // Before hours are spent on what could not be kept.
            results.write()?;
        }
        Ok(results)
    }

    /// The results of `text`, if they were made under these conditions.
    fn on_from(&self, text: &str) -> Result<Results> {
        let earlier: Results = serde_json::from_str(text).context("it is no file of peers policies")?;
        if earlier.schema != SCHEMA {
            bail!("its schema is {:?}, and has to be {SCHEMA:?}", earlier.schema);
        }
        let differs = self.conditions.differences(&earlier.conditions);
        if !differs.is_empty() {
            bail!(
                "its runs were made otherwise, and cannot be gone on with: take another file. {}",
                differs.join("; ")
            );
        }
        Ok(earlier)
    }

    /// Whether `job` was done.
    pub(super) fn has(&self, job: &Job) -> bool {
        let key = job.cell().key();
        match *job {
            Job::Saturate(_) => self.capacities.iter().any(|entry| entry.cell == key),
            Job::Run(_, load) => self.runs.iter().any(|entry| entry.cell == key && entry.load == load),
        }
    }

    /// The capacity that the loads of `cell` are shares of.
    pub(super) fn capacity_of_base(&self, cell: &Cell) -> Option<CapacityEntry> {
        let key = Key { policy: BASE.to_owned(), ..cell.key() };
        self.capacities.iter().find(|entry| entry.cell == key).cloned()
    }

    /// Adds a capacity.
    pub(super) fn note_capacity(&mut self, entry: CapacityEntry) {
        self.capacities.push(entry);
    }

    /// Adds a run.
    pub(super) fn note_run(&mut self, entry: RunEntry) {
        self.runs.push(entry);
    }

    /// Writes it to its file, if it has one, whole or not at all.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn write(&self) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let fresh = path.with_extension("json.new");
        let written = fs::write(&fresh, serde_json::to_string_pretty(self)?).and_then(|()| fs::rename(&fresh, path));
        written.with_context(|| format!("--json {} cannot be written", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::arguments::parsed;
    use super::super::matrix;
    use super::*;

    fn conditions() -> Conditions {
        let [machine, commit, overheads] = ["a machine", "a commit", "stock"].map(str::to_owned);
        Conditions { machine, commit, overheads, duration_ms: 10_000, warmup_ms: 3_000 }
    }

    // Is what was measured kept and left out the next time, and is a file of other conditions refused?
    #[test]
    fn results_are_gone_on_with_under_the_same_conditions_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("results.json");
        let mut results = Results::open(Some(&path), conditions()).expect("new results");
        let jobs = matrix::jobs(&parsed("--policies isolated --mixes 1ms --cores 1 --loads 0.5 --seeds 1"));
        let jobs = jobs.unwrap_or_default();
        let capacity = Capacity { cpus: 0.75, rps: 1.0, is_reached: true, run_queue_share: None };
        let done: Vec<&Job> = jobs.iter().filter(|job| matches!(job, Job::Saturate(_))).collect();
        for job in &done {
            results.note_capacity(CapacityEntry::new(&job.cell(), &capacity, 0.01));
            results.write().expect("written");
        }
        let again = Results::open(Some(&path), conditions()).expect("the same");
        assert_eq!(jobs.iter().filter(|job| again.has(job)).collect::<Vec<_>>(), done);
        assert!(jobs.iter().all(|job| again.capacity_of_base(&job.cell()).is_some_and(|base| base.cpus == 0.75)));
        let entry = |is_reached, waited, others| {
            let capacity = Capacity { is_reached, run_queue_share: Some(waited), ..capacity };
            CapacityEntry::new(&jobs[0].cell(), &capacity, others).objection().unwrap_or_default()
        };
        assert_eq!(entry(true, 0.019, 0.029), "");
        assert!(entry(false, 0.0, 0.0).contains("kept up"));
        assert!(entry(true, 0.021, 0.0).contains("waited for a CPU for 2.1 %"));
        assert!(entry(true, 0.0, 0.031).contains("others took 3.1 %"));
        let other = Conditions { commit: "another".to_owned(), ..conditions() };
        let error = format!("{:#}", Results::open(Some(&path), other).expect_err("another commit"));
        assert!(error.contains("results.json: its runs were made otherwise"), "{error}");
        assert!(error.ends_with("take another file. commit: there a commit, here another"), "{error}");
        fs::write(&path, "{}").expect("written");
        let error = format!("{:#}", Results::open(Some(&path), conditions()).expect_err("not of this form"));
        assert!(error.contains("it is no file of peers policies"), "{error}");
        let nowhere = Results::open(Some(Path::new("/nowhere/results.json")), conditions());
        assert!(
            nowhere.is_err_and(|error| format!("{error:#}").contains("--json /nowhere/results.json cannot be written"))
        );
    }
}
