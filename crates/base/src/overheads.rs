//! The CPU time of each step of a server besides the work itself, in named sets. A program may also
//! read what was measured on its host ([`Overheads::parse_with`]).

use crate::time::Nanos;
use std::fmt;
use std::str::FromStr;

/// Defines [`Overheads`]. Each row is a step, and its name in flags and files.
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

            /// Each step with its name.
            pub fn steps_mut(&mut self) -> [(&'static str, &mut Nanos); Overheads::STEPS.len()] {
                [$(($name, &mut self.$step)),+]
            }
        }
    };
}

steps! {
    /// Stealing jobs from another worker's deque.
    steal = "steal",
    /// Taking a job from a shared queue, if another worker had the job before.
    hop = "hop",
    /// A yield: to pause a job, queue it, and resume it.
    yield_ = "yield",
    /// From the event that wakes a sleeping worker to the worker's first step.
    wake = "wake",
    /// Receiving one datagram.
    receive = "receive",
    /// Sending one reply.
    send = "send",
    /// Polling for datagrams: a receive that finds none.
    poll = "poll",
    /// A look: polling, from within a job, whether the sockets of busy workers hold datagrams.
    look = "look",
    /// Taking the kernel's notice of an arrival, finding its socket, and asking for the next
    /// notice.
    notice = "notice",
    /// Passing a checkpoint.
    checkpoint = "checkpoint",
    /// How long an operation locks out other workers from a shared queue, a socket or the watch
    /// set. Without contention, this time is already part of the steps above. Only virtual time
    /// charges it.
    serial = "serial",
    /// How much longer an operation takes for each other worker that uses the same place, or waits
    /// for it. Without [`Overheads::serial`] there is no contention. Only virtual time charges it.
    contend = "contend",
}

const fn ns(ns: u64) -> Nanos {
    Nanos::new(ns)
}

impl Overheads {
    /// A steal and a yield cost 0.1 us, shared queues and the network nothing. Simulations in the
    /// literature assume this, and so does the table in `benches/simulate.md`.
    pub const LAB: Overheads = Overheads { steal: ns(100), yield_: ns(100), ..Overheads::NONE };

    /// Measured on a 2-core Linux 6.18 virtual machine with stock UDP sockets. For each datagram of
    /// a batch, sendmmsg takes 2.3 us and recvmmsg 0.38 us. An empty receive takes 0.18 us, and a
    /// wake-up 20 us. A look at the watch set takes 0.15 us, a notice with the request for the next
    /// one 0.9 us. A checkpoint that finds nothing takes 2 ns. A steal or a hop takes a
    /// core-to-core round trip (43 to 350 ns there) and a queue operation. A push or a pop takes 12
    /// ns on one thread alone. If two threads contend, each operation takes 30 ns, one after the
    /// other.
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

    /// The same steps on cores on which everything takes `factor` times as long.
    pub fn times(self, factor: u64) -> Overheads {
        self.mapped(|step| step.times(factor))
    }

    /// The cost of a receive and a send. Together with the work itself, this is the time that a
    /// request takes of a worker.
    pub const fn per_request(&self) -> Nanos {
        self.receive.plus(self.send)
    }

    /// CPU time of a look that finds datagrams in `sockets` sockets. With one socket, it takes
    /// three times as long as a look that finds nothing. Each further socket adds the time of a
    /// look that finds nothing. (Measured on the machine of [`Overheads::STOCK`]: .16 us with none;
    /// .52, .96 and 1.55 us with one, four and eight sockets.)
    pub const fn look_at(&self, sockets: usize) -> Nanos {
        self.look.times(if sockets == 0 { 1 } else { 2 + sockets as u64 })
    }

    /// CPU time in which a job learns of arrivals in `sockets` sockets: by a notice if `by_kernel`,
    /// otherwise by a look.
    pub const fn learning(&self, by_kernel: bool, sockets: usize) -> Nanos {
        if by_kernel { self.notice } else { self.look_at(sockets) }
    }

