//! Is every wrong flag refused with exit code 2 and a message that names the flag and what is
//! allowed? Method: one process for each mistake.

use crate::faulty::*;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::pipe;

const MISTAKES: &str = "
run => --rate N (requests/s) or --load SHARE
run --load 0.5 => --workers N, or --admin URL
run --rate 0 => like 8000 or 8000/s
run --rate 10 --load 0.5 --workers 2 => cannot be used with
run --rate 10 --workload extreme => extreme-bimodal
run --rate 10 --workload tpcc --cost fixed:1us => cannot be used multiple times
run --rate 10 --cost bimodal:0.5:1us => bimodal:P:A:B
run --rate 10 --workload file:/nowhere/costs => file /nowhere/costs: it cannot be read
run --rate 10 --duration 5 => write a number and a unit
run --rate 10 --duration 0s => longer than zero
run --rate 10 --percentile 100 => write one of 50, 90, 99, 99.9
run --rate 1e9 --duration 10min => at most 50000000
run --rate 10 --target nowhere => HOST:PORT
run --rate 10 --admin https://127.0.0.1:9001 => like 127.0.0.1:9001
run --rate 10 --flows 0 => --flows
run --rate 10 --threads 17 => 17 is not in 1..=16
run --rate 10 --threads 3 --flows 2 => --threads is 3, but --flows 2: each thread needs a flow of its own
compare --pools front=1,heavy=1 --workers 3 => --workers is 3
compare --burn nap => cpu, sleep
run --rate 10 --json /nowhere/run.json => --json /nowhere/run.json cannot be written: No such file
compare --json /nowhere/compare.json => --json /nowhere/compare.json cannot be written: No such file
compare --burn cpu --time-scale 1 --workers 14 --cost fixed:1us --duration 1min => at most 50000000
compare --cost fixed:1ns --workers 1024 --load 10 --overheads none => lower --load, --workers or --duration
run --rate 10 --out run.txt => for '--out <FILE>': write a name that ends with .csv, .hgrm, .hlog or .xml
run --rate 10 --out /nowhere/run.csv => --out /nowhere/run.csv cannot be written: No such file
run --rate 10 --duration 99999999999999h => `99999999999999h` is too long: a duration is at most 1000h
run --rate 10 --cost fixed:2h => `2h` in `fixed:2h` is out of range: a cost is 1ns to 1h
run --rate 1e300 => 0.001 to 1000000000
run --rate 1e-300 => 0.001 to 1000000000
run --load 1e-300 --workers 2 => 0.001 to 100
compare --arrivals bursts:4:1ms:1ms => for '--arrivals <HOW>': `bursts:4:1ms:1ms`
run --rate 10 --arrivals walk => steps:RATE@TIME
compare --slice 99999999999999h => at most 1000h
simulate --policy hybrid => the name here is auto;
compare --policies steal,ondemand => levels, with --slice
run --rate 10 --payload 0g => for '--payload <[NAME=][WEIGHT@]HEX|file:PATH>': `0g` is no part of a payload: write hex
run --rate 10 --payload 00 => --payload has no {counter:N}: add one to each, or say --match none
run --rate 10 --payload {counter:4} --match 4 => for '--match <prefix:LEN|offset:N:LEN|none>': write none, prefix:LEN
run --rate 10 --match none => --payload
run --rate 10 --payload {counter:4} --admin 127.0.0.1:9 => --admin needs the bench protocol, and --payload sends another
run --rate 10 --payload {counter:4} --retries 1 => --retries needs the bench protocol, and --payload sends another
run --rate 10 --payload {counter:4} --cost fixed:1us => --workload needs the bench protocol
run --load 0.5 --payload {counter:4} --workers 2 => --load needs the bench protocol
run --rate 10 --profile dns => for '--profile <NAME[=ARGUMENT]>': `dns` is no profile: write one of bench, dns=FILE, ntp
run --rate 10 --profile ntp=1 => `ntp=1` is no profile: write one of bench, dns=FILE, ntp, stun, coap[=PATH]
run --rate 10 --profile dns=/nowhere => file /nowhere: it cannot be read: No such file
run --rate 10 --profile dns=/dev/null => file /dev/null: it has no question; write NAME TYPE in each line, like www
run --rate 10 --profile dns=Cargo.toml => file Cargo.toml: line 1: `[package]` is no question; write NAME TYPE
run --rate 10 --profile ntp --retries 1 => --retries needs the bench protocol, and --profile sends another
run --rate 10 --profile stun --payload {counter:4} => cannot be used with '--payload
run --rate 10 --slo p99 => for '--slo <SLO>': `p99` is no goal: write PERCENTILE-slowdown<=FACTOR
run --rate 10 --slo loss<60% => `60%` is no loss: write 0.0001% to 50%
run --rate 10 --slo p99-latency-long<1s --profile ntp => --slo p99-latency-long<=1s: these requests have no such class
run --rate 10 --slo p99-slowdown<3 --profile ntp => --slo p99-slowdown<=3: these requests have no such class, or no known
run --rate 10 --start-at 5 => for '--start-at <SECONDS>': write seconds since 1970 within the next hour
merge => <FILE>...
merge Cargo.toml => Cargo.toml: it is no result of a run (expected value at line 1 column 2): write it with loadgen run --json
sweep => --rates <LIST>
sweep --rates 10..20 => `10..20` is no range: write FROM..TO:STEP
sweep --rates 10 --rate 10 => '--rates <LIST>' cannot be used with '--rate <N>'
sweep --rates 10 --replay /dev/null => '--rates <LIST>' cannot be used with '--replay <FILE>'
search --rate 10 => --slo <SLO>
search --slo p99<1ms => --rate N (requests/s) or --load SHARE
search --slo p99<1ms --rate 10 --max-time 0s => longer than zero
search --slo p99<1ms --replay /dev/null => cannot be used with
run --rate 10 --until-known 98 => write one of 50, 90, 99
run --rate 10 --until-known 99 --retries 1 => cannot be used with
compare --profile ntp => --profile and --payload need running servers: add --a and --b
compare --payload {counter:4} => --profile and --payload need running servers
compare --a 127.0.0.1:9 --rate 10 => --b <HOST:PORT>
compare --a 127.0.0.1:9 --b 127.0.0.1:9 => --rate N (requests/s)
compare --a 127.0.0.1:9 --b nowhere --rate 10 => --b nowhere is no address
compare --a 127.0.0.1:9 --b 127.0.0.1:9 --rate 10 --policies auto => '--a <HOST:PORT>' cannot be used with '--policies
walk => unrecognized subcommand";

