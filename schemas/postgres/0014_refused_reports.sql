-- An organization's rejected reports, by hour and reason: how many, when the last one arrived and its request id. Nothing
-- else of a request is stored. `field` and `rule` name a broken rule as the response listed it; both are empty when the
-- response listed none. A request that broke several rules counts once for each. Rows are kept for 30 days. Written by
-- ingest-gateway.
CREATE TABLE refused_reports (
    organization_id uuid NOT NULL REFERENCES organizations,
    hour            timestamptz NOT NULL,
    route           text NOT NULL,
    status          smallint NOT NULL,
    code            text NOT NULL,
    field           text NOT NULL,
    rule            text NOT NULL,
    requests        bigint NOT NULL,
    last_at         timestamptz NOT NULL,
    last_request_id text NOT NULL,
    PRIMARY KEY (organization_id, hour, route, code, field, rule)
);
CREATE INDEX refused_reports_by_hour ON refused_reports (hour);
