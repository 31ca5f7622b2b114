//! Emulated cores: what each step of a server costs them.

pub mod overheads;
