//! Recorded costs, the form `file:PATH`: each request has the cost in one line of a file, every line being equally
//! likely. Only [`read`] touches the file.

use super::{COST_MAX, Class, Cost};
use crate::fate::{CLASS_NAMES, CLASSES};
use crate::time::{Nanos, parse_duration};
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

/// The most costs that one file may hold: 80 MB in memory.
pub const RECORDED_COSTS_MAX: usize = 10_000_000;
/// The largest file that is read: 10 M lines with a class name and a comment here and there.
pub const RECORDED_BYTES_MAX: u64 = 256 << 20;

/// Costs as they were recorded, at least one, all above zero. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The costs, in the order of their lines.
    pub costs: Arc<[Nanos]>,
    pub(super) mean_seconds: f64,
}

impl Recorded {
    pub(super) fn new(costs: Vec<Nanos>) -> Recorded {
        let sum: f64 = costs.iter().map(|cost| cost.as_secs_f64()).sum();
        Recorded { mean_seconds: sum / costs.len() as f64, costs: costs.into() }
    }
}

/// The classes that the file at `path` records.
pub(super) fn read(path: &str) -> Result<Vec<Class>, String> {
    read_bounded(path, RECORDED_BYTES_MAX)
}

fn read_bounded(path: &str, bytes_max: u64) -> Result<Vec<Class>, String> {
    let mut bytes = Vec::new();
    // Bounded here and not by the file's size, which a pipe or a device does not have.
    let read = File::open(path).and_then(|file| file.take(bytes_max + 1).read_to_end(&mut bytes));
    read.map_err(|error| format!("it cannot be read: {error}"))?;
    if bytes.len() as u64 > bytes_max {
        return Err(format!("it is larger than {} MiB", RECORDED_BYTES_MAX >> 20));
    }
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        format!("line {line}: it is not text (UTF-8)")
    });
    parse(text?)
}

/// The classes that `text` records: lines of `COST` (class 0) or `CLASS COST`, blank lines, and comments from `#` to
/// the end of a line.
pub(super) fn parse(text: &str) -> Result<Vec<Class>, String> {
    let mut costs: [Vec<Nanos>; CLASSES] = Default::default();
    let mut count = 0;
    for (number, line) in text.lines().enumerate() {
        let words = line.split('#').next().unwrap_or_default();
        let recorded = parse_line(words).map_err(|problem| format!("line {}: {problem}", number + 1))?;
        let Some((class, cost)) = recorded else { continue };
        count += 1;
        if count > RECORDED_COSTS_MAX {
            return Err(format!("it holds more than {RECORDED_COSTS_MAX} costs"));
        }
        costs[class].push(cost);
    }
    let Some(last) = costs.iter().rposition(|costs| !costs.is_empty()) else {
        return Err("it holds no cost: write one in each line, as COST or CLASS COST, like 20us or long 2ms".to_owned());
    };
    if let Some(missing) = costs[..last].iter().position(Vec::is_empty) {
        let (present, missing) = (CLASS_NAMES[last], CLASS_NAMES[missing]);
        return Err(format!(
            "it has costs of class {present}, but none of class {missing}: classes count from 0 without a gap"
        ));
    }
    // A share in proportion to its lines makes every line equally likely.
    let share = |costs: &Vec<Nanos>| costs.len() as f64 / count as f64;
    let class = |costs: Vec<Nanos>| Class { share: share(&costs), cost: Cost::Recorded(Recorded::new(costs)) };
    Ok(costs.into_iter().take(last + 1).map(class).collect())
}

/// Class and cost of one line without its comment; `None` for a blank one.
fn parse_line(line: &str) -> Result<Option<(usize, Nanos)>, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (class, cost) = match words[..] {
        [] => return Ok(None),
        [cost] => (0, cost),
        [class, cost] => (parse_class(class)?, cost),
        _ => return Err(format!("`{}` is too much: write COST or CLASS COST, like 20us or long 2ms", line.trim())),
    };
    Ok(Some((class, parse_cost(cost)?)))
}

/// The cost of one request.
pub(super) fn parse_cost(text: &str) -> Result<Nanos, String> {
    let cost = parse_duration(text).map_err(|error| error.to_string())?;
    let allowed = cost > Nanos::ZERO && cost <= COST_MAX;
    if allowed { Ok(cost) } else { Err(format!("`{text}` is out of range: a cost is 1ns to 1h")) }
}

