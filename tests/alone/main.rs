//! Tests that measure time, CPU, memory or drops. They run one at a time: each begins with
//! `alone()`, and cargo runs test binaries one after another. Each module asks one question, in its
//! first line.

mod endpoint;
mod life;
mod load;
mod net;
