//! Files of the server compiled against loom's atomics, in every interleaving. Each module asks one question, in its first
//! line.

mod sleep_loom;
mod tasks_loom;

// Where the files under test look for them.
use forebay::{sched, time};
