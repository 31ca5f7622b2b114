//! The table of who may import whom, and the check of one file against it.

use crate::paths::{Named, paths};
use crate::tokens::tokens;

/// What a module under `src/` may name.
struct Layer {
    module: &'static str,
    /// Other modules of this crate.
    imports: &'static [&'static str],
    /// Paths that must not appear: whole, as a part of a longer one, or as one word. A `*` at the end takes any ending.
    banned: &'static [&'static str],
}

const PARTS: &[&str] = &["time", "wire", "packet", "queue", "handler", "metrics", "workload"];
const SCHED_AND_PARTS: &[&str] = &["sched", "time", "wire", "packet", "queue", "handler", "metrics", "workload"];
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

/// The table of DESIGN, section 8. Parts may use one another as long as no circle comes of it.
const TABLE: &[Layer] = &[
    Layer { module: "cli", imports: &["command", "config", "server"], banned: &[] },
    Layer { module: "command", imports: &["sim", "sched", "time", "wire", "metrics", "workload"], banned: &[] },
    Layer {
        module: "server",
        imports: &[
            "config", "runtime", "net", "sim", "sched", "time", "wire", "packet", "queue", "handler", "metrics",
            "workload",
        ],
        banned: &[],
    },
    // The names of policies, ways to wait and ways to reach the kernel stand where they are followed: `PolicyName` and `Wait`
    // in sched, `Io` in net. Of sockets themselves a configuration knows nothing.
    Layer {
        module: "config",
        imports: &["sched", "net", "time"],
        banned: &["net::Group", "net::Socket", "net::Ways", "net::Link", "net::KernelLink", "socket2", "mio"],
    },
    Layer { module: "runtime", imports: SCHED_AND_PARTS, banned: SOCKETS },
    Layer { module: "net", imports: PARTS, banned: &[] },
    Layer { module: "sim", imports: SCHED_AND_PARTS, banned: SOCKETS },
    Layer { module: "sched", imports: PARTS, banned: ACTING },
    Layer { module: "time", imports: &[], banned: &[] },
    Layer { module: "wire", imports: PARTS, banned: &[] },
    Layer { module: "packet", imports: PARTS, banned: &[] },
    Layer { module: "queue", imports: PARTS, banned: &[] },
    Layer { module: "handler", imports: PARTS, banned: &[] },
    Layer { module: "metrics", imports: PARTS, banned: &[] },
    Layer { module: "workload", imports: PARTS, banned: &[] },
];

/// What is wrong in the file at `path` (from the root of the repository) that holds `text`.
pub(crate) fn complaints(path: &str, text: &str) -> Vec<String> {
    let module = module_of(path);
    let Some(top) = module.first() else { return Vec::new() };
    let Some(layer) = TABLE.iter().find(|layer| layer.module == top) else {
        return vec![format!("{path}: {top} is not in the table: give it a row")];
    };
    let named = paths_in(&module, text);
    let mut complaints = Vec::new();
    let mut complain = |line: usize, what: String| complaints.push(format!("{path}:{line}: {what}"));
    if let Some(line) = extern_crate(text) {
        complain(line, "extern crate brings a crate in under any name".to_owned());
    }
    for Named { segments, in_crate, is_use, line } in &named {
        match segments.first().map_or("", String::as_str) {
            "" | "*" if *in_crate && *is_use => complain(*line, "names the crate's root".to_owned()),
            "" => {}
            first if *in_crate && first != top && !layer.imports.contains(&first) => {
                complain(*line, format!("{top} may not import {first}"));
            }
            first @ ("std" | "core" | "alloc") if *is_use && segments.get(1).is_none_or(|second| second == "*") => {
                complain(*line, format!("brings in all of {first}, under no name that could be checked"));
            }
            _ => {}
        }
        for banned in layer.banned.iter().filter(|banned| contains(segments, banned)) {
            complain(*line, format!("{top} may not name {banned}"));
        }
    }
    complaints
}

/// The modules of this crate that the file `module`, which holds `text`, names. Its own may be among them.
pub(crate) fn imports(module: &[String], text: &str) -> Vec<String> {
    let named = paths_in(module, text).into_iter().filter(|named| named.in_crate);
    named.filter_map(|named| named.segments.into_iter().next()).collect()
}

fn paths_in(module: &[String], text: &str) -> Vec<Named> {
    paths(text, &module.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Whether `banned` is a part of the path, or all of it.
fn contains(segments: &[String], banned: &str) -> bool {
    let banned: Vec<&str> = banned.split("::").collect();
    let matches = |segment: &String, banned: &&str| match banned.strip_suffix('*') {
        Some(start) => segment.starts_with(start),
        None => segment == banned,
    };
    segments
        .windows(banned.len())
        .any(|window| window.iter().zip(&banned).all(|(segment, banned)| matches(segment, banned)))
}

/// The line of the first `extern crate`.
fn extern_crate(text: &str) -> Option<usize> {
    let tokens = tokens(text);
    tokens.windows(2).find(|pair| pair[0].text == "extern" && pair[1].text == "crate").map(|pair| pair[0].line)
}

/// Whether `text` has the keyword `unsafe`.
pub(crate) fn has_unsafe(text: &str) -> bool {
    tokens(text).iter().any(|token| token.text == "unsafe")
}

/// `src/net/socket.rs` is `net::socket`; the crate's roots are nothing.
pub(crate) fn module_of(path: &str) -> Vec<String> {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    let segments = inner.split('/').filter(|segment| !matches!(*segment, "mod" | "lib" | "main"));
    segments.map(str::to_owned).collect()
}
