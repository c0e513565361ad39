-- An endpoint can be disabled for a while and enabled again; one that is deleted is disabled for good, and in no list.

-- Until now every disabled endpoint was a deleted one. Written by identity-api.
ALTER TABLE webhook_endpoints ADD COLUMN deleted_at timestamptz;
UPDATE webhook_endpoints SET deleted_at = disabled_at WHERE disabled_at IS NOT NULL;
ALTER TABLE webhook_endpoints
    ADD CONSTRAINT webhook_endpoints_deleted_are_disabled CHECK (deleted_at IS NULL OR disabled_at IS NOT NULL);

-- What waited when an endpoint was disabled is dropped: the deliverer does that in its next round, and this where the endpoint is
-- enabled before. The row of the endpoint is locked first, as by everybody who changes what waits for it.
CREATE FUNCTION drop_what_waited_for_webhook() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE webhook_queue SET status = 'dropped', lease = NULL, ended_at = now()
    WHERE endpoint_id = NEW.id AND status = 'pending';
    RETURN NULL;
END $$;
CREATE TRIGGER webhook_endpoint_is_enabled_empty AFTER UPDATE OF disabled_at ON webhook_endpoints
    FOR EACH ROW WHEN (OLD.disabled_at IS NOT NULL AND NEW.disabled_at IS NULL) EXECUTE FUNCTION drop_what_waited_for_webhook();
