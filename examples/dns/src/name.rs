//! Names in wire format: each label after its length, uncompressed, in lower case. The root's empty
//! label ends a name.

/// Length of the longest name, the root's label included (RFC 1035, 2.3.4).
pub const NAME_MAX_BYTES: usize = 255;

/// Length of the longest label.
const LABEL_MAX_BYTES: usize = 63;

/// A name in lower case.
#[derive(Clone, Copy)]
pub struct Name {
    bytes: [u8; NAME_MAX_BYTES],
    length: u8,
}

impl Name {
    /// The uncompressed name at the start of `bytes`. More bytes may follow it. `None` if there is
    /// no name.
    pub fn parse(bytes: &[u8]) -> Option<Name> {
        let mut end = 0;
        loop {
            let length = usize::from(*bytes.get(end)?);
            end += 1 + length;
            // If the two upper bits are set, the length is a compression pointer or an unknown type
            // of label.
            if length > LABEL_MAX_BYTES || end > NAME_MAX_BYTES {
                return None;
            }
            if length == 0 {
                break;
            }
        }
        Name::from_wire(bytes.get(..end)?)
    }

    /// A name of at most 255 bytes whose labels have been checked.
    fn from_wire(wire: &[u8]) -> Option<Name> {
        let mut bytes = [0; NAME_MAX_BYTES];
        bytes.get_mut(..wire.len())?.copy_from_slice(wire);
        // Lengths are below the code of `A`, so they do not change.
        bytes[..wire.len()].make_ascii_lowercase();
        Some(Name { bytes, length: wire.len() as u8 })
    }

    /// The name `label` below `parent`; `None` if it is too long.
    pub fn child(label: &[u8], parent: &[u8]) -> Option<Name> {
        let length = 1 + label.len() + parent.len();
        if length > NAME_MAX_BYTES || label.len() > LABEL_MAX_BYTES {
            return None;
        }
        let mut bytes = [0; NAME_MAX_BYTES];
        bytes[0] = label.len() as u8;
        bytes[1..=label.len()].copy_from_slice(label);
        bytes[1 + label.len()..length].copy_from_slice(parent);
        Some(Name { bytes, length: length as u8 })
    }

    /// The name's wire format.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&text(self.as_bytes()))
    }
}

/// `name` and its ancestors. The root is last.
pub fn suffixes(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(name), |name| parent(name))
}

/// `name` without its first label; `None` for the root.
fn parent(name: &[u8]) -> Option<&[u8]> {
    name.get(1 + usize::from(*name.first()?)..).filter(|parent| !parent.is_empty())
}

/// Whether `name` is `ancestor` or below it.
pub fn is_within(name: &[u8], ancestor: &[u8]) -> bool {
    // The ends are compared first, because few names end alike.
    name.ends_with(ancestor) && suffixes(name).any(|suffix| suffix.len() == ancestor.len())
}

/// The number of labels as signatures count them: without the root, and without a wildcard label at
/// the front (RFC 4034, 3.1.3).
pub fn signed_labels(name: &[u8]) -> u8 {
    let labels = suffixes(name).count() - 1;
    (labels - usize::from(is_wildcard(name))) as u8
}

/// Whether the first label is `*`.
pub fn is_wildcard(name: &[u8]) -> bool {
    name.starts_with(b"\x01*")
}

/// A name directly after `name` in the order of RFC 4034, 6.1. No zone has it, and no other name
/// lies between the two.
pub fn successor(name: &[u8], into: &mut Vec<u8>) {
    let label = usize::from(name[0]);
    if name.len() + 2 <= NAME_MAX_BYTES {
        into.extend_from_slice(b"\x01\0");
        into.extend_from_slice(name);
    } else if name.len() < NAME_MAX_BYTES && label < LABEL_MAX_BYTES {
        into.push(name[0] + 1);
        into.extend_from_slice(&name[1..=label]);
        into.push(0);
        into.extend_from_slice(&name[1 + label..]);
    } else {
        // RFC 4471, 3.1.2: the last byte that can be increased is increased, and the later bytes of
        // the label are removed. In lower case, `[` comes after `@`.
        let Some(grows) = (1..=label).rfind(|at| name[*at] != 0xff) else {
            // The label has only bytes 0xff, so only the successor of the parent comes after it.
            return successor(&name[1 + label..], into);
        };
        into.push(grows as u8);
        into.extend_from_slice(&name[1..grows]);
        into.push(if name[grows] == b'@' { b'[' } else { name[grows] + 1 });
        into.extend_from_slice(&name[1 + label..]);
    }
}

