//! Sending a batch of messages, with a result for each.

mod backend;
mod gso;
mod one_by_one;

use super::{Io, SEND_BATCH_MAX, Socket};
use crate::fate::Unsent;
use crate::time::Nanos;
use arrayvec::ArrayVec;
use backend::{Backend, Batched};
use gso::GsoPlan;
use nix::errno::Errno;
use one_by_one::OneByOne;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// The longest wait for room in the socket's send buffer. If nothing drains for that long, the device is stuck or the
/// replies wait for neighbours that do not exist, and further batches do not wait until the buffer has drained.
const PATIENCE: Nanos = Nanos::from_millis(1);

/// A datagram to send.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The bytes to send.
    pub bytes: &'a [u8],
    /// The destination.
    pub peer: SocketAddr,
    /// The source address; `None` where the socket has only one.
    pub local: Option<IpAddr>,
}

/// The result for each message of a batch, in order: taken by the kernel, or the reason why not.
pub type Outcomes = ArrayVec<Result<(), Unsent>, SEND_BATCH_MAX>;

/// Probes whether `io` can send through `socket`, without sending anything.
///
/// # Errors
/// The reason why it cannot.
pub(super) fn probe(socket: &Socket, io: Io) -> io::Result<()> {
    Sender::new(io).probe_call(socket).map_err(io::Error::from)
}

/// The memory for sending batches; one per thread.
pub struct Sender {
    way: Way,
}

enum Way {
    Batched(Box<Dispatch<Batched>>),
    OneByOne(Dispatch<OneByOne>),
}

impl Sender {
    /// A sender for batches of at most [`SEND_BATCH_MAX`], through sockets that were opened for `io`.
    pub fn new(io: Io) -> Sender {
        let way = match io {
            Io::Batches | Io::Gro => Way::Batched(Box::new(Dispatch::new(Batched::new(), true))),
            Io::Portable => Way::OneByOne(Dispatch::new(OneByOne, false)),
        };
        Sender { way }
    }

    /// Sends `messages` and returns for each whether the kernel took it. A message that fails does not hold up the
    /// others. Messages to one peer leave in their order, as a GSO batch where they are alike; others may overtake
    /// them.
    ///
    /// Waits a millisecond at most, and only for room in the socket's send buffer; not at all if the buffer has not
    /// drained since a wait that timed out. A sender is for one socket alone.
    ///
    /// # Panics
    /// With more than [`SEND_BATCH_MAX`] messages.
    pub fn send(&mut self, socket: &Socket, messages: &[Message<'_>]) -> Outcomes {
        assert!(messages.len() <= SEND_BATCH_MAX, "a batch has at most {SEND_BATCH_MAX} messages");
        match &mut self.way {
            Way::Batched(dispatch) => dispatch.send(socket, messages),
            Way::OneByOne(dispatch) => dispatch.send(socket, messages),
        }
    }

    /// Probes whether anything can be sent at all, without sending it: after a batch of which nothing was taken,
    /// possibly because of its peers.
    ///
    /// # Errors
    /// The reason why nothing can be sent.
    pub fn probe(&mut self, socket: &Socket) -> Result<(), Unsent> {
        self.probe_call(socket).map_err(reason)
    }

    fn probe_call(&mut self, socket: &Socket) -> Result<(), Errno> {
        match &mut self.way {
            Way::Batched(dispatch) => dispatch.backend.probe(socket),
            Way::OneByOne(dispatch) => dispatch.backend.probe(socket),
        }
    }
}

/// Sends a batch to its end, whatever the kernel's results for its parts.
struct Dispatch<P> {
    backend: P,
    /// True unless the kernel is known not to cut GSO batches.
    gso: bool,
    /// True if the last wait for room timed out, and the socket's send buffer is not known to have drained since.
    stuck: bool,
    plan: GsoPlan,
}

impl<P: Backend> Dispatch<P> {
    fn new(backend: P, gso: bool) -> Dispatch<P> {
        Dispatch { backend, gso, stuck: false, plan: GsoPlan::new() }
    }

