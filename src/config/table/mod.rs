//! The table of settings: one row per setting. `rules.rs` has the rules between settings.

#[macro_use]
mod setting;

pub(crate) use setting::{CHECK_CONFIG, CHECK_HEALTH, CONFIG, HELP_ALL, SettingSource, environment_name, find};
pub use setting::{Group, Setting};

use super::addresses;
use super::value::{
    self, Burn, Classify, Form, Gate, HandlerName, LogFormat, LogLevel, Pool, Shape, ShedAnswers, WORKERS_MAX, choice,
    count, list_or_none, list_text, option_text, text,
};
use crate::emulation::overheads::{self, Overheads};
use crate::net::{Io, Network, SourcePrefix};
use crate::runtime::cpus::cpus;
use crate::sched::{MaxWait, Notices, Objective, PolicyName, Wait};
use crate::time::{Nanos, duration_within};
use std::net::SocketAddr;
use std::path::PathBuf;

const HOUR: Nanos = Nanos::from_secs(3_600);
const SECOND: Nanos = Nanos::from_secs(1);
const MICROSECOND: Nanos = Nanos::from_micros(1);

/// Without feature `admin` there is no endpoint.
const ADMIN: &str = if cfg!(feature = "admin") { "127.0.0.1:9001" } else { "off" };

/// The admin address of a program that names none: several may run on one host.
pub(crate) const FREE_ADMIN: (&str, &str) = ("admin", if cfg!(feature = "admin") { "127.0.0.1:0" } else { "off" });

