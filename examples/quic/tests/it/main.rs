//! Tests of the program as clients see it. Each module asks one question, in its first line.

mod life;
mod other;
mod page;
mod served;
mod support;
