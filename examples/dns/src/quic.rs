//! DNS over QUIC (RFC 9250). Each question comes on a stream of its own, behind its length, and so
//! does the answer. The same [`Service`] answers as over UDP, under the same policy. Answers are
//! whole, whatever a client says that it accepts over UDP.

use crate::query::{HEADER_BYTES, Query};
use crate::service::{Asked, Service};
use crate::tcp::IDLE;
use forebay::fate::{CLASSES, Ending, Fate, Status};
use forebay::handler::{Admitted, Arrival, Handler, Rejected, Reply, Request, Unserved, timeout};
use forebay_quic::connection::{ReadExactError, ReadToEndError};
use forebay_quic::quinn_proto::VarInt;
use forebay_quic::{Application, Connection, RecvStream, SendStream, Streams, connection, serve_streams};
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

/// DNS over QUIC, of one server.
pub struct OverQuic(Arc<Whole>);

impl OverQuic {
    /// Answers from `service`.
    pub fn new(service: Arc<Service>) -> OverQuic {
        OverQuic(Arc::new(Whole(service)))
    }

    /// Answers the question of a stream, in the form of a stream.
    async fn framed_answer(
        &self,
        connection: &Connection,
        send: &mut SendStream,
        receive: &mut RecvStream,
    ) -> Result<Vec<u8>, Code> {
        // A client that leaves a stream open would keep it for ever.
        let question = timeout(IDLE, question(receive)).await.unwrap_or(Err(Code::Protocol))?;
        let served = connection.serve(&self.0, question, MESSAGE_MAX);
        let answer = send.unless_stopped(served).await.ok_or(Code::Cancelled)?.map_err(|unserved| match unserved {
            connection::Unserved::As(fate) => code_of(fate),
            connection::Unserved::ConnectionLost(_) => Code::Cancelled,
        })?;
        if answer.is_empty() {
            return Err(Code::Internal);
        }
        Ok([&(answer.len() as u16).to_be_bytes()[..], &answer].concat())
    }
}

/// Reads the question of a stream: after its length, alone, and with the ID 0.
async fn question(receive: &mut RecvStream) -> Result<Vec<u8>, Code> {
    let mut length = [0; 2];
    receive.read_exact(&mut length).await.map_err(|error| match error {
        ReadExactError::FinishedEarly(_) => Code::Protocol,
        ReadExactError::Read(_) => Code::Cancelled,
    })?;
    let length = usize::from(u16::from_be_bytes(length));
    let question = receive.read_to_end(length).await.map_err(|error| match error {
        ReadToEndError::TooLong => Code::Protocol,
        ReadToEndError::Read(_) => Code::Cancelled,
    })?;
    if question.len() == length && is_question(&question) { Ok(question) } else { Err(Code::Protocol) }
}

/// Whether a message has the ID 0, and nothing that belongs to TCP.
fn is_question(message: &[u8]) -> bool {
    let keeps_alive = || Query::parse(message).is_ok_and(|query| query.edns.is_some_and(|edns| edns.keepalive));
    message.len() >= HEADER_BYTES && message[..2] == [0, 0] && !keeps_alive()
}

fn code_of(fate: Fate) -> Code {
    match fate.status().map(Status::ending) {
        // It is an answer, which no client may send.
        _ if fate == Fate::Malformed => Code::Protocol,
        Some(Ending::Shed) => Code::ExcessiveLoad,
        _ => Code::Internal,
    }
}

impl Application for OverQuic {
    fn protocols(&self) -> Vec<String> {
        vec!["doq".to_owned()]
    }

    async fn serve(self: Arc<Self>, connection: Connection) {
        serve_streams(self, connection).await;
    }
}

impl Streams for OverQuic {
    async fn answer(
        &self,
        connection: &Connection,
        send: &mut SendStream,
        receive: &mut RecvStream,
    ) -> Result<(), u32> {
        match self.framed_answer(connection, send, receive).await {
            // If the client is gone, it misses no answer.
            Ok(answer) => drop(send.write_chunk(answer.into()).await),
            Err(code) => {
                if code == Code::Protocol {
                    connection.close(VarInt::from_u32(code as u32), b"");
                }
                return Err(code as u32);
            }
        }
        Ok(())
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

    /// What has failed gets no answer: a code ends its stream.
    fn refuse(&self, request: Request<'_, Asked>, unserved: Unserved, reply: &mut Reply<'_>) {
        if unserved.status == Status::Refused {
            self.0.refuse(request, unserved, reply);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::{DO, question};
    use crate::query::Rcode;
    use crate::service::tests::service;
    use domain::base::iana::Rtype;
    use forebay::time::{Nanos, clock};

    // Is a message a question only with the ID 0, and without what belongs to TCP?
    #[test]
    fn a_question_has_nothing_of_other_transports() {
        let mut asked = question("a.test", Rtype::A, DO);
        assert!(!is_question(&asked));
        asked[..2].fill(0);
        assert!(is_question(&asked));
        assert!(is_question(&asked[..HEADER_BYTES]), "what is no question gets an answer that says so");
        assert!(!is_question(&asked[..HEADER_BYTES - 1]) && !is_question(&[]));
        // The OPT record ends the message, and has no options yet.
        for (option, fits) in [(10, true), (11, false)] {
            let data: &[u8] = if option == 10 { b"abcdefgh" } else { b"" };
            let mut longer = [&asked[..], &[0, option, 0, data.len() as u8], data].concat();
            longer[asked.len() - 1] = 4 + data.len() as u8;
            assert_eq!(is_question(&longer), fits, "{option}");
        }
    }

    // Is each end that the protocol knows told by its code?
    #[test]
    fn a_fate_has_its_code() {
        assert_eq!([Fate::ShedWaited, Fate::ShedQueueFull, Fate::ShedDraining].map(code_of), [Code::ExcessiveLoad; 3]);
        assert_eq!([Fate::Failed, Fate::Stalled, Fate::Refused].map(code_of), [Code::Internal; 3]);
        assert_eq!(code_of(Fate::Malformed), Code::Protocol);
    }

    // Does a client hear in an answer what is wrong with its question, and by a code that the
    // server has failed?
    #[test]
    fn only_what_is_refused_is_answered() {
        let (whole, asked) = (Whole(Arc::new(service(None))), question("a.test", Rtype::A, DO));
        let local = ([127, 0, 0, 1], 53).into();
        let arrival = Arrival::new(&asked, local, local, clock::instant(Nanos::ZERO));
        for (status, length) in [(Status::Refused, HEADER_BYTES), (Status::Failed, 0), (Status::Stalled, 0)] {
            let (mut buffer, ticket) = ([0; 512], Some(Err(Rcode::NotImp)));
            let mut reply = Reply::new(&mut buffer);
            whole.refuse(Request::new(&arrival, &ticket), Unserved::new(status), &mut reply);
            assert_eq!(reply.bytes().len(), length, "{status:?}");
        }
    }
}