    fn send(&mut self, socket: &Socket, messages: &[Message<'_>]) -> Outcomes {
        let mut outcomes: Outcomes = messages.iter().map(|_| Ok(())).collect();
        let plan = &mut self.plan;
        if self.gso {
            plan.segment(messages);
        } else {
            plan.singles(messages);
        }
        if self.stuck {
            self.stuck = !self.backend.wait(socket, Nanos::ZERO);
        }
        let (mut at, mut patient, mut excused) = (0, !self.stuck, None);
        // Each round makes progress, splits a GSO batch, uses the one retry of a batch, or the one wait of the whole
        // call.
        while at < plan.batches().len() {
            let call = plan.call(at);
            // The kernel stops at the first batch that it does not take, and reports the error only if that batch is
            // the first of a call.
            match self.backend.send(socket, messages, plan, at, call) {
                Ok(taken) => {
                    assert!(taken > 0, "a backend takes a batch or says why not");
                    at += taken;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) if patient => {
                    patient = false;
                    self.stuck = !self.backend.wait(socket, PATIENCE);
                }
                Err(errno) if excused != Some(at) && may_be_stale(errno) => excused = Some(at),
                Err(errno) if call.segment.is_some() => {
                    // EIO: the device cannot cut. Anything else may concern one of the messages only, or the length at
                    // which they are cut.
                    self.gso &= errno != Errno::EIO;
                    plan.split(at);
                }
                Err(errno) => {
                    let batch = &plan.batches()[at];
                    plan.messages(batch).iter().for_each(|number| outcomes[*number] = Err(reason(errno)));
                    at += 1;
                }
            }
        }
        outcomes
    }
}

/// True if the error may be the network's answer to an earlier message instead of this call: the kernel keeps that
/// error with the socket and reports it once, in place of sending.
fn may_be_stale(errno: Errno) -> bool {
    use Errno::{ECONNREFUSED, EHOSTDOWN, EHOSTUNREACH, EMSGSIZE, ENETUNREACH, ENOPROTOOPT, EPROTO};
    matches!(errno, ECONNREFUSED | EHOSTDOWN | EHOSTUNREACH | EMSGSIZE | ENETUNREACH | ENOPROTOOPT | EPROTO)
}

fn reason(errno: Errno) -> Unsent {
    use Errno::{EACCES, EHOSTDOWN, EHOSTUNREACH, ENETDOWN, ENETUNREACH, ENOBUFS, ENOMEM, EPERM};
    match errno {
        Errno::EAGAIN => Unsent::BufferFull,
        ENOBUFS | ENOMEM => Unsent::QueueFull,
        Errno::EMSGSIZE => Unsent::TooLong,
        EPERM | EACCES => Unsent::Denied,
        EHOSTDOWN | EHOSTUNREACH | ENETDOWN | ENETUNREACH | Errno::ECONNREFUSED => Unsent::Unreachable,
        _ => Unsent::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::gso::Call;
    use super::*;
    use crate::net::Group;
    use std::collections::VecDeque;
    use std::net::Ipv4Addr;

    /// A kernel with scripted answers, which takes everything in the end.
    #[derive(Default)]
    struct Scripted {
        answers: VecDeque<Result<usize, Errno>>,
        /// The messages taken, in order; `calls` has the number of batches of each call.
        taken: Vec<usize>,
        calls: Vec<usize>,
        waits: Vec<Nanos>,
        /// For each wait, whether the buffer has drained at its end; true after the last entry.
        drained: VecDeque<bool>,
    }

    impl Backend for Scripted {
        fn send(
            &mut self,
            _: &Socket,
            _: &[Message<'_>],
            plan: &GsoPlan,
            at: usize,
            call: Call,
        ) -> Result<usize, Errno> {
            let count = self.answers.pop_front().unwrap_or(Ok(call.count))?.min(call.count);
            self.calls.push(count);
            plan.batches()[at..at + count].iter().for_each(|batch| self.taken.extend(plan.messages(batch)));
            Ok(count)
        }

        fn probe(&mut self, _: &Socket) -> Result<(), Errno> {
            Ok(())
        }

        fn wait(&mut self, _: &Socket, patience: Nanos) -> bool {
            self.waits.push(patience);
            self.drained.pop_front().unwrap_or(true)
        }
    }

    /// Sends a message to each of `peers` while the kernel gives `answers`.
    fn send(peers: &[u8], answers: &[Result<usize, Errno>]) -> (Dispatch<Scripted>, Vec<Result<(), Unsent>>) {
        let group = Group::open(&[(Ipv4Addr::LOCALHOST, 0).into()], 1, Io::Batches).expect("a free backend");
        let message =
            |peer: &u8| Message { bytes: b"reply", peer: (Ipv4Addr::new(127, 0, 0, *peer), 9).into(), local: None };
        let messages: Vec<_> = peers.iter().map(message).collect();
        let backend = Scripted { answers: answers.iter().copied().collect(), ..Scripted::default() };
        let mut dispatch = Dispatch::new(backend, true);
        let outcomes = dispatch.send(&group.sockets()[0], &messages).to_vec();
        (dispatch, outcomes)
    }

    const SENT: Result<(), Unsent> = Ok(());

    #[test]
    fn the_batch_goes_on_after_each_kind_of_failure() {
        for (errno, reason) in [
            (Errno::ENOBUFS, Unsent::QueueFull),
            (Errno::EPERM, Unsent::Denied),
            (Errno::EACCES, Unsent::Denied),
            (Errno::ENETDOWN, Unsent::Unreachable),
            (Errno::EINVAL, Unsent::Other),
        ] {
            let (sender, outcomes) = send(&[1, 2, 3, 4], &[Ok(1), Err(errno)]);
            assert_eq!(outcomes, [SENT, Err(reason), SENT, SENT], "{errno}");
            assert_eq!((sender.backend.taken, sender.backend.calls), (vec![0, 2, 3], vec![1, 2]), "{errno}");
        }
    }

    #[test]
    fn an_error_of_an_earlier_message_costs_no_other_one() {
        for errno in [Errno::ECONNREFUSED, Errno::EHOSTUNREACH, Errno::ENETUNREACH, Errno::EMSGSIZE] {
            let (sender, outcomes) = send(&[1, 2, 3], &[Ok(1), Err(errno)]);
            assert_eq!((outcomes, sender.backend.taken), (vec![SENT; 3], vec![0, 1, 2]), "{errno}");
        }
    }

    #[test]
    fn an_error_that_stays_is_the_messages_own() {
        let refused = Err(Errno::ECONNREFUSED);
        let (sender, outcomes) = send(&[1, 2, 3], &[Ok(1), refused, refused, refused, Ok(1)]);
        assert_eq!((outcomes, sender.backend.taken), (vec![SENT, Err(Unsent::Unreachable), SENT], vec![0, 2]));
        let too_long = Err(Errno::EMSGSIZE);
        let (sender, outcomes) = send(&[1, 2], &[too_long, too_long]);
        assert_eq!((outcomes, sender.backend.taken), (vec![Err(Unsent::TooLong), SENT], vec![1]));
    }

    #[test]
    fn a_full_buffer_is_waited_for_once_in_a_batch() {
        let full = Err(Errno::EAGAIN);
        let (sender, outcomes) = send(&[1, 2, 3], &[Ok(1), full, Ok(2)]);
        assert_eq!((outcomes, sender.backend.waits), (vec![SENT; 3], vec![PATIENCE]));
        let (sender, outcomes) = send(&[1, 2, 3], &[Ok(1), full, full, full]);
        assert_eq!(outcomes, [SENT, Err(Unsent::BufferFull), Err(Unsent::BufferFull)]);
        assert_eq!((sender.backend.waits, sender.backend.taken), (vec![PATIENCE], vec![0]));
    }

    // After a wait that timed out, is the buffer waited for again only once it has drained?
    #[test]
    fn a_buffer_that_does_not_drain_is_not_waited_for_again() {
        let group = Group::open(&[(Ipv4Addr::LOCALHOST, 0).into()], 1, Io::Batches).expect("a free backend");
        let mut dispatch = Dispatch::new(Scripted::default(), true);
        let message = Message { bytes: b"reply", peer: (Ipv4Addr::LOCALHOST, 9).into(), local: None };
        let full = [Err(Errno::EAGAIN), Err(Errno::EAGAIN)];
        let mut send = |answers: &[Result<usize, Errno>], drained: &[bool]| {
            dispatch.backend.answers = answers.iter().copied().collect();
            dispatch.backend.drained = drained.iter().copied().collect();
            let outcome = dispatch.send(&group.sockets()[0], &[message])[0];
            (outcome, std::mem::take(&mut dispatch.backend.waits))
        };
        let lost = Err(Unsent::BufferFull);
        assert_eq!(send(&full, &[false]), (lost, vec![PATIENCE]));
        for _ in 0..3 {
            assert_eq!(send(&full, &[false]), (lost, vec![Nanos::ZERO]), "one look, and no wait");
        }
        assert_eq!(send(&[Ok(1)], &[false]), (SENT, vec![Nanos::ZERO]), "room for one is not a drained buffer");
        assert_eq!(send(&full, &[false]), (lost, vec![Nanos::ZERO]));
        assert_eq!(send(&full, &[true, true]), (lost, vec![Nanos::ZERO, PATIENCE]));
        assert_eq!(send(&[Ok(1)], &[]), (SENT, vec![]));
    }

    #[test]
    fn a_gso_batch_that_is_not_taken_goes_message_by_message() {
        let too_long = Err(Errno::EMSGSIZE);
        // Refused, also at the retry; then the second of its three messages fails.
        let (sender, outcomes) = send(&[1, 1, 2, 1], &[too_long, too_long, Ok(1), Err(Errno::EPERM)]);
        assert_eq!(outcomes, [SENT, Err(Unsent::Denied), SENT, SENT]);
        assert_eq!((sender.backend.taken, sender.gso), (vec![0, 3, 2], true));
    }

    #[test]
    fn where_gso_batches_cannot_be_cut_none_is_made_again() {
        let (sender, outcomes) = send(&[1, 1, 1], &[Err(Errno::EIO)]);
        assert_eq!((outcomes, sender.backend.taken, sender.gso), (vec![SENT; 3], vec![0, 1, 2], false));
    }

    #[test]
    fn an_interrupted_call_is_made_again() {
        let (sender, outcomes) = send(&[1, 2], &[Err(Errno::EINTR)]);
        assert_eq!((outcomes, sender.backend.taken), (vec![SENT; 2], vec![0, 1]));
    }
}
