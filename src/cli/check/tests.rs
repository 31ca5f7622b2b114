//! Is each row ok, worth changing or unread where a made-up host says so? Method: folders with files of /proc and /sys.

use super::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

const CPU: &str = "sys/devices/system/cpu";
const SNMP: &str = "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\nUdp: 1000000 0 0 9";

/// The files of a host of four CPUs whose rows are all ok.
fn good() -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = [
        ("proc/sys/net/core/rmem_max", "4194304"),
        ("proc/sys/net/core/wmem_max", "8388608"),
        ("proc/sys/net/ipv4/udp_mem", "100 200 32768"),
        ("proc/sys/net/ipv4/neigh/eth0/unres_qlen_bytes", "4096"),
        ("proc/sys/net/ipv6/neigh/eth0/unres_qlen_bytes", "4096"),
        ("proc/sys/net/core/netdev_max_backlog", "1000"),
        ("proc/sys/net/core/netdev_budget", "300"),
        ("proc/sys/net/core/busy_read", "0"),
        ("proc/sys/net/core/busy_poll", "0"),
        ("proc/sys/net/core/rps_sock_flow_entries", "0"),
        ("proc/net/softnet_stat", "000f4240 00000000 00000064 0\n000f4240 00000000 00000064 0"),
        ("proc/2/comm", "kthreadd"),
        ("proc/77/comm", "sshd"),
        ("sys/kernel/debug/sched/base_slice_ns", "2800000"),
        ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0"),
        ("sys/class/net/eth0/queues/tx-0/xps_cpus", "f"),
    ]
    .map(|(path, text)| (path.to_owned(), format!("{text}\n")))
    .into();
    files.push(("proc/net/snmp".to_owned(), format!("Ip: Forwarding\nIp: 1\n{SNMP} 100\n")));
    for cpu in 0..4 {
        for (path, text) in [
            ("cpufreq/scaling_governor", "performance"),
            ("cpuidle/state0/latency", "0"),
            ("cpuidle/state0/disable", "0"),
            ("cpuidle/state1/latency", "20"),
            ("cpuidle/state1/disable", "0"),
            ("cpuidle/state2/latency", "133"),
            ("cpuidle/state2/disable", "1"),
            ("cpuidle/state2/name", "C6"),
        ] {
            files.push((format!("{CPU}/cpu{cpu}/{path}"), format!("{text}\n")));
        }
    }
    files
}

fn host(root: &Path) -> Host {
    let interfaces = Ok(vec!["eth0".to_owned()]);
    Host { root: root.to_owned(), workers: 4, sockets: 8, interfaces, page_bytes: 4_096 }
}

fn write(root: &Path, (path, text): &(String, String)) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

/// The row `name` of a good host on which `changed` files have another text, or are missing.
fn row_with(name: &str, changed: &[(&str, Option<&str>)]) -> Finding {
    let folder = tempfile::tempdir().expect("a folder");
    good().iter().for_each(|file| write(folder.path(), file));
    for (path, text) in changed {
        match text {
            Some(text) => write(folder.path(), &((*path).to_owned(), (*text).to_owned())),
            None => fs::remove_file(folder.path().join(path)).expect("a file"),
        }
    }
    row_of(&host(folder.path()), name)
}

/// The first row whose name begins with `name`.
fn row_of(host: &Host, name: &str) -> Finding {
    let is_it = |finding: &Finding| finding.name.split(", eth0").next() == Some(name);
    findings(host).into_iter().find(is_it).expect("a row")
}

/// Why a row could not be read.
fn unread(finding: Finding) -> String {
    assert_eq!((finding.state, &finding.value), (State::Unread, &None), "{finding:?}");
    finding.why_unread.expect("a reason")
}

/// What would change a row.
fn change(finding: Finding) -> Vec<String> {
    assert_eq!(finding.state, State::Change, "{finding:?}");
    finding.change
}

// Are all rows of a good host ok, and of an empty one unread, with the path in the reason?
#[test]
fn a_good_host_is_ok_and_an_empty_one_is_unread() {
    let folder = tempfile::tempdir().expect("a folder");
    for finding in findings(&host(folder.path())) {
        let why = unread(finding);
        assert!(why.contains("No such file") && why.contains('/'), "{why}");
    }
    good().iter().for_each(|file| write(folder.path(), file));
    let findings = findings(&host(folder.path()));
    assert_eq!(findings.len(), ROWS.len());
    for Finding { name, state, value, .. } in findings {
        assert_eq!((state, value.is_some()), (State::Ok, true), "{name}");
    }
}