#[test]
fn mistakes_end_with_2_and_say_what_is_allowed() {
    for row in MISTAKES.trim().lines() {
        let (flags, expected) = row.split_once(" => ").expect("a row");
        let (code, stdout, stderr) = loadgen(flags);
        assert!(code == Some(2) && stderr.contains(expected), "{row}: {stderr}");
        assert_eq!(stdout, "", "{row}: nothing was begun");
    }
}

// Does the help of a series name no flag that it refuses, and all the others of a run?
#[test]
fn help_has_the_flags_that_are_taken() {
    let flags = |command: &str| {
        let (_, help, _) = loadgen(&format!("{command} --help"));
        let flags = help.lines().filter_map(|line| line.trim_start().strip_prefix("--")?.split([' ', '[']).next());
        flags.map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let all = flags("run");
    for (command, refused) in [("sweep", "load rate replay speed"), ("search", "replay speed")] {
        let missing: Vec<String> = all.difference(&flags(command)).cloned().collect();
        assert_eq!(missing.join(" "), refused, "{command}");
    }
}

// In one line, and in silence for a reader that has gone. Method: /dev/full; a pipe whose other end
// is closed.
#[test]
fn a_result_that_cannot_be_written_ends_with_5() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
    let target = server.local_addr().expect("an address");
    let run = format!("run --rate 100 --duration 100ms --warmup 0s --timeout 100ms --quiet --target {target}");
    let full = || OpenOptions::new().write(true).open("/dev/full").expect("there is one");
    let end = |flags: &str, stdout: Stdio| {
        let mut command = Command::new(LOADGEN.path());
        let output = command.args(flags.split_whitespace()).stdout(stdout).stderr(Stdio::piped()).output();
        let output = output.expect("loadgen runs");
        let said = String::from_utf8(output.stderr).expect("text");
        // People read the report on standard error where standard output is the JSON's.
        (output.status.code(), said.lines().filter(|line| line.starts_with("error: ")).collect::<Vec<_>>().join("\n"))
    };
    let [to_stdout, to_file] = ["-", "/dev/full"].map(|path| format!("{run} --json {path}"));
    let simulate = "simulate --policy steal --load 0.5 --requests 2000";
    let plan = "plan --workload fixed:10us --rate 10000 --workers 2 --policy steal --requests 2000";
    for flags in ["--help", "--version", "run --help", "compare --help", simulate, plan, &run, &to_stdout] {
        let what = if flags == to_stdout { "--json -" } else { "the result" };
        let (code, said) = end(flags, full().into());
        assert_eq!((code, said.lines().count()), (Some(5), 1), "{flags}: {said}");
        assert!(said.starts_with(&format!("error: {what} cannot be written: No space left")), "{flags}: {said}");
        let (reader, gone) = pipe().expect("descriptors");
        drop(reader);
        assert_eq!(end(flags, gone.into()), (Some(5), String::new()), "{flags}");
        assert!(matches!(end(flags, Stdio::null()).0, Some(0 | 3)), "{flags}");
    }
    let of_lab = [(simulate, "--json"), (plan, "--json")];
    let of_lab = of_lab.map(|(command, flag)| (format!("{command} --quiet {flag} /dev/full"), flag));
    for (flags, flag) in of_lab.into_iter().chain([(to_file, "--json")]) {
        let (code, said) = end(&flags, Stdio::null());
        let why = format!("error: {flag} /dev/full cannot be written: No space left");
        assert!(code == Some(5) && said.starts_with(&why), "{flags}: {said}");
    }
    let mut command = Command::new(LOADGEN.path());
    let status = command.arg("walk").stderr(full()).status().expect("loadgen runs");
    assert_eq!(status.code(), Some(2), "a problem that nobody hears of keeps its code");
}