pub(super) fn parse_class(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|class| *class < CLASSES);
    number.or_else(|| CLASS_NAMES.iter().position(|name| *name == text)).ok_or_else(|| {
        format!("`{text}` is no class: write a number from 0 to {}, or one of {}", CLASSES - 1, CLASS_NAMES.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::workload::Workload;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use std::collections::BTreeMap;
    use std::io::Write;

    const RECORDING: &str = "# cost of each request\n20us\n\nshort 30us # by name\n1 2ms\n0 20us\nlong 500us\r\n";

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(bytes).expect("written");
        file
    }

    fn workload(file: &tempfile::NamedTempFile) -> Result<Workload, String> {
        format!("file:{}", file.path().display()).parse()
    }

    // Are classes read by number, by name and by default, and comments and blank lines skipped?
    #[test]
    fn lines_are_costs_of_classes() {
        let classes = parse(RECORDING).expect("a recording");
        let [short, long] = &classes[..] else { panic!("{} classes", classes.len()) };
        assert_eq!((short.share, long.share), (0.6, 0.4));
        let costs = |class: &Class| match &class.cost {
            Cost::Recorded(recorded) => recorded.costs.iter().map(|cost| cost.get() / 1_000).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!((costs(short), costs(long)), (vec![20, 30, 20], vec![2_000, 500]));
        assert_eq!(long.cost.mean(), Nanos::from_micros(1_250));
    }

    // Does a file become a workload whose mean is that of its lines, each of which is drawn equally often?
    #[test]
    fn every_line_is_drawn_equally_often() {
        let workload = workload(&file(RECORDING.as_bytes())).expect("a workload");
        assert_eq!(workload.mean(), Nanos::from_micros(514));
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut drawn: BTreeMap<_, f64> = BTreeMap::new();
        let draws = 100_000;
        for _ in 0..draws {
            *drawn.entry(workload.draw(&mut rng)).or_default() += 1.0 / f64::from(draws);
        }
        let expected = [((0, 20), 0.4), ((0, 30), 0.2), ((1, 500), 0.2), ((1, 2_000), 0.2)];
        assert_eq!(drawn.len(), expected.len(), "{drawn:?}");
        for ((class, us), share) in expected {
            let found = drawn[&(class, Nanos::from_micros(us))];
            assert!((found - share).abs() < 0.01, "class {class}, {us} us: {found}, not {share}");
        }
    }

    // Does each mistake name the line and what would be right?
    #[test]
    fn mistakes_are_located() {
        for (text, expected) in [
            ("20us\n\n20", "line 3: `20` is not a duration: write a number and a unit"),
            ("# costs\n0us", "line 2: `0us` is out of range: a cost is 1ns to 1h"),
            ("20us\n100000000000000000000000us", "line 2: `100000000000000000000000us` is too long"),
            ("20us\n2h", "line 2: `2h` is out of range: a cost is 1ns to 1h"),
            ("8 20us", "line 1: `8` is no class: write a number from 0 to 7, or one of short, long, class2"),
            ("medium 20us", "line 1: `medium` is no class"),
            ("0 20us 30us", "line 1: `0 20us 30us` is too much: write COST or CLASS COST"),
            ("# nothing\n\n", "no cost"),
            ("0 1us\n2 1us", "costs of class class2, but none of class long"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }

    // Does an error about the file itself name the file?
    #[test]
    fn unusable_files_are_named() {
        let binary = file(b"20us\n20us\n\xff\xfe");
        for (path, expected) in [
            ("/nowhere/costs", "it cannot be read: No such file"),
            ("/", "it cannot be read"),
            (binary.path().to_str().expect("a path"), "line 3: it is not text"),
        ] {
            let error = format!("file:{path}").parse::<Workload>().expect_err(path);
            assert!(error.contains(path) && error.contains(expected), "{error}");
        }
    }
    // Does reading stop at the bound, whether or not the file has an end?
    #[test]
    fn what_is_read_is_bounded() {
        let too_large = |read: Result<_, String>| read.is_err_and(|problem| problem == "it is larger than 256 MiB");
        assert!(too_large(read_bounded("/dev/zero", 1_000)));
        let five_bytes = file(b"20us\n");
        let path = five_bytes.path().to_str().expect("a path");
        assert!(read_bounded(path, 5).is_ok());
        assert!(too_large(read_bounded(path, 4)));
    }
}
