//! The course of a comparison: which runs it makes, in which order, in the time that there is.

use crate::arguments::CompareArguments;
use crate::compare::virtual_time::VirtualTime;
use crate::compare::{BESIDE_RUN, CompareReport, ComparedRun, FailedRun, HEAVY, Question, pooled, text, verdict};
use crate::drive::schedule;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::plan::Plan;
use crate::results::Outputs;
use forebay::metrics::Percentile;
use forebay::time::{Nanos, clock};
use std::collections::VecDeque;

/// The measured part of a comparison of the default length ends within this time, repeated runs
/// included. Virtual time is not part of it: on a busy host it would leave too little.
const LASTS: Nanos = Nanos::from_secs(100);
/// A longer comparison takes at most 1 / `LONGER_PART` (a sixth) longer than planned.
const LONGER_PART: u64 = 6;

/// One run of a campaign.
#[derive(Clone, Copy)]
pub(super) struct PlannedRun<'a> {
    pub(super) task: &'a Task,
    /// The number of this run, and of all runs.
    pub(super) number: usize,
    pub(super) runs: usize,
    /// The percentile that a round must know.
    pub(super) of_round: Option<Percentile>,
    /// The results so far.
    pub(super) so_far: &'a str,
}

/// Makes one run.
pub(super) type Make<'a> = &'a dyn Fn(PlannedRun<'_>) -> Result<ComparedRun, Failure>;

/// A comparison under way: its plan, and the function that makes a run.
pub(super) struct Campaign<'a> {
    pub(super) arguments: &'a CompareArguments,
    pub(super) plan: &'a Plan,
    pub(super) interrupt: &'a Interrupt,
    pub(super) make: Make<'a>,
}

impl Campaign<'_> {
    /// Makes all runs and shows the result. Says whether a verdict is known.
    pub(super) fn carry_out(
        &self,
        outputs: &Outputs,
        heading: &str,
        virtual_time: Option<VirtualTime>,
    ) -> Result<bool, Failure> {
        let (arguments, plan, schema) = (self.arguments, self.plan, "forebay-compare/1");
        // The percentiles are chosen before any measurement, so that results cannot influence the
        // choice.
        let percentiles = verdict::percentiles(plan, &schedule::draw(plan)?, arguments.rounds);
        let arms = arms(&arguments.policies);
        let names = Vec::from_iter(arms.iter().map(|(_, arm)| &arm[..]));
        let questions = verdict::questions(&names, plan.class_names().contains(&HEAVY), &percentiles);
        outputs.show(&virtual_time.iter().map(|all| text::predicted(all, &questions)).collect::<String>())?;
        // With several rounds, each run need not know the percentile by itself.
        let of_round = percentiles.of(HEAVY).copied().filter(|_| arguments.rounds > 1);
        let (verdicts, arms, runs, failed, not_made, ended) = Default::default();
        let mut report = CompareReport { schema, verdicts, arms, virtual_time, runs, failed, not_made, ended };
        self.run(of_round, &questions, &mut report);
        let mut text = text::render(&report);
        if arguments.verbose {
            text += &text::accounts(&report, plan);
        }
        outputs.finish(&text, || &report, || text::page(&report, heading))?;
        Ok(report.is_known())
    }

    /// Makes the runs of all tasks, as far as there is time.
    fn run(&self, of_round: Option<Percentile>, questions: &[Question<'_>], report: &mut CompareReport) {
        let (began, rounds) = (clock::now(), self.arguments.rounds as usize);
        let one = self.plan.warmup.plus(self.plan.duration).plus(BESIDE_RUN);
        let mut queue = Queue::new(tasks(self.arguments), rounds, one);
        while let Some(task) = queue.next(clock::now().minus(began)).filter(|_| !self.interrupt.is_raised()) {
            let (number, runs) = (queue.made, queue.planned.max(queue.made + 1));
            let so_far = text::so_far(report);
            let begins = clock::now();
            let counts = match (self.make)(PlannedRun { task: &task, number, runs, of_round, so_far: &so_far }) {
                Ok(run) => {
                    let counts = pooled::counts(&run);
                    report.runs.push(run);
                    counts
                }
                Err(failure) => {
                    let cause = failure.to_string();
                    report.failed.push(FailedRun { arm: task.arm.clone(), seed: task.seed, cause });
                    false
                }
            };
            queue.ended(task, clock::now().minus(begins), counts);
            if queue.made.is_multiple_of(queue.arms) {
                report.join(questions, rounds);
            }
        }
        report.join(questions, rounds);
        report.not_made = queue.planned.saturating_sub(queue.made);
        report.ended = if self.interrupt.is_raised() { "the comparison was interrupted" } else { "no time was left" };
    }
}

/// A run to make.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) policy: String,
    /// The name of the run, as in [`ComparedRun`].
    pub(super) arm: String,
    pub(super) seed: u64,
}

/// All planned runs. The policies take turns, so that other programs disturb all of them alike.
pub(super) fn tasks(arguments: &CompareArguments) -> Vec<Task> {
    let arms = arms(&arguments.policies);
    let round = |seed| arms.iter().cloned().map(move |(policy, arm)| Task { policy, arm, seed });
    arguments.seeds().flat_map(round).collect()
}

/// Each policy with the name of its runs. A policy that is named twice has the runs `steal#1` and
/// `steal#2`, which show how much two runs of one policy differ.
fn arms(policies: &[String]) -> Vec<(String, String)> {
    let count = |policy: &String, among: &[String]| among.iter().filter(|other| *other == policy).count();
    let arm = |(place, policy): (usize, &String)| match count(policy, policies) {
        1 => policy.clone(),
        _ => format!("{policy}#{}", count(policy, &policies[..=place])),
    };
    policies.iter().cloned().zip(policies.iter().enumerate().map(arm)).collect()
}

