#!/bin/sh
# Makes a Vercel drain of a team's request logs into a drain of the provider vercel.
#   VERCEL_TOKEN  TEAM_ID  PROJECT_ID  TELEMETRY_URL (https://telemetry.example.com)  DRAIN_KEY  DRAIN_SECRET (the "secret" of the drain)
set -eu
# The answer may repeat the key: it is shown only where it says what was wrong.
answer=$(cat <<END | curl -sS --fail-with-body "${VERCEL_API:-https://api.vercel.com}/v1/drains?teamId=$TEAM_ID" \
  -H "Authorization: Bearer $VERCEL_TOKEN" -H 'Content-Type: application/json' --data-binary @-
{
  "name": "content-telemetry",
  "projects": "some",
  "projectIds": ["$PROJECT_ID"],
  "schemas": {"log": {"version": "v1"}},
  "delivery": {
    "type": "http",
    "endpoint": "$TELEMETRY_URL/drains/vercel",
    "encoding": "ndjson",
    "compression": "gzip",
    "headers": {"X-API-Key": "$DRAIN_KEY"},
    "secret": "$DRAIN_SECRET"
  }
}
END
) || { printf '%s\n' "$answer" >&2; exit 1; }
echo "POST drains: done"
