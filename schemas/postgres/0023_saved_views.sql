-- Views that an organization's members saved: a console page and its query string. Written by identity-api.
CREATE TABLE saved_views (
    id              uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organizations,
    name            text NOT NULL,
    page            text NOT NULL,
    query           text NOT NULL,
    created_at      timestamptz NOT NULL,
    UNIQUE (organization_id, name)
);
