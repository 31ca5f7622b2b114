//! How long requests may wait, by what was measured in the last seconds.

use crate::config::{Burn, Config};
use crate::net::RECV_BUFFER_BYTES;
use crate::sched::MaxWait;
use crate::sched::overload::WaitLimits;
use crate::time::Nanos;

/// What the kernel takes for a request's way in and out on stock sockets.
const KERNEL: Nanos = Nanos::from_micros(3);

/// What the kernel books of a receive buffer for a small datagram, which is twice what is asked
/// for.
const BOOKED_BYTES: u64 = 832 / 2;
/// The least receive buffer: the kernel's default, which holds a burst of 512 small datagrams once
/// it is doubled.
const RECEIVE_BUFFER_MIN: usize = 212_992;

/// The receive buffer of a socket, so small that whatever waits in it can still be served. It holds
/// what a worker that does nothing else takes out within the bound, where that is known from the
/// start. A core that is `time_scale` times slower has a socket that holds as many seconds of work.
pub(crate) fn receive_buffer(max_wait: MaxWait, time_scale: u64) -> usize {
    let most = RECV_BUFFER_BYTES / usize::try_from(time_scale).unwrap_or(usize::MAX);
    let bytes = match max_wait {
        MaxWait::For(bound) => (bound.get() / KERNEL.times(time_scale).get()).saturating_mul(BOOKED_BYTES),
        MaxWait::Auto | MaxWait::Off => u64::MAX,
    };
    usize::try_from(bytes).unwrap_or(usize::MAX).min(most).max(RECEIVE_BUFFER_MIN)
}

/// What each request takes of a worker beside its service.
pub(crate) fn beside(config: &Config) -> Nanos {
    let overheads = config.overheads_scaled();
    if config.burn == Burn::Sleep { overheads.receive.plus(overheads.send) } else { KERNEL }
}

/// How long a request may wait where a queue stands, before it begins; `None` = for ever.
pub(crate) fn max_wait(limits: &WaitLimits) -> Option<Nanos> {
    Some(limits.of(false).bound).filter(|bound| *bound != Nanos::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does a buffer hold what can be taken out within the bound, the kernel's default at least, and
    // all where that is not known?
    #[test]
    fn a_socket_holds_what_can_be_taken_out_within_the_bound() {
        let bytes = |bound, scale| receive_buffer(MaxWait::For(bound), scale);
        assert_eq!(bytes(Nanos::from_millis(15), 1), 5_000 * 416);
        assert_eq!(bytes(Nanos::from_millis(15), 2), 2_500 * 416);
        assert_eq!(bytes(Nanos::from_micros(1), 1), 212_992);
        assert_eq!(bytes(Nanos::from_millis(40), 1), RECV_BUFFER_BYTES, "no limit");
        let auto = |scale| [MaxWait::Auto, MaxWait::Off].map(|max_wait| receive_buffer(max_wait, scale));
        assert_eq!([1, 8, 1_000].map(auto), [[RECV_BUFFER_BYTES; 2], [RECV_BUFFER_BYTES / 8; 2], [212_992; 2]]);
    }
}
