//! Do the files of deploy/ fit the programs that they install?

mod published;
mod scripts;
mod unit;
mod upgrade;
