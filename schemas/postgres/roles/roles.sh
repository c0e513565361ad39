#!/bin/sh
# Creates the account that owns the tables and one for each service, with passwords from the environment (POSTGRES_OWNER_PASSWORD,
# POSTGRES_GATEWAY_PASSWORD, …). An administrator of the server runs it once, before `telemetry identity-api migrate`, which
# grants the privileges; the image of docker-compose.yml runs it when it initializes its data. Safe to repeat: an existing account
# gets the password. It also revokes what no service needs and only an administrator can revoke from PUBLIC.
set -eu

for role in owner gateway worker deliverer query identity; do
    setting="POSTGRES_$(printf %s "$role" | tr '[:lower:]' '[:upper:]')_PASSWORD"
    eval "password=\${$setting:?is not set}"
    # psql quotes the values itself, but expands variables only in standard input
    psql --no-psqlrc --quiet -v ON_ERROR_STOP=1 -v role="telemetry_$role" -v password="$password" \
        --username "${POSTGRES_USER:-postgres}" --dbname "${POSTGRES_DB:-telemetry}" <<'SQL'
SELECT format('CREATE ROLE %I LOGIN', :'role') WHERE to_regrole(:'role') IS NULL \gexec
ALTER ROLE :"role" PASSWORD :'password';
SQL
done
psql --no-psqlrc --quiet -v ON_ERROR_STOP=1 -v database="${POSTGRES_DB:-telemetry}" \
    --username "${POSTGRES_USER:-postgres}" --dbname "${POSTGRES_DB:-telemetry}" <<'SQL'
ALTER DATABASE :"database" OWNER TO telemetry_owner;
-- Large objects are in no table and have no grants, so anyone could create them; only an administrator can revoke that.
SELECT format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', oid::regprocedure) FROM pg_proc
    WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '^lo(_|read$|write$)' \gexec
SQL
