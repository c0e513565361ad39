-- Observations that another organisation's click token bound. The issuer finds them by `issuer_id`, which the store fills in and
-- which is all zero in nearly every row; granules that hold none of an issuer's are passed over.
-- `link` decides who is told what (docs/api/click-tokens.md, "What a token tells"): the reporter is not told a URL that was
-- taken from the token, nor the owner of another host than the token's the session behind it, unless `link_site`, the host
-- of the token's link, is that owner's too. A row that does not say counts as the worst.
ALTER TABLE observations
    ADD COLUMN IF NOT EXISTS issuer_id UUID DEFAULT if(platform_id = org_id, toUUID('00000000-0000-0000-0000-000000000000'), platform_id) COMMENT 'who issued the click token that bound it, when another reported it; all zero: nobody' AFTER platform_id,
    ADD COLUMN IF NOT EXISTS link Enum8('' = 0, 'taken' = 1, 'same' = 2, 'other' = 3) DEFAULT if(platform_id = org_id, '', 'other') COMMENT 'of what another''s click token bound: its URL is the token''s, on the same host, or on another' AFTER issuer_id,
    ADD COLUMN IF NOT EXISTS link_site String DEFAULT '' COMMENT 'reversed host that the token''s link leads to, where link is other; empty: nobody can own it, or it is not said' CODEC(ZSTD) AFTER link,
    ADD INDEX IF NOT EXISTS by_issuer issuer_id TYPE set(1000) GRANULARITY 1
