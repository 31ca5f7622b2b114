//! The steps of a drain, from a shut gate to workers that may end: `runtime/sleep/README.md` argues them in section 4.

use crate::metrics::WorkerMetrics;
use crate::net::Group;
use crate::runtime::Shared;

/// The progress of a drain. Workers serve throughout; each step only observes them.
pub(super) enum Drain {
    /// Datagrams wait in the sockets.
    Receiving,
    /// Nothing more can be received. A worker may hold a batch that it has not counted yet; once every worker has
    /// moved from the position stored here, everything is counted.
    Counting(Vec<u64>),
    /// Received requests are being served, and spawned work is done.
    Finishing,
    /// Nothing is left: the workers have been asked to end.
    Ending,
}

impl Drain {
    /// The progress once nothing more can be received: the sockets are empty for good, or the workers have been asked not
    /// to receive any more.
    pub(super) fn of_received<J: Send>(metrics: &WorkerMetrics, shared: &Shared<J>) -> Drain {
        let moves = (0..metrics.workers()).map(|worker| metrics.moves(worker)).collect();
        // A sleeping worker turns once when it is woken.
        (0..metrics.workers()).for_each(|worker| shared.wake(worker));
        Drain::Counting(moves)
    }

    /// The progress after one more look at sockets and metrics; `spawned` is the number of pieces of spawned work under way.
    pub(super) fn next<J: Send>(
        self,
        group: &Group,
        metrics: &WorkerMetrics,
        shared: &Shared<J>,
        spawned: usize,
    ) -> Drain {
        match self {
            Drain::Receiving if !group.has_waiting() => Drain::of_received(metrics, shared),
            Drain::Counting(moves) if (0..metrics.workers()).all(|worker| metrics.moves(worker) != moves[worker]) => {
                Drain::Finishing
            }
            Drain::Finishing if metrics.in_flight() == 0 && spawned == 0 => {
                shared.stop();
                Drain::Ending
            }
            unchanged => unchanged,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fate::Fate;
    use crate::net::{Io, Receiver};
    use crate::runtime::Wait;
    use crate::sched::Tuning;
    use crate::time::Nanos;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    // Does each step wait for its condition? Method: one worker, played by hand, that receives a datagram and counts it
    // late.
    #[test]
    fn workers_may_end_when_nothing_can_come_to_light_any_more() {
        let group = Group::open(&[([127, 0, 0, 1], 0).into()], 1, Io::Batches).expect("a free port");
        let (metrics, socket) = (WorkerMetrics::new(1), &group.sockets()[0]);
        let mut recorder = metrics.recorder(0);
        let policy = Tuning::new(1, Nanos::ZERO).policy("isolated");
        let (shared, _workers) = Shared::<u8>::new(policy, Wait::Park, &[socket.as_raw_fd()], 8).expect("queues");
        let client = UdpSocket::bind("127.0.0.1:0").expect("a client socket");
        client.send_to(b"x", group.addresses()[0]).expect("an open gate");
        group.shut_gate().expect("a filter");
        let next = |drain: Drain| drain.next(&group, &metrics, &shared, 0);
        let drain = next(Drain::Receiving);
        assert!(matches!(drain, Drain::Receiving), "the socket is not empty");
        let received = Receiver::new(Io::Batches).receive(socket, [&mut [0; 16][..]].into_iter());
        assert_eq!(received.expect("the kernel has it"), 1);
        let drain = next(next(drain));
        assert!(matches!(drain, Drain::Counting(_)), "the worker has not turned since");
        recorder.received(1);
        recorder.hand_over();
        let drain = next(next(drain));
        assert!(matches!(drain, Drain::Finishing), "it is in flight");
        recorder.ended(Fate::Answered);
        let drain = drain.next(&group, &metrics, &shared, 1);
        assert!(matches!(drain, Drain::Finishing), "spawned work is under way");
        assert!(matches!(next(drain), Drain::Ending));
    }
}