/// `name` as in zone files, with a dot at the end.
pub fn text(name: &[u8]) -> String {
    match domain::base::Name::from_slice(name) {
        Ok(name) => name.fmt_with_dot().to_string(),
        Err(error) => format!("(not a name: {error})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wire format of `text`.
    fn wire(text: &str) -> Vec<u8> {
        domain::base::Name::<Vec<u8>>::vec_from_str(text).expect("a name").as_slice().to_vec()
    }

    // Is a name parsed to its end and put into lower case? Are bytes that are no name refused?
    #[test]
    fn names_are_parsed() {
        let bytes = [&wire("WwW.Example.")[..], b"\0\x01\0\x01"].concat();
        assert_eq!(Name::parse(&bytes).expect("a name").as_bytes(), wire("www.example."));
        assert_eq!(Name::parse(b"\0").expect("the root").as_bytes(), b"\0");
        for wrong in [&b""[..], b"\x03ww", b"\x03www", b"\xc0\x0c", b"\x40", b"\x80"] {
            assert!(Name::parse(wrong).is_none(), "{wrong:?}");
        }
        let long = [&[63; 64][..], &[63; 64], &[63; 64], &[61; 62], b"\0"].concat();
        assert_eq!((long.len(), Name::parse(&long).map(|name| name.length)), (255, Some(255)));
        let longer = [&[63; 64][..], &[63; 64], &[63; 64], &[62; 63], b"\0"].concat();
        assert!(Name::parse(&longer).is_none());
    }

    // Is a name within its ancestors, and only at the ends of labels?
    #[test]
    fn names_lie_within_their_ancestors() {
        let name = wire("a.b.example.");
        assert_eq!(suffixes(&name).count(), 4);
        for (ancestor, within) in [("a.b.example.", true), ("example.", true), (".", true), ("c.example.", false)] {
            assert_eq!(is_within(&name, &wire(ancestor)), within, "{ancestor}");
        }
        // The label "x\007example" ends with the same bytes as the name "\007example\0".
        assert!(!is_within(b"\x09x\x07example\0", b"\x07example\0"));
        assert_eq!([signed_labels(&name), signed_labels(b"\0"), signed_labels(b"\x01*\x01a\0")], [3, 0, 1]);
    }

    // Is the successor directly after its name, also if the name is too long for another label?
    #[test]
    fn successors_come_right_after() {
        let after = |name: &[u8]| {
            let mut next = Vec::new();
            successor(name, &mut next);
            assert!(Name::parse(&next).is_some_and(|parsed| parsed.as_bytes() == next), "{next:?} is no name");
            next
        };
        assert_eq!(after(&wire("a.example.")), wire("\\000.a.example."));
        let parent = [&[63][..], &[b'p'; 63]].concat().repeat(3);
        let of = |label: &[u8]| [&[label.len() as u8], label, &parent, b"\0"].concat();
        assert_eq!(after(&of(&[b'a'; 60])), of(&[&[b'a'; 60][..], b"\0"].concat()), "room for one byte");
        assert_eq!(after(&of(&[b'a'; 61])), of(&[&[b'a'; 60][..], b"b"].concat()), "no room");
        assert_eq!(after(&of(&[&[b'a'; 60][..], b"@"].concat())), of(&[&[b'a'; 60][..], b"["].concat()));
        assert_eq!(after(&of(&[&[b'a'; 60][..], b"\xff"].concat())), of(&[&[b'a'; 59][..], b"b"].concat()));
    }
}
