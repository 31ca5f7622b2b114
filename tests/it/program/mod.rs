//! Arguments and output of the built programs, and programs that embed a server.

mod config;
mod custom_handler;
mod embedded;
mod examples;
mod health;
mod output;
mod ports;
mod service;
