//! The steps of a stop, from the first demand until no datagram can enter the sockets. `README.md`
//! in this folder explains them.

use super::control::{Control, Phase};
use super::serving::REFRESH_EVERY;
use super::stop::{Demand, Demands};
use crate::handler::Service;
use crate::metrics::WorkerMetrics;
use crate::net::{BATCH, Group};
use crate::runtime::{Groups, Shared};
use crate::sched::turn::{Discarded, Engine, Ready};

use crate::server::path::job::Job;
use crate::server::path::packet::Packet;
use crate::server::path::serving::Make;
use crate::time::{Nanos, clock};
use std::cell::Cell;
use std::thread;

/// Once the drain is over, workers have this time to reach a checkpoint. After it their handlers
/// count as stuck.
pub(super) const STUCK_AFTER: Nanos = Nanos::from_millis(100);

/// How often a draining server checks whether it is done.
const DRAIN_POLL: Nanos = Nanos::from_millis(1);

impl<'s, 'e, H: Service, M: Make<Packet<'s, H::Ticket>>> Control<'_, 's, 'e, H, M> {
    /// Stops the server. It first serves on as a lame duck, then shuts the gate. The workers serve
    /// all received requests, until the drain timeout or a second demand to stop. Then they have
    /// [`STUCK_AFTER`] to reach a checkpoint. If another process has the sockets, datagrams in them
    /// stay there. Returns whether a second demand ended the drain, and how much of the drain
    /// timeout is left.
    pub(super) fn stop(
        &self,
        engine: &mut impl Engine<Job = Job<'s, 'e, H, M>>,
        demands: &mut Demands,
        all_ended: impl Fn() -> bool,
    ) -> (bool, Nanos) {
        if !self.is_handed_over() {
            self.conduct.supervisor.stopping();
            self.be_lame_duck(demands);
        }
        self.bound.spawning.0.close();
        self.common.serving.room.stop(self.is_handed_over());
        tracing::info!(in_flight = self.bound.board.metrics.in_flight(), "draining");
        let (group, leaves) = (&self.bound.listening.group, self.leaves_sockets());
        if leaves {
            self.shared.each().for_each(Shared::stop_receiving);
            group.leave_gate(true);
        } else if let Err(error) = group.shut_gate() {
            tracing::warn!(%error, "the gate cannot be shut: what arrives while the sockets close is lost uncounted");
        }
        let deadline = clock::now().plus(self.reloads.live().config.drain_timeout);
        let until = |is_over: &dyn Fn() -> bool| {
            while !is_over() {
                let again = matches!(demands.next_within(DRAIN_POLL), Some(Demand::Stop));
                if again || clock::now() >= deadline {
                    return Err(again);
                }
            }
            Ok(())
        };
        let events = &self.common.serving.room.events;
        let under_way = || self.bound.spawning.0.under_way() + events.begun() + events.listed();
        let group = (!leaves).then_some(group);
        let Err(again) = drain(group, &self.bound.board.metrics, self.shared, under_way, &all_ended, until) else {
            return (false, deadline.minus(clock::now()));
        };
        self.force(engine, all_ended);
        (again, Nanos::ZERO)
    }

    /// Serves on while load balancers learn to send requests elsewhere. A second demand to stop
    /// ends this.
    fn be_lame_duck(&self, demands: &mut Demands) {
        let lame_duck = self.reloads.live().config.lame_duck;
        let end = clock::now().plus(lame_duck);
        self.phase.store(if lame_duck > Nanos::ZERO { Phase::LameDuck } else { Phase::Draining });
        if lame_duck > Nanos::ZERO {
            tracing::info!(%lame_duck, "not ready any more, and still serving");
        }
        while clock::now() < end {
            if let Some(Demand::Stop | Demand::Fail(_)) =
                demands.next_within(end.minus(clock::now()).min(REFRESH_EVERY))
            {
                break;
            }
            self.refresh_addresses();
        }
        self.phase.store(Phase::Draining);
    }

    fn force(&self, engine: &mut impl Engine<Job = Job<'s, 'e, H, M>>, all_ended: impl Fn() -> bool) {
        let in_flight = self.bound.board.metrics.in_flight();
        if in_flight > 0 || (!self.leaves_sockets() && self.bound.listening.group.has_waiting()) {
            tracing::warn!(in_flight, "the drain is over with work unfinished");
        }
        self.shared.each().for_each(Shared::stop_receiving);
        self.common.serving.room.events.close();
        self.shared.each().for_each(Shared::abandon);
        self.shared.each().for_each(Shared::stop);
        self.shed_waiting(engine);
        let deadline = clock::now().plus(STUCK_AFTER);
        while !all_ended() && clock::now() < deadline {
            thread::sleep(DRAIN_POLL.into());
        }
    }

    /// After all workers have ended: ends the remaining jobs, and disconnects the sockets from the
    /// network.
    pub(super) fn leave<E: Engine<Job = Job<'s, 'e, H, M>>>(&self, engine: &mut E) {
        let leftover = |engine: &mut E| {
            let waits = self.shared.leftover().or_else(|| self.common.wait_slots.take_any());
            waits.or_else(|| engine.ready().map(Ready::into_job))
        };
        // After a drain the sockets are empty, except for a datagram that the kernel was handling
        // when the gate shut.
        self.shed_waiting(engine);
        self.common.serving.room.events.close();
        self.bound.spawning.0.abort_rest();
        while let Some(job) = leftover(engine) {
            engine.discard(job, Discarded::Draining);
        }
        engine.flush();
        if self.leaves_sockets() {
            return;
        }
        if let Err(error) = self.bound.listening.group.leave() {
            tracing::warn!(%error, "the sockets cannot leave: drops of the last moment are not counted");
        }
    }

