//! Profiles: the protocols that a run can speak. A profile writes the datagrams of requests and
//! reads replies. The rest of a run knows no bytes.

mod bench;
mod bittorrent;
mod capture;
mod coap;
mod dns;
mod ntp;
mod payload;
mod pcap;
mod quic;
mod sessions;
mod stun;

pub(crate) use bench::sockets_of;
pub(crate) use capture::Capture;
pub use payload::{Match, Payload};

use crate::lab::workload::{Arrival, Workload};
use bench::Bench;
use forebay::inside::wire::{Served, Status};
use forebay::time::Nanos;
use std::fmt::Debug;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A profile by its name.
struct ProfileRow {
    name: &'static str,
    /// What follows the name: nothing, `=WHAT`, or `[=WHAT]` if it may be left out.
    argument: &'static str,
    about: &'static str,
    make: fn(&str) -> Result<Chosen, String>,
}

const ROWS: [ProfileRow; 9] = [
    ProfileRow {
        name: "bench",
        argument: "",
        about: "the requests of `forebay serve`, which have costs",
        make: |_| Ok(Chosen::default()),
    },
    ProfileRow {
        name: "dns",
        argument: "=FILE",
        about: "the questions of FILE, one NAME TYPE in each line, as dnsperf reads them",
        make: dns::chosen,
    },
    ProfileRow {
        name: "ntp",
        argument: "",
        about: "questions of a client for the time",
        make: |_| Ok(Chosen::alone(ntp::Ntp)),
    },
    ProfileRow { name: "stun", argument: "", about: "Binding requests", make: |_| Ok(Chosen::alone(stun::Stun)) },
    ProfileRow {
        name: "coap",
        argument: "[=PATH]",
        about: "confirmable GET requests for PATH, by default /",
        make: coap::chosen,
    },
    ProfileRow {
        name: "quic-versions",
        argument: "",
        about: "packets of a reserved version, answered by a list of versions",
        make: |_| Ok(Chosen::alone(quic::Quic)),
    },
    ProfileRow {
        name: "bittorrent",
        argument: "",
        about: "requests to connect to a tracker",
        make: |_| Ok(Chosen::alone(bittorrent::Tracker)),
    },
    ProfileRow {
        name: "pcap",
        argument: "=FILE[:port=N]",
        about: "the UDP payloads that a capture has for port N, by default the port that most ask",
        make: pcap::chosen,
    },
    ProfileRow {
        name: "sessions",
        argument: "[=SHARE]",
        about: "handshakes (a SHARE of the requests, 0.05) and messages of the example `sessions`",
        make: sessions::chosen,
    },
];

/// From this many bits on a number is whole: a schedule has at most 50 million requests.
pub(crate) const WHOLE_BITS: u32 = 32;

/// A protocol: how requests are written and replies are read. It keeps no state of a run.
pub(crate) trait Profile: Debug + Send + Sync {
    /// The protocol, as in "a server of the bench protocol".
    fn protocol(&self) -> &'static str;

    /// The names of the classes of requests; none where requests are all of one.
    fn classes(&self) -> &[&'static str] {
        &[]
    }

    /// Appends the datagram of an attempt (from 0) at `request`, whose number is `id`. `into` may
    /// already hold datagrams of the same flow.
    fn write(&self, run: Common, id: u64, attempt: u8, request: &Arrival, into: &mut Vec<u8>);

    /// What `reply` tells. `None` if it is no reply of this protocol, or one of another run.
    fn read(&self, run: Common, reply: &[u8]) -> Option<Told>;

    /// How many bits of the number of its request a reply repeats; 0 = nothing of it.
    fn id_bits(&self) -> u32 {
        WHOLE_BITS
    }

    /// What a user can do so that replies repeat more bits of the number; `None` = nothing.
    fn more_bits(&self) -> Option<&'static str> {
        None
    }

    /// The class of handshakes, if the protocol has any. The first request of each flow is one.
    fn handshake(&self) -> Option<u8> {
        None
    }

    /// Appends the datagram that a client sends on `reply` to go on with its handshake, if any.
    fn go_on(&self, _reply: &[u8], _into: &mut Vec<u8>) {}

    /// Whether `reply` fits request `id` in more than the bits of its number.
    fn answers(&self, _id: u64, _reply: &[u8]) -> bool {
        true
    }
}

