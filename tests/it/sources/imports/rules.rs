//! The table of imports that each module may have, and the check of one file against it.

use super::paths::{Named, paths};

/// What a module under `src/` may name.
struct Layer {
    /// Its path; of several rows that a file lies under, the longest counts.
    module: &'static str,
    /// Other modules of this crate, or parts of them.
    imports: &'static [&'static str],
    /// Paths that must not appear: whole, as a part of a longer one, or as one word. A `*` at the end takes any ending.
    banned: &'static [&'static str],
}

const SOCKETS: &[&str] =
    &["std::net", "core::net", "socket2", "mio::net", "SocketAddr*", "UdpSocket", "TcpStream", "TcpListener"];
/// Threads, clocks, atomics and sockets: what a policy would need to act instead of deciding.
const ACTING: &[&str] = &[
    "std::thread",
    "std::sync",
    "core::sync",
    "std::net",
    "core::net",
    "std::os",
    "mio",
    "socket2",
    "nix",
    "tokio",
    "crossbeam*",
    "time::clock",
    "clock::now",
    "clock::realtime",
    "Instant",
    "SystemTime",
];

/// From the edge down. What a module may name here has its row below, but for `runtime` and `net`, `lab::sim` and `runtime`,
/// which stand beside one another.
const TABLE: &[Layer] = &[
    Layer {
        module: "cli",
        imports: &["server", "lab", "config", "sched", "metrics", "emulation", "fate", "time", "output"],
        banned: &[],
    },
    // It measures what a server's own parts cost.
    Layer {
        module: "cli::calibrate",
        imports: &[
            "cli",
            "config",
            "server::yields",
            "handler",
            "runtime::arrivals",
            "runtime::notice",
            "runtime::queues",
            "runtime::continuation",
            "net",
            "queue",
            "emulation",
            "fate",
            "time",
        ],
        banned: &[],
    },
    Layer {
        module: "server",
        imports: &[
            "config",
            "net",
            "handler",
            "runtime",
            "sched",
            "queue",
            "metrics",
            "emulation",
            "fate",
            "time",
            "output",
        ],
        banned: &["handler::builtin::wire"],
    },
    // Tests drive the server's parts in virtual time.
    Layer {
        module: "server::explore",
        imports: &["server", "lab::sim", "net", "handler", "runtime", "sched", "queue", "metrics", "fate", "time"],
        banned: &["lab::study"],
    },
    Layer {
        module: "server::admin::adapt::tests",
        imports: &["server", "lab::sim", "lab::workload", "config", "sched", "metrics", "emulation", "fate", "time"],
        banned: &["lab::study"],
    },
    // A datagram's way: what it passes does not know the server around it.
    Layer {
        module: "server::path",
        imports: &["net", "handler", "runtime::continuation", "sched", "queue", "metrics", "fate", "time"],
        banned: &["handler::builtin::wire"],
    },
    // The names of policies, ways to wait and ways to reach the kernel stand where they are followed: `PolicyName` and `Wait`
    // in sched, `Io` in net. Of sockets themselves a configuration knows nothing. Its own enums of names are made by the macro
    // that makes those of fates.
    Layer {
        module: "config",
        imports: &["sched", "net", "emulation::overheads", "fate::labels", "time"],
        banned: &["net::Group", "net::Socket", "net::Ways", "net::Link", "net::KernelLink", "socket2", "mio"],
    },
    Layer { module: "output", imports: &["time"], banned: SOCKETS },
    // The simulator asks nothing of those who ask it.
    Layer {
        module: "lab::study",
        imports: &["lab", "sched", "metrics", "emulation::overheads", "fate", "time"],
        banned: SOCKETS,
    },
    Layer {
        module: "lab::sim",
        imports: &["sched", "queue", "metrics", "lab::workload", "lab::stats", "emulation::overheads", "fate", "time"],
        banned: &["lab::study", "std::net", "core::net", "socket2", "mio::net", "SocketAddr*"],
    },
    Layer { module: "net", imports: &["fate", "time"], banned: &[] },
    Layer { module: "tasks", imports: &["runtime", "sched", "time"], banned: SOCKETS },
    // The bench service is one user of the interface for handlers, which knows nothing of it.
    Layer { module: "handler::builtin", imports: &["handler", "emulation", "fate", "time"], banned: &[] },
    Layer { module: "handler", imports: &["runtime::continuation", "fate", "time"], banned: &["handler::builtin"] },
    Layer { module: "runtime", imports: &["sched", "queue", "time"], banned: SOCKETS },
    Layer { module: "runtime::continuation", imports: &["runtime::notice", "sched", "time"], banned: SOCKETS },
    Layer { module: "sched", imports: &["fate", "time"], banned: ACTING },
    Layer { module: "metrics", imports: &["fate", "time"], banned: &[] },
    Layer { module: "lab", imports: &[], banned: &[] },
    Layer { module: "lab::stats", imports: &["metrics"], banned: ACTING },
    Layer { module: "lab::workload", imports: &["emulation::overheads", "fate", "time"], banned: &[] },
    // A leaf: what steps cost is known to server, simulator and configuration alike.
    Layer { module: "emulation", imports: &["time"], banned: SOCKETS },
    Layer { module: "queue", imports: &[], banned: &[] },
    Layer { module: "fate", imports: &[], banned: &[] },
    Layer { module: "time", imports: &[], banned: &[] },
    // The load generator, whose modules may also name whatever Forebay has for others.
    Layer {
        module: "loadgen::tests",
        imports: &["loadgen::arguments", "loadgen::compare", "loadgen::drive", "loadgen::failure", "loadgen::plan"],
        banned: &[],
    },
    Layer {
        module: "loadgen::compare",
        imports: &[
            "loadgen::arguments",
            "loadgen::run",
            "loadgen::report",
            "loadgen::drive",
            "loadgen::progress",
            "loadgen::plan",
            "loadgen::endpoint",
            "loadgen::interrupt",
            "loadgen::text",
            "loadgen::failure",
        ],
        banned: &[],
    },
    Layer {
        module: "loadgen::run",
        imports: &[
            "loadgen::report",
            "loadgen::drive",
            "loadgen::progress",
            "loadgen::plan",
            "loadgen::endpoint",
            "loadgen::interrupt",
            "loadgen::failure",
        ],
        banned: &[],
    },
    Layer {
        module: "loadgen::report",
        imports: &["loadgen::drive", "loadgen::plan", "loadgen::endpoint", "loadgen::text", "loadgen::failure"],
        banned: &[],
    },
    Layer { module: "loadgen::progress", imports: &["loadgen::drive", "loadgen::plan", "loadgen::text"], banned: &[] },
    Layer {
        module: "loadgen::drive",
        imports: &["loadgen::plan", "loadgen::endpoint", "loadgen::interrupt", "loadgen::text", "loadgen::failure"],
        banned: &[],
    },
    Layer {
        module: "loadgen::plan",
        imports: &["loadgen::arguments", "loadgen::endpoint", "loadgen::failure"],
        banned: &[],
    },
    Layer { module: "loadgen::arguments", imports: &[], banned: &[] },
    Layer { module: "loadgen::endpoint", imports: &["loadgen::text", "loadgen::failure"], banned: &[] },
    Layer { module: "loadgen::text", imports: &["loadgen::failure"], banned: &[] },
    Layer { module: "loadgen::interrupt", imports: &[], banned: &[] },
    Layer { module: "loadgen::failure", imports: &[], banned: &[] },
];

