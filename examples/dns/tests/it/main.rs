//! The program as its clients see it. Each module asks one question, in its first line.

mod compared;
mod served;
mod support;
mod validated;
