//! Does a written trace read back unchanged, and does an error name its line?

use super::*;
use forebay_base::overheads::Overheads;
use proptest::prelude::*;

const HEADER: &str = "forebay-trace/1 time-scale=1000 burn=sleep workers=4 seed=7 warmup=1s workload=extreme-bimodal";

fn request() -> impl Strategy<Value = TraceRequest> {
    // Gaps and lateness of requests; `times` below adds them up.
    (0_u64..5_000_000_000, 0_u64..50_000_000, 1_u64..1_000_000_000, any::<u16>(), 0_u16..1_024, 0..CLASSES as u8)
        .prop_map(|(gap, slip, cost, flow, socket, class)| TraceRequest {
            intended: Nanos::new(gap),
            sent: Nanos::new(slip),
            cost: Nanos::new(cost),
            flow,
            socket,
            class,
            source: socket % 3,
        })
}

fn offered() -> impl Strategy<Value = Trace> {
    let requests = prop::collection::vec(request(), 1..40);
    let deadline = prop::option::of(1_u64..10_000_000_000);
    let name = "[a-z0-9:./][a-z0-9:./ #=,]{0,30}[a-z0-9:./]";
    (1_u64..=1_000_000, any::<bool>(), 1_u16..=1_024, any::<u64>(), 0_u64..100_000_000_000, deadline, name, requests)
        .prop_map(|(time_scale, emulated, workers, seed, warmup, deadline, workload, mut requests)| {
            let (mut intended, mut sent) = (Nanos::ZERO, Nanos::ZERO);
            for request in &mut requests {
                intended = intended.plus(request.intended);
                sent = sent.max(intended.plus(request.sent));
                (request.intended, request.sent, request.socket) = (intended, sent, request.socket % workers);
            }
            let (warmup, deadline) = (Nanos::new(warmup), deadline.map(Nanos::new));
            let overheads = if seed % 2 == 0 { Overheads::STOCK } else { Overheads::NONE };
            Trace {
                time_scale,
                emulated,
                overheads,
                workers,
                seed,
                warmup,
                deadline,
                left_out: seed % 3,
                workload,
                requests,
            }
        })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(offered in offered()) {
        let text = offered.to_string();
        prop_assert_eq!(Trace::parse(&text), Ok(offered), "{}", text);
    }

    #[test]
    fn no_text_brings_the_reader_down(text in "(forebay-trace/1 |workers=[0-9]{1,3} |seed=|warmup=1s|workload=x|[ -~\n]){0,20}") {
        let _ = Trace::parse(&text);
    }
}

#[test]
fn comments_are_passed_over_and_figures_follow_from_the_lines() {
    let text = format!("# a run\n\n{HEADER}\n0ns 5us 0 1ms 3 0 # the first\n2s 2s long 500us 65535 3\n");
    let offered = Trace::parse(&text).expect("two requests");
    assert_eq!((offered.requests.len(), offered.measured(), offered.requests[1].class), (2, 1, 1));
    // 1.5 ms of work for 4 workers in 2 s. Without the time scale these are 2 ms.
    assert!((offered.load() - 0.1875).abs() < 1e-12);
    // With 0.5 ms beside each cost, the work is 2.5 ms.
    let beside = Overheads { send: Nanos::from_micros(500), ..Overheads::NONE };
    let charged = Trace { overheads: beside, ..offered.clone() };
    assert!((charged.load() - 0.3125).abs() < 1e-12 && (charged.load_with(Nanos::ZERO) - 0.1875).abs() < 1e-12);
    let workload = offered.to_workload();
    assert_eq!(
        (workload.name(), workload.mean(), workload.classes().len()),
        ("extreme-bimodal", Nanos::from_micros(750), 2)
    );
}

