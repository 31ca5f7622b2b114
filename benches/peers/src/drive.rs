//! The generator of section `echo`: one spinning thread that sends and receives.
//!
//! `loadgen` has a thread for each, which share the one CPU that is left here, and would measure each other's turns
//! instead of a server that answers within microseconds. Its schedule, flows and figures are used; only who sends and
//! receives when is decided here.

use crate::line::{FLOWS, Line};
use anyhow::{Context, Result, ensure};
use forebay::metrics::{Block, Percentile};
use forebay::net::RECV_BUFFER_BYTES;
use forebay::overheads::Overheads;
use forebay::time::{Nanos, clock};
use forebay::wire::{HEADER_BYTES, Header};
use loadgen::drive::receiver::Reply;
use loadgen::drive::schedule;
use loadgen::plan::{Plan, Retrying};
use loadgen::report::run_result::{Observed, RunResult};
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use std::fs;
use std::net::SocketAddr;

/// A server to drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Its process.
    pub(crate) process: u32,
}

/// How long a measurement takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// That does not count.
    pub(crate) warmup: Nanos,
    /// That counts, at least: it lasts until there are [`REPLIES_MIN`].
    pub(crate) counted: Nanos,
}

/// What a server does when it always has something to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saturated {
    /// Replies per second.
    pub(crate) pps: f64,
    /// CPU time of the server's process per reply, in microseconds.
    pub(crate) cpu_us: f64,
    /// CPU time of the server's process over the time: 1 when it never ran dry, or spins.
    pub(crate) server_busy: f64,
    /// The share of looks for a reply that found none: near zero, the generator was the slower side.
    pub(crate) generator_waits: f64,
}

/// Requests outstanding in a closed loop: enough that no server runs dry between two of the generator's turns.
const WINDOW_MAX: usize = 1_024;
/// What a small datagram is charged against its socket's buffer, rounded up.
const CHARGE_BYTES: usize = 1_024;
/// A machine that is busy with something else may not let a server run for a while.
const REPLIES_MIN: u64 = 1_000;
/// The most requests in one measurement, whatever the span: a bound for a server that answers without being asked.
const REQUESTS_MAX: u64 = 20_000_000;

/// Sends as fast as `target` answers, in trains of `train` datagrams from one flow after the other.
///
/// # Errors
/// If the system refuses, or requests are lost.
pub(crate) fn saturate(target: Target, train: usize, span: Span) -> Result<Saturated> {
    let mut line = Line::open(target.address, train, false)?;
    let window = window()?;
    let clock_of_server = cpu_clock(target.process)?;
    let datagrams = request(0).repeat(train);
    let (mut flow, mut sent) = (0, 0);
    let (mut looks, mut vain, mut replies) = (0_u64, 0_u64, 0_u64);
    let begin = clock::now().plus(span.warmup);
    let mut counting = None;
    let (took, cpu) = loop {
        while line.outstanding() + train <= window && sent < REQUESTS_MAX {
            line.send(flow, &datagrams)?;
            flow = (flow + 1) % FLOWS;
            sent += train as u64;
        }
        let taken = line.take_batch()?;
        looks += 1;
        vain += u64::from(taken == 0);
        replies += taken as u64;
        let now = clock::now();
        match counting {
            None if now >= begin => {
                counting = Some((now, cpu_time(clock_of_server)?));
                (looks, vain, replies) = (0, 0, 0);
            }
            Some((began, cpu)) if now >= began.plus(span.counted) && replies >= REPLIES_MIN => {
                break (now.minus(began), cpu_time(clock_of_server)?.minus(cpu));
            }
            _ => {}
        }
    };
    check(&line, replies)?;
    Ok(Saturated {
        pps: replies as f64 / took.as_secs_f64(),
        cpu_us: cpu.as_micros_f64() / replies as f64,
        server_busy: cpu.as_secs_f64() / took.as_secs_f64(),
        generator_waits: vain as f64 / looks as f64,
    })
}

/// Round trips in microseconds with one request outstanding, from before the send to the kernel's stamp of the reply.
///
/// # Errors
/// If the system refuses, or requests are lost.
pub(crate) fn round_trips(target: Target, span: Span) -> Result<Block> {
    let mut line = Line::open(target.address, 1, true)?;
    let begin = clock::now().plus(span.warmup);
    let mut trips_us = Vec::new();
    for id in 0..REQUESTS_MAX {
        let sent_at = clock::now();
        if sent_at >= begin.plus(span.counted) && trips_us.len() as u64 >= REPLIES_MIN {
            break;
        }
        line.send((id % u64::from(FLOWS)) as u16, &request(id))?;
        while line.outstanding() > 0 {
            let Some((_, reply)) = line.take_one()? else { continue };
            if sent_at >= begin {
                trips_us.push(reply.at.minus(sent_at).as_micros_f64());
            }
        }
    }
    check(&line, trips_us.len() as u64)?;
    trips_us.sort_unstable_by(f64::total_cmp);
    Ok(Block::from_sorted(&trips_us))
}

