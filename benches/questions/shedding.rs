//! Does it help that a loaded thread gives jobs to idle ones, instead of being stolen from?

use super::backlogs::compare;
use super::harness::{Size, text};
use super::mini::Sharing;
use super::page::Answer;

pub(crate) const QUESTION: &str = "Does it help that a loaded thread gives jobs to idle ones (work shedding), instead of being \
    stolen from?";

pub(crate) fn ask(size: Size) -> Answer {
    let compared = compare(size, "shedding", Sharing::Shed);
    let verdict = format!(
        "Shedding has {} times the throughput of stealing on a skewed backlog of two threads, {} times with one spawner, {} times \
         where all is equal; its p99.9 is {}, {} and {} times.",
        text(compared.over("skewed, 2", 0)),
        text(compared.over("one spawner, 2", 0)),
        text(compared.over("equal, 2", 0)),
        text(compared.over("skewed, 2", 1)),
        text(compared.over("one spawner, 2", 1)),
        text(compared.over("equal, 2", 1)),
    );
    Answer {
        tables: vec![compared.table],
        not_shown: "Threads on more processors. A thread that sheds gives one job at a time, the oldest, when it sees an idle \
            thread after a job of its own and has more than 8. The server's policy `shed` is another thing: overloaded workers \
            fill a queue, idle ones take from it, and they steal too.",
        verdict,
        failure: None,
    }
}