#[test]
fn mistakes_are_located() {
    let with = |lines: &str| format!("{HEADER}\n{lines}");
    for (text, expected) in [
        (with("1ms 1ms short 500ns 1 0\n1ms"), "line 3: it has 1 words: write INTENDED SENT CLASS COST FLOW SOCKET"),
        (with("1 1ms short 500ns 1 0"), "line 2: `1` is not a duration"),
        (with("1ms 1ms medium 500ns 1 0"), "line 2: `medium` is no class: write a number from 0 to 7, or one of short"),
        (with("1ms 1ms short 0ns 1 0"), "line 2: `0ns` is out of range: a cost is 1ns to 1h"),
        (with("1ms 1ms short 100000000000000000000000us 1 0"), "line 2: `100000000000000000000000us` is too long"),
        (with("1ms 1ms short 2h 1 0"), "line 2: `2h` is out of range"),
        (with("1000h 1000h short 1us 1 0"), "line 2: sent at 1000h, and the last one at 0ns: a pause is at most 3600s"),
        (with("0s 0s short 1us 1 0\n0s 61min short 1us 1 0"), "line 3: sent at 61min, and the last one at 0ns"),
        (with("1001h 1001h short 1us 1 0"), "line 2: `1001h` is too long: a duration is at most 1000h"),
        (with("1ms 1ms short 500ns 70000 0"), "line 2: `70000` is no flow: write a number from 0 to 65535"),
        (with("1ms 1ms short 500ns 1 4"), "line 2: socket 4 of 4 workers: write a number from 0 to 3"),
        (with("2ms 1ms short 500ns 1 0"), "line 2: sent at 1ms, before 2ms"),
        (
            with("1ms 3ms short 500ns 1 0\n2ms 2ms short 500ns 1 0"),
            "line 3: sent at 2ms, before the line above, at 3ms",
        ),
        (with(""), "it offers no request"),
        (String::new(), "it offers no request"),
        ("1ms 1ms short 500ns 1 0".to_owned(), "line 1: it names no workload: the first line is forebay-trace/1"),
        (HEADER.replace("/1", "/2"), "line 1: it does not begin with forebay-trace/1"),
        (HEADER.replace("seed=7", "sed=7"), "line 1: `sed=7` is no part of it"),
        (HEADER.replace("seed=7", "seed=x"), "line 1: seed=x: write a number from 0 to 18446744073709551615"),
        (HEADER.replace("seed=7", "seed=7 left-out=-1"), "line 1: left-out=-1: write a number from 0 to"),
        (HEADER.replace("seed=7", "workers=4"), "line 1: `workers` is there twice"),
        (HEADER.replace("seed=7 ", ""), "line 1: `seed` is missing"),
        (HEADER.replace("workers=4", "workers=0"), "line 1: workers=0: write a number from 1 to 1024"),
        (HEADER.replace("burn=sleep", "burn=rest"), "line 1: burn=rest: write cpu or sleep"),
        (HEADER.replace("=1000", "=0"), "line 1: time-scale=0: write a number from 1 to 1000000"),
        (HEADER.replace("warmup=1s", "warmup=1"), "line 1: warmup: `1` is not a duration"),
        (with(&"x".repeat(9_000)), "line 2: it is longer than 8192 bytes"),
    ] {
        let error = Trace::parse(&text).expect_err(&text);
        assert!(error.contains(expected), "{text:?}: {error}");
    }
    assert!(parse(&b"\xff\xfe\n"[..], 100).is_err_and(|error| error.contains("line 1: it is not text")));
}

#[test]
fn a_file_that_is_none_is_said_so() {
    for (path, expected) in
        [("/nowhere", "it cannot be read: No such file"), ("/", "it cannot be read"), ("/dev/zero", "line 1")]
    {
        let error = Trace::read(Path::new(path)).expect_err(path);
        assert!(error.contains(expected), "{path}: {error}");
    }
}

// Does reading stop at the bound, even if every line is blank?
#[test]
fn what_is_read_is_bounded() {
    let endless = || std::io::BufReader::new(std::io::repeat(b'\n'));
    let too_long =
        |read: Result<Trace, String>| read.is_err_and(|problem| problem.starts_with("it has more than 51000000 "));
    assert!(too_long(parse(endless(), 1_000)));
    let text = format!("{HEADER}\n1ms 1ms short 500ns 1 0\n");
    let length = text.len() as u64;
    assert!(parse(text.as_bytes(), length).is_ok());
    assert!(too_long(parse(text.as_bytes(), length - 1)));
}
