-- Privileges of each service in PostgreSQL. After every run of the numbered files, `telemetry identity-api migrate` executes this
-- file in one transaction: it revokes everything, then grants what is listed. A new table needs its grants here. A grant that the
-- previous release needs stays for one more release, because both run during an upgrade.
--
-- These roles own nothing, so they can't disable a trigger, TRUNCATE, or grant themselves more; the tables belong to the account
-- of `telemetry identity-api migrate`.

DO $$ BEGIN
    EXECUTE format('REVOKE ALL ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO telemetry_gateway, telemetry_worker, telemetry_deliverer, telemetry_query, '
                   'telemetry_identity', current_database());
END $$;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO telemetry_gateway, telemetry_worker, telemetry_deliverer, telemetry_query, telemetry_identity;
-- Large objects are in no table and have no grants, so revoke the functions that create and read them. If the account of
-- `migrate` isn't allowed to, it prints the statement for an administrator.
DO $$ DECLARE statement text; BEGIN
    SELECT 'REVOKE EXECUTE ON FUNCTION ' || string_agg(oid::regprocedure::text, ', ') || ' FROM PUBLIC'
        INTO statement FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '^lo(_|read$|write$)'
        AND pg_has_role(proowner, 'USAGE') AND has_function_privilege('public', oid, 'EXECUTE');
    IF statement IS NOT NULL THEN EXECUTE statement; END IF;
END $$;
REVOKE ALL ON ALL TABLES IN SCHEMA public
    FROM PUBLIC, telemetry_gateway, telemetry_worker, telemetry_deliverer, telemetry_query, telemetry_identity;

-- At startup, each service checks that the tables match its build.
GRANT SELECT ON _sqlx_migrations
    TO telemetry_gateway, telemetry_worker, telemetry_deliverer, telemetry_query, telemetry_identity;

