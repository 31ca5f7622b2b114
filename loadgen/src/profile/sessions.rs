//! The sessions of `examples/sessions.rs`: handshakes of two round trips, which give a flow its
//! session, and messages with a tag. A message has the run and the number of its request as text.

use super::{Chosen, Common, Profile, Told};
use crate::lab::workload::{Arrival, Workload};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

/// The key that the example has by default.
const SHARED_KEY: &[u8] = b"an example has no secret";
const HANDSHAKE: u8 = 1;
const HELLO_BYTES: usize = 48;
/// `D`, session, number and text.
const MESSAGE_BYTES: usize = 25;
const TAG_BYTES: usize = 32;

#[derive(Debug)]
struct Sessions {
    /// The number of the last message of each flow, by the flow's low byte. Messages may overtake
    /// one another: the server takes those up to 63 numbers behind the newest of their session.
    numbers: [AtomicU64; 256],
}

/// Messages, and handshakes as this share of the requests.
pub(super) fn chosen(share: &str) -> Result<Chosen, String> {
    let share = if share.is_empty() { Some(0.05) } else { share.parse().ok() };
    let share = share.filter(|share| (0.001..=0.999).contains(share));
    let share: f64 = share.ok_or("write the share of handshakes, 0.001 to 0.999, like sessions=0.05")?;
    let sessions = Sessions { numbers: array::from_fn(|_| AtomicU64::default()) };
    Ok(Chosen::new(sessions, Workload::without_costs(String::new(), &[1.0 - share, share])))
}

/// The tag of `message` in the session `id`.
fn tag(id: u64, message: &[u8]) -> [u8; TAG_BYTES] {
    let sign = |key: &[u8], bytes: &[u8]| {
        let mac = Hmac::<Sha256>::new_from_slice(key).expect("a key has any length");
        mac.chain_update(bytes).finalize().into_bytes()
    };
    sign(&sign(SHARED_KEY, &id.to_be_bytes()), message).into()
}

impl Profile for Sessions {
    fn protocol(&self) -> &'static str {
        "sessions example's"
    }

    fn classes(&self) -> &[&'static str] {
        &["message", "handshake"]
    }

    fn handshake(&self) -> Option<u8> {
        Some(HANDSHAKE)
    }

    fn write(&self, run: Common, id: u64, _: u8, request: &Arrival, into: &mut Vec<u8>) {
        if request.class == HANDSHAKE {
            into.push(b'H');
            into.extend([0; HELLO_BYTES - 1]);
            return;
        }
        let begin = into.len();
        into.push(b'D');
        into.extend(run.kept.to_be_bytes());
        // Ordering: one thread sends.
        let last = self.numbers[usize::from(request.flow as u8)].fetch_add(1, Ordering::Relaxed);
        // 0 is none.
        into.extend((last + 1).to_be_bytes());
        into.extend(run.stamp(id));
        into.extend(tag(run.kept, &into[begin..]));
    }

    fn read(&self, run: Common, reply: &[u8]) -> Option<Told> {
        match (reply.first()?, reply.len()) {
            (b'C', 33) => Some(Told::answer(0, 0)),
            (b'S', 9) => {
                let kept = u64::from_be_bytes(*reply[1..].first_chunk()?);
                Some(Told { kept, code: "opened", ..Told::answer(0, 0) })
            }
            (b'd', _) => {
                let (message, tagged) = reply.split_at_checked(MESSAGE_BYTES)?;
                let told = run.told(&message[17..])?;
                let id = u64::from_be_bytes(*message[1..].first_chunk()?);
                (tagged == tag(id, message)).then_some(Told { code: "answered", ..told })
            }
            _ => None,
        }
    }

    fn go_on(&self, reply: &[u8], into: &mut Vec<u8>) {
        if let [b'C', cookie @ ..] = reply {
            into.push(b'O');
            into.extend(cookie);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::time::Nanos;

    // Are messages of a flow numbered one by one? Requests of other flows in between are more than
    // the server's replay window holds.
    #[test]
    fn messages_of_a_flow_have_successive_numbers() {
        let profile = chosen("").expect("a share").profile;
        let number = |id: u64, flow: u16| {
            let run = Common { session: 5, deadline_us: 0, may_repeat: false, kept: 0 };
            let mut message = Vec::new();
            let request = Arrival { at: Nanos::ZERO, cost: Nanos::ZERO, flow, class: 0 };
            profile.write(run, id, 0, &request, &mut message);
            u64::from_be_bytes(message[9..17].try_into().expect("eight bytes"))
        };
        assert_eq!([(7, 0), (80, 1), (107, 0), (307, 0)].map(|(id, flow)| number(id, flow)), [1, 1, 2, 3]);
    }
}