/// The runs that are left. It reads no clock.
struct Queue {
    tasks: VecDeque<Task>,
    /// How many arms there are. A round has a run of each.
    arms: usize,
    planned: usize,
    made: usize,
    next_seed: u64,
    /// How long a run takes as planned.
    one: Nanos,
    /// How long the last runs took, at most a round of them.
    took: VecDeque<Nanos>,
    /// How long all runs may take.
    lasts: Nanos,
}

impl Queue {
    /// The `tasks` of so many rounds, one or more. As planned a run takes `one`.
    fn new(tasks: Vec<Task>, rounds: usize, one: Nanos) -> Queue {
        let (planned, arms) = (tasks.len(), tasks.len() / rounds);
        let next_seed = tasks.last().map_or(0, |task| task.seed.wrapping_add(1));
        let all = one.times(planned as u64);
        let lasts = LASTS.max(all.plus(Nanos::new(all.get() / LONGER_PART)));
        Queue { tasks: tasks.into(), arms, planned, made: 0, next_seed, one, took: VecDeque::new(), lasts }
    }

    /// The next run, so long after the first one began; `None` if there is none, or no time.
    ///
    /// The first round is made in any case: without a run of each policy nothing is compared.
    /// Another one begins if all of it will end in time, so that each policy gets as many runs. At
    /// most twice the planned runs are made: a lasting disturbance would spoil repeated runs too.
    fn next(&mut self, passed: Nanos) -> Option<Task> {
        let begins_round = self.made < self.planned && self.made.is_multiple_of(self.arms);
        let ahead = if begins_round { self.arms as u64 } else { 1 };
        // As long as the round before took, which a single run that stood still does not double.
        let last = self.took.iter().fold(Nanos::ZERO, |sum, took| sum.plus(*took));
        let each = Nanos::new(last.get() / self.took.len().max(1) as u64).max(self.one);
        let has_time = self.made < self.arms || passed.plus(each.times(ahead)) <= self.lasts;
        if has_time && self.made < 2 * self.planned { self.tasks.pop_front() } else { None }
    }

    /// Notes that the run of `task` ended after this time. A run that does not count is repeated
    /// with the next seed, after the others.
    fn ended(&mut self, task: Task, took: Nanos, counts: bool) {
        self.made += 1;
        self.took.push_back(took);
        if self.took.len() > self.arms {
            self.took.pop_front();
        }
        if !counts {
            self.tasks.push_back(Task { seed: self.next_seed, ..task });
            self.next_seed = self.next_seed.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARMS: [&str; 4] = ["isolated", "steal", "pools", "auto"];

    /// The arms and seeds of the runs that are made, and how many planned ones are not. Five rounds
    /// of four arms are planned, 4.3 s for each run. Run `number` takes and counts as `run` says.
    fn made(run: impl Fn(usize) -> (u64, bool)) -> (Vec<(String, u64)>, usize) {
        let policies = ARMS.map(str::to_owned);
        let task = |seed| arms(&policies).into_iter().map(move |(policy, arm)| Task { policy, arm, seed });
        let mut queue = Queue::new((1..=5).flat_map(task).collect(), 5, Nanos::from_millis(4_300));
        let (mut passed, mut made) = (Nanos::ZERO, Vec::new());
        while let Some(task) = queue.next(passed) {
            let (took_ms, counts) = run(made.len());
            made.push((task.arm.clone(), task.seed));
            passed = passed.plus(Nanos::from_millis(took_ms));
            queue.ended(task, Nanos::from_millis(took_ms), counts);
        }
        (made, queue.planned.saturating_sub(queue.made))
    }

    fn rounds(count: u64) -> Vec<(String, u64)> {
        (1..=count).flat_map(|seed| ARMS.map(|arm| (arm.to_owned(), seed))).collect()
    }

    // Does each arm get as many runs, however long a run takes on a busy host, and one at least?
    #[test]
    fn every_arm_gets_its_runs() {
        for (took_ms, expected) in
            [(4_300, 5), (4_900, 5), (5_100, 4), (8_000, 3), (12_000, 2), (20_000, 1), (90_000, 1)]
        {
            let (made, not_made) = made(|_| (took_ms, true));
            assert_eq!((made, not_made), (rounds(expected), 20 - 4 * expected as usize), "{took_ms} ms each");
        }
    }

    // Does one run that stood still leave time for the other rounds?
    #[test]
    fn one_long_run_does_not_end_a_comparison() {
        let (made, not_made) = made(|number| (if number == 1 { 25_000 } else { 4_300 }, true));
        assert_eq!((made, not_made), (rounds(4), 4));
    }

    // Are runs that do not count repeated with the next seeds, after the others, while time is
    // left?
    #[test]
    fn what_does_not_count_is_repeated_last() {
        let (runs, not_made) = made(|number| (4_300, number != 2 && number != 7));
        let repeated = [("pools".to_owned(), 6), ("auto".to_owned(), 7)];
        assert_eq!((runs, not_made), ([rounds(5), repeated.to_vec()].concat(), 0));
        let (runs, _) = made(|_| (1_000, false));
        assert_eq!(runs.len(), 40, "a disturbance that lasts");
        assert_eq!(made(|_| (4_300, false)).0.len(), 23, "98.9 s");
    }
}