/// What is wrong in the file at `path` (from the root of the repository) that holds `text`.
pub(crate) fn complaints(path: &str, text: &str) -> Vec<String> {
    let module = module_of(path);
    if is_root(&module) {
        return Vec::new();
    }
    let layers = TABLE.iter().filter(|layer| is_below(&module, layer.module));
    let Some(layer) = layers.max_by_key(|layer| layer.module.len()) else {
        return vec![format!("{path}: {} is not in the table: give it a row", module.join("::"))];
    };
    let mut complaints = Vec::new();
    for Named { segments, in_crate, is_use, line } in paths(text, &module) {
        let mut complain = |what: String| complaints.push(format!("{path}:{line}: {what}"));
        let below_root =
            if is_own(&module, &segments) && is_below(&segments, LOADGEN) { &segments[1..] } else { &segments };
        match below_root.first().map_or("", String::as_str) {
            "" | "*" if in_crate && is_use => complain("names the crate's root".to_owned()),
            "" => {}
            _ if in_crate && is_own(&module, &segments) && !layer.may_import(&segments) => {
                complain(format!("{} may not import {}", layer.module, segments.join("::")));
            }
            first @ ("std" | "core" | "alloc") if is_use && segments.get(1).is_none_or(|second| second == "*") => {
                complain(format!("brings in all of {first}, under no name that could be checked"));
            }
            "extern crate" => complain("extern crate brings a crate in under any name".to_owned()),
            _ => {}
        }
        for banned in layer.banned.iter().filter(|banned| contains(&segments, banned)) {
            complain(format!("{} may not name {banned}", layer.module));
        }
    }
    complaints
}

