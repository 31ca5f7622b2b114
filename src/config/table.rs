//! The table of settings. Rules between settings are in `rules.rs`.

use super::addresses;
use super::layers::Layers;
use super::setting::{Change, DefaultValue, Group, Setting, Shape, Words};
use super::value::{self, Refusal, names};
use super::{Burn, Classify, HandlerName, Io, LogFormat, LogLevel, Notices, Pool, ShedAnswers, Wait, cpus, rules};
use crate::emulation::overheads::Overheads;
use crate::sched::{Entry, MaxWait, Objective, PolicyName};
use crate::time::Nanos;
use std::net::SocketAddr;
use std::path::PathBuf;

const HOUR: Nanos = Nanos::from_secs(3_600);
const SECOND: Nanos = Nanos::from_secs(1);
const MICROSECOND: Nanos = Nanos::from_micros(1);

/// A program without the endpoint's code has no endpoint.
const ADMIN: &str = if cfg!(feature = "admin") { "127.0.0.1:9001" } else { "off" };

settings! {
    /// Where requests arrive (UDP), 1 to [`LISTEN_MAX`](super::LISTEN_MAX) places: addresses of one host, or the wildcard.
    /// Port 0 takes a free one.
    listen: Vec<SocketAddr> {
        key: "listen", group: Network, value_name: "ADDRESSES", shape: Text, change: Restart,
        default: Text("127.0.0.1:9000"),
        allowed: Fixed(
            "an IP address, neither multicast nor broadcast, and a port, like 0.0.0.0:9000 or [::]:9000; port 0 takes \
             a free one; up to 16 of them, separated by commas"
        ),
        help: Detailed("Where requests arrive, over UDP.", || sentences(&[
            "Every worker has a socket on each address.",
            "With 0.0.0.0:53,[::]:53 each family has sockets of its own; [::]:53 alone is for both.",
        ])),
        parse: addresses::listen, show: |addresses| addresses::listen_text(addresses),
    }
    /// The address of metrics, latency and health (HTTP over TCP). Port 0 takes a free one; `None` = there is no endpoint.
    admin: Option<SocketAddr> {
        key: "admin", group: Network, value_name: "ADDRESS", shape: Text, change: Restart,
        default: Text(ADMIN),
        allowed: Fixed("off, or an IP address and a port, like 127.0.0.1:9001; port 0 takes a free one"),
        help: Fixed("Where metrics, latency and health are served, over HTTP. Keep it private."),
        parse: addresses::admin, show: |admin| addresses::admin_text(*admin),
    }
    /// The I/O backend. Never [`Io::Portable`] where `listen` is all addresses.
    io: Io {
        key: "io", group: Network, value_name: "HOW", shape: Text, change: Restart,
        default: Text("batches"),
        allowed: Made(names::<Io>),
        help: Detailed("How datagrams come from the kernel.", || sentences(&[
            "batches: many in one call.",
            "gro: a burst of one peer comes as one GRO batch. It saves a fifth of the CPU time where peers send bursts, and \
             costs a twentieth elsewhere.",
            "portable: one by one, for sandboxes that know no other call. Not on 0.0.0.0 and [::], and without the time \
             that requests waited in the socket.",
        ])),
        parse: value::choice, show: value::name,
    }
    /// Datagrams from these ports are not looked at; at most [`REJECTED_PORTS_MAX`](super::REJECTED_PORTS_MAX), all
    /// different, none 0.
    reject_source_ports: Vec<u16> {
        key: "reject-source-ports", group: Network, value_name: "PORT,...", shape: Text, change: Restart,
        default: Text("7,13,17,19,1900,11211"),
        allowed: Fixed("none, or up to 64 different ports of 1 to 65535, like 7,19"),
        help: Detailed(
            "Datagrams from these ports are dropped as malformed: the services behind them answer answers.",
            || sentences(&[
                "Such services are echo, chargen, SSDP and memcached.",
                "Not 53 and 123, from which DNS and NTP clients ask.",
            ])
        ),
        parse: addresses::ports, show: |ports| addresses::ports_text(ports),
    }
    /// The longest datagram received, and the longest reply, 512 to 65,507 bytes.
    datagram_max: usize {
        key: "datagram-max", group: Network, value_name: "BYTES", shape: Count, change: Restart,
        default: Text("2048"),
        allowed: Fixed("512 to 65507"),
        help: Detailed("The longest datagram that is received, and the longest reply.", || sentences(&[
            "A longer one is dropped as malformed (oversize).",
            "What is longer than the path to the client takes is not sent: replies are never fragmented.",
        ])),
        parse: value::datagram_max, show: ToString::to_string,
    }
    /// Bytes of replies per byte of requests, 1 to 1,000, to sources that the handler has not validated.
    amplification: u32 {
        key: "amplification", group: Network, value_name: "FACTOR", shape: Count, change: Restart,
        default: Text("1"),
        allowed: Fixed("1 to 1000"),
        help: Detailed(
            "Bytes of replies per byte of requests and second, to the network of a source that may be forged.",
            || sentences(&[
                "For handlers that allow replies longer than requests; a network is a /24, or a /56 of IPv6.",
                "A source is not forged where the handler says so, by a cookie for example.",
            ])
        ),
        parse: value::amplification, show: ToString::to_string,
    }
    /// Which worker serves which request.
    policy: PolicyName {
        key: "policy", group: Policy, value_name: "NAME", shape: Text, change: Live,
        default: Text("auto"),
        allowed: Made(names::<PolicyName>),
        help: Detailed("Which worker serves which request.", || {
            let line = |policy: &PolicyName| {
                let Entry { help, not_for, .. } = policy.entry();
                format!("{policy}: {help}. Not for {not_for}.")
            };
            PolicyName::ALL.iter().map(line).collect()
        }),
        parse: value::policy, show: value::name,
    }
    /// Number of workers, 1 to [`WORKERS_MAX`](super::WORKERS_MAX); equal to the sum over `pools`.
    workers: usize {
        key: "workers", group: Policy, value_name: "COUNT", shape: Count, change: Restart,
        default: Computed("the CPUs this process may use", cpus()),
        allowed: Fixed("1 to 1024"),
        help: Fixed(
            "Worker threads. By default as many as the affinity mask and the cgroup's CPU quota allow; with pools \
             given, their sum."
        ),
        parse: value::workers, show: ToString::to_string,
    }
    /// The pools in hop order, the first being the ingress; 1 to [`POOLS_MAX`](super::POOLS_MAX), names unique. Set
    /// whatever the policy is, used by `pools` alone.
    pools: Vec<Pool> {
        key: "pools", group: Policy, value_name: "NAME=COUNT,...", shape: Text, change: Live,
        default: Computed(
            "front = a fifth of the workers, rounded up; heavy = the rest",
            rules::default_pools(workers)
        ),
        allowed: Fixed(
            "1 to 8 pools of at least 1 worker, like front=3,heavy=11; names of a-z, 0-9 and -, all different"
        ),
        help: Fixed(
            "The pools of policy pools: first the one where requests start, then in the order in which they hop. \
             Their sum is the number of workers."
        ),
        parse: value::pools, show: |pools| value::pools_text(pools),
    }
    /// CPU time before a continuation may be taken from its worker, 1 us to 1 s; see [`Config::slice_scaled`].
    slice: Nanos {
        key: "slice", group: Policy, value_name: "DURATION", shape: Text, change: Live,
        default: Text("50us"),
        allowed: Fixed("1us to 1s"),
        help: Fixed("CPU time that a request may use before the rest of it may move to another worker."),
        parse: |text| value::duration(text, MICROSECOND..=SECOND), show: ToString::to_string,
    }
    /// What `levels` and `auto` optimise.
    optimise: Objective {
        key: "optimise", group: Policy, value_name: "WHAT", shape: Text, change: Live,
        default: Text("slowdown"),
        allowed: Made(names::<Objective>),
        help: Detailed("What auto and levels optimise.", || sentences(&[
            "slowdown: p99.9 of latency over service time, and the mean latency. The longer a request has run, the later it \
             goes.",
            "latency: p99.9 of the latency of all requests. First come, first served; short requests first, the longest \
             0.05 % last.",
        ])),
        parse: value::choice, show: value::name,
    }
    /// Workers reserved under `hybrid`, or of the lightest group under `reserve`, 1 to `workers`; `None` = as measured.
    reserved: Option<usize> {
        key: "reserved", group: Policy, value_name: "WORKERS", shape: Text, change: Live,
        default: Text("auto"),
        allowed: Fixed("auto, or 1 to the number of workers"),
        help: Detailed(
            "Workers reserved for light requests, under hybrid and reserve. auto: by the demand measured every second.",
            || sentences(&[
                "hybrid: heavy requests on these workers give way soonest.",
                "reserve: these workers serve the class of lowest cost.",
            ])
        ),
        parse: value::reserved, show: |reserved| value::reserved_text(*reserved),
    }
    /// Whether a request's class may be read from its header before it has been served.
    classify: Classify {
        key: "classify", group: Policy, value_name: "HOW", shape: Text, change: Restart,
        default: Text("none"),
        allowed: Made(names::<Classify>),
        help: Fixed(
            "Whether the class in a request's header may choose its pool or its level. none: nothing looks at it until the request \
             has been served."
        ),
        parse: value::choice, show: value::name,
    }
    /// What a worker without work does. [`Wait::Park`] whenever `burn` is [`Burn::Sleep`].
    wait: Wait {
        key: "wait", group: Policy, value_name: "HOW", shape: Text, change: Restart,
        default: Text("adaptive"),
        allowed: Made(names::<Wait>),
        help: Fixed(
            "What a worker without work does. adaptive: look again for a while, then sleep. spin: never sleep. park: \
             sleep at once."
        ),
        parse: value::choice, show: value::name,
    }
    /// Whether each worker stays on one CPU.
    pin: bool {
        key: "pin", group: Policy, value_name: "BOOL", shape: Switch, change: Restart,
        default: Text("false"),
        allowed: Fixed("true, false"),
        help: Fixed("Keeps each worker on one CPU."),
        parse: value::switch, show: ToString::to_string,
    }
    /// How long a request may wait before it is shed; see [`Config::max_wait_scaled`].
    max_wait: MaxWait {
        key: "max-wait", group: Overload, value_name: "DURATION|auto|off", shape: Text, change: Live,
        default: Text("auto"),
        allowed: Fixed("auto, off, or a duration of 1us to 1h"),
        help: Detailed("How long a request may wait, in socket and queues, before it is shed.", || sentences(&[
            "A duration: what has waited for that long is shed, always.",
            "auto: sheds after 20 mean service times (at least 10ms), once a queue has been slow for 40 (at least 100ms).",
            "off: it waits for ever.",
        ])),
        parse: str::parse, show: ToString::to_string,
    }
    /// What the client of a request hears that was shed.
    shed_answers: ShedAnswers {
        key: "shed-answers", group: Overload, value_name: "HOW", shape: Text, change: Restart,
        default: Text("short"),
        allowed: Made(names::<ShedAnswers>),
        help: Detailed("What the client of a request hears that was shed.", || sentences(&[
            "short: that it was, and how long to wait before sending it again.",
            "silence: nothing; it costs no send, and looks to the client like a lost datagram.",
        ])),
        parse: value::choice, show: value::name,
    }
    /// How long a stopping server goes on serving what it holds, 0 to 1 h. Never scaled.
    drain_timeout: Nanos {
        key: "drain-timeout", group: LifeCycle, value_name: "DURATION", shape: Text, change: Live,
        default: Text("5s"),
        allowed: Fixed("0s to 1h"),
        help: Fixed("How long a server that was told to stop goes on serving what it holds."),
        parse: |text| value::duration(text, Nanos::ZERO..=HOUR), show: ToString::to_string,
    }
    /// How long a stopping server serves everything while it says that it is not ready, before it drains; 0 to 1 h.
    /// Never scaled.
    lame_duck: Nanos {
        key: "lame-duck", group: LifeCycle, value_name: "DURATION", shape: Text, change: Live,
        default: Text("0s"),
        allowed: Fixed("0s to 1h"),
        help: Fixed(
            "How long a server that was told to stop still serves everything while /readyz says 503, so that balancers \
             look elsewhere first. Then it drains."
        ),
        parse: |text| value::duration(text, Nanos::ZERO..=HOUR), show: ToString::to_string,
    }
    /// The Unix socket at which a successor takes over, and asks whether there is a server to take over from; `None` = none.
    handover: Option<PathBuf> {
        key: "handover", group: LifeCycle, value_name: "PATH", shape: Text, change: Restart,
        default: Text("off"),
        allowed: Fixed("off, or the path of a Unix socket, like /run/forebay/handover.sock, of at most 107 bytes"),
        help: Detailed("Where a server that starts takes the sockets of the one that runs, so that nothing is lost.", || sentences(&[
            "The same path, listen, admin and number of workers for both, and the same user.",
            "With no server at the path it starts as ever, and listens there for its own successor.",
        ])),
        parse: addresses::socket_path, show: |path| addresses::socket_path_text(path.as_deref()),
    }
    /// How long no worker of a pool may move before the server counts as unhealthy; 0 (never) to 1 h. Never scaled.
    unhealthy_after: Nanos {
        key: "unhealthy-after", group: LifeCycle, value_name: "DURATION", shape: Text, change: Live,
        default: Text("30s"),
        allowed: Fixed("0s to 1h"),
        help: Fixed(
            "/healthz says 503 when no worker of a pool has moved for this long (and at least 1s, from which on /readyz \
             does): its handlers are stuck. 0s: never."
        ),
        parse: |text| value::duration(text, Nanos::ZERO..=HOUR), show: ToString::to_string,
    }
    /// The least severe log lines that are written, where `RUST_LOG` does not say.
    log_level: LogLevel {
        key: "log-level", group: LifeCycle, value_name: "LEVEL", shape: Text, change: Live,
        default: Text("info"),
        allowed: Made(names::<LogLevel>),
        help: Fixed("The least severe log lines that are written. RUST_LOG, where it is set, says so instead, by target too."),
        parse: value::choice, show: value::name,
    }
    /// How log lines are written.
    log_format: LogFormat {
        key: "log-format", group: LifeCycle, value_name: "FORMAT", shape: Text, change: Restart,
        default: Text("text"),
        allowed: Made(names::<LogFormat>),
        help: Fixed("How log lines are written to standard error."),
        parse: value::choice, show: value::name,
    }
    /// The handler of all requests.
    handler: HandlerName {
        key: "handler", group: Bench, value_name: "NAME", shape: Text, change: Restart,
        default: Text("spin"),
        allowed: Made(names::<HandlerName>),
        help: Detailed("What is run for each request.", || sentences(&[
            "echo: send it back.",
            "spin: burn the CPU time that it asks for.",
            "fork: as spin, in parts of at least a slice, on several workers at once.",
            "digest: chain hashes over its payload.",
            "packet-chain: search its payload for lines, make 60 random reads, and burn what it costs beyond 2 us.",
        ])),
        parse: value::choice, show: value::name,
    }
    /// The largest cost a request may ask for, 1 us to 1 h; see [`Config::cost_cap_scaled`].
    cost_cap: Nanos {
        key: "cost-cap", group: Bench, value_name: "DURATION", shape: Text, change: Live,
        default: Text("100ms"),
        allowed: Fixed("1us to 1h"),
        help: Fixed("A request that asks for more CPU time than this is refused."),
        parse: |text| value::duration(text, MICROSECOND..=HOUR), show: ToString::to_string,
    }
    /// Whether cost is burnt on a CPU or slept.
    burn: Burn {
        key: "burn", group: Bench, value_name: "HOW", shape: Text, change: Restart,
        default: Text("cpu"),
        allowed: Made(names::<Burn>),
        help: Fixed(
            "How CPU time is spent. sleep emulates one core per worker on a host that has fewer; it forces wait park \
             and excludes handlers digest and packet-chain."
        ),
        parse: value::choice, show: value::name,
    }
    /// The factor by which all scaled times are longer than in reality, 1 to 1,000,000; see [`Config::scaled`].
    time_scale: u64 {
        key: "time-scale", group: Bench, value_name: "FACTOR", shape: Count, change: Restart,
        default: Text("1"),
        allowed: Fixed("1 to 1000000"),
        help: Fixed(
            "Multiplies slice and cost cap (never a timeout), for emulated cores: at 1000, a microsecond lasts a \
             millisecond."
        ),
        parse: |text| value::count(text, 1..=1_000_000), show: ToString::to_string,
    }
    /// What each step costs an emulated core, unscaled. [`Overheads::NONE`] whenever `burn` is [`Burn::Cpu`]: a real core
    /// pays by itself.
    overheads: Overheads {
        key: "overheads", group: Bench, value_name: "SET", shape: Text, change: Restart,
        default: Computed("stock with burn sleep", if burn == Burn::Sleep { Overheads::STOCK } else { Overheads::NONE }),
        allowed: Fixed(
            "none, lab, stock, measured, file:PATH, or single steps, 0ns to 10ms, like stock,send=1us; with burn cpu none"
        ),
        help: Detailed("What each step costs an emulated core beside the work itself, as for simulate.", || sentences(&[
            "none: nothing.",
            "lab: 0.1 us for a steal, a hop and a yield.",
            "stock: as measured with stock sockets, 2.7 us for a request's way in and out.",
            "measured: what forebay calibrate wrote to forebay-overheads.toml here; file:PATH: what it wrote there.",
            "Steps are steal, hop, yield, wake, receive, send, poll, look, notice, checkpoint, serial and contend.",
            "serial and contend are charged in virtual time alone: emulated cores are threads, whose contention is real.",
        ])),
        parse: value::overheads, show: Overheads::text,
    }
    /// How heavy requests learn that a fresh one waits.
    notices: Notices {
        key: "notices", group: Bench, value_name: "HOW", shape: Text, change: Restart,
        default: Text("auto"),
        allowed: Made(names::<Notices>),
        help: Detailed("How heavy requests learn that a fresh one waits.", || sentences(&[
            "ring: the kernel raises a bit (io_uring, Linux 6.1): nothing to pay while nothing comes.",
            "looks: they look now and then, for at most 3 % of the CPU time.",
            "auto: ring where the kernel permits it.",
            "Policies that let requests step aside use it: ondemand, hybrid, levels and auto.",
        ])),
        parse: value::choice, show: value::name,
    }
}

fn sentences(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}