    /// Sheds every datagram that waits in the sockets. The gate must be shut.
    fn shed_waiting(&self, engine: &mut impl Engine<Job = Job<'s, 'e, H, M>>) {
        let mut jobs = Vec::with_capacity(BATCH);
        for owner in if self.leaves_sockets() { 0..0 } else { 0..self.bound.config.workers } {
            while engine.receive(owner, &mut jobs).datagrams > 0 {
                // Each batch is ended before the next, so that its packets can be reused.
                jobs.drain(..).for_each(|arrived| engine.discard(arrived.job, Discarded::Draining));
                engine.flush();
            }
        }
    }
}

/// The steps of a drain. Workers serve all the time; each step calls `until` to wait for a
/// condition. `group` has the sockets in which datagrams may wait. `spawned` returns the number of
/// unfinished pieces of spawned work, of begun requests, and of shards with messages that wait.
///
/// # Errors
/// The first error of `until`.
fn drain<J: Send, E>(
    group: Option<&Group>,
    metrics: &WorkerMetrics,
    shared: &Groups<J>,
    spawned: impl Fn() -> usize,
    all_ended: &dyn Fn() -> bool,
    mut until: impl FnMut(&dyn Fn() -> bool) -> Result<(), E>,
) -> Result<(), E> {
    until(&|| !group.is_some_and(Group::has_waiting))?;
    // A worker may hold a batch, or an event of a shard, that it has not counted yet. Once every
    // worker has made a turn, all are counted.
    every_worker_turns(metrics, shared, &mut until)?;
    // Nothing more can come from a socket, but an event may begin while this looks. Its message may
    // be in neither count. `received` shows the event once its worker has made a turn.
    let received = Cell::new(0);
    let is_over = || {
        received.set(metrics.received());
        metrics.in_flight() == 0 && spawned() == 0
    };
    loop {
        until(&is_over)?;
        let before = received.get();
        every_worker_turns(metrics, shared, &mut until)?;
        if is_over() && received.get() == before {
            break;
        }
    }
    shared.each().for_each(Shared::stop);
    until(all_ended)
}

/// Waits by `until` for a turn of every worker.
///
/// # Errors
/// Those of `until`.
fn every_worker_turns<J: Send, E>(
    metrics: &WorkerMetrics,
    shared: &Groups<J>,
    mut until: impl FnMut(&dyn Fn() -> bool) -> Result<(), E>,
) -> Result<(), E> {
    let moves: Vec<_> = (0..metrics.workers()).map(|worker| metrics.moves(worker)).collect();
    // A sleeping worker makes a turn when it is woken.
    (0..metrics.workers()).for_each(|worker| shared.wake(worker));
    until(&|| (0..metrics.workers()).all(|worker| metrics.moves(worker) != moves[worker]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fate::Fate;
    use crate::net::{Io, Receiver};
    use crate::runtime::Wait;
    use crate::sched::Tuning;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    // Does each step wait for its condition? Method: the test plays one worker, which receives a
    // datagram and counts it late.
    #[test]
    fn workers_may_end_when_nothing_can_come_to_light_any_more() {
        let group = Group::open(&[([127, 0, 0, 1], 0).into()], 1, Io::Batches).expect("a free port");
        let (metrics, socket) = (WorkerMetrics::new(1), &group.sockets[0]);
        let mut recorder = metrics.recorder(0);
        let policy = Tuning::new(1, Nanos::ZERO).policy("isolated");
        let ingress = [socket.as_fd()];
        let (shared, _workers) = Groups::<u8>::new(&policy, &[1], Wait::Park, &ingress, 8).expect("queues");
        let client = UdpSocket::bind("127.0.0.1:0").expect("a client socket");
        client.send_to(b"x", group.addresses[0]).expect("an open gate");
        group.shut_gate().expect("a filter");
        let (spawned, mut step) = (Cell::new(1), 0);
        let drained = drain(
            Some(&group),
            &metrics,
            &shared,
            || spawned.get(),
            &|| true,
            |is_over| {
                step += 1;
                match step {
                    1 => {
                        assert!(!is_over(), "the socket is not empty");
                        let received =
                            Receiver::new(Io::Batches, |_, _| false).receive(socket, [&mut [0; 16][..]].into_iter());
                        assert_eq!(received.expect("the kernel has it"), 1);
                    }
                    2 => {
                        assert!(!is_over(), "the worker has not turned since");
                        recorder.received(1);
                        recorder.turned();
                    }
                    3 => {
                        assert!(!is_over(), "it is in flight");
                        recorder.ended(Fate::Answered);
                        assert!(!is_over(), "spawned work is under way");
                        spawned.set(0);
                        assert!(!shared.each().all(Shared::is_stopping), "the workers may be needed");
                    }
                    4 => {
                        assert!(!is_over(), "the worker may hold an event");
                        recorder.received(1);
                        recorder.turned();
                    }
                    5 => {
                        assert!(!is_over(), "an event is in flight");
                        recorder.ended(Fate::NoReply);
                    }
                    6 => {
                        assert!(!is_over(), "the worker has not turned since");
                        recorder.turned();
                    }
                    _ => assert!(shared.each().all(Shared::is_stopping), "nothing is left"),
                }
                if is_over() { Ok(()) } else { Err(step) }
            },
        );
        assert_eq!((drained, step), (Ok(()), 7));
    }
}
