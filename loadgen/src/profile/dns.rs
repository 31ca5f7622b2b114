//! DNS over UDP (RFC 1035): the questions of a file, one after another, over and over. A reply must
//! repeat identifier and question.

use super::{Chosen, Common, Profile, Told};
use crate::lab::workload::{Arrival, lines};
use domain::base::{Name, Rtype};
use forebay::inside::wire::Status;
use std::path::Path;

/// The largest file of questions: a few million lines.
const FILE_MAX_BYTES: u64 = 128 << 20;
const HEADER_BYTES: usize = 12;
/// Flags of a question: recursion desired. Resolvers need it, and other servers ignore it.
const RECURSION_DESIRED: u8 = 0x01;
const RESPONSE: u8 = 0x80;

/// The questions, as a message holds them.
#[derive(Debug)]
struct Dns(Vec<Box<[u8]>>);

/// Questions of the file at `path`. A line is `NAME TYPE`; `;` or `#` begins a comment.
pub(super) fn chosen(path: &str) -> Result<Chosen, String> {
    let mut questions = Vec::new();
    let too_large = format!("it is larger than {} MiB", FILE_MAX_BYTES >> 20);
    let read = lines::open(Path::new(path)).and_then(|file| {
        lines::each(file, FILE_MAX_BYTES, &too_large, |line| {
            if !line.starts_with(';') {
                questions.push(question(line)?);
            }
            Ok(())
        })
    });
    let read = read.and_then(|()| if questions.is_empty() { Err("it has no question".to_owned()) } else { Ok(()) });
    read.map_err(|problem| format!("file {path}: {problem}; write NAME TYPE in each line, like www.example.com AAAA"))?;
    Ok(Chosen::alone(Dns(questions)))
}

fn question(line: &str) -> Result<Box<[u8]>, String> {
    let &[name, kind] = &line.split_whitespace().collect::<Vec<_>>()[..] else {
        return Err(format!("`{line}` is no question"));
    };
    let name: Name<Vec<u8>> = name.parse().map_err(|error| format!("`{name}` is no name: {error}"))?;
    let kind: Rtype = kind.parse().map_err(|_| format!("`{kind}` is no type of a record"))?;
    // The class is IN.
    Ok([name.as_slice(), &kind.to_int().to_be_bytes(), &[0, 1]].concat().into())
}

impl Dns {
    fn question(&self, id: u64) -> &[u8] {
        &self.0[(id % self.0.len() as u64) as usize]
    }
}

/// The identifier of request `id`. It begins at another one in each run.
fn identifier(run: Common, id: u64) -> u16 {
    (id as u16).wrapping_add(run.session as u16)
}

impl Profile for Dns {
    fn protocol(&self) -> &'static str {
        "DNS"
    }

    fn write(&self, run: Common, id: u64, _: u8, _: &Arrival, into: &mut Vec<u8>) {
        into.extend(identifier(run, id).to_be_bytes());
        // One question, and no records.
        into.extend([RECURSION_DESIRED, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        into.extend(self.question(id));
    }

    fn read(&self, run: Common, reply: &[u8]) -> Option<Told> {
        let &[high, low, flags, code, ..] = reply.first_chunk::<HEADER_BYTES>()?;
        let (status, code) = match code & 15 {
            0 => (Status::Ok, "NOERROR"),
            3 => (Status::Ok, "NXDOMAIN"),
            1 => (Status::Refused, "FORMERR"),
            2 => (Status::Failed, "SERVFAIL"),
            4 => (Status::Refused, "NOTIMP"),
            5 => (Status::Refused, "REFUSED"),
            _ => (Status::Refused, "another code"),
        };
        let id = u16::from_be_bytes([high, low]).wrapping_sub(identifier(run, 0));
        (flags & RESPONSE != 0).then(|| Told { status, code, ..Told::answer(id.into(), u16::BITS) })
    }

    fn id_bits(&self) -> u32 {
        u16::BITS
    }

    fn answers(&self, id: u64, reply: &[u8]) -> bool {
        reply[HEADER_BYTES..].starts_with(self.question(id))
    }
}
