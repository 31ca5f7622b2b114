//! Reads master files (RFC 1035, 5).

use super::Zone;
use super::build::Records;
use super::entries::Entries;
use super::generic;
use super::rrset::Data;
use crate::name::{Name, is_within, text};
use crate::sign::Signer;
use bytes::Bytes;
use domain::base::iana::Class;
use domain::base::name::ToName;
use domain::base::rdata::{ComposeRecordData, ParseRecordData};
use domain::dep::octseq::Parser;
use domain::rdata::ZoneRecordData;
use domain::zonefile::inplace::{Entry, ScannedRecord, Zonefile};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How deep files may include one another, so that a file which includes itself comes to an end.
const INCLUDE_DEPTH_MAX: usize = 8;

/// A zone file that cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("zone {zone} ({}): {problem}", file.display())]
pub struct LoadError {
    /// The zone's name.
    pub zone: String,
    /// Its file, or the included one that is wrong.
    pub file: PathBuf,
    /// What is wrong, and where.
    pub problem: String,
}

/// Reads the zone of `apex` from `file`.
///
/// # Errors
/// The first error in the file, or the first entry that this server cannot serve.
pub fn load(apex: &Name, file: &Path, signer: Option<Arc<Signer>>) -> Result<Zone, LoadError> {
    let wrong = |file: &Path, problem| LoadError { zone: text(apex.as_bytes()), file: file.to_owned(), problem };
    let mut records = Records::default();
    let origin = domain::base::Name::from_octets(Bytes::copy_from_slice(apex.as_bytes()))
        .map_err(|error| wrong(file, error.to_string()))?;
    let mut zonefile = Zonefile::new();
    zonefile.set_origin(origin);
    zonefile.set_default_class(Class::IN);
    read(apex, file, zonefile, 0, &mut records).map_err(|(file, problem)| wrong(&file, problem))?;
    super::build::zone(apex, records, signer).map_err(|problem| wrong(file, problem))
}

/// Reads `file`. `zonefile` has the origin and the TTL of the file that includes it.
fn read(
    apex: &Name,
    file: &Path,
    mut zonefile: Zonefile,
    depth: usize,
    records: &mut Records,
) -> Result<(), (PathBuf, String)> {
    let wrong = |problem: String| (file.to_owned(), problem);
    let bytes = fs::read(file).map_err(|error| wrong(error.to_string()))?;
    let mut entries = Entries::new(&bytes);
    while let Some(written) = entries.next().map_err(wrong)? {
        let bad = |problem: String| wrong(written.wrong(&problem));
        let origin = zonefile.origin().map_err(|error| bad(error.to_string()))?;
        let line = written.ready(&origin.fmt_with_dot().to_string()).map_err(wrong)?;
        zonefile.extend_from_slice(line.as_bytes());
        // The parser sees one line at a time, so its position is not that of the file.
        let unplaced = |error: String| error.splitn(3, ':').last().unwrap_or_default().trim().to_owned();
        while let Some(entry) = zonefile.next_entry().map_err(|error| bad(unplaced(error.to_string())))? {
            match entry {
                Entry::Record(record) => add(apex, &record, records).map_err(bad)?,
                Entry::Include { path, origin: given } if depth < INCLUDE_DEPTH_MAX => {
                    let included = file.parent().unwrap_or(Path::new(".")).join(&*path);
                    let mut inner = zonefile.clone();
                    given.into_iter().for_each(|origin| inner.set_origin(origin));
                    read(apex, &included, inner, depth + 1, records)?;
                }
                Entry::Include { .. } => return Err(bad(format!("more than {INCLUDE_DEPTH_MAX} files deep"))),
            }
        }
    }
    Ok(())
}

fn add(apex: &Name, record: &ScannedRecord, records: &mut Records) -> Result<(), String> {
    let owner = record.owner().to_name::<Vec<u8>>();
    let problem = |what: &str| format!("{} {}: {what}", owner.fmt_with_dot(), record.rtype());
    if record.class() != Class::IN {
        return Err(problem("of another class than IN"));
    }
    let owner = Name::parse(owner.as_slice()).filter(|owner| is_within(owner.as_bytes(), apex.as_bytes()));
    let owner = owner.ok_or_else(|| problem("does not belong to the zone"))?;
    let (mut plain, mut canonical) = (Vec::new(), Vec::new());
    let Ok(()) = record.data().compose_rdata(&mut plain);
    // Also checks data written as `\#` with hexadecimal digits, which may be wrong for any type.
    let wrong = || problem("the data is not that of the type");
    let (rtype, mut parser) = (record.rtype(), Parser::from_ref(&plain[..]));
    let data = ZoneRecordData::parse_rdata(rtype, &mut parser);
    let data = data.ok().flatten().filter(|_| parser.remaining() == 0);
    let Ok(()) = data.ok_or_else(wrong)?.compose_canonical_rdata(&mut canonical);
    generic::canonicalize(rtype, &mut canonical).ok_or_else(wrong)?;
    records.add(&owner, rtype, record.ttl().as_secs(), Data { plain, canonical });
    Ok(())
}
