//! Chooses the format and the content coding that an HTTP client of the admin endpoint asks for.

/// The format of the body of `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Prometheus text 0.0.4, which every scraper can read.
    Classic,
    /// Prometheus' protobuf: `MetricFamily` messages, each after its length. The only format with
    /// native histograms.
    Protobuf,
}

impl Format {
    /// All formats, the most expressive first.
    const ALL: [Format; 2] = [Format::Protobuf, Format::Classic];

    /// The format for a request with this `Accept` header: the one with the highest weight, and
    /// among equal weights the most expressive. Without a header, or if it names none of the
    /// formats, the answer is classic text.
    pub fn accepted(accept: Option<&str>) -> Format {
        let weigh = |format: Format| (format, weight(accept.unwrap_or_default(), format.named_by()));
        let named = Format::ALL.map(weigh).into_iter().filter(|(_, weight)| *weight > 0.0);
        named.reduce(|best, next| if next.1 > best.1 { next } else { best }).map_or(Format::Classic, |best| best.0)
    }

    /// The value of `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Format::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// The media type and parameters by which an `Accept` header asks for this format, in lower
    /// case.
    const fn named_by(self) -> &'static [&'static str] {
        match self {
            Format::Classic => &["text/plain"],
            Format::Protobuf => {
                &["application/vnd.google.protobuf", "proto=io.prometheus.client.metricfamily", "encoding=delimited"]
            }
        }
    }
}

/// The highest weight (`q`, 0 to 1) among the elements of `header` that contain all `parts`. These
/// are in lower case. 0 = refused or not named.
pub fn weight(header: &str, parts: &[&str]) -> f64 {
    let weight_of = |element: &str| {
        let given: Vec<&str> = element.split(';').map(str::trim).collect();
        let q = given.iter().find_map(|part| part.strip_prefix("q=")).map_or(Ok(1.0), str::parse);
        q.ok().filter(|q| (0.0..=1.0).contains(q) && parts.iter().all(|part| given.contains(part)))
    };
    header.to_ascii_lowercase().split(',').filter_map(weight_of).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTOBUF: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

    /// Does the highest weight win, and among equal weights the most expressive format? Is the
    /// answer classic text otherwise?
    #[test]
    fn the_highest_weight_wins() {
        let text = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        for (accept, expected) in [
            (String::new(), Format::Classic),
            ("*/*".into(), Format::Classic),
            ("text/html".into(), Format::Classic),
            (text.into(), Format::Classic),
            ("application/openmetrics-text".into(), Format::Classic),
            (PROTOBUF.into(), Format::Protobuf),
            (format!("{PROTOBUF};q=0.6,{text}"), Format::Protobuf),
            (format!("{text}, {}; q=0.6", PROTOBUF.replace(';', " ; ")), Format::Protobuf),
            (format!("{PROTOBUF};q=0.2,{text}"), Format::Classic),
            (format!("{PROTOBUF};q=0"), Format::Classic),
            (format!("{PROTOBUF};q=2"), Format::Classic),
            (format!("{PROTOBUF};q=NaN"), Format::Classic),
            (PROTOBUF.replace("delimited", "text"), Format::Classic),
            ("application/vnd.google.protobuf".into(), Format::Classic),
        ] {
            assert_eq!(Format::accepted(Some(&accept)), expected, "{accept}");
        }
        assert_eq!(Format::accepted(None), Format::Classic);
    }

    /// Is a coding accepted only if it is named with a weight above 0?
    #[test]
    fn a_coding_is_taken_where_it_is_named() {
        for (header, expected) in [
            ("gzip", 1.0),
            ("deflate, GZIP;q=0.5", 0.5),
            ("gzip;q=0, br", 0.0),
            ("gzipped", 0.0),
            ("", 0.0),
            ("*", 0.0),
        ] {
            assert_eq!(weight(header, &["gzip"]), expected, "{header}");
        }
    }
}