/// What a datagram is written from beside its request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Common {
    /// A number that no other run has.
    pub(crate) session: u64,
    /// The deadline of each request; 0 = none.
    pub(crate) deadline_us: u32,
    /// Whether a request may come again.
    pub(crate) may_repeat: bool,
    /// What the flow of a request keeps of its last handshake; 0 = nothing.
    pub(crate) kept: u64,
}

impl Common {
    /// Eight bytes that no other request has: of the run, then the number `id`.
    fn stamp(self, id: u64) -> [u8; 8] {
        ((self.session << 32) | id).to_be_bytes()
    }

    /// The answer to the request whose stamp this is; `None` if it is of another run.
    fn told(self, stamp: &[u8]) -> Option<Told> {
        let id = u64::from_be_bytes(stamp.try_into().ok()?) ^ self.session << 32;
        u32::try_from(id).ok().map(|id| Told::answer(id.into(), u32::BITS))
    }
}

/// What a reply tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// The number of the request, or its low bits.
    pub(crate) id: u64,
    /// How many bits of the number `id` has, as in [`Profile::id_bits`].
    pub(crate) id_bits: u32,
    /// The attempt that it answers.
    pub(crate) attempt: u8,
    pub(crate) status: Status,
    /// What the protocol calls it; empty if the status says all.
    pub(crate) code: &'static str,
    /// How long the client of a shed request should wait before the next attempt.
    pub(crate) retry_after: Nanos,
    /// Where and how the request was served.
    pub(crate) served: Served,
    /// What the flow keeps for its next requests; 0 = nothing new.
    pub(crate) kept: u64,
}

impl Told {
    /// An answer that tells nothing but these `id_bits` of a number.
    pub(crate) fn answer(id: u64, id_bits: u32) -> Told {
        let (status, retry_after, served) = (Status::Ok, Nanos::ZERO, Served::default());
        Told { id, id_bits, attempt: 0, status, code: "", retry_after, served, kept: 0 }
    }
}

/// The datagrams of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagrams<'a> {
    pub(crate) profile: &'a dyn Profile,
    pub(crate) common: Common,
    /// What each flow keeps.
    pub(crate) kept: &'a [AtomicU64],
    /// The number of each request in the whole schedule; empty if one thread sends all of it.
    pub(crate) numbers: &'a [u32],
}

impl Datagrams<'_> {
    /// The number in the whole schedule of request `id` of its part.
    pub(crate) fn number(&self, id: u64) -> u64 {
        self.numbers.get(id as usize).map_or(id, |number| u64::from(*number))
    }

    /// Appends the datagram of an attempt (from 0) at `request`, which has this `id` in its part.
    pub(crate) fn write(&self, id: u64, attempt: u8, request: &Arrival, into: &mut Vec<u8>) {
        let kept = self.kept.get(usize::from(request.flow));
        // Ordering: one value, which stands for itself.
        let kept = kept.map_or(0, |kept| kept.load(Ordering::Relaxed));
        self.profile.write(Common { kept, ..self.common }, self.number(id), attempt, request, into);
    }

    /// Keeps for `flow` what a reply has `told`.
    pub(crate) fn keep(&self, flow: usize, told: u64) {
        if let Some(kept) = self.kept.get(flow).filter(|_| told > 0) {
            // Ordering: as above.
            kept.store(told, Ordering::Relaxed);
        }
    }
}

/// The profile of a run, and what it draws requests from. By default the bench protocol.
#[derive(Clone, Debug)]
pub struct Chosen {
    pub(crate) profile: Arc<dyn Profile>,
    /// Requests without costs; `None` for the bench protocol, whose requests have costs.
    pub(crate) requests: Option<Workload>,
    /// What a capture has, if it has times.
    pub(crate) recorded: Option<Arc<RecordedRequests>>,
}

/// The requests of a capture.
#[derive(Debug)]
pub(crate) struct RecordedRequests {
    /// At the times of the capture.
    pub(crate) requests: Vec<Arrival>,
    /// How many addresses and ports they came from. Each has a flow, as far as there are numbers.
    pub(crate) sources: usize,
}

