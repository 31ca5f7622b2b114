//! How long requests may wait, from measurements of the last seconds.

use crate::config::{Burn, Config};
use crate::net::RECV_BUFFER_BYTES;
use crate::sched::MaxWait;
use crate::sched::overload::WaitLimits;
use crate::time::Nanos;

/// The kernel's time to receive a request and to send its reply, with plain UDP sockets.
const KERNEL: Nanos = Nanos::from_micros(3);

/// Bytes of the requested buffer size that a small datagram takes. The kernel books 832 bytes for
/// it, but also reserves twice the requested size.
const BOOKED_BYTES: u64 = 832 / 2;
/// The smallest receive buffer, the kernel's default. The kernel doubles it, so it holds a burst of
/// 512 small datagrams.
const RECEIVE_BUFFER_MIN: usize = 212_992;

/// The receive buffer of a socket, in bytes. It is limited so that all datagrams in it can still be
/// served in time. With a fixed `max_wait`, it holds as many datagrams as a worker can shed within
/// this time. On cores that are `time_scale` times slower, it holds fewer datagrams by this factor.
pub(crate) fn receive_buffer(max_wait: MaxWait, time_scale: u64) -> usize {
    let most = RECV_BUFFER_BYTES / usize::try_from(time_scale).unwrap_or(usize::MAX);
    let bytes = match max_wait {
        MaxWait::For(bound) => (bound.get() / KERNEL.times(time_scale).get()).saturating_mul(BOOKED_BYTES),
        MaxWait::Auto | MaxWait::Off => u64::MAX,
    };
    usize::try_from(bytes).unwrap_or(usize::MAX).min(most).max(RECEIVE_BUFFER_MIN)
}

/// The time outside the handler that each request takes of a worker.
pub(crate) fn beside(config: &Config) -> Nanos {
    let overheads = config.overheads_scaled();
    if config.burn == Burn::Sleep { overheads.receive.plus(overheads.send) } else { KERNEL }
}

/// How long a request may wait in a standing queue before it begins; `None` = for ever.
pub(crate) fn max_wait(limits: &WaitLimits) -> Option<Nanos> {
    Some(limits.of(false).bound).filter(|bound| *bound != Nanos::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does a buffer hold as many datagrams as can be shed within the limit, and at least the
    // kernel's default? Is it the maximum without a fixed limit?
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
