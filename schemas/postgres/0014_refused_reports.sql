-- An organization's rejected reports, by hour and reason: number, time of the last one and its request id. No other part of a
-- request is stored. `field` and `rule` are those of the error in the response, or empty if it listed none. A request that broke
-- several rules counts once for each. Rows are deleted after 30 days. Written by ingest-gateway.
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