impl Layer {
    fn may_import(&self, segments: &[String]) -> bool {
        is_below(segments, self.module) || self.imports.iter().any(|import| is_below(segments, import))
    }
}

/// Whether `segments` are the path `module` or lead into it.
fn is_below(segments: &[String], module: &str) -> bool {
    let mut segments = segments.iter();
    module.split("::").all(|part| segments.next().is_some_and(|segment| segment == part))
}

/// The crate that a module belongs to: the load generator, or else Forebay.
const LOADGEN: &str = "loadgen";

/// Whether `module` is the root of its crate.
fn is_root(module: &[String]) -> bool {
    module.is_empty() || module == [LOADGEN]
}

/// Whether `segments` lead into the crate of `module`.
fn is_own(module: &[String], segments: &[String]) -> bool {
    is_below(module, LOADGEN) == is_below(segments, LOADGEN)
}

/// The module of each crate that stands for `module` where circles are looked for: the one below the root.
pub(crate) fn top_of(module: &[String]) -> Option<String> {
    let depth = if is_below(module, LOADGEN) { 2 } else { 1 };
    (module.len() >= depth).then(|| module[..depth].join("::"))
}

/// The top modules of its own crate that the file `module`, which holds `text`, names. Its own may be among them.
pub(crate) fn imports(module: &[String], text: &str) -> Vec<String> {
    let named = paths(text, module).into_iter().filter(|named| named.in_crate && is_own(module, &named.segments));
    named.filter_map(|named| top_of(&named.segments)).collect()
}

/// Whether `banned` is a part of the path, or all of it.
fn contains(segments: &[String], banned: &str) -> bool {
    let banned: Vec<&str> = banned.split("::").collect();
    let matches = |(segment, banned): (&String, &&str)| match banned.strip_suffix('*') {
        Some(start) => segment.starts_with(start),
        None => segment == banned,
    };
    segments.windows(banned.len()).any(|window| window.iter().zip(&banned).all(matches))
}

/// Whether `text` has the keyword `unsafe`.
pub(crate) fn has_unsafe(text: &str) -> bool {
    paths(text, &[]).iter().any(|named| named.segments == ["unsafe"])
}

/// `src/net/socket.rs` is `net::socket`, and `loadgen/src/text.rs` is `loadgen::text`; Forebay's roots are nothing.
pub(crate) fn module_of(path: &str) -> Vec<String> {
    let segments = path.trim_end_matches(".rs").split('/');
    let segments = segments.filter(|segment| !matches!(*segment, "src" | "mod" | "lib" | "main"));
    segments.map(str::to_owned).collect()
}