    /// The text that parses to these overheads: a name, or a list of all steps that cost something.
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

    /// The same steps, with `change` applied to each time.
    pub fn mapped(mut self, change: impl Fn(Nanos) -> Nanos) -> Overheads {
        self.steps_mut().into_iter().for_each(|(_, step)| *step = change(*step));
        self
    }
}

/// The longest time of one step. With longer steps, the time of a long simulation could overflow.
pub const STEP_MAX: Nanos = Nanos::from_millis(10);

/// Why a text is not a description of overheads.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverheadsError {
    /// The text is neither a name nor a step with its time.
    #[error(
        "`{0}` is neither a set of overheads (none, lab, stock, measured, file:PATH) nor a step and its time: steal, hop, \
         yield, wake, receive, send, poll, look, notice, checkpoint, serial or contend, 0ns to 10ms, like send=2.3us"
    )]
    Form(String),
    /// The path of a file that cannot be used, and why.
    #[error("{0}: {1}")]
    File(String, String),
}

crate::time::show_as_text!(OverheadsError);

impl Overheads {
    /// The file that stands for `measured`, in the working directory.
    pub const MEASURED_PATH: &str = "forebay-overheads.toml";

    /// Reads a name, and steps that differ from it: `stock`, `lab,send=2.3us`, `steal=0.1us`.
    /// Without a name, all other steps cost nothing. For `measured` and `file:PATH`, calls
    /// `read_file` with the path.
    ///
    /// # Errors
    /// Which part of the text is none of these, or why the file cannot be used.
    pub fn parse_with(
        text: &str,
        read_file: impl Fn(&str) -> Result<Overheads, String>,
    ) -> Result<Overheads, OverheadsError> {
        let mut overheads = Overheads::NONE;
        for (place, part) in text.split(',').map(str::trim).enumerate() {
            let error = || OverheadsError::Form(part.to_owned());
            if let Some((name, time)) = part.split_once('=').filter(|_| file_of(part).is_none()) {
                let time = time.trim().parse::<Nanos>().ok().filter(|time| *time <= STEP_MAX).ok_or_else(error)?;
                let mut steps = overheads.steps_mut();
                let step = steps.iter_mut().find(|(step, _)| *step == name.trim()).ok_or_else(error)?;
                *step.1 = time;
            } else if let Some(path) = file_of(part).filter(|_| place == 0) {
                overheads = read_file(path).map_err(|why| OverheadsError::File(path.to_owned(), why))?;
            } else {
                let named = Overheads::NAMED.into_iter().find(|(name, _)| *name == part && place == 0);
                overheads = named.ok_or_else(error)?.1;
            }
        }
        Ok(overheads)
    }
}

impl FromStr for Overheads {
    type Err = OverheadsError;

    /// As [`Overheads::parse_with`], but refuses files.
    fn from_str(text: &str) -> Result<Overheads, OverheadsError> {
        Overheads::parse_with(text, |_| Err("write a name or steps here, and no file".to_owned()))
    }
}

/// The path of the file that `name` stands for; `None` if it stands for none.
fn file_of(name: &str) -> Option<&str> {
    if name == "measured" { Some(Overheads::MEASURED_PATH) } else { name.strip_prefix("file:") }
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

    // Is the cost of a look near the measured one, and that of a notice as in the table?
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
        let read = |path: &str| if path == "a" { Ok(Overheads::LAB) } else { Err("unread".to_owned()) };
        let of = |text| Overheads::parse_with(text, read).map_err(|error| error.to_string());
        assert_eq!(of("file:a, send=1us"), Ok(Overheads { send: ns(1_000), ..Overheads::LAB }));
        assert_eq!(of("measured"), Err("forebay-overheads.toml: unread".to_owned()));
        let refused = "file:a".parse::<Overheads>().expect_err("no file").to_string();
        assert_eq!(refused, "a: write a name or steps here, and no file");
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