impl Chosen {
    fn new(profile: impl Profile + 'static, requests: Workload) -> Chosen {
        Chosen { profile: Arc::new(profile), requests: Some(requests), recorded: None }
    }

    /// Requests that are all of one class, without a name yet.
    fn alone(profile: impl Profile + 'static) -> Chosen {
        Chosen::new(profile, Workload::without_costs(String::new(), &[1.0]))
    }
}

impl FromStr for Chosen {
    type Err = String;

    fn from_str(text: &str) -> Result<Chosen, String> {
        let (name, argument) = text.split_once('=').map_or((text, None), |(name, argument)| (name, Some(argument)));
        let fits = |argument_of: &str| {
            if argument.is_some() { !argument_of.is_empty() } else { !argument_of.starts_with('=') }
        };
        let row = ROWS.iter().find(|row| row.name == name && fits(row.argument));
        let row = row.ok_or_else(|| {
            let names = ROWS.iter().map(|row| format!("{}{}", row.name, row.argument)).collect::<Vec<_>>();
            format!("`{text}` is no profile: write one of {}", names.join(", "))
        })?;
        let chosen = (row.make)(argument.unwrap_or_default())?;
        Ok(Chosen { requests: chosen.requests.map(|of| of.named(text)), ..chosen })
    }
}

/// The profiles, as `--help` lists them.
pub(crate) fn help() -> String {
    let rows = ROWS.iter().map(|row| format!("{}{}: {}", row.name, row.argument, row.about));
    format!("The protocol of the requests [default: bench]\n\n{}", rows.collect::<Vec<_>>().join("\n"))
}

impl Default for Chosen {
    fn default() -> Chosen {
        Chosen { profile: Arc::new(Bench), requests: None, recorded: None }
    }
}

