//! The statement that says when keys were last used for reporting.

/// Of two processes the one with the later use counts.
pub(crate) const TELL: &str = "INSERT INTO key_uses_ingest (key_id, last_used_at) \
     SELECT key, now() - make_interval(secs => ago) FROM unnest($1::uuid[], $2::float8[]) AS used (key, ago) \
     ON CONFLICT (key_id) DO UPDATE SET last_used_at = greatest(key_uses_ingest.last_used_at, excluded.last_used_at)";
