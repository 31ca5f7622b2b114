//! Does it help that a part of each deque is private, which its owner uses without care for thieves?

use super::backlogs::compare;
use super::harness::{Size, text};
use super::mini::Sharing;
use super::page::Answer;

pub(crate) const QUESTION: &str =
    "Does it help that a part of each deque is private, which its owner uses without care for thieves?";

pub(crate) fn ask(size: Size) -> Answer {
    let compared = compare(size, "split deques", Sharing::Split);
    let verdict = format!(
        "Split deques have {} times the throughput of plain ones where all is equal, {} times on a skewed backlog of two threads, {} \
         times with one spawner; their p99.9 is {}, {} and {} times.",
        text(compared.over("equal, 2", 0)),
        text(compared.over("skewed, 2", 0)),
        text(compared.over("one spawner, 2", 0)),
        text(compared.over("equal, 2", 1)),
        text(compared.over("skewed, 2", 1)),
        text(compared.over("one spawner, 2", 1)),
    );
    Answer {
        tables: vec![compared.table],
        not_shown: "Threads on more processors. The owner publishes the older half of its private part after a job if nothing of \
            it is public; a thief finds nothing while the owner is in a long job, which is what a server of mixed costs has.",
        verdict,
        failure: None,
    }
}
