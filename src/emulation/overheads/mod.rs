//! What each step costs beside the work itself, by name or as measured on this host.

#[cfg(feature = "cli")]
pub mod file;
#[cfg(not(feature = "cli"))]
mod file {
    //! No file can be read without a reader of TOML.
    pub(super) const DEFAULT_PATH: &str = "forebay-overheads.toml";

    pub(super) fn read(_: &str) -> Result<super::Overheads, String> {
        Err("this program was built without forebay's feature cli, which reads such files".to_owned())
    }
}

use crate::time::{Nanos, parse_duration};
use std::fmt;
use std::str::FromStr;

/// Defines [`Overheads`]. A row is a step, and its name in flags and files.
macro_rules! steps {
    ($($(#[$meaning:meta])+ $step:ident = $name:literal,)+) => {
        /// CPU time of the steps of a server.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Overheads {
            $($(#[$meaning])+ pub $step: Nanos,)+
        }

        impl Overheads {
            /// No overheads, as in queueing theory.
            pub const NONE: Overheads = Overheads { $($step: Nanos::ZERO,)+ };

            /// The names of the steps, in the order in which they are shown.
            pub const STEPS: [&'static str; [$($name),+].len()] = [$($name),+];

            fn steps_mut(&mut self) -> [(&'static str, &mut Nanos); Overheads::STEPS.len()] {
                [$(($name, &mut self.$step)),+]
            }
        }
    };
}

steps! {
    /// Stealing jobs from another worker's deque.
    steal = "steal",
    /// Taking a job that another worker held last out of a queue that workers share.
    hop = "hop",
    /// Stepping aside: pause, queue, resume.
    yield_ = "yield",
    /// From the moment that wakes a sleeping worker to its first step.
    wake = "wake",
    /// Receiving one datagram.
    receive = "receive",
    /// Sending one reply.
    send = "send",
    /// Polling for datagrams: a receive that finds none.
    poll = "poll",
    /// Looking from within a job whether anything waits in the sockets of busy workers.
    look = "look",
    /// Taking the kernel's notice of an arrival, looking where it is, and asking for the next
    /// notice.
    notice = "notice",
    /// Passing a checkpoint.
    checkpoint = "checkpoint",
    /// How long an operation keeps a queue between workers, a socket or the watch set from other
    /// workers. For a worker that meets no other this is part of the steps above. Virtual time
    /// alone charges it.
    serial = "serial",
    /// How much longer an operation takes for each other worker that uses the same place or waits
    /// for it; without [`Overheads::serial`] workers never meet. Virtual time alone charges it.
    contend = "contend",
}

const fn ns(ns: u64) -> Nanos {
    Nanos::new(ns)
}

impl Overheads {
    /// A steal and a yield cost 0.1 us, shared queues and the network nothing: what the
    /// literature's simulations, and the table in `benches/simulate.md`, assume.
    pub const LAB: Overheads = Overheads { steal: ns(100), yield_: ns(100), ..Overheads::NONE };

    /// Measured on a 2-core Linux 6.18 virtual machine with stock UDP sockets. For each datagram of
    /// a batch, sendmmsg takes 2.3 us and recvmmsg 0.38 us. An empty receive takes 0.18 us, and a
    /// wake-up 20 us. A look at the watch set takes 0.15 us, a notice with the request for the next
    /// one 0.9 us. A checkpoint that finds nothing takes 2 ns. Hand-overs are a core-to-core round
    /// trip (43 to 350 ns there) and a queue. A push or a pop takes one thread alone 12 ns, and two
    /// at once 30 ns each, one after the other.
    pub const STOCK: Overheads = Overheads {
        steal: ns(200),
        hop: ns(200),
        yield_: ns(100),
        wake: ns(20_000),
        receive: ns(380),
        send: ns(2_300),
        poll: ns(180),
        look: ns(150),
        notice: ns(900),
        checkpoint: ns(2),
        serial: ns(12),
        contend: ns(18),
    };

    const NAMED: [(&'static str, Overheads); 3] =
        [("none", Overheads::NONE), ("lab", Overheads::LAB), ("stock", Overheads::STOCK)];

    /// The same steps on cores on which everything lasts `factor` times as long.
    pub fn times(self, factor: u64) -> Overheads {
        self.mapped(|step| step.times(factor))
    }

    /// What the way of one request in and out costs: a receive and a send. With the work itself it
    /// is what a request takes of a worker's capacity.
    pub const fn per_request(&self) -> Nanos {
        self.receive.plus(self.send)
    }

    /// CPU time of a look that finds something in `sockets` sockets. With one socket it takes three
    /// times as long as in vain. Each other socket adds as much as a look in vain. (Measured on the
    /// machine of [`Overheads::STOCK`]: .16 us in vain; .52, .96 and 1.55 us with one, four and
    /// eight sockets.)
    pub const fn look_at(&self, sockets: usize) -> Nanos {
        self.look.times(if sockets == 0 { 1 } else { 2 + sockets as u64 })
    }

    /// CPU time that a job takes to notice arrivals in `sockets` sockets: a notice of the kernel,
    /// or else a look.
    pub const fn learning(&self, by_kernel: bool, sockets: usize) -> Nanos {
        if by_kernel { self.notice } else { self.look_at(sockets) }
    }

    /// The text that is read as these overheads: a name, or all steps that cost something.
    pub fn text(&self) -> String {
        match Overheads::NAMED.into_iter().find(|(_, overheads)| overheads == self) {
            Some((name, _)) => name.to_owned(),
            None => self.charged().map(|(name, time)| format!("{name}={time}")).collect::<Vec<_>>().join(","),
        }
    }

    /// The steps that cost something.
    pub fn charged(&self) -> impl Iterator<Item = (&'static str, Nanos)> + use<> {
        let mut steps = *self;
        steps.steps_mut().map(|(name, time)| (name, *time)).into_iter().filter(|(_, time)| *time > Nanos::ZERO)
    }

    /// The same steps with another price each.
    pub fn mapped(mut self, change: impl Fn(Nanos) -> Nanos) -> Overheads {
        self.steps_mut().into_iter().for_each(|(_, step)| *step = change(*step));
        self
    }
}

/// The longest time of one step: with a longer one, simulated time would end before a long
/// simulation does.
pub const STEP_MAX: Nanos = Nanos::from_millis(10);

/// Why a text does not name overheads.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverheadsError {
    /// Neither a name nor a step and its time.
    #[error(
        "`{0}` is neither a set of overheads (none, lab, stock, measured, file:PATH) nor a step and its time: steal, hop, \
         yield, wake, receive, send, poll, look, notice, checkpoint, serial or contend, 0ns to 10ms, like send=2.3us"
    )]
    Form(String),
    /// A file that holds no overheads, and why.
    #[error("{0}: {1}")]
    File(String, String),
}

crate::time::show_as_text!(OverheadsError);

impl FromStr for Overheads {
    type Err = OverheadsError;

    /// Reads a name, steps that differ from it, or both: `stock`, `lab,send=2.3us`, `steal=0.1us`.
    /// Steps alone differ from none at all. `measured` and `file:PATH` are what a file says.
    fn from_str(text: &str) -> Result<Overheads, OverheadsError> {
        let mut overheads = Overheads::NONE;
        for (place, part) in text.split(',').map(str::trim).enumerate() {
            let error = || OverheadsError::Form(part.to_owned());
            if let Some((name, time)) = part.split_once('=').filter(|_| file_of(part).is_none()) {
                let time = parse_duration(time.trim()).ok().filter(|time| *time <= STEP_MAX).ok_or_else(error)?;
                let mut steps = overheads.steps_mut();
                let step = steps.iter_mut().find(|(step, _)| *step == name.trim()).ok_or_else(error)?;
                *step.1 = time;
            } else if let Some(path) = file_of(part).filter(|_| place == 0) {
                let unusable = |why| OverheadsError::File(path.to_owned(), why);
                overheads = file::read(path).map_err(unusable)?;
            } else {
                let named = Overheads::NAMED.into_iter().find(|(name, _)| *name == part && place == 0);
                overheads = named.ok_or_else(error)?.1;
            }
        }
        Ok(overheads)
    }
}

/// The path of the file that `name` stands for, if it does.
fn file_of(name: &str) -> Option<&str> {
    if name == "measured" { Some(file::DEFAULT_PATH) } else { name.strip_prefix("file:") }
}

impl fmt::Display for Overheads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let charged: Vec<String> = self.charged().map(|(name, time)| format!("{name} {time}")).collect();
        if charged.is_empty() { f.write_str("none") } else { f.write_str(&charged.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does a look take as long as it took here, and a notice what the table says?
    #[test]
    fn a_job_pays_for_how_it_learnt() {
        let overheads = Overheads::STOCK;
        assert_eq!([0, 1, 3].map(|sockets| overheads.learning(false, sockets)), [ns(150), ns(450), ns(750)]);
        assert_eq!([0, 3].map(|sockets| overheads.learning(true, sockets)), [ns(900); 2]);
    }

    #[test]
    fn a_name_may_be_followed_by_what_differs() {
        for (overheads, text) in [
            (Overheads::NONE, "none"),
            (Overheads::STOCK, "stock"),
            (Overheads { yield_: ns(1_234), checkpoint: ns(1), ..Overheads::NONE }, "yield=1.234us,checkpoint=1ns"),
            (Overheads::LAB, "lab"),
            (Overheads { serial: ns(15), contend: ns(30), ..Overheads::NONE }, "serial=15ns,contend=30ns"),
        ] {
            assert_eq!((overheads.text(), text.parse()), (text.to_owned(), Ok(overheads)));
        }
        assert_eq!("lab, send=2.3us".parse(), Ok(Overheads { send: ns(2_300), ..Overheads::LAB }));
        assert_eq!("stock,contend=30ns".parse(), Ok(Overheads { contend: ns(30), ..Overheads::STOCK }));
        assert_eq!("yield=1us".parse(), Ok(Overheads { yield_: ns(1_000), ..Overheads::NONE }));
        for text in ["", "lob", "send=2", "sent=2us", "send=1us,lab", "lab,", "=1us", "send=11ms", "lab,file:/nowhere"]
        {
            let error = text.parse::<Overheads>().expect_err(text).to_string();
            assert!(error.contains("none, lab, stock") && error.contains("serial or contend, 0ns to 10ms"), "{error}");
        }
    }

    #[test]
    fn what_is_charged_is_shown() {
        assert_eq!(Overheads::LAB.to_string(), "steal 100ns, yield 100ns");
        assert_eq!(Overheads::NONE.to_string(), "none");
        let divided = |overheads: Overheads| overheads.mapped(|step| ns(step.get() / 1_000));
        assert_eq!(divided(Overheads::STOCK).wake, ns(20));
        assert_eq!(divided(Overheads::STOCK.times(1_000)), Overheads::STOCK);
    }
}
