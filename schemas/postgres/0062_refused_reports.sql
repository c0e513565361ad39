-- What of an organisation's reports was refused, by hour and reason: how often, when last and under which request id. Nothing of
-- a request itself is kept. `field` and `rule` name a broken rule, as the answer listed it; both are empty where the answer
-- lists none. A request that broke several counts once for each. Kept 30 days. Written by ingest-gateway.
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