/// Latency in microseconds of an open loop at `rate` requests/s, from the intended send to the kernel's stamp of the reply.
///
/// # Errors
/// If the system refuses, or requests are lost.
pub(crate) fn open_loop(target: Target, rate: f64, seed: u64, span: Span) -> Result<Block> {
    let plan = Plan {
        target: target.address,
        workload: "fixed:1us".parse().context("a workload")?,
        then: None,
        then_rate: None,
        rate,
        duration: span.counted,
        warmup: span.warmup,
        flows: FLOWS,
        time_scale: 1,
        timeout: None,
        retrying: Retrying::NONE,
        percentile: Some(Percentile::P99_9),
        is_round: false,
        precision: forebay::stats::PRECISION,
        seed,
        payload_bytes: 0,
        deadline_us: 0,
        workers: Some(1),
        server_apart: true,
        overheads: Overheads::NONE,
        capacity_rps: None,
    };
    let schedule = schedule::draw(&plan).map_err(|failure| anyhow::anyhow!("{failure}"))?;
    let mut line = Line::open(target.address, 1, true)?;
    let mut slips = Vec::with_capacity(schedule.len());
    let mut replies: Vec<Option<Reply>> = vec![None; schedule.len()];
    let start = clock::now();
    while slips.len() < schedule.len() || line.outstanding() > 0 {
        if let Some(next) = schedule.get(slips.len()) {
            let (now, intended) = (clock::now(), start.plus(next.at));
            if now >= intended {
                line.send(next.flow, &request(slips.len() as u64))?;
                slips.push(now.minus(intended));
                // What is due goes first: a late send would be charged to the server.
                continue;
            }
        }
        if let Some((id, reply)) = line.take_one()? {
            let slot = replies.get_mut(id as usize).context("a reply to nothing that was sent")?;
            *slot = Some(reply);
        }
    }
    let timeout = schedule::timeout(&plan, &schedule);
    let (schedule, slips, replies) = (&schedule[..], &slips[..], &replies[..]);
    let (warmup, kernel_dropped, classes) = (plan.warmup, Some(0), 1);
    let (load, beside, precision) = (plan.load(), Nanos::ZERO, plan.precision);
    let tally = RunResult::of(&Observed {
        schedule,
        slips,
        replies,
        start,
        warmup,
        timeout,
        kernel_dropped,
        classes,
        load,
        beside,
        precision,
    });
    check(&line, tally.fates.answered)?;
    Ok(*tally.latency_us.all())
}

/// As many requests as the receive buffer holds that the kernel grants a server, which gets twice what it may ask for.
fn window() -> Result<usize> {
    let limit = fs::read_to_string("/proc/sys/net/core/rmem_max").context("reading the limit of receive buffers")?;
    let limit: usize = limit.trim().parse().context("reading the limit of receive buffers")?;
    Ok((2 * limit.min(RECV_BUFFER_BYTES) / CHARGE_BYTES).min(WINDOW_MAX))
}

fn request(id: u64) -> [u8; HEADER_BYTES] {
    Header::request(id, 0, Nanos::from_micros(1)).emit()
}

/// A figure of a run that lost requests is none: on loopback, with windows that fit every buffer, there is no excuse.
fn check(line: &Line, replies: u64) -> Result<()> {
    ensure!(replies > 0, "the server answered nothing");
    ensure!(line.lost == 0 && line.foreign == 0, "{} requests lost, {} foreign replies", line.lost, line.foreign);
    Ok(())
}

/// The clock of the CPU time of `process`.
///
/// # Errors
/// If there is no such process.
pub(crate) fn cpu_clock(process: u32) -> Result<ClockId> {
    let process = Pid::from_raw(i32::try_from(process).context("a process number")?);
    clock_getcpuclockid(process).context("asking for the server's CPU clock")
}

/// What `clock` shows.
///
/// # Errors
/// If its process has ended.
pub(crate) fn cpu_time(clock: ClockId) -> Result<Nanos> {
    let time = clock_gettime(clock).context("reading the server's CPU clock")?;
    Ok(Nanos::from(std::time::Duration::from(time)))
}
