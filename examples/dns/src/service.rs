//! The server's state and its handler, which turns Forebay's requests into questions and answers.

use crate::answer::Answer;
use crate::cookies::Cookies;
use crate::query::{Fault, Query, Rcode};
use crate::reply::{Options, write_error};
use crate::zones::Zones;
use arc_swap::{ArcSwap, Guard};
use forebay::fate::{CLASSES, Malformed, Refused, Status};
use forebay::handler::{Admitted, Arrival, Handler, Rejected, Reply, Request, Unserved, hop, uninterrupted};
use forebay::server::Counter;
use forebay::time::clock;
use std::net::IpAddr;
use std::sync::Arc;

/// The class of questions that want signatures, for metrics and for policies that use classes.
const SIGNED_CLASS: u8 = 1;

/// Indices of the names of reasons: an operation that is not a question, and a question with a
/// wrong format.
const OPCODE: u8 = 0;
const FORMAT: u8 = 1;

/// Answers questions over UDP, and over [TCP](crate::tcp).
pub struct Service {
    /// The zones; a reload replaces them.
    pub zones: ArcSwap<Zones>,
    /// Makes and checks cookies.
    pub cookies: Cookies,
    /// Bytes of the longest answer over UDP: 1,232 fit into one packet nearly everywhere.
    pub payload: u16,
    /// The name of this server, for clients that ask for it.
    pub nsid: Option<Arc<str>>,
    /// Number of messages that came over TCP.
    pub tcp_messages: Counter,
}

/// A question, or the code of the answer to a message that is none. `None` comes from no datagram.
pub(crate) type Asked = Option<Result<Query, Rcode>>;

impl Service {
    /// The answer to a message that came over TCP; `None` if it gets none. Runs on a worker of the
    /// server.
    pub async fn answer_stream(&self, message: &[u8], client: IpAddr) -> Option<Vec<u8>> {
        self.tcp_messages.add(1);
        let query = match Query::parse(message) {
            Err(Fault::Silent) => return None,
            Err(Fault::Answered(rcode)) => return stream_error(message, rcode),
            Ok(query) => query,
        };
        let now = now();
        let zones = self.zones.load_full();
        let mut answer = Answer::find(&zones, &query, now);
        while let Some(index) = answer.unsigned() {
            uninterrupted(|| answer.sign(index)).await;
        }
        let options = self.options(&query, client, now);
        written(|out| answer.write(&options, out))
    }

    /// Writes the answer to `query`, of at most `most` bytes, into `reply`.
    pub(crate) async fn answer(&self, query: &Query, client: IpAddr, padded: bool, most: usize, reply: &mut Reply<'_>) {
        let now = now();
        let options = Options { padded, ..self.options(query, client, now) };
        let zones = self.zones.load();
        if put(&Answer::find(&zones, query, now), &options, most, reply) {
            return;
        }
        // From here on the request may wait, but a reload must not wait for it. Searching again
        // takes only 100 ns.
        let zones = Guard::into_inner(zones);
        let mut answer = Answer::find(&zones, query, now);
        answer.shorten(&options, most.min(reply.room()));
        // Under `pools`, a signature is made where it delays no light request.
        hop(1).await;
        while let Some(index) = answer.unsigned() {
            uninterrupted(|| answer.sign(index)).await;
        }
        put(&answer, &options, most, reply);
    }

    fn options(&self, query: &Query, client: IpAddr, now: u32) -> Options {
        let edns = query.edns.as_ref();
        let cookie = edns.and_then(|edns| edns.cookie.as_ref());
        let cookie = cookie.map(|cookie| self.cookies.renewed(cookie, client, now));
        Options {
            payload: self.payload,
            cookie,
            nsid: self.nsid.clone().filter(|_| edns.is_some_and(|edns| edns.nsid)),
            padded: false,
        }
    }
}

impl Handler for Service {
    type Ticket = Asked;

    const CLASS_NAMES: [&'static str; CLASSES] =
        ["plain", "signed", "class2", "class3", "class4", "class5", "class6", "class7"];

    const REASON_NAMES: &'static [&'static str] = &["opcode", "format"];

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<Asked>, Rejected<Asked>> {
        let query = match Query::parse(arrival.bytes()) {
            Ok(query) => query,
            Err(Fault::Silent) if arrival.bytes().len() < crate::query::HEADER_BYTES => {
                return Err(Rejected::Malformed(Malformed::Truncated));
            }
            Err(Fault::Silent) => return Err(Rejected::Malformed(Malformed::Reply)),
            Err(Fault::Answered(rcode)) => {
                let refused = Rejected::Refused(Admitted::new(Some(Err(rcode))), Refused::Other);
                return Err(refused.because(if rcode == Rcode::NotImp { OPCODE } else { FORMAT }));
            }
        };
        let cookie = query.edns.as_ref().and_then(|edns| edns.cookie.as_ref());
        let shown = |cookie| self.cookies.is_valid(cookie, arrival.peer().ip(), now());
        let is_proven = cookie.is_some_and(shown);
        let class = if query.wants_signatures() { SIGNED_CLASS } else { 0 };
        let most = query.payload().min(usize::from(self.payload)).max(arrival.bytes().len());
        // A resolver that hears nothing repeats its question within half a second.
        let identity = arrival.identity(arrival.bytes());
        Ok(Admitted::new(Some(Ok(query))).class(class).reply_limit(most).validated(is_proven).identity(identity))
    }

    async fn handle(&self, request: Request<'_, Asked>, reply: &mut Reply<'_>) {
        let Some(Ok(query)) = request.ticket() else { return };
        self.answer(query, request.peer().ip(), false, query.payload(), reply).await;
    }

    fn refuse(&self, request: Request<'_, Asked>, unserved: Unserved, reply: &mut Reply<'_>) {
        let rcode = match (unserved.status, request.ticket()) {
            (Status::Refused, Some(Err(rcode))) => *rcode,
            // Over its rate, a client that is what it seems to be asks again over TCP.
            (Status::Failed | Status::Stalled, _) => Rcode::ServFail,
            // After a question was shed because of load, the client asks again or elsewhere. An
            // answer would only add load.
            _ => return,
        };
        let written = write_error(request.bytes(), rcode, reply.spare_mut());
        written.into_iter().for_each(|length| reply.advance(length));
    }
}

/// The answer over TCP if a message gets no other one; `None` if none is due.
pub(crate) fn stream_error(message: &[u8], rcode: Rcode) -> Option<Vec<u8>> {
    written(|out| write_error(message, rcode, out))
}

/// A message of the length that `write` returns.
fn written(write: impl FnOnce(&mut [u8]) -> Option<usize>) -> Option<Vec<u8>> {
    let mut out = vec![0; usize::from(u16::MAX)];
    let length = write(&mut out)?;
    out.truncate(length);
    Some(out)
}

/// Writes the answer, of at most `most` bytes, if no signature has yet to be made.
fn put(answer: &Answer<'_>, options: &Options, most: usize, reply: &mut Reply<'_>) -> bool {
    if answer.unsigned().is_some() {
        return false;
    }
    // A long question must not allow an answer that the client cannot receive.
    let limit = most.min(reply.room());
    let written = answer.write(options, &mut reply.spare_mut()[..limit]);
    written.into_iter().for_each(|length| reply.advance(length));
    true
}

/// Seconds since 1970, as DNS counts them: modulo 2^32.
fn now() -> u32 {
    (clock::realtime().get() / 1_000_000_000) as u32
}

#[cfg(test)]
pub(crate) mod tests;
