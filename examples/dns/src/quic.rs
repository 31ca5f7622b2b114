//! DNS over QUIC (RFC 9250). Each question comes on a stream of its own, behind its length, and so
//! does the answer. The same [`Service`] answers as over UDP, under the same policy. Answers are
//! whole, whatever a client says that it accepts over UDP.

use crate::query::{HEADER_BYTES, Query};
use crate::service::{Asked, Service};
use forebay::fate::{CLASSES, Ending, Fate};
use forebay::handler::{Admitted, Arrival, Handler, Rejected, Reply, Request, Unserved};
use forebay_quic::connection::ReadToEndError;
use forebay_quic::quinn_proto::VarInt;
use forebay_quic::{Application, Connection, RecvStream, SendStream, connection};
use std::sync::Arc;

/// The longest message (RFC 9250, section 4.2).
const MESSAGE_MAX: usize = u16::MAX as usize;

/// Why a stream or a connection ends (RFC 9250, section 8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    Internal = 1,
    Protocol = 2,
    Cancelled = 3,
    ExcessiveLoad = 4,
}

/// A stream gets no answer.
enum Ended {
    /// It is reset with this code.
    Stream(Code),
    /// The client does not keep to the protocol: its connection is closed.
    Connection,
}

/// DNS over QUIC, of one server.
pub struct OverQuic(Arc<Whole>);

impl OverQuic {
    /// Answers from `service`.
    pub fn new(service: Arc<Service>) -> OverQuic {
        OverQuic(Arc::new(Whole(service)))
    }

    async fn answer(
        &self,
        connection: &Connection,
        send: &mut SendStream,
        receive: &mut RecvStream,
    ) -> Result<(), Ended> {
        let message = receive.read_to_end(2 + MESSAGE_MAX).await.map_err(|error| match error {
            ReadToEndError::TooLong => Ended::Connection,
            ReadToEndError::Read(_) => Ended::Stream(Code::Cancelled),
        })?;
        let question = question_of(&message).ok_or(Ended::Connection)?.to_vec();
        let served = connection.serve(&self.0, question, MESSAGE_MAX);
        let answer = match send.unless_stopped(served).await {
            Some(Ok(answer)) if answer.is_empty() => return Err(Ended::Stream(Code::Internal)),
            Some(Ok(answer)) => answer,
            Some(Err(connection::Unserved::As(Fate::Malformed))) => return Err(Ended::Connection),
            Some(Err(connection::Unserved::As(fate))) => return Err(Ended::Stream(code_of(fate))),
            Some(Err(connection::Unserved::ConnectionLost(_))) | None => return Err(Ended::Stream(Code::Cancelled)),
        };
        let length = (answer.len() as u16).to_be_bytes();
        // If the client is gone, no answer is missed.
        let _ = send.write_chunk([&length[..], &answer].concat().into()).await;
        Ok(())
    }
}

/// The question in a whole stream: after its length, alone, and with the ID 0.
fn question_of(message: &[u8]) -> Option<&[u8]> {
    let (length, question) = message.split_first_chunk()?;
    let fits = usize::from(u16::from_be_bytes(*length)) == question.len() && question.len() >= HEADER_BYTES;
    let keeps_alive = || Query::parse(question).is_ok_and(|query| query.edns.is_some_and(|edns| edns.keepalive));
    (fits && question[..2] == [0, 0] && !keeps_alive()).then_some(question)
}

fn code_of(fate: Fate) -> Code {
    match fate.status().map(forebay::fate::Status::ending) {
        Some(Ending::Shed) => Code::ExcessiveLoad,
        _ => Code::Internal,
    }
}

impl Application for OverQuic {
    fn protocols(&self) -> Vec<String> {
        vec!["doq".to_owned()]
    }

    async fn serve(self: Arc<Self>, connection: Connection) {
        while let Ok((mut send, mut receive)) = connection.accept_bi().await {
            let (own, on) = (Arc::clone(&self), connection.clone());
            let stream = async move {
                match own.answer(&on, &mut send, &mut receive).await {
                    Ok(()) => {}
                    Err(Ended::Connection) => on.close(VarInt::from_u32(Code::Protocol as u32), b""),
                    Err(Ended::Stream(code)) => {
                        // The client may have closed a side itself.
                        let _ = receive.stop(code as u32);
                        let _ = send.reset(code as u32);
                    }
                }
            };
            // There may be more tasks than streams, so there is room.
            let _ = connection.spawn(stream);
        }
    }
}

/// The service, where answers are whole and padded.
struct Whole(Arc<Service>);

impl Handler for Whole {
    type Ticket = Asked;

    const CLASS_NAMES: [&'static str; CLASSES] = <Service as Handler>::CLASS_NAMES;
    const REASON_NAMES: &'static [&'static str] = <Service as Handler>::REASON_NAMES;

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<Asked>, Rejected<Asked>> {
        self.0.admit(arrival)
    }

    async fn handle(&self, request: Request<'_, Asked>, reply: &mut Reply<'_>) {
        let Some(Ok(query)) = request.ticket() else { return };
        let padded = query.edns.as_ref().is_some_and(|edns| edns.padded);
        self.0.answer(query, request.peer().ip(), padded, MESSAGE_MAX, reply).await;
    }

    fn refuse(&self, request: Request<'_, Asked>, unserved: Unserved, reply: &mut Reply<'_>) {
        self.0.refuse(request, unserved, reply);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{DO, question};
    use domain::base::iana::Rtype;

    // Is a message a question only after its own length, alone, with the ID 0, and without what
    // belongs to TCP?
    #[test]
    fn a_stream_has_one_question() {
        let mut asked = question("a.test", Rtype::A, DO);
        asked[..2].fill(0);
        let framed = |length: usize, asked: &[u8]| [&(length as u16).to_be_bytes()[..], asked].concat();
        assert_eq!(question_of(&framed(asked.len(), &asked)), Some(&asked[..]));
        for (length, bytes) in [(asked.len() - 1, &asked[..]), (asked.len() + 1, &asked), (3, &[0; 3]), (0, &[])] {
            assert_eq!(question_of(&framed(length, bytes)), None, "{length}");
        }
        assert_eq!(question_of(&[0]), None);
        let mut named = asked.clone();
        named[1] = 1;
        assert_eq!(question_of(&framed(named.len(), &named)), None);
        // The OPT record ends the message, and has no options yet.
        let mut kept = [&asked[..], &[0, 11, 0, 0]].concat();
        let at = asked.len() - 1;
        kept[at] = 4;
        assert_eq!(question_of(&framed(kept.len(), &kept)), None);
    }

    // Is each end that the protocol knows told by its code?
    #[test]
    fn a_fate_has_its_code() {
        assert_eq!([Fate::ShedWaited, Fate::ShedQueueFull].map(code_of), [Code::ExcessiveLoad; 2]);
        assert_eq!([Fate::Failed, Fate::Refused].map(code_of), [Code::Internal; 2]);
    }
}
