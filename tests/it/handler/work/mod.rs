//! Work that requests and shards give away: to helper threads ([`aside`]), or to the workers as a
//! request of its own ([`begun`]). A handler may serve it ([`carried`]).

mod aside;
mod begun;
mod carried;

use forebay::fate::Fate;
use forebay::{Event, Out, Service};

/// A service with one shard, which begins work by `begin` for the kinds of requests that it knows.
/// `begin` returns `None` for any other request, which is answered with the results so far. 'f'
/// stands for work without room. Without a result, '!' stands for a panic, 'x' for a deadline, and
/// '2' for a repeat.
struct Begins<B>(B);

impl<B: Fn(u8, &Out<'_, u8>) -> Option<bool> + Sync> Service for Begins<B> {
    type Ticket = ();
    type Shard = Vec<u8>;
    type Message = u8;

    const SHARDS: usize = 1;

    fn shard(&self, _: usize) -> Vec<u8> {
        Vec::new()
    }

    async fn handle(&self, ended: &mut Vec<u8>, event: Event<'_, (), u8>, out: &mut Out<'_, u8>) {
        match event {
            Event::Datagram(request) => match (self.0)(request.bytes()[0], out) {
                Some(true) => {}
                Some(false) => ended.push(b'f'),
                None => {
                    let _ = out.reply().put(b"=");
                    let _ = out.reply().put(ended);
                }
            },
            Event::Message(result) => ended.push(result),
            Event::Unfinished { fate, .. } => ended.push(match fate {
                Fate::Failed => b'!',
                Fate::ShedExpired => b'x',
                Fate::Duplicate => b'2',
                _ => b'?',
            }),
            _ => {}
        }
    }
}
