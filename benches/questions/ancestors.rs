//! What each ancestor claimed, what we saw, and what this server makes of it.

use super::page::wrapped;

/// One line of descent.
struct Ancestor {
    name: &'static str,
    claimed: &'static str,
    /// The questions whose verdicts say what we saw.
    seen: &'static [&'static str],
    /// What this server does about it.
    done: &'static str,
}

const ANCESTORS: &[Ancestor] = &[
    Ancestor {
        name: "Work stealing behind locks, and its lock-free successor",
        claimed: "deques behind mutexes with `try_lock` are a good start; a lock-free deque is faster, above all for its owner \
            while thieves are at it, and packed counters of two threads cost five times padded ones.",
        seen: &["deque", "false_sharing", "spawn"],
        done: "crossbeam's deques, one for each priority; every counter that one thread writes and another reads is padded; \
            tasks in deques before the queue.",
    },
    Ancestor {
        name: "A pool with priorities and graphs",
        claimed: "the best of four strategies depends on the tasks: work stealing loses to one queue on many small tasks by \
            a third, and is as good on large and uneven ones; about a quarter of tasks change their worker by a direct steal.",
        seen: &["pool", "strategies", "stealing"],
        done: "tasks on the workers of the server, with three priorities, `TaskGraph`, and defaults of stealing that were measured \
            one by one.",
    },
    Ancestor {
        name: "Jobs in rings",
        claimed: "a ring of each thread makes single jobs twice as fast as the heap, a parallel loop four times; that a slot is \
            free when its turn comes is taken on trust.",
        seen: &["storage"],
        done: "packets and slots are boxes with an owner: none is free while it is used, and an empty pool refuses. They return \
            to a home that all workers share, because any worker may end a request; tasks of the library stay on the heap, for \
            they live as long as their handles.",
    },
    Ancestor {
        name: "Work stealing against micropools",
        claimed: "one pool that steals has the better median, pools of their own the better tail; shards make one queue fast \
            and are fair enough, which was left to be proved; shedding and split deques were left to be tried.",
        seen: &["micropools", "packet_chain", "sharded_queue", "shedding", "split_deques"],
        done: "policies instead of one answer (`levels` keeps the light apart without fixed pools); workers that go round the \
            shards, with a bound for the error; no split deques; shedding only as a policy for which workers are not forced.",
    },
    Ancestor {
        name: "Beside the ancestors: the cost of a step",
        claimed: "simulations of the literature take hand-overs of 0.1 us for granted.",
        seen: &["steps"],
        done: "`forebay calibrate` measures them where the server runs; instructions of the steps of one thread have a bound.",
    },
];

/// A paragraph for each ancestor, with the verdicts of `answers`, which has all questions.
pub(crate) fn paragraphs(answers: &[(&str, String)]) -> String {
    let cited = |name: &str| ANCESTORS.iter().any(|ancestor| ancestor.seen.contains(&name));
    assert!(answers.iter().all(|(name, _)| cited(name)), "each question descends from something");
    let verdict = |name: &&str| {
        let (_, verdict) = answers.iter().find(|(question, _)| question == name).expect("a question of the page");
        format!("`{name}`: {verdict}")
    };
    let paragraph = |ancestor: &Ancestor| {
        let Ancestor { name, claimed, seen, done } = ancestor;
        let seen: Vec<String> = seen.iter().map(verdict).collect();
        let text = format!("**{name}.** Claimed: {claimed} Seen here: {} What Forebay does: {done}", seen.join(" "));
        wrapped(&text) + "\n"
    };
    let paragraphs: Vec<String> = ANCESTORS.iter().map(paragraph).collect();
    format!("## The ancestors\n\n{}", paragraphs.join("\n"))
}
