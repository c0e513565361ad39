#!/bin/sh
# Makes the account that owns the tables and one for each service, each with a password of its own from the environment
# (POSTGRES_OWNER_PASSWORD, POSTGRES_GATEWAY_PASSWORD, …). Run once by an administrator of the server, before `telemetry identity-api migrate`,
# which grants each what it needs; the image of docker-compose.yml runs it when it makes its data. Safe to repeat: an account that is
# there gets the password. It also takes from everybody what no service needs and only an administrator can take back.
set -eu

for role in owner gateway worker deliverer query identity; do
    setting="POSTGRES_$(printf %s "$role" | tr '[:lower:]' '[:upper:]')_PASSWORD"
    eval "password=\${$setting:?is not set}"
    # psql quotes the values itself; it reads variables only in what comes by standard input
    psql --no-psqlrc --quiet -v ON_ERROR_STOP=1 -v role="telemetry_$role" -v password="$password" \
        --username "${POSTGRES_USER:-postgres}" --dbname "${POSTGRES_DB:-telemetry}" <<'SQL'
SELECT format('CREATE ROLE %I LOGIN', :'role') WHERE to_regrole(:'role') IS NULL \gexec
ALTER ROLE :"role" PASSWORD :'password';
SQL
done
psql --no-psqlrc --quiet -v ON_ERROR_STOP=1 -v database="${POSTGRES_DB:-telemetry}" \
    --username "${POSTGRES_USER:-postgres}" --dbname "${POSTGRES_DB:-telemetry}" <<'SQL'
ALTER DATABASE :"database" OWNER TO telemetry_owner;
-- Anybody could keep large objects, in no table and within no grant; only an administrator can take that back.
SELECT format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', oid::regprocedure) FROM pg_proc
    WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ '^lo(_|read$|write$)' \gexec
SQL
