//! Files of the runtime, compiled against loom's atomics and run in every interleaving. Each module
//! asks one question, in its first line.

#[allow(dead_code, reason = "flaws are for the twins")]
mod sleep_loom;
mod tasks_loom;

// The files under test look for these names here.
use forebay_base::time;
use forebay_sched as sched;