-- ── ingest-gateway: looks up callers, the hosts that owners can report for, and drains; writes click tokens, and sessions for
-- calls of /sessions/* and /click-tokens ──────────────────────────────────────────────────────────────────────────────────────────
GRANT SELECT ON organizations, api_keys, domains, drains TO telemetry_gateway;
-- Organizations with the same earliest owner share slots.
GRANT SELECT (organization_id, user_id, role, created_at) ON memberships TO telemetry_gateway;
GRANT SELECT, INSERT, UPDATE, DELETE ON click_tokens TO telemetry_gateway;
-- Keys of signed reports.
GRANT SELECT ON manifest_keys TO telemetry_gateway, telemetry_worker;
-- Only stream-workers writes the parent of a session, which events contain.
GRANT SELECT, DELETE,
    INSERT (organization_id, session_id, initiator_type, agent_id, agent_named_at, manifest_ref, content_scope, external_session_id,
        prior_session_ids, privacy_level, started_at, ended_at, outcome, extra, created_at),
    UPDATE (initiator_type, agent_id, agent_named_at, manifest_ref, content_scope, external_session_id, prior_session_ids,
        privacy_level, started_at, ended_at, outcome, extra) ON sessions TO telemetry_gateway;
GRANT SELECT, INSERT, UPDATE ON key_uses_ingest TO telemetry_gateway;
-- Only old rows are deleted; locking them requires UPDATE of any one column.
GRANT SELECT, INSERT, DELETE, UPDATE ON drain_hours TO telemetry_gateway;
GRANT SELECT, INSERT, DELETE, UPDATE (received_at) ON drain_bodies TO telemetry_gateway;
GRANT SELECT, INSERT, DELETE, UPDATE (reason) ON drain_bad_lines TO telemetry_gateway;
GRANT SELECT, INSERT, UPDATE, DELETE ON refused_reports TO telemetry_gateway;
GRANT SELECT, INSERT, DELETE, UPDATE (request) ON used_nonces TO telemetry_gateway;
GRANT SELECT, INSERT, UPDATE, DELETE ON agent_key_sets TO telemetry_gateway;

-- ── stream-workers: looks up sessions of events by click token or without an agent; writes sessions that events name ─────────────
GRANT SELECT ON sessions, click_tokens TO telemetry_worker;
GRANT INSERT (organization_id, session_id, privacy_level, parent_session_id, started_at, manifest_ref, agent_id, agent_named_at,
        created_at),
    UPDATE (privacy_level, parent_session_id, started_at, manifest_ref, agent_id, agent_named_at, created_at)
    ON sessions TO telemetry_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON dead_letters TO telemetry_worker;
GRANT SELECT ON dead_letter_retries TO telemetry_worker;

-- ── stream-workers deliver: reads messages and writes their status ─────────────────────────────────────────────────────────────
GRANT SELECT ON webhook_endpoints, webhook_deliveries TO telemetry_deliverer;
GRANT SELECT, UPDATE ON webhook_queue TO telemetry_deliverer;
-- Locking a row (FOR SHARE, so that disabling an endpoint waits) requires UPDATE of any one column.
GRANT UPDATE (created_at) ON webhook_endpoints TO telemetry_deliverer;

-- ── query-api: looks up callers, owners of hosts, and click tokens ─────────────────────────────────────────────────────────────
GRANT SELECT ON organizations, api_keys, domains, delegations, sessions, click_tokens, drain_hours TO telemetry_query;
-- Only the columns that show which hosts have drains.
GRANT SELECT (id, organization_id, hosts, created_at, deleted_at) ON drains TO telemetry_query;
-- Operators' usage reads.
GRANT SELECT (id, is_operator) ON users TO telemetry_query;
GRANT SELECT (organization_id, status, requests, last_at) ON refused_reports TO telemetry_query;
GRANT SELECT, INSERT, UPDATE ON key_uses_reads TO telemetry_query;
-- People read with a user session, for one of their organizations. The first read is recorded.
GRANT SELECT (token_hash, user_id, expires_at, idle_until, ended_at) ON user_sessions TO telemetry_query;
GRANT SELECT (organization_id, user_id, role, created_at) ON memberships TO telemetry_query;
GRANT SELECT, INSERT ON session_reads TO telemetry_query;
-- Accounts to create in ClickHouse, with their password hashes; robots.txt files to compare with fetches.
GRANT SELECT ON analyst_accounts, robots_checks, robots_files TO telemetry_query;
GRANT SELECT, INSERT, UPDATE ON analyst_upkeep TO telemetry_query;
GRANT SELECT ON reconciliation_alerts TO telemetry_query;
GRANT SELECT, INSERT ON reconciliation_exceptions TO telemetry_query;
GRANT SELECT, INSERT, UPDATE ON reconciliation_checks TO telemetry_query;
-- Statements never change.
GRANT SELECT, INSERT ON statement_owners, statements, statement_evidence TO telemetry_query;

-- ── identity-api: organizations, people, keys, domains, delegations and webhooks ───────────────────────────────────────────────
GRANT SELECT, INSERT, UPDATE ON organizations, users, api_keys, domains, delegations, delegation_requests, drains, invites,
    access_requests, webhook_endpoints, analyst_accounts TO telemetry_identity;
GRANT SELECT, INSERT, UPDATE, DELETE ON memberships, user_sessions, magic_links TO telemetry_identity;
GRANT SELECT, INSERT ON user_identities TO telemetry_identity;
GRANT SELECT, INSERT, UPDATE ON manifests, manifest_keys TO telemetry_identity;
GRANT SELECT, INSERT, DELETE ON manifest_hosts TO telemetry_identity;
GRANT SELECT, INSERT, UPDATE, DELETE ON robots_checks TO telemetry_identity;
GRANT SELECT, INSERT, UPDATE, DELETE ON robots_files TO telemetry_identity;
GRANT SELECT ON api_keys_shown, drain_hours, drain_bad_lines, refused_reports, analyst_upkeep TO telemetry_identity;
GRANT SELECT, INSERT, UPDATE, DELETE ON reconciliation_alerts TO telemetry_identity;
GRANT SELECT ON reconciliation_exceptions TO telemetry_identity;
GRANT SELECT, INSERT, DELETE ON saved_views TO telemetry_identity;
GRANT SELECT, INSERT ON reconciliation_messages TO telemetry_identity;
GRANT SELECT ON dead_letters TO telemetry_identity;
GRANT SELECT, INSERT, UPDATE ON dead_letter_retries TO telemetry_identity;
-- Messages never change; old ones are deleted with their log.
GRANT SELECT, INSERT, DELETE ON webhook_deliveries TO telemetry_identity;
GRANT SELECT, INSERT ON webhook_redeliveries TO telemetry_identity;
-- identity-api reads the delivery log; the functions below and the deliverer write it. Locking rows before their deletion
-- requires UPDATE of any one column.
GRANT SELECT, UPDATE (delivery_id) ON webhook_queue TO telemetry_identity;
-- Append-only, even for its writer: no UPDATE, DELETE or TRUNCATE, and no way to drop the trigger that rejects them.
GRANT SELECT, INSERT ON audit_log TO telemetry_identity;

-- The trigger queues messages with the table owner's privileges, so services that write messages need no access to the queue.
ALTER FUNCTION queue_webhook_delivery() SECURITY DEFINER;
ALTER FUNCTION queue_webhook_delivery() SET search_path = public, pg_temp;
ALTER FUNCTION queue_webhook_redelivery() SECURITY DEFINER;
ALTER FUNCTION queue_webhook_redelivery() SET search_path = public, pg_temp;
-- The same applies to pending messages of a disabled endpoint, which are dropped.
ALTER FUNCTION drop_what_waited_for_webhook() SECURITY DEFINER;
ALTER FUNCTION drop_what_waited_for_webhook() SET search_path = public, pg_temp;
-- The same applies to the audit trail's entries for reads and statements, because query-api can't write the trail.
ALTER FUNCTION audit_session_read() SECURITY DEFINER;
ALTER FUNCTION audit_session_read() SET search_path = public, pg_temp;
ALTER FUNCTION audit_statement() SECURITY DEFINER;
ALTER FUNCTION audit_statement() SET search_path = public, pg_temp;
REVOKE ALL ON FUNCTION queue_webhook_delivery(), queue_webhook_redelivery(), webhook_backlog_is_full(uuid, uuid, boolean),
    webhook_backlog_exceeds(uuid, bigint), webhook_share_is_full(uuid, uuid, boolean, bigint), refuse_change_of_audit_log(), audit_session_read(),
    audit_statement(), drop_what_waited_for_webhook() FROM PUBLIC;
