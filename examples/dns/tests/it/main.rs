//! Tests of the program as clients see it. Each module asks one question, in its first line.

mod compared;
mod nasty;
mod online;
mod page;
mod peers;
mod quic;
mod served;
mod support;
mod validated;
mod whole;
mod zones;