/// Datagrams of the bench protocol.
#[cfg(test)]
pub(crate) const fn test_datagrams(session: u64) -> Datagrams<'static> {
    let common = Common { session, deadline_us: 0, may_repeat: false, kept: 0 };
    Datagrams { profile: &Bench, common, kept: &[], numbers: &[] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::fate::Ending;

    const RUN: Common = Common { session: 0x0123_4567_89ab_cdef, deadline_us: 0, may_repeat: false, kept: 0 };

    /// The datagram of request `id` of the profile `text`.
    pub(super) fn written(chosen: &Chosen, id: u64) -> Vec<u8> {
        let mut datagram = Vec::new();
        let request = Arrival { at: Nanos::ZERO, cost: Nanos::ZERO, flow: 0, class: 0 };
        chosen.profile.write(RUN, id, 0, &request, &mut datagram);
        datagram
    }

    /// What a server of the profile `text` says to `asked`.
    fn reply_to(text: &str, asked: &[u8]) -> Vec<u8> {
        match text {
            "ntp" => [&[0x24; 24], &asked[40..], &[0; 16]].concat(),
            "stun" => [&[1, 1, 0, 0], &asked[4..]].concat(),
            "coap" => [&[0x68, 0x45], &asked[2..12]].concat(),
            "quic-versions" => [&[0x8f, 0, 0, 0, 0], &asked[5..14]].concat(),
            _ => [&asked[8..], &[7; 8]].concat(),
        }
    }

    // Is a reply that of the request whose number it repeats, and none if it is of another run, cut
    // off, or a request?
    #[test]
    fn a_reply_repeats_the_number_of_its_request() {
        for text in ["ntp", "stun", "coap", "quic-versions", "bittorrent"] {
            let chosen: Chosen = text.parse().expect("a profile");
            let asked = written(&chosen, 0x0102_0304);
            let reply = reply_to(text, &asked);
            let read = |run, reply: &[u8]| chosen.profile.read(run, reply).map(|told| (told.id, told.id_bits));
            assert_eq!(read(RUN, &reply), Some((0x0102_0304, 32)), "{text}");
            let other = Common { session: RUN.session + 1, ..RUN };
            assert_ne!(read(other, &reply), read(RUN, &reply), "{text}: of another run");
            let of_a_request = [&asked[..4], &reply[4..]].concat();
            assert_eq!(read(RUN, &of_a_request), None, "{text}: of the kind of a request");
            assert!((0..reply.len()).all(|length| read(RUN, &reply[..length]).is_none()), "{text}: cut off");
        }
    }

    // Has each code of a server its fate, and is none of overload an answer? Method: a reply with
    // these bytes in these places.
    #[test]
    fn each_code_has_its_fate() {
        let questions = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(questions.path(), "example A\n").expect("written");
        let dns = format!("dns={}", questions.path().display());
        let coap = |code| ("coap", vec![(1, code)]);
        let kiss = |why: &[u8; 4]| ("ntp", (12..).zip(*why).chain([(1, 0)]).collect());
        let rcode = |code| (&dns[..], vec![(2, 0x80), (3, code)]);
        let of = |(text, bytes): (&str, Vec<(usize, u8)>)| {
            let chosen: Chosen = text.parse().expect("a profile");
            let asked = written(&chosen, 7);
            let mut reply = if text == dns { asked } else { reply_to(text, &asked) };
            bytes.into_iter().for_each(|(place, byte)| reply[place] = byte);
            chosen.profile.read(RUN, &reply).map(|told| told.status.ending())
        };
        let answered = [coap(0x45), coap(0x44), rcode(0), rcode(3), ("ntp", vec![(1, 1)]), ("stun", vec![])];
        let shed = [coap(0x9d), coap(0xa3), kiss(b"RATE")];
        let refused = [coap(0x84), coap(0x80), coap(0x9c), rcode(1), rcode(4), rcode(5), kiss(b"DENY"), kiss(b"RSTR")];
        let errors = [("stun", vec![(1, 0x11)]), ("bittorrent", vec![(3, 3)])];
        let failed = [coap(0xa0), coap(0xa4), rcode(2)];
        let all = [
            (Ending::Answered, Vec::from(answered)),
            (Ending::Shed, Vec::from(shed)),
            (Ending::Refused, refused.into_iter().chain(errors).collect()),
            (Ending::Failed, Vec::from(failed)),
        ];
        for (ending, replies) in all {
            replies.into_iter().for_each(|reply| assert_eq!(of(reply.clone()), Some(ending), "{reply:?}"));
        }
    }

    // Is a datagram the same behind others? Those of a flow that are due together share a buffer.
    #[test]
    fn a_datagram_is_the_same_behind_others() {
        for text in ["bench", "ntp", "stun", "coap", "quic-versions", "bittorrent", "sessions"] {
            let [alone, behind]: [Chosen; 2] = [(); 2].map(|()| text.parse().expect("a profile"));
            let write = |chosen: &Chosen, id: u64, into: &mut Vec<u8>| {
                let request = Arrival { at: Nanos::ZERO, cost: Nanos::ZERO, flow: 0, class: u8::from(id == 1) };
                chosen.profile.write(RUN, id, 0, &request, into);
            };
            let mut together = Vec::new();
            for id in 0..4 {
                let (begin, mut datagram) = (together.len(), Vec::new());
                write(&alone, id, &mut datagram);
                write(&behind, id, &mut together);
                assert_eq!(together.get(begin..), Some(&datagram[..]), "{text}: datagram {id}");
            }
        }
    }

    #[test]
    fn a_path_becomes_options() {
        let options = |path: &str| {
            let chosen: Chosen = format!("coap={path}").parse().expect(path);
            assert_eq!(written(&chosen, 7)[2..4], [0, 0]);
            // Messages of one flow have numbers of their own.
            assert_eq!(written(&chosen, 8)[..4], [0x48, 1, 0, 1]);
            written(&chosen, 8)[12..].to_vec()
        };
        assert_eq!(options("/"), b"");
        assert_eq!(options("/a/bcdefghijklmnop?x=1&y"), b"\xb1a\x0d\x02bcdefghijklmnop\x43x=1\x01y");
        assert_eq!(options("?q"), b"\xd1\x02q");
        let error = format!("coap={}", "a".repeat(269)).parse::<Chosen>().expect_err("too long");
        assert!(error.contains("at most 268 bytes"), "{error}");
    }
}
