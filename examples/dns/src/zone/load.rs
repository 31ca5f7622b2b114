//! Reading master files (RFC 1035, 5), with what a zone must have.

use super::build::Records;
use super::{Zone, rrset::Data};
use crate::name::{Name, is_within, text};
use crate::sign::Signer;
use bytes::Bytes;
use domain::base::iana::Class;
use domain::base::name::ToName;
use domain::base::rdata::ComposeRecordData;
use domain::zonefile::inplace::{Entry, ScannedRecord, Zonefile};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How deep files may include one another: a file that includes itself must end.
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
/// The first thing in the file that is wrong, or that this server does not serve.
pub fn load(apex: &Name, file: &Path, signer: Option<Arc<Signer>>) -> Result<Zone, LoadError> {
    let wrong = |file: &Path, problem| LoadError { zone: text(apex.as_bytes()), file: file.to_owned(), problem };
    let mut records = Records::default();
    let origin = domain::base::Name::from_octets(Bytes::copy_from_slice(apex.as_bytes()))
        .map_err(|error| wrong(file, error.to_string()))?;
    read(apex, file, origin, 0, &mut records).map_err(|(file, problem)| wrong(&file, problem))?;
    super::build::zone(apex, records, signer).map_err(|problem| wrong(file, problem))
}

type Origin = domain::base::Name<Bytes>;

fn read(
    apex: &Name,
    file: &Path,
    origin: Origin,
    depth: usize,
    records: &mut Records,
) -> Result<(), (PathBuf, String)> {
    let wrong = |problem: String| (file.to_owned(), problem);
    let bytes = fs::read(file).map_err(|error| wrong(error.to_string()))?;
    let mut zonefile = Zonefile::from(&bytes[..]);
    zonefile.set_origin(origin);
    zonefile.set_default_class(Class::IN);
    while let Some(entry) = zonefile.next_entry().map_err(|error| wrong(error.to_string()))? {
        match entry {
            Entry::Record(record) => add(apex, &record, records).map_err(wrong)?,
            Entry::Include { path, origin } if depth < INCLUDE_DEPTH_MAX => {
                let origin = origin.map_or_else(|| zonefile.origin(), Ok).map_err(|error| wrong(error.to_string()))?;
                let included = file.parent().unwrap_or(Path::new(".")).join(&*path);
                read(apex, &included, origin, depth + 1, records)?;
            }
            Entry::Include { .. } => {
                return Err(wrong(format!("$INCLUDE more than {INCLUDE_DEPTH_MAX} files deep")));
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
    let Ok(()) = record.data().compose_canonical_rdata(&mut canonical);
    let rtype = record.rtype().to_int();
    let [plain, canonical] = [plain, canonical].map(|data| Data::resolve_origin(rtype, &data));
    records.add(&owner, rtype, record.ttl().as_secs(), Data { plain, canonical });
    Ok(())
}
