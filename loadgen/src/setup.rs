//! What a command needs to drive a running server, from the flags of `run`.

use crate::arguments::RunArguments;
use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::plan::{self, Plan};
use crate::report::slo;
use crate::text::escaped;
use std::io::{Write, stderr};

/// A plan, and what its runs share.
pub(crate) struct Setup {
    pub(crate) plan: Plan,
    /// The server's admin endpoint, if there is one.
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) interrupt: Interrupt,
}

impl Setup {
    /// Asks the server, and listens for signals.
    ///
    /// # Errors
    /// A usage failure when flags contradict one another or the server; otherwise the system's
    /// error.
    pub(crate) fn of(arguments: &RunArguments) -> Result<Setup, Failure> {
        let profile = plan::chosen(arguments)?;
        let interrupt = Interrupt::listen()?;
        let endpoint = arguments.admin.as_deref().map(Endpoint::new).transpose()?;
        let (server, silence) = match endpoint.as_ref().map(Endpoint::latency) {
            None => (None, None),
            Some(Ok(view)) => (Some(view), None),
            Some(Err(error)) => (None, Some(error)),
        };
        let plan = match (Plan::of_run(arguments, profile, endpoint.as_ref(), server.as_ref()), silence) {
            // The failure lacks a value that the endpoint would have given.
            (Err(failure), Some(error)) => return Err(error.context(failure.to_string()).into()),
            (Ok(plan), Some(error)) => {
                // Printed before the run, not after it.
                let _ = writeln!(stderr(), "warning: the run will be INVALID: {}", escaped(&format!("{error:#}")));
                plan
            }
            (plan, None) => plan?,
        };
        if let Some(left_out) = plan.replay.as_ref().map(|replay| replay.left_out).filter(|left_out| *left_out > 0) {
            let _ = writeln!(
                stderr(),
                "warning: --replay lacks {left_out} arrivals of its server: the comments in it say why"
            );
        }
        let plan = arguments.slo.iter().try_fold(plan, slo::planned)?;
        Ok(Setup { plan, endpoint, interrupt })
    }
}
