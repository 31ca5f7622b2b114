//! Draws command lines with flags that exist or nearly do, and values that are valid, at a bound,
//! or absurd. The unit tests of `forebay` and of `loadgen` parse these.

use clap::Command;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// Parses arguments as a program does. Returns exit code and message if it refuses them, `None` if
/// it would start to work.
pub type Refusal = fn(&[String]) -> Option<(i32, String)>;

/// Values that some flag accepts, and values that none should.
const VALUES: &str = "extreme-bimodal tpcc rocksdb lognormal:1us:1e300 lognormal:1h:1000 pareto:1ns:1.0000000000000002 \
    fixed:1h fixed:1ns fixed:99999999999999h bimodal:1e-300:1ns:1h file:/nowhere /dev/zero /dev/null /nowhere / \
    99999999999999h 1000h 1h 1s 1us 0s 0.7 0.001 0.1..0.9:0.1 0..inf:1e-300 1e-300 1e300 inf nan 1000/s 99.9 65535 \
    1000000 steal steal,pools,levels,srpt steal,pools front=3,heavy=11 front=65535,heavy=65535 \
    front=18446744073709551615,heavy=1 best p99.9-slowdown<=10 p50-latency<=1000h stock lab,send=99999999999999h \
    127.0.0.1:0 127.0.0.1:9 127.0.0.1:99999 http://127.0.0.1:1/latency http://[::1 header sleep cpu \
    packet-chain true auto";

fn value() -> impl Strategy<Value = String> {
    let chosen: Vec<&str> = VALUES.split(' ').chain([""]).collect();
    prop_oneof![
        4 => prop::sample::select(chosen).prop_map(str::to_owned),
        2 => "-?[0-9]{1,22}",
        1 => "[0-9]{1,25}(ns|us|ms|s|min|h)",
        1 => "[0-9]{1,3}[.][0-9]{0,3}(e[0-9]{1,3})?",
        1 => "\\PC{0,12}",
    ]
}

/// One of `begins` or any word, then up to six flags of any subcommand, a few without a value.
/// Never `--target`, because its name would be looked up.
fn any_line(command: &Command, begins: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    let visible = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    let flags = visible.flat_map(|subcommand| subcommand.get_arguments().filter_map(|flag| flag.get_long()));
    let flags = flags.filter(|flag| *flag != "target").chain(["help", "version", "polcy", "", "-"]);
    let flags: Vec<String> = flags.map(|flag| format!("--{flag}")).collect();
    let begin = prop_oneof![9 => prop::sample::select(begins).prop_map(str::to_owned), 1 => "\\PC{0,8}"];
    let flags = prop::collection::vec((prop::sample::select(flags), prop::option::weighted(0.9, value())), 0..6);
    let program = command.get_name().to_owned();
    (begin, flags).prop_map(move |(begin, flags)| {
        let flags = flags.into_iter().flat_map(|(flag, value)| [Some(flag), value].into_iter().flatten());
        words(&program, &begin).into_iter().chain(flags).collect()
    })
}

/// The arguments of `line`, after the program's name.
pub fn words(program: &str, line: &str) -> Vec<String> {
    [program].into_iter().chain(line.split(' ')).map(str::to_owned).collect()
}

/// Is any command line either accepted, or refused with 0 or 2 and a message?
pub fn assert_any_line_is_answered(command: &Command, begins: &'static [&'static str], refusal: Refusal) {
    let config = ProptestConfig { cases: 2_000, max_shrink_iters: 200, ..ProptestConfig::default() };
    let answered = TestRunner::new(config).run(&any_line(command, begins), |arguments| {
        if let Some((code, message)) = refusal(&arguments) {
            prop_assert!(code == 0 || code == 2, "{:?} ends with {}", arguments, code);
            prop_assert!(!message.is_empty(), "{:?} is refused without a word", arguments);
        }
        Ok(())
    });
    answered.unwrap_or_else(|error| panic!("{error}"));
}
