#!/bin/sh
# Creates a Vercel drain that sends a team's request logs to a vercel drain.
#   TEAM_ID  PROJECT_ID  TELEMETRY_URL (https://telemetry.example.com)
# Prompts for these without echo, unless they are in the environment. In piped input, each is one line:
#   VERCEL_TOKEN  DRAIN_KEY  DRAIN_SECRET (the "secret" of the drain)
# Secrets are never command arguments, because every account on a machine can list those.
set -eu
newline='
'

# Prompts for the secret $1, reads a line without echo and prints it.
hidden() {
  printf '%s: ' "$1" >&2
  if [ -t 0 ]; then
    trap 'stty echo' EXIT
    trap 'exit 1' INT TERM
    stty -echo
  fi
  IFS= read -r line || [ -n "$line" ]
  if [ -t 0 ]; then stty echo; fi
  echo >&2
  printf '%s' "$line"
}
# Prints $1 with quotes and backslashes escaped for a string in JSON or a curl configuration.
escaped() { printf '%s' "$1" | tr '\n' ' ' | sed 's/[\\"]/\\&/g'; }
# Prints a line of a curl configuration: the option $1 with the value $2.
option() { printf '%s = "%s"\n' "$1" "$(escaped "$2")"; }

[ -n "${VERCEL_TOKEN:-}" ] || VERCEL_TOKEN=$(hidden VERCEL_TOKEN)
[ -n "${DRAIN_KEY:-}" ] || DRAIN_KEY=$(hidden DRAIN_KEY)
[ -n "${DRAIN_SECRET:-}" ] || DRAIN_SECRET=$(hidden DRAIN_SECRET)
body='{"name": "content-telemetry", "projects": "some", "projectIds": ["'$(escaped "$PROJECT_ID")'"], "schemas": {"log": {"version": "v1"}},
  "delivery": {"type": "http", "endpoint": "'$(escaped "$TELEMETRY_URL")'/drains/vercel", "encoding": "ndjson", "compression": "gzip",
    "headers": {"X-API-Key": "'$(escaped "$DRAIN_KEY")'"}, "secret": "'$(escaped "$DRAIN_SECRET")'"}}'

# Only a status from 200 to 299 is a success: a redirect isn't followed. The response may repeat the key, so it is shown only after a
# failure.
response=$({
  option url "${VERCEL_API:-https://api.vercel.com}/v1/drains?teamId=$TEAM_ID"
  option header "Authorization: Bearer $VERCEL_TOKEN"
  option header 'Content-Type: application/json'
  option data-binary "$body"
} | curl --disable -sS -X POST --write-out '\n%{http_code}' --config -) || exit 1
case ${response##*"$newline"} in
  2??) echo "POST drains: done" ;;
  *) printf '%s\n' "$response" >&2; exit 1 ;;
esac
