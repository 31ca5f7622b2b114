//! `--handler packet-chain`: real work, the packet benchmark beside the micropools experiment.

use super::{Burner, Order, Spin, Work};
use crate::handler::{Reply, checkpoint, hop};
use crate::time::Nanos;
use std::cell::Cell;

/// Places that the tasks read: 8 MiB, more than the caches of one core hold.
const PLACES: usize = 1 << 20;
/// Short tasks of a chain, and reads of each.
const TASKS: usize = 3;
const READS: usize = 20;
/// What scan and short tasks take at most, by the workload of the same name; a request that costs no more has no long task.
const SHORT: Nanos = Nanos::from_micros(2);
/// The longest of the long tasks.
const LONG: Nanos = Nanos::from_millis(20);

thread_local! {
    /// Where this thread's last task ended: the next one goes on there, so that no task finds its places in a cache.
    static PLACE: Cell<usize> = const { Cell::new(0) };
}

/// Searches the payload for ends of lines, then runs three tasks of 20 reads each, with a checkpoint before each task.
/// Every read is at the place that the read before it has found. The requested cost beyond 2 us is burnt in tasks of
/// up to 20 ms, with a checkpoint after each microsecond. They run in the second pool, where there is one. The reply
/// is the number of lines, 8 bytes in network order, or as much of them as the request has room for.
#[derive(Debug)]
pub struct PacketChain {
    long: Spin,
    /// Each place says which one follows; all of them are one cycle.
    next: Box<[usize]>,
}

impl PacketChain {
    /// Burns with `burner`. Allocates 8 MiB.
    pub fn new(burner: Burner) -> PacketChain {
        // A linear congruential generator of full period (Hull and Dobell, 1962); no prefetcher follows its jumps.
        let next = (0..PLACES).map(|place| (place * 1_664_525 + 1_013_904_223) % PLACES).collect();
        PacketChain { long: Spin::new(burner, 1), next }
    }

    /// The place to which a task comes from `place`.
    fn read(&self, place: usize) -> usize {
        (0..READS).fold(place, |place, _| self.next[place])
    }
}

impl Work for PacketChain {
    async fn work(&self, order: Order<'_>, reply: &mut Reply<'_>) {
        let lines = order.payload.iter().filter(|byte| **byte == b'\n').count() as u64;
        for _ in 0..TASKS {
            checkpoint().await;
            PLACE.set(self.read(PLACE.get()));
        }
        let mut left = order.cost.minus(SHORT);
        while left > Nanos::ZERO {
            let task = left.min(LONG);
            hop(1).await;
            self.long.burn(task).await;
            left = left.minus(task);
        }
        // A shorter request gets the beginning: cut on purpose, as documented above.
        let _ = reply.put(&lines.to_be_bytes()[..reply.room().min(size_of::<u64>())]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::clock;
    use std::pin::pin;
    use std::task::{Context, Waker};

    /// The reply to a request of `cost` with `payload`, and how long it took.
    fn reply_to(chain: &PacketChain, cost: Nanos, payload: &[u8], room: usize) -> (Vec<u8>, Nanos) {
        let mut buffer = vec![0; room];
        let mut reply = Reply::new(&mut buffer);
        let began = clock::now();
        {
            let work = pin!(chain.work(Order { cost, payload }, &mut reply));
            assert!(
                work.poll(&mut Context::from_waker(Waker::noop())).is_ready(),
                "outside a worker nobody interferes"
            );
        }
        let took = clock::now().minus(began);
        (reply.bytes().to_vec(), took)
    }

    // Are the lines counted, as far as there is room to say so?
    #[test]
    fn the_lines_of_a_packet_are_counted() {
        let chain = PacketChain::new(Burner::Cpu { rounds_per_1024_ns: 1 });
        let payload = [b"a line\n".as_slice(); 259].concat();
        assert_eq!(reply_to(&chain, SHORT, &payload, 100).0, [0, 0, 0, 0, 0, 0, 1, 3]);
        assert_eq!(reply_to(&chain, Nanos::ZERO, &payload, 7).0, [0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(reply_to(&chain, Nanos::ZERO, b"no line", 8).0, [0; 8]);
    }

    // Does each request read 60 places, and does it take all requests of a worker the whole table to come back to one?
    #[test]
    fn each_packet_reads_places_that_none_has_read_for_long() {
        let chain = PacketChain::new(Burner::Cpu { rounds_per_1024_ns: 1 });
        let began = PLACE.get();
        reply_to(&chain, Nanos::ZERO, b"", 8);
        let ended = PLACE.get();
        assert_eq!((0..60).fold(began, |place, _| chain.next[place]), ended);
        let mut steps = 60;
        let mut place = ended;
        while place != began {
            place = chain.next[place];
            steps += 1;
            assert!(steps <= PLACES, "{began} is in no cycle");
        }
        assert_eq!(steps, PLACES);
    }

    // Is what the cost leaves burnt, and nothing where it leaves nothing? An undisturbed core takes half of it at least.
    #[test]
    fn the_rest_of_the_cost_is_burnt() {
        let chain = PacketChain::new(Burner::calibrated());
        let (answer, took) = reply_to(&chain, Nanos::from_millis(42), b"\n", 16);
        assert!(took > Nanos::from_millis(21), "{took} for 42 ms");
        assert_eq!(answer, [0, 0, 0, 0, 0, 0, 0, 1]);
        let quick = (0..100).map(|_| reply_to(&chain, SHORT, b"\n", 16).1).min();
        assert!(quick < Some(Nanos::from_millis(1)), "{quick:?} without a long task");
    }
}
