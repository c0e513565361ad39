#!/bin/sh
# Sets up Cloudflare Logpush into a drain: the headers as custom fields, then the job.
#   ZONE_ID  TELEMETRY_URL (https://telemetry.example.com)
# Asks for these without showing them, unless they are in the environment; through a pipe, each is one line of the input:
#   CLOUDFLARE_API_TOKEN (Logs: Edit, Zone Rulesets: Edit)  DRAIN_KEY (unless the job's file already contains the key)
# No secret is an argument of a command, because every account of a machine can list those.
set -eu
newline='
'
here=$(dirname "$0")
api="${CLOUDFLARE_API:-https://api.cloudflare.com/client/v4}/zones/$ZONE_ID"

# Prints a line of input that isn't shown, for the secret named $1.
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
# Prints $1 with quotes and backslashes escaped, as a text in a configuration of curl has them.
escaped() { printf '%s' "$1" | tr '\n' ' ' | sed 's/[\\"]/\\&/g'; }
# Prints one line of a configuration of curl: the option $1 with the text $2.
option() { printf '%s = "%s"\n' "$1" "$(escaped "$2")"; }
# Prints $1 with its only $2 replaced by $3.
replaced() { printf '%s%s%s' "${1%%"$2"*}" "$3" "${1#*"$2"}"; }
# Sends the body $3 by $1 to $2. Only a status from 200 to 299 is a success: a redirect isn't followed. The response may repeat the
# key, so it is shown only after a failure.
call() {
  response=$({
    option url "$api/$2"
    option header "Authorization: Bearer $CLOUDFLARE_API_TOKEN"
    option header 'Content-Type: application/json'
    option data-binary "$3"
  } | curl --disable -sS -X "$1" --write-out '\n%{http_code}' --config -) || exit 1
  case ${response##*"$newline"} in
    2??) echo "$1 $2: done" ;;
    *) printf '%s\n' "$response" >&2; exit 1 ;;
  esac
}

job=$(cat "$here/logpush-job.json")
[ -n "${CLOUDFLARE_API_TOKEN:-}" ] || CLOUDFLARE_API_TOKEN=$(hidden CLOUDFLARE_API_TOKEN)
case $job in
  *DRAIN_KEY*)
    [ -n "${DRAIN_KEY:-}" ] || DRAIN_KEY=$(hidden DRAIN_KEY)
    job=$(replaced "$job" DRAIN_KEY "$DRAIN_KEY") ;;
esac
case $job in
  *https://telemetry.example.com*) job=$(replaced "$job" https://telemetry.example.com "$TELEMETRY_URL") ;;
esac

# This replaces what the phase contains: add the fields of an existing rule to the file first.
call PUT rulesets/phases/http_log_custom_fields/entrypoint "$(cat "$here/custom-fields.json")"
# Logpush turns header_NAME=VALUE into a header, so that the key is in no URL that it requests.
call POST logpush/jobs "$job"
