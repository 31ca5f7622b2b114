//! Prepares entries of master files for the crate `domain`. It cannot read units of times, `@`
//! among the data, names of algorithms, entries over several lines, and some types.

use super::generic;
use domain::base::iana::Rtype;

/// Most characters of an entry that an error repeats.
const QUOTED_MAX: usize = 80;

/// An entry of a file: a record or a directive.
pub(super) struct Entry {
    /// Where it begins.
    pub(super) line: usize,
    /// Whether white space stands in place of the owner, which is then the owner of the last entry.
    indented: bool,
    words: Vec<String>,
}

/// Splits a file into its entries. Bytes that are not printable ASCII become `\DDD`.
pub(super) struct Entries<'a> {
    bytes: &'a [u8],
    at: usize,
    line: usize,
}

impl<'a> Entries<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Entries<'a> {
        Entries { bytes, at: 0, line: 1 }
    }

    /// The next entry; `None` at the end.
    ///
    /// # Errors
    /// If a parenthesis or a quote is not closed.
    pub(super) fn next(&mut self) -> Result<Option<Entry>, String> {
        let mut entry = self.begin();
        let mut open = 0_usize;
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b'\n' => {
                    self.line += 1;
                    self.at += 1;
                    if open > 0 {
                        continue;
                    }
                    if !entry.words.is_empty() {
                        return Ok(Some(entry));
                    }
                    entry = self.begin();
                    continue;
                }
                b' ' | b'\t' | b'\r' => {}
                b'(' => open += 1,
                b')' => {
                    open = open.checked_sub(1).ok_or_else(|| entry.wrong("a parenthesis was not opened"))?;
                }
                b';' => {
                    while self.bytes.get(self.at + 1).is_some_and(|next| *next != b'\n') {
                        self.at += 1;
                    }
                }
                _ => {
                    let word = self.word().ok_or_else(|| entry.wrong("a quote is not closed"))?;
                    entry.words.push(word);
                    continue;
                }
            }
            self.at += 1;
        }
        if open > 0 {
            return Err(entry.wrong("a parenthesis is not closed"));
        }
        Ok((!entry.words.is_empty()).then_some(entry))
    }

    fn begin(&self) -> Entry {
        let indented = self.bytes.get(self.at).is_some_and(|byte| matches!(byte, b' ' | b'\t'));
        Entry { line: self.line, indented, words: Vec::new() }
    }

    /// The next word with its quotes; `None` if a quote is not closed.
    fn word(&mut self) -> Option<String> {
        let (mut word, mut quoted, start) = (String::new(), false, self.at);
        while let Some(byte) = self.bytes.get(self.at).copied() {
            match byte {
                b'"' => quoted = !quoted,
                b'\\' => {
                    word.push('\\');
                    self.at += 1;
                    push(*self.bytes.get(self.at)?, &mut word);
                    self.at += 1;
                    continue;
                }
                b' ' | b'\t' | b'\r' | b'\n' | b'(' | b')' | b';' if !quoted => break,
                b'\n' => self.line += 1,
                _ => {}
            }
            push(byte, &mut word);
            self.at += 1;
            if byte == b'"' && !quoted && self.bytes[start] == b'"' {
                break;
            }
        }
        (!quoted).then_some(word)
    }
}

fn push(byte: u8, word: &mut String) {
    match byte {
        b' '..=b'~' => word.push(char::from(byte)),
        _ => word.push_str(&format!("\\{byte:03}")),
    }
}

impl Entry {
    /// The message for an error in this entry, with its line and text.
    pub(super) fn wrong(&self, problem: &str) -> String {
        let text: String = self.words.join(" ").chars().take(QUOTED_MAX).collect();
        format!("line {}: {problem}: {text}", self.line)
    }

    /// The entry in one line, in the form that `domain` reads.
    ///
    /// # Errors
    /// If the data is of a type that `domain` does not read, and is wrong.
    pub(super) fn ready(&self, origin: &str) -> Result<String, String> {
        let mut words = self.words.clone();
        if !self.indented && words[0].starts_with('$') {
            words.iter_mut().skip(1).for_each(|word| at_origin(word, origin));
            if words[0].eq_ignore_ascii_case("$TTL") {
                words.iter_mut().skip(1).for_each(in_seconds);
            }
            return Ok(words.join(" ") + "\n");
        }
        let mut place = usize::from(!self.indented);
        while words.get(place).is_some_and(|word| is_class(word) || seconds(word).is_some()) {
            in_seconds(&mut words[place]);
            place += 1;
        }
        // If the type is missing or unknown, `domain` reports it.
        let rtype = words.get(place).and_then(|word| word.parse::<Rtype>().ok());
        if let Some(rtype) = rtype
            && words.get(place + 1).is_none_or(|word| word != "\\#")
        {
            if let Some(data) = generic::read(rtype, &words[place + 1..], origin) {
                let data = data.map_err(|error| self.wrong(&error.to_string()))?;
                let digits: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
                words.truncate(place + 1);
                words.push(format!("\\# {} {digits}", data.len()));
            } else {
                prepare(rtype, &mut words[place + 1..], origin);
            }
        }
        let indent = if self.indented { " " } else { "" };
        Ok(format!("{indent}{}\n", words.join(" ")))
    }
}

/// Prepares the data of a record of a type that `domain` reads.
fn prepare(rtype: Rtype, data: &mut [String], origin: &str) {
    match rtype {
        Rtype::SOA => {
            data.iter_mut().skip(3).for_each(in_seconds);
            data.iter_mut().take(2).for_each(|word| at_origin(word, origin));
        }
        Rtype::DS | Rtype::CDS => data.iter_mut().skip(1).take(1).for_each(in_numbers),
        Rtype::DNSKEY | Rtype::CDNSKEY => data.iter_mut().skip(2).take(1).for_each(in_numbers),
        // In these types `@` is text.
        Rtype::TXT | Rtype::HINFO | Rtype::CAA => {}
        _ => data.iter_mut().for_each(|word| at_origin(word, origin)),
    }
}

fn at_origin(word: &mut String, origin: &str) {
    if word == "@" {
        origin.clone_into(word);
    }
}

fn in_seconds(word: &mut String) {
    if let Some(seconds) = seconds(word) {
        *word = seconds.to_string();
    }
}

/// Replaces the name of an algorithm with its number.
fn in_numbers(word: &mut String) {
    if let Some(algorithm) = generic::algorithm(word) {
        *word = algorithm.to_int().to_string();
    }
}

/// A time: seconds, or numbers with units such as `1h30m`. `None` if the text is no time, or the
/// time needs more than 32 bits.
fn seconds(text: &str) -> Option<u32> {
    let (mut sum, mut number) = (0_u32, None);
    for c in text.chars() {
        let unit = match c.to_ascii_lowercase() {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            'w' => 604_800,
            _ => {
                number = Some(number.unwrap_or(0_u32).checked_mul(10)?.checked_add(c.to_digit(10)?)?);
                continue;
            }
        };
        sum = sum.checked_add(number.take()?.checked_mul(unit)?)?;
    }
    if text.is_empty() { None } else { sum.checked_add(number.unwrap_or(0)) }
}

fn is_class(word: &str) -> bool {
    word.parse::<domain::base::iana::Class>().is_ok()
}
