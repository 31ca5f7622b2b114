//! Files of the server, compiled against loom's atomics and run in every interleaving. Each module
//! asks one question, in its first line.

#[allow(dead_code, reason = "flaws are for the twins")]
mod sleep_loom;
mod tasks_loom;

// The files under test look for these names here.
use forebay::inside::sched;
use forebay::time;
