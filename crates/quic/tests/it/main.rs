//! Tests of the program as clients see it. Each module asks one question, in its first line.

mod aside;
mod doors;
mod life;
mod other;
mod page;
mod raw;
mod served;
mod support;
mod tasks;
