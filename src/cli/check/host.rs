//! Reading a host: files below a root, and figures out of them. An error says what could not be read, and why.

use crate::net::udp_counts;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// The wake-up of a sleeping worker takes 20 us already; a deeper sleep adds what it takes to leave it.
pub(super) const WAKE_US: u64 = 20;

/// Where the kernel describes CPUs.
const CPUS: &str = "/sys/devices/system/cpu";

/// The governor of every CPU.
pub(super) const GOVERNORS: &str = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";

/// The most processes that are looked at: what a host may have as process numbers.
const PROCESSES_MAX: usize = 1 << 22;

/// What is checked, and for what kind of server.
#[derive(Debug)]
pub(super) struct Host {
    /// The folder that has the host's `proc` and `sys`.
    pub root: PathBuf,
    pub workers: usize,
    /// Sockets of all workers.
    pub sockets: usize,
    /// The interfaces that datagrams come by, or why they are not known.
    pub interfaces: Result<Vec<String>, String>,
    pub page_bytes: usize,
}

/// What was read.
#[derive(Debug)]
pub(super) struct Seen {
    pub number: u64,
    pub text: String,
    /// Files that would change it; a `*` stands for any number.
    pub places: Vec<String>,
}

impl Seen {
    pub(super) fn at(number: u64, text: String, place: &str) -> Seen {
        Seen { number, text, places: vec![place.to_owned()] }
    }
}