settings! {
    [Network]
    /// UDP addresses on which requests arrive.
    /// - Every worker has a socket on each address.
    /// - 0.0.0.0:53,\[::\]:53 opens sockets for IPv4 and for IPv6; \[::\]:53 alone serves both.
    ///
    /// 1 to [`LISTEN_MAX`](crate::config::LISTEN_MAX) addresses, each unicast or the wildcard. Port
    /// 0 takes a free port.
    listen: Vec<SocketAddr> {
        value_name: "ADDRESSES", live: false, default: "127.0.0.1:9000",
        form: text!(
            "an IP address, neither multicast nor broadcast, and a port, like 0.0.0.0:9000 or [::]:9000; port 0 takes \
             a free one; up to 16 of them, separated by commas",
            addresses::listen,
            |addresses| list_text(addresses),
        ),
    }
    /// HTTP address of metrics, latency, health and a page.
    /// - Open it in a browser.
    /// - Keep it private.
    ///
    /// HTTP over TCP. Port 0 takes a free port; `None` = no endpoint.
    admin: Option<SocketAddr> {
        value_name: "ADDRESS", live: false, default: ADMIN,
        form: text!(
            "off, or an IP address and a port, like 127.0.0.1:9001; port 0 takes a free one",
            addresses::admin,
            |address| option_text(*address, "off"),
        ),
    }

    [Policy]
    /// Which worker serves which request.
    policy: PolicyName {
        value_name: "NAME", live: true, default: "auto", form: Form { parse: value::policy, ..choice!(PolicyName) },
        details: PolicyName::ALL.iter().map(value::policy_line),
    }
    /// Number of worker threads.
    /// - The default is what the affinity mask and the cgroup's CPU quota allow, rounded up; with
    ///   pools, their sum.
    /// - If fewer CPUs are allowed later, the last workers of each pool wait. Under isolated all
    ///   work.
    ///
    /// 1 to [`WORKERS_MAX`]; equal to the sum over `pools`.
    workers: usize {
        value_name: "COUNT", live: false,
        default: "the CPUs this process may use" => cpus(), form: count::<_, 1, { WORKERS_MAX as u64 }>(),
    }
    /// Keeps each worker on one CPU.
    /// - Workers of a group get CPUs of one last-level cache, where there are as many.
    pin: bool { value_name: "BOOL", live: false, default: "false", form: value::SWITCH }

    [Overload]
    /// Sheds requests that waited longer than this.
    /// - The time in the socket and in queues counts.
    /// - A duration: sheds after it, always.
    /// - auto: sheds what cannot be answered within 1s, since clients of UDP services repeat a
    ///   request then. In an overload that lasts, it sheds after 20 mean service times (at least
    ///   10ms).
    /// - off: sheds nothing for its wait.
    ///
    /// See [`Config::max_wait_scaled`].
    max_wait: MaxWait {
        value_name: "DURATION|auto|off", live: true, default: "auto",
        form: text!("auto, off, or a duration of 1us to 1h", str::parse, ToString::to_string),
    }
    /// Networks whose addresses cannot be forged.
    /// - The gate prefers them, as the sources that a handler has validated.
    /// - It lets a network in whole, unless one of its prefixes takes too much.
    /// - Their replies have no amplification limit.
    /// - Name only networks that spoofed datagrams cannot reach this host from, such as your own
    ///   behind a filter.
    ///
    /// At most [`TRUSTED_NETWORKS_MAX`](crate::config::TRUSTED_NETWORKS_MAX), all different.
    trusted_networks: Vec<Network> {
        value_name: "NETWORK,...", live: false, default: "none",
        form: text!(
            "none, or up to 16 different networks, like 10.0.0.0/8,fd00::/8",
            addresses::networks,
            |networks| list_or_none(networks),
        ),
    }

    [LifeCycle]
    /// Longest time to finish received requests at a stop.
    ///
    /// 0 to 1 h. Never scaled.
    drain_timeout: Nanos { value_name: "DURATION", live: true, default: "5s", form: UP_TO_AN_HOUR }
    /// Time at a stop before the drain begins.
    /// - Until then the server serves everything and /readyz says 503, so that load balancers turn
    ///   away first.
    ///
    /// 0 to 1 h. Never scaled.
    lame_duck: Nanos { value_name: "DURATION", live: true, default: "0s", form: UP_TO_AN_HOUR }
    /// Unix socket where a new server takes over the sockets.
    /// - No datagram is lost.
    /// - Both servers need the same path, listen, admin, number of workers and user.
    /// - If no server runs there, this one starts as usual and waits there for its successor.
    ///
    /// `None` = no handover.
    handover: Option<PathBuf> {
        value_name: "PATH", live: false, default: "off",
        form: text!(
            "off, or the path of a Unix socket, like /run/forebay/handover.sock, of at most 107 bytes",
            addresses::socket_path,
            addresses::path_text,
        ),
    }
    /// Least severe log lines that are written.
    /// - RUST_LOG, if it is set, replaces this and may choose by target.
    log_level: LogLevel { value_name: "LEVEL", live: true, default: "info", form: choice!(LogLevel) }
    /// Form of the log lines on standard error.
    log_format: LogFormat { value_name: "FORMAT", live: false, default: "text", form: choice!(LogFormat) }

    [Tuning]
    /// How the server receives datagrams.
    /// - batches: many in one system call.
    /// - gro: the kernel joins a burst of one peer into one GRO batch. It saves a fifth of the CPU
    ///   time where peers send bursts, and costs a twentieth elsewhere.
    io: Io { value_name: "HOW", live: false, default: "batches", form: choice!(Io) }
    /// Source ports whose datagrams are dropped as malformed.
    /// - The services on these ports (echo, chargen, SSDP, memcached) answer answers, without end.
    /// - Do not add 53 or 123: DNS and NTP clients send from them.
    ///
    /// At most [`REJECTED_PORTS_MAX`](crate::config::REJECTED_PORTS_MAX), all different, none 0.
    reject_source_ports: Vec<u16> {
        value_name: "PORT,...", live: false, default: "7,13,17,19,1900,11211",
        form: text!(
            "none, or up to 64 different ports of 1 to 65535, like 7,19",
            addresses::ports,
            |ports| list_or_none(ports),
        ),
    }
    /// Longest datagram received and longest reply, in bytes.
    /// - A longer datagram is dropped as malformed (oversize).
    /// - A reply that is too long for the path to the client is not sent: replies are never
    ///   fragmented.
    ///
    /// 512 to 65,507.
    datagram_max: usize { value_name: "BYTES", live: false, default: "2048", form: count::<_, 512, 65_507>() }
    /// Begun requests that wait for a worker, at most, per worker.
    /// - Without room for one more, a request keeps its worker, and others wait for it.
    /// - The server's memory grows with it: --check-config says how much that is.
    ///
    /// 64 to 65,536.
    room: usize { value_name: "REQUESTS", live: false, default: "1024", form: count::<_, 64, 65_536>() }
    /// Reply bytes per request byte, for sources perhaps forged.
    /// - It bounds the replies of each second to each source, a network of source-prefix bits.
    /// - It matters to handlers that allow replies longer than requests.
    /// - A source is not forged once the handler says so, after a cookie for example.
    ///
    /// 1 to 1,000.
    amplification: u32 { value_name: "FACTOR", live: false, default: "1", form: count::<_, 1, 1_000>() }
    /// Reply bytes per second for each such source, beside amplification.
    /// - A source that used less has what it saved in up to 8 s, so an ordinary client is not cut.
    /// - Forged requests gain no more than this for each network.
    ///
    /// 0 to 1,048,576.
    amplification_allowance: u32 { value_name: "BYTES", live: false, default: "0", form: count::<_, 0, 1048576>() }
    /// Number of groups of workers.
    /// - A group has queues and sleepers of its own. An idle group takes from a full one.
    /// - auto: from 32 workers on, one for about 16 workers that share a last-level cache; below,
    ///   one.
    /// - The policy pools has one group.
    ///
    /// 1 to `workers`; 1 under policies with pools.
    groups: usize {
        value_name: "COUNT", live: false, default: "auto",
        form: text!("auto, or 1 to 1024, at most the number of workers", value::groups, ToString::to_string),
    }
    /// Names and sizes of the pools, under policy pools.
    /// - Requests start in the first pool and hop to the next ones, in this order.
    /// - The sum of the sizes is the number of workers.
    ///
    /// In hop order; the first pool receives datagrams. 1 to [`POOLS_MAX`](super::POOLS_MAX), with
    /// unique names. Always set, but only policy `pools` uses it.
    pools: Vec<Pool> {
        value_name: "NAME=COUNT,...", live: true,
        default: "front = a fifth of the workers, rounded up; heavy = the rest" => value::default_pools(workers),
        form: text!(
            "1 to 8 pools of at least 1 worker, like front=3,heavy=11; names of a-z, 0-9 and -, all different",
            value::pools,
            |pools| list_text(pools),
        ),
    }
    /// CPU time before a request may move to another worker.
    ///
    /// 1 us to 1 s; see [`Config::scaled`].
    slice: Nanos {
        value_name: "DURATION", live: true, default: "50us",
        form: text!("1us to 1s", |text| duration_within(text, MICROSECOND..=SECOND), ToString::to_string),
    }
    /// What auto optimises.
    /// - slowdown: p99.9 of latency over service time, and the mean latency. The longer a request
    ///   has run, the later it goes.
    /// - latency: p99.9 of the latency of all requests. First come, first served; short requests
    ///   first, the longest 0.05 % last.
    optimise: Objective { value_name: "WHAT", live: true, default: "slowdown", form: choice!(Objective) }
    /// Whether the header's class chooses pool or level.
    /// - none: the class is read after the request has been served.
    /// - header: the class is read when the request arrives.
    classify: Classify { value_name: "HOW", live: false, default: "none", form: choice!(Classify) }
    /// What a worker without work does.
    /// - adaptive: looks again for a while where idle times are short, else sleeps.
    /// - spin: never sleeps.
    /// - park: sleeps at once.
    ///
    /// [`Wait::Park`] whenever `burn` is [`Burn::Sleep`].
    wait: Wait { value_name: "HOW", live: false, default: "adaptive", form: choice!(Wait) }
    /// Stack of each thread, in bytes.
    /// - The kernel provides memory only for the part in use.
    /// - Parts of a request that await parts use half of it at most; then the request fails.
    ///
    /// 262,144 to 1,073,741,824.
    stack_bytes: usize { value_name: "BYTES", live: false, default: "2097152", form: count::<_, 262144, 1073741824>() }
    /// Whether the kernel turns requests away under overload.
    /// - auto: while a queue stands, lets only a share in of sources that use too much CPU time.
    ///   With io gro, as off.
    /// - off: lets all in, as far as buffers hold them.
    gate: Gate { value_name: "HOW", live: false, default: "auto", form: choice!(Gate) }
    /// Address bits that stand for one source.
    /// - The gate shares the CPU time out by source, and amplification counts by source.
    /// - The default is what one network has: a /24 of IPv4, a /56 of IPv6.
    /// - 32,64 tells the hosts of an IPv4 network apart, and the subnets of an IPv6 network.
    source_prefix: SourcePrefix {
        value_name: "IPV4,IPV6", live: false, default: "24,56",
        form: text!(
            "1 to 32 bits of IPv4 and 1 to 64 bits of IPv6, like 24,56",
            addresses::source_prefix,
            |bits| format!("{},{}", bits.v4, bits.v6),
        ),
    }
    /// What the client of a shed request receives.
    /// - short: an answer that says so, and how long to wait before the next try.
    /// - silence: nothing. It costs no send, and looks like a lost datagram.
    shed_answers: ShedAnswers { value_name: "HOW", live: false, default: "short", form: choice!(ShedAnswers) }
    /// Time without progress until /healthz says 503.
    /// - It counts while no worker of a pool moves, because handlers are stuck.
    /// - It is at least 1s, after which /readyz says 503. 0s: never.
    ///
    /// 0 (never) to 1 h. Never scaled.
    unhealthy_after: Nanos { value_name: "DURATION", live: true, default: "30s", form: UP_TO_AN_HOUR }

    [Bench]
    /// What the server does for each request.
    /// - echo: sends the payload back.
    /// - spin: burns the CPU time that the request asks for.
    /// - fork: as spin, in parts of at least a slice, on several workers at once.
    handler: HandlerName { value_name: "NAME", live: false, default: "spin", form: choice!(HandlerName) }
    /// Refuses requests that ask for more CPU time.
    ///
    /// 1 us to 1 h; see [`Config::scaled`].
    cost_cap: Nanos {
        value_name: "DURATION", live: true, default: "100ms",
        form: text!("1us to 1h", |text| duration_within(text, MICROSECOND..=HOUR), ToString::to_string),
    }
    /// How requests spend CPU time.
    /// - cpu: a CPU computes.
    /// - sleep: the worker sleeps, which emulates one core per worker on a host with fewer. It
    ///   forces wait park.
    burn: Burn { value_name: "HOW", live: false, default: "cpu", form: choice!(Burn) }
    /// Factor that lengthens times, for emulated cores.
    /// - It multiplies slice, max-wait and cost-cap, but no timeout. At 1000, a microsecond lasts a
    ///   millisecond.
    ///
    /// 1 to 1,000,000; see [`Config::scaled`].
    time_scale: u64 { value_name: "FACTOR", live: false, default: "1", form: count::<_, 1, 1_000_000>() }
    /// What each step costs an emulated core.
    /// - none: nothing.
    /// - lab: 0.1 us for a steal and a yield.
    /// - stock: as measured with stock sockets, 2.7 us for a request's way in and out.
    /// - measured: what loadgen calibrate wrote to forebay-overheads.toml here; file:PATH: what it
    ///   wrote there.
    /// - Steps are steal, hop, yield, wake, receive, send, poll, look, notice, checkpoint, serial
    ///   and contend.
    /// - serial and contend are charged in virtual time alone: emulated cores are threads, whose
    ///   contention is real.
    ///
    /// Before the time scale. [`Overheads::NONE`] whenever `burn` is [`Burn::Cpu`]: a real core
    /// spends the time itself.
    overheads: Overheads {
        value_name: "SET", live: false,
        default: "stock with burn sleep" => if burn == Burn::Sleep { Overheads::STOCK } else { Overheads::NONE },
        form: text!(
            "none, lab, stock, measured, file:PATH, or single steps, 0ns to 10ms, like stock,send=1us; with burn cpu none",
            |text| overheads::read(text).map_err(|error| error.to_string()),
            Overheads::text,
        ),
    }
    /// How heavy requests learn that a fresh one waits.
    /// - ring: the kernel raises a bit (io_uring, Linux 6.1), which costs nothing while nothing
    ///   comes.
    /// - looks: they look now and then, for at most 3 % of the CPU time.
    /// - auto: ring where the kernel permits it.
    /// - Policies that let requests give way use it: levels and auto.
    notices: Notices { value_name: "HOW", live: false, default: "auto", form: choice!(Notices) }
}

const UP_TO_AN_HOUR: Form<Nanos> =
    text!("0s to 1h", |text| duration_within(text, Nanos::ZERO..=HOUR), ToString::to_string);
