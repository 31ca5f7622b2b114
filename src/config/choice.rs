//! The settings that are one name out of a few.

use crate::sched::PolicyName;

/// A setting whose value is one of a fixed list of names.
pub(super) trait Choice: Copy + 'static {
    /// Every value, in the order in which help lists them.
    const CHOICES: &'static [Self];

    /// The value as it is written.
    fn text(self) -> &'static str;
}

/// Declares enums of this file: the variants, their names and the list of both cannot drift apart.
macro_rules! choices {
    ($($(#[$about:meta])* $type:ident { $($(#[$meaning:meta])* $variant:ident = $name:literal,)+ })+) => { $(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type {
            $($(#[$meaning])* $variant,)+
        }

        impl $type {
            /// The name in flags, files and JSON.
            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)+
                }
            }
        }

        impl Choice for $type {
            const CHOICES: &'static [$type] = &[$($type::$variant),+];

            fn text(self) -> &'static str {
                self.name()
            }
        }
    )+ };
}

choices! {
    /// Whether the server may look at a request's class before it has served it.
    Classify {
        /// It may not: class, cost and type of a request only label metrics, afterwards.
        None = "none",
        /// The class in the request's header chooses the pool.
        Header = "header",
    }
    /// What is run for each request.
    HandlerName {
        /// Sends the payload back.
        Echo = "echo",
        /// Burns the CPU time that the header asks for, with a checkpoint per microsecond.
        Spin = "spin",
        /// Burns as `Spin` does, heavy requests on several workers at once.
        Fork = "fork",
        /// Chains hashes over the payload, with a checkpoint per chunk.
        Digest = "digest",
    }
    /// What it means to spend CPU time.
    Burn {
        /// A CPU is busy for that long.
        Cpu = "cpu",
        /// The worker sleeps for that long: emulated cores, for hosts with fewer cores than workers.
        Sleep = "sleep",
    }
    /// What a worker does that finds no work.
    Wait {
        /// Looks again for a while after the last packet, then sleeps.
        Adaptive = "adaptive",
        /// Looks again for ever: the lowest latency for a whole core.
        Spin = "spin",
        /// Sleeps at once: the least CPU time.
        Park = "park",
    }
    /// How datagrams go to and from the kernel.
    Io {
        /// Many in one call.
        Batches = "batches",
        /// What one peer sends in a burst comes as one.
        Trains = "trains",
        /// One by one, by calls that every system has.
        Portable = "portable",
    }
    /// How log lines are written.
    LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

impl Choice for PolicyName {
    const CHOICES: &'static [PolicyName] = PolicyName::ALL;

    fn text(self) -> &'static str {
        self.name()
    }
}
