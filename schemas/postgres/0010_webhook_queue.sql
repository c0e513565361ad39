-- How far each delivery has come. A message and how far it has come are two tables because they have two writers:
-- identity-api writes the message in the transaction of the change and never again (its body is signed as it stands),
-- stream-workers writes what became of it.

-- One row for each delivery. The database itself puts it there, in the transaction that writes the message (trigger below):
-- a deliverer need not look for messages it has not seen, and there is none without a row. A pending row is due at `due_at`;
-- while somebody attempts it, `due_at` is when the attempt counts as lost and `lease` says whose it is. Leases only cut
-- duplicate work: whoever lost one writes nothing, and the delivery is attempted again. `attempts` are those that have
-- ended. Written by stream-workers.
CREATE TABLE webhook_queue (
    delivery_id         uuid PRIMARY KEY REFERENCES webhook_deliveries ON DELETE CASCADE,
    endpoint_id         uuid NOT NULL,
    organization_id     uuid NOT NULL,
    status              text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'dead_letter', 'dropped')),
    attempts            int NOT NULL DEFAULT 0,
    due_at              timestamptz NOT NULL,
    lease               uuid,
    ended_at            timestamptz,
    last_attempt_at     timestamptz,
    last_outcome        text,
    last_status_code    int,
    last_duration_ms    bigint,
    CHECK ((status = 'pending') = (ended_at IS NULL)),
    CHECK (lease IS NULL OR status = 'pending')
);
CREATE INDEX webhook_queue_pending ON webhook_queue (endpoint_id, due_at, delivery_id) WHERE status = 'pending';
CREATE INDEX webhook_queue_ended ON webhook_queue (ended_at) WHERE ended_at IS NOT NULL;

-- An owner's wish that a delivery be sent once more, by the whole schedule. Written by identity-api.
CREATE TABLE webhook_redeliveries (
    id          uuid PRIMARY KEY DEFAULT uuidv7(),
    delivery_id uuid NOT NULL REFERENCES webhook_deliveries ON DELETE CASCADE,
    created_at  timestamptz NOT NULL
);
CREATE INDEX webhook_redeliveries_by_delivery ON webhook_redeliveries (delivery_id);

CREATE FUNCTION queue_webhook_delivery() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO webhook_queue (delivery_id, endpoint_id, organization_id, due_at)
    VALUES (NEW.id, NEW.endpoint_id, NEW.organization_id, now());
    RETURN NULL;
END $$;
CREATE TRIGGER webhook_delivery_is_queued AFTER INSERT ON webhook_deliveries
    FOR EACH ROW EXECUTE FUNCTION queue_webhook_delivery();

CREATE FUNCTION queue_webhook_redelivery() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE webhook_queue SET status = 'pending', attempts = 0, due_at = now(), lease = NULL, ended_at = NULL
    WHERE delivery_id = NEW.delivery_id;
    RETURN NULL;
END $$;
CREATE TRIGGER webhook_redelivery_is_queued AFTER INSERT ON webhook_redeliveries
    FOR EACH ROW EXECUTE FUNCTION queue_webhook_redelivery();

-- What was written before there was anybody to deliver it.
INSERT INTO webhook_queue (delivery_id, endpoint_id, organization_id, due_at)
    SELECT id, endpoint_id, organization_id, now() FROM webhook_deliveries;
