use super::*;
use crate::keys::Algorithm;
use forebay::time::{Nanos, clock};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

pub(crate) fn service(algorithm: Option<Algorithm>) -> Service {
    Service {
        zones: ArcSwap::from_pointee(crate::answer::tests::zones(algorithm)),
        cookies: Cookies::new(None).expect("random numbers"),
        payload: 1_232,
        nsid: None,
        tcp_messages: Counter::default(),
    }
}

/// A question for the long texts, with an OPT record of `payload`, and `padding` bytes of an
/// unknown option.
pub(crate) fn question(payload: u16, dnssec_ok: bool, padding: u16) -> Vec<u8> {
    let mut message = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\x01\x03big\x07example\x04test\0\0\x10\0\x01\0\0\x29".to_vec();
    message.extend(payload.to_be_bytes());
    message.extend([0, 0, u8::from(dnssec_ok) << 7, 0]);
    message.extend((padding + 4).to_be_bytes());
    message.extend([0, 12]);
    message.extend(padding.to_be_bytes());
    message.extend(vec![0; usize::from(padding)]);
    message
}

fn arrival(bytes: &[u8]) -> Arrival<'_> {
    let local = |port| ([127, 0, 0, 1], port).into();
    Arrival::new(bytes, local(1_000), local(53), clock::instant(Nanos::ZERO))
}

/// The answer in at most `room` bytes.
fn handled(service: &Service, message: &[u8], room: usize) -> Vec<u8> {
    let mut buffer = vec![0; room];
    let mut reply = Reply::new(&mut buffer);
    at_once(
        service.handle(
            Request::new(&arrival(message), &Some(Query::parse(message).map_err(|_| Rcode::FormErr))),
            &mut reply,
        ),
    );
    reply.bytes().to_vec()
}

/// The result of `future`. Outside of a worker it never waits.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

// Is an answer no longer than its client accepts, also if the question was long or the server has
// more room?
#[test]
fn answers_keep_to_what_the_client_takes() {
    let service = service(None);
    let whole = handled(&service, &question(1_232, false, 0), 4_096);
    assert_eq!((whole[2] & 2, whole[7]), (0, 6));
    let exact = handled(&service, &question(whole.len() as u16, false, 900), 4_096);
    assert_eq!(exact.len(), whole.len());
    let short = handled(&service, &question(whole.len() as u16 - 1, false, 900), 4_096);
    assert_eq!((short[2] & 2, short[7]), (2, 0));
}

// Are missing signatures made, both in the handler and over TCP?
#[test]
fn signatures_are_made_on_the_way() {
    for over_tcp in [false, true] {
        let service = service(Some(Algorithm::Ed25519));
        let message = question(1_232, true, 0);
        let answer = || match over_tcp {
            true => at_once(service.answer_stream(&message, [127, 0, 0, 1].into())).expect("an answer"),
            false => handled(&service, &message, 1_232),
        };
        let (first, second) = (answer(), answer());
        assert_eq!((first[2] & 2, first[7]), (0, 7), "six texts and a signature");
        assert_eq!(first, second, "the same signature");
    }
}

// Is no signature made for an answer that does not fit? Is an answer sent that fits exactly?
#[test]
fn what_does_not_fit_is_not_signed() {
    for algorithm in [Algorithm::Ed25519, Algorithm::Rsa2048] {
        let whole = handled(&service(Some(algorithm)), &question(4_096, true, 0), 4_096).len();
        for (room, made, answers) in [(whole - 1, 0, 0), (whole, 1, 7)] {
            let service = service(Some(algorithm));
            let answer = handled(&service, &question(4_096, true, 0), room);
            let zones = service.zones.load();
            let signer = zones.iter().next().and_then(|zone| zone.signer.clone()).expect("it is signed");
            assert_eq!(
                (signer.made.value(), answer[7], answer[2] & 2 == 0),
                (made, answers, made == 1),
                "{algorithm:?}"
            );
        }
    }
}

// What does a client hear whose question was not served? It should hear why, if it can change
// something.
#[test]
fn refusals_say_why() {
    let service = service(None);
    let said = |message: &[u8], rcode, status| {
        let rejected = service.admit(&arrival(message)).err();
        let (reason, code) = (if rcode == Rcode::NotImp { OPCODE } else { FORMAT }, Some(Err(rcode)));
        let refused: Rejected<Asked> = Rejected::Refused(Admitted::new(code.clone()), Refused::Other).because(reason);
        assert_eq!(format!("{rejected:?}"), format!("{:?}", (status == Status::Refused).then_some(refused)));
        let mut buffer = [0; 512];
        let mut reply = Reply::new(&mut buffer);
        service.refuse(Request::new(&arrival(message), &code), Unserved::new(status), &mut reply);
        reply.bytes().to_vec()
    };
    let good = question(512, false, 0);
    let mut update = good.clone();
    update[2] = 0x28;
    assert_eq!(said(&update, Rcode::NotImp, Status::Refused), b"\x12\x34\xa8\x04\0\0\0\0\0\0\0\0");
    assert_eq!(said(&good[..20], Rcode::FormErr, Status::Refused), b"\x12\x34\x81\x01\0\0\0\0\0\0\0\0");
    assert_eq!(said(&good, Rcode::NoError, Status::Failed), b"\x12\x34\x81\x02\0\0\0\0\0\0\0\0");
    assert_eq!(said(&good, Rcode::NoError, Status::ShedQueueFull), b"");
    assert_eq!(said(&good, Rcode::NoError, Status::ShedDraining), b"");
}