// Is each row worth changing one step beyond its bound, by the command for it, and unread where its file says nothing?
#[test]
fn each_row_is_judged() {
    let sys = |path: &str| format!("echo {path}");
    for (name, file, bad, command) in [
        ("receive buffer", "proc/sys/net/core/rmem_max", "4194303", sys("4194304 | tee /proc/sys/net/core/rmem_max")),
        ("send buffer", "proc/sys/net/core/wmem_max", "212992", sys("4194304 | tee /proc/sys/net/core/wmem_max")),
        (
            "UDP memory",
            "proc/sys/net/ipv4/udp_mem",
            "100 200 32767",
            sys("100 200 32768 | tee /proc/sys/net/ipv4/udp_mem"),
        ),
        (
            "neighbour queue, IPv4",
            "proc/sys/net/ipv4/neigh/eth0/unres_qlen_bytes",
            "4097",
            sys("4096 | tee /proc/sys/net/ipv4/neigh/eth0/unres_qlen_bytes"),
        ),
        (
            "neighbour queue, IPv6",
            "proc/sys/net/ipv6/neigh/eth0/unres_qlen_bytes",
            "212992",
            sys("4096 | tee /proc/sys/net/ipv6/neigh/eth0/unres_qlen_bytes"),
        ),
        (
            "backlog",
            "proc/sys/net/core/netdev_max_backlog",
            "999",
            sys("1000 | tee /proc/sys/net/core/netdev_max_backlog"),
        ),
        ("receive budget", "proc/sys/net/core/netdev_budget", "299", sys("300 | tee /proc/sys/net/core/netdev_budget")),
        ("backlog drops", "proc/net/softnet_stat", "f4240 66 0", "raise the backlog".to_owned()),
        ("squeezed rounds", "proc/net/softnet_stat", "f4240 0 65", "raise the receive budget".to_owned()),
        ("buffer drops", "proc/net/snmp", &format!("{SNMP} 101\n"), "raise the receive buffer".to_owned()),
        ("irqbalance", "proc/77/comm", "irqbalance", "systemctl stop irqbalance".to_owned()),
        (
            "CPU governor",
            &format!("{CPU}/cpu3/cpufreq/scaling_governor"),
            "powersave",
            sys("performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"),
        ),
        (
            "idle states",
            &format!("{CPU}/cpu3/cpuidle/state2/disable"),
            "0",
            sys("1 | tee /sys/devices/system/cpu/cpu*/cpuidle/state2/disable"),
        ),
        ("busy read", "proc/sys/net/core/busy_read", "50", sys("0 | tee /proc/sys/net/core/busy_read")),
        ("busy poll", "proc/sys/net/core/busy_poll", "1", sys("0 | tee /proc/sys/net/core/busy_poll")),
        (
            "base slice",
            "sys/kernel/debug/sched/base_slice_ns",
            "3000001",
            sys("3000000 | tee /sys/kernel/debug/sched/base_slice_ns"),
        ),
    ] {
        let commands = change(row_with(name, &[(file, Some(bad))]));
        assert!(commands.len() == 1 && commands[0].starts_with(&command), "{name}: {commands:?}");
        // A process of another name, and a governor of another, are no mistakes.
        let is_name = ["irqbalance", "CPU governor"].contains(&name);
        let changed = (if name == "irqbalance" { "proc/2/comm" } else { file }, (!is_name).then_some("nonsense"));
        let why = unread(row_with(name, &[changed]));
        assert!(why.contains(changed.0), "{name}: {why}");
    }
}

