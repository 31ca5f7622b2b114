//! The sender sends each request at its time, or as soon as possible after it. It records how late
//! each one was.

use crate::drive::live::Live;
use crate::drive::pacer::Pacer;
use crate::drive::schedule::Request;
use crate::interrupt::Interrupt;
use crate::profile::Datagrams;
use forebay::time::{Nanos, clock};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::UdpSocket;

/// The sender's record of a run.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// How late each attempted request was sent, in the order of the schedule. It is shorter than
    /// the schedule only after an interrupt.
    pub(crate) slips: Vec<Nanos>,
    /// For each request attempted, whether our kernel took it.
    pub(crate) taken: Vec<bool>,
    /// The number of requests that our kernel did not take, by its error.
    pub(crate) errors: BTreeMap<String, u64>,
    /// The pacer that was used.
    pub(crate) pacer: Pacer,
    /// Time from the start of the schedule to the end of sending.
    pub(crate) took: Nanos,
}

/// Sends each request of a run for the first time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'a> {
    /// The requests of the run.
    pub(crate) schedule: &'a [Request],
    /// A socket for each flow.
    pub(crate) sockets: &'a [UdpSocket],
    /// The start of the schedule, on the monotonic clock.
    pub(crate) start: Nanos,
    /// Where sends are counted.
    pub(crate) live: &'a Live,
    /// What ends the run early.
    pub(crate) interrupt: &'a Interrupt,
}

impl Sender<'_> {
    /// Sends all requests at the times for which `pacer`, this thread, waits. A pacer that
    /// alternates calls `between`. Returns early when interrupted.
    pub(crate) fn send(self, pacer: Pacer, datagrams: Datagrams<'_>, mut between: impl FnMut()) -> Sent {
        let Sender { schedule, live, .. } = self;
        let (slips, taken) = (Vec::with_capacity(schedule.len()), Vec::with_capacity(schedule.len()));
        let mut sent = Sent { slips, taken, pacer, ..Sent::default() };
        let mut datagram = Vec::new();
        for (id, request) in schedule.iter().enumerate() {
            let intended = self.start.plus(request.at);
            let due = pacer.wait_until(intended, self.interrupt, &mut between);
            let Some(now) = due.filter(|_| !live.is_enough()) else {
                break;
            };
            datagram.clear();
            datagrams.write(id as u64, 0, request, &mut datagram);
            // Counted before sending: a reply must never seem to come before its request.
            live.count_sent();
            sent.slips.push(now.minus(intended));
            let result = send_one(&self.sockets[usize::from(request.flow)], &datagram);
            sent.taken.push(result.is_ok());
            if let Err(error) = result {
                live.count_unsendable();
                *sent.errors.entry(error.to_string()).or_default() += 1;
            }
        }
        live.finish_sending();
        Sent { took: clock::now().minus(self.start), ..sent }
    }
}

/// Sends one datagram.
///
/// # Errors
/// If our kernel does not take it.
pub(crate) fn send_one(socket: &UdpSocket, datagram: &[u8]) -> io::Result<()> {
    match socket.send(datagram) {
        // The error is the answer to an earlier datagram of this flow ("port unreachable"); this
        // one was not sent yet.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => socket.send(datagram).map(drop),
        result => result.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::test_datagrams;

    // Is it recorded for each request whether the kernel took it? Method: of two flows one is not
    // connected, so nothing can be sent over it.
    #[test]
    fn what_the_kernel_did_not_take_is_told_apart() {
        let [server, connected, not] = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback"));
        connected.connect(server.local_addr().expect("an address")).expect("connected");
        let request = |flow| Request { at: Nanos::ZERO, cost: Nanos::new(1), flow, class: 0 };
        let (live, interrupt) = (Live::default(), Interrupt::default());
        let flows = [0, 1, 1, 0];
        let (schedule, sockets) = (flows.map(request), [connected, not]);
        let sender =
            Sender { schedule: &schedule, sockets: &sockets, start: Nanos::ZERO, live: &live, interrupt: &interrupt };
        let sent = sender.send(Pacer::Ordinary, test_datagrams(1), || {});
        assert_eq!((sent.slips.len(), sent.taken), (4, vec![true, false, false, true]));
        assert_eq!(sent.errors.values().sum::<u64>(), 2, "{:?}", sent.errors);
        assert_eq!(live.outstanding(), Some(2));
    }

    // Is the lateness of each request recorded? Method: a schedule that began 300 ms ago, whose
    // last request is still to come.
    #[test]
    fn what_is_late_slips_by_as_much() {
        let [server, flow] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback"));
        flow.connect(server.local_addr().expect("an address")).expect("connected");
        let (live, interrupt) = (Live::default(), Interrupt::default());
        let ms = Nanos::from_millis;
        // The clock counts from its first reading; before that there is no past.
        clock::now();
        std::thread::sleep(ms(300).into());
        let start = clock::now().minus(ms(300));
        let schedule = [0, 100, 320].map(|at| Request { at: ms(at), cost: Nanos::new(1), flow: 0, class: 0 });
        let sockets = [flow];
        let sender = Sender { schedule: &schedule, sockets: &sockets, start, live: &live, interrupt: &interrupt };
        let sent = sender.send(Pacer::Ordinary, test_datagrams(1), || {});
        let over = clock::now().minus(start);
        for (slip, (least, at)) in sent.slips.iter().zip([(300, 0), (200, 100), (0, 320)]) {
            assert!(*slip >= ms(least) && slip.plus(ms(at)) <= over, "{:?}", sent.slips);
        }
        assert_eq!(sent.slips.len(), 3);
    }
}
