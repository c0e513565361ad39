#!/bin/sh
# Sets up Cloudflare Logpush to a drain: adds the headers to the zone's custom fields, then creates the job. Needs jq.
# Logpush for zones needs Cloudflare's Enterprise plan. On other plans, use worker.mjs.
#   ZONE_ID  TELEMETRY_URL (https://telemetry.example.com)
# Prompts for these without echo, unless they are in the environment. In piped input, each is one line:
#   CLOUDFLARE_API_TOKEN (Logs: Edit, Zone Rulesets: Edit)  DRAIN_KEY (unless the job's file already contains the key)
# Secrets are never command arguments, because every account on a machine can list those.
set -eu
newline='
'
here=$(dirname "$0")
api="${CLOUDFLARE_API:-https://api.cloudflare.com/client/v4}/zones/$ZONE_ID"

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
# Prints $1 with quotes and backslashes escaped for a string in a curl configuration.
escaped() { printf '%s' "$1" | tr '\n' ' ' | sed 's/[\\"]/\\&/g'; }
# Prints a line of a curl configuration: the option $1 with the value $2.
option() { printf '%s = "%s"\n' "$1" "$(escaped "$2")"; }
# Prints $1 with its only $2 replaced by $3.
replaced() { printf '%s%s%s' "${1%%"$2"*}" "$3" "${1#*"$2"}"; }
# Sends the body $3, if any, to $2 with the method $1. Sets `response` and `status`.
send() {
  response=$({
    option url "$api/$2"
    option header "Authorization: Bearer $CLOUDFLARE_API_TOKEN"
    option header 'Content-Type: application/json'
    if [ -n "${3:-}" ]; then option data-binary "$3"; fi
  } | curl --disable -sS -X "$1" --write-out '\n%{http_code}' --config -) || exit 1
  status=${response##*"$newline"}
  response=${response%"$newline"*}
}
# Like `send`. Only a status from 200 to 299 is a success: a redirect isn't followed. The response may repeat the key, so it is shown
# only after a failure.
call() {
  send "$@"
  case $status in
    2??) echo "$1 $2: done" ;;
    *) printf '%s\n' "$response" >&2; exit 1 ;;
  esac
}

command -v jq > /dev/null || { echo 'Install jq first: https://jqlang.org' >&2; exit 1; }
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

# A zone has one set of rules for custom fields, and writing it replaces all of them: read it, add our fields, and write it back.
fields=rulesets/phases/http_log_custom_fields/entrypoint
send GET "$fields"
case $status in
  2??) present=$response ;;
  404) present='{}' ;;
  *) printf '%s\n' "$response" >&2; exit 1 ;;
esac
merged=$(printf '%s' "$present" | jq --compact-output --slurpfile ours "$here/custom-fields.json" '
  def fields: .action_parameters.request_fields // [];
  [.result.rules[]? | del(.version, .last_updated)] as $rules
  | $ours[0].rules[0] as $own
  | ([$rules[] | .action == "log_custom_field"] | index(true)) as $at
  | {rules: (
      if $at == null then $rules + [$own]
      else $rules | .[$at].action_parameters.request_fields = (.[$at] | fields) + (($own | fields) - (.[$at] | fields))
      end
    )}')
call PUT "$fields" "$merged"
# Logpush turns header_NAME=VALUE into a header, so the URL that it requests doesn't contain the key.
call POST logpush/jobs "$job"