/// The names of the interfaces that carry what comes to `addresses`. Of a wildcard: all that are up, but the loopback.
pub(super) fn interfaces(addresses: &[SocketAddr]) -> Result<Vec<String>, String> {
    use nix::net::if_::InterfaceFlags as Flags;
    let all = nix::ifaddrs::getifaddrs().map_err(|error| format!("the interfaces: {error}"))?;
    let all: Vec<_> = all
        .filter(|one| one.flags.contains(Flags::IFF_UP))
        .filter_map(|one| {
            let address = one.address?;
            let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
            let ip = v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))?;
            Some((one.interface_name, one.flags.contains(Flags::IFF_LOOPBACK), ip))
        })
        .collect();
    let mut names = Vec::new();
    for ip in addresses.iter().map(|address| address.ip().to_canonical()) {
        // All of 127.0.0.0/8 is the loopback's, without an address of its own.
        let carries = |is_loopback: bool, own: IpAddr| {
            if ip.is_unspecified() { !is_loopback } else { own == ip || is_loopback && ip.is_loopback() }
        };
        let carriers: Vec<_> = all.iter().filter(|(_, is_loopback, own)| carries(*is_loopback, *own)).collect();
        if carriers.is_empty() {
            return Err(format!("no interface that is up has the address {ip}"));
        }
        names.extend(carriers.into_iter().map(|(name, ..)| name.clone()));
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

impl Host {
    /// The file `path` of this host.
    fn file(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn text(&self, path: &str) -> Result<String, String> {
        let text = fs::read_to_string(self.file(path)).map_err(|error| format!("{path}: {error}"))?;
        Ok(text.trim().to_owned())
    }

    /// The names in the folder `path` that are `prefix` and more, in the order of their numbers.
    fn names(&self, path: &str, prefix: &str) -> Result<Vec<String>, String> {
        let entries = fs::read_dir(self.file(path)).map_err(|error| format!("{path}: {error}"))?;
        let names = entries.take(PROCESSES_MAX).flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let number = |name: &String| name.strip_prefix(prefix)?.parse::<u64>().ok();
        let mut numbered: Vec<_> = names.filter_map(|name| Some((number(&name)?, name))).collect();
        numbered.sort_unstable();
        Ok(numbered.into_iter().map(|(_, name)| name).collect())
    }

    fn cpus(&self) -> Result<Vec<String>, String> {
        let cpus = self.names(CPUS, "cpu")?;
        if cpus.is_empty() { Err(format!("{CPUS}: it names no CPU")) } else { Ok(cpus) }
    }

    /// All CPUs as the kernel writes masks: groups of 32 bits.
    pub(super) fn cpu_mask(&self) -> Result<String, String> {
        let count = self.cpus()?.len();
        let group = |low: usize| u32::MAX >> (32 - (count - low).min(32));
        let groups = (0..count).step_by(32).map(|low| format!("{:x}", group(low)));
        Ok(groups.collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join(","))
    }

    /// The words of the file `path`, the word `at` in place of which is `word`.
    pub(super) fn replaced(&self, path: &str, at: usize, word: u64) -> Result<String, String> {
        let mut words: Vec<String> = self.text(path)?.split_whitespace().map(str::to_owned).collect();
        *words.get_mut(at).ok_or_else(|| format!("{path}: it has no number {at}"))? = word.to_string();
        Ok(words.join(" "))
    }
}

/// A file that holds a number.
pub(super) fn number(host: &Host, path: &str) -> Result<Seen, String> {
    let text = host.text(path)?;
    let number = text.parse().map_err(|_| format!("{path}: {text:?} is not a number"))?;
    Ok(Seen::at(number, text, path))
}

/// The third number of a file: the limit beside a least and a pressure.
pub(super) fn limit(host: &Host, path: &str) -> Result<Seen, String> {
    let text = host.text(path)?.split_whitespace().collect::<Vec<_>>().join(" ");
    let limit = text.split_whitespace().nth(2).and_then(|limit| limit.parse().ok());
    Ok(Seen::at(limit.ok_or_else(|| format!("{path}: {text:?} has no third number"))?, text, path))
}

/// CPUs that receive for an interface: its queues, or those of a mask of RPS.
pub(super) fn receiving(host: &Host, path: &str) -> Result<Seen, String> {
    let queues = host.names(path, "rx-")?;
    if queues.is_empty() {
        return Err(format!("{path}: it names no receive queue"));
    }
    let masks: Vec<String> = queues.iter().map(|queue| format!("{path}/{queue}/rps_cpus")).collect();
    let mut spread = 0;
    for mask in &masks {
        let bits = host.text(mask)?;
        let bits = bits.split(',').map(|group| u32::from_str_radix(group, 16).map(u32::count_ones));
        spread = spread.max(bits.sum::<Result<u32, _>>().map_err(|error| format!("{mask}: {error}"))?);
    }
    let flows = host.text("/proc/sys/net/core/rps_sock_flow_entries").unwrap_or_else(|_| "?".to_owned());
    let text = format!("receive queues: {}, CPUs of RPS: {spread}, flows of RFS: {flows}", queues.len());
    Ok(Seen { number: (queues.len() as u64).max(spread.into()), text, places: masks })
}

/// CPUs whose governor changes their frequency.
pub(super) fn governors(host: &Host, _: &str) -> Result<Seen, String> {
    let mut names = Vec::new();
    for cpu in host.cpus()? {
        names.push(host.text(&format!("{CPUS}/{cpu}/cpufreq/scaling_governor"))?);
    }
    let number = names.iter().filter(|name| *name != "performance").count() as u64;
    names.sort_unstable();
    names.dedup();
    Ok(Seen::at(number, names.join(", "), GOVERNORS))
}

/// The longest time in microseconds that an idle CPU needs to wake.
pub(super) fn idle_states(host: &Host, _: &str) -> Result<Seen, String> {
    let (mut deepest, mut places) = ((0, String::new()), Vec::new());
    for cpu in host.cpus()? {
        let folder = format!("{CPUS}/{cpu}/cpuidle");
        for state in host.names(&folder, "state")? {
            let state_number = |file: &str| number(host, &format!("{folder}/{state}/{file}"));
            let latency = state_number("latency")?.number;
            if state_number("disable")?.number > 0 {
                continue;
            }
            deepest = deepest.max((latency, host.text(&format!("{folder}/{state}/name")).unwrap_or(state.clone())));
            let place = format!("{CPUS}/cpu*/cpuidle/{state}/disable");
            if latency > WAKE_US && !places.contains(&place) {
                places.push(place);
            }
        }
    }
    Ok(Seen { number: deepest.0, text: format!("{} us ({})", deepest.0, deepest.1), places })
}

/// Processes called `irqbalance`. Those of a container are not those of the host: kernel threads tell which these are.
pub(super) fn irqbalance(host: &Host, path: &str) -> Result<Seen, String> {
    if host.text("/proc/2/comm")? != "kthreadd" {
        return Err(format!("{path}: these are the processes of a container, not of the host"));
    }
    let processes = host.names(path, "")?;
    let running =
        processes.iter().any(|id| host.text(&format!("{path}/{id}/comm")).is_ok_and(|name| name == "irqbalance"));
    Ok(Seen::at(running.into(), if running { "running" } else { "not running" }.to_owned(), path))
}

/// The base slice of the scheduler in nanoseconds. Only root sees it, where debugfs is mounted.
pub(super) fn base_slice(host: &Host, path: &str) -> Result<Seen, String> {
    let kernel = host.text("/proc/sys/kernel/osrelease").unwrap_or_else(|_| "unknown".to_owned());
    number(host, path).map_err(|why| format!("{why}; kernel {kernel}, EEVDF since 6.6"))
}

/// What was counted of what came, as parts in a million.
fn share(counted: u64, of: u64, path: &str) -> Seen {
    let parts = (u128::from(counted) * 1_000_000).div_ceil(u128::from(of.max(1)));
    let parts = u64::try_from(parts).unwrap_or(u64::MAX);
    Seen::at(parts, format!("{counted} of {of} since boot"), path)
}

/// The sums of the first columns of `softnet_stat`: packets, packets dropped, times without an end of the work.
fn softnet(host: &Host, path: &str) -> Result<[u64; 3], String> {
    let mut sums = [0; 3];
    for line in host.text(path)?.lines() {
        let mut columns = line.split_whitespace();
        for sum in &mut sums {
            let column = columns.next().and_then(|column| u64::from_str_radix(column, 16).ok());
            *sum += column.ok_or_else(|| format!("{path}: {line:?} has no three columns"))?;
        }
    }
    Ok(sums)
}

/// Packets dropped before any socket: the backlog of a CPU was full.
pub(super) fn backlog_drops(host: &Host, path: &str) -> Result<Seen, String> {
    softnet(host, path).map(|[packets, dropped, _]| share(dropped, packets + dropped, path))
}

/// Rounds of receiving that ended before the work did.
pub(super) fn squeezed(host: &Host, path: &str) -> Result<Seen, String> {
    softnet(host, path).map(|[packets, _, squeezed]| share(squeezed, packets, path))
}

/// Datagrams dropped because the buffer of their socket was full, of this network namespace.
pub(super) fn buffer_drops(host: &Host, path: &str) -> Result<Seen, String> {
    let text = host.text(path)?;
    let count = |wanted: &str| {
        let count = udp_counts(&text)?.find(|(name, _)| *name == wanted)?.1.parse::<u64>();
        count.ok()
    };
    let missing = || format!("{path}: it has no counters of UDP");
    let (came, dropped) = count("InDatagrams").zip(count("RcvbufErrors")).ok_or_else(missing)?;
    Ok(share(dropped, came + dropped, path))
}