// Do more workers than receive queues can feed ask for RPS, on a host of any number of CPUs?
#[test]
fn few_queues_ask_for_rps() {
    let folder = tempfile::tempdir().expect("a folder");
    good().iter().for_each(|file| write(folder.path(), file));
    (4..66).for_each(|cpu| fs::create_dir_all(folder.path().join(format!("{CPU}/cpu{cpu}"))).expect("a folder"));
    let of = |workers| row_of(&Host { workers, ..host(folder.path()) }, "receive queues");
    assert_eq!(of(4).state, State::Ok);
    let command = "echo 3,ffffffff,ffffffff | tee /sys/class/net/eth0/queues/rx-0/rps_cpus";
    assert_eq!(change(of(5)), [command]);
    let mask =
        |text: &str| write(folder.path(), &("sys/class/net/eth0/queues/rx-0/rps_cpus".to_owned(), text.to_owned()));
    mask("3,00000001\n");
    assert_eq!(of(12).state, State::Ok);
    mask("x\n");
    assert!(unread(of(12)).contains("rps_cpus"));
}

// Do counted drops raise what is wanted of the setting that they come from?
#[test]
fn drops_raise_what_is_wanted() {
    let stat = "proc/net/softnet_stat";
    for (name, counted, command) in [
        ("backlog", "f4240 66 0", "echo 4000 | tee /proc/sys/net/core/netdev_max_backlog"),
        ("receive budget", "f4240 0 65", "echo 600 | tee /proc/sys/net/core/netdev_budget"),
    ] {
        assert_eq!(change(row_with(name, &[(stat, Some(counted))])), [command]);
    }
}

// Are processes of a container never taken for those of the host?
#[test]
fn a_container_does_not_know_the_hosts_processes() {
    let why = unread(row_with("irqbalance", &[("proc/2/comm", Some("sh"))]));
    assert!(why.contains("container"), "{why}");
}

// Do the text and the JSON have every row, and the exit code what they say?
#[test]
fn both_forms_have_every_row() {
    let folder = tempfile::tempdir().expect("a folder");
    good().iter().for_each(|file| write(folder.path(), file));
    let look = |json| {
        let listen = vec!["127.0.0.1:9000".parse().expect("an address")];
        check(&CheckArguments { host: true, listen, workers: Some(4), root: folder.path().to_owned(), json })
            .expect("a result")
    };
    let (text, code) = look(false);
    // The loopback has no rows of its own.
    assert!(code == 0 && text.contains("0 of 14 worth changing, 0 could not be read"), "{text}");
    write(folder.path(), &("proc/sys/net/core/busy_read".to_owned(), "50".to_owned()));
    let (text, code) = look(false);
    assert!(code == 1 && text.contains("\n    change: echo 0 | tee /proc/sys/net/core/busy_read\n"), "{text}");
    let (json, code) = look(true);
    let document: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((code, &document["schema"], &document["workers"]), (1, &"forebay-check/1".into(), &4.into()));
    let rows = document["rows"].as_array().expect("rows");
    let states = |wanted: &str| rows.iter().filter(|row| row["state"] == wanted).count();
    assert_eq!((states("ok"), states("change"), states("unread")), (13, 1, 0), "{json}");
    let busy = rows.iter().find(|row| row["name"] == "busy read").expect("a row");
    assert_eq!((&busy["value"], &busy["wanted"]), (&"50".into(), &"at most 0 us".into()));
}

// Is an address found at its interface, one that is not there an error, and every row explained?
#[test]
fn interfaces_follow_addresses() {
    let of = |text: &str| host::interfaces(&[text.parse().expect("an address")]);
    assert_eq!(of("127.0.0.9:1"), Ok(vec!["lo".to_owned()]));
    assert!(of("192.0.2.1:1").is_err_and(|why| why.contains("192.0.2.1")));
    let mut names: Vec<_> = ROWS.iter().map(|row| row.name).collect();
    assert!(ROWS.iter().all(|row| !row.why.is_empty() && !row.see.is_empty()));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ROWS.len());
}

// Does the page about a host have the table that is checked?
#[test]
fn the_page_has_the_table() {
    let folder = tempfile::tempdir().expect("a folder");
    good().iter().for_each(|file| write(folder.path(), file));
    let host = Host { sockets: 4, ..host(folder.path()) };
    let page = include_str!("../../../deploy/host.md");
    let rows: Vec<String> = ROWS
        .iter()
        .map(|row| format!("| {} | `{}` | {} | {} | {} |", row.name, row.path, wanted(&host, row).1, row.why, row.see))
        .collect();
    let on_page: Vec<&str> = page.lines().filter(|line| line.contains("| `/")).collect();
    assert_eq!(on_page, rows, "the rows should be:\n{}", rows.join("\n"));
}
