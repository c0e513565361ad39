//! Who sends logs, and how their bodies are put together.

use schemas::event::SourceRole;

/// A sender of logs, by the last part of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    /// Cloudflare Logpush to an HTTP destination.
    Cloudflare,
    /// Fastly HTTPS logging.
    Fastly,
    /// Amazon Data Firehose with logs of `CloudFront`.
    Firehose,
    /// Akamai `DataStream` 2 to a custom HTTPS endpoint.
    Akamai,
    /// Vercel drains.
    Vercel,
    /// JSON lines of Vector, Fluent Bit and everybody else.
    Ndjson,
    /// Combined log format.
    Combined,
}

impl Provider {
    /// Every one.
    pub(crate) const ALL: [Self; 7] =
        [Self::Cloudflare, Self::Fastly, Self::Firehose, Self::Akamai, Self::Vercel, Self::Ndjson, Self::Combined];

    /// As the path has it.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.as_str() == name)
    }

    /// As paths, tables and metrics have it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Cloudflare => "cloudflare",
            Self::Fastly => "fastly",
            Self::Firehose => "firehose",
            Self::Akamai => "akamai",
            Self::Vercel => "vercel",
            Self::Ndjson => "ndjson",
            Self::Combined => "combined",
        }
    }

    /// Who observes what it sends: a server's own log in combined format is the origin's.
    pub(crate) fn role(self) -> SourceRole {
        if self == Self::Combined { SourceRole::Origin } else { SourceRole::Edge }
    }
}
