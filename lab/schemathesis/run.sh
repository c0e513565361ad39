#!/usr/bin/env bash
# Sends requests generated from the OpenAPI document to `cargo up`, once per kind of caller (S8). Starts it if it is not running.
# Passes its arguments to `schemathesis run`.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
is_up() { [ -f .local/demo.env ] && . .local/demo.env && curl -fs -o /dev/null "$BASE_URL/ready"; }
if ! is_up; then
    cargo up &
    up=$!
    trap 'kill "$up"; wait "$up"' EXIT
    until is_up; do
        kill -0 "$up"
        sleep 1
    done
fi
cd .local
if [ ! -x schemathesis/bin/schemathesis ]; then
    python3 -m venv schemathesis
    schemathesis/bin/pip install --quiet schemathesis==4.32.5
fi
failed=0
for caller in OWNER_KEY AGENT_KEY NETWORK_KEY OWNER_SESSION USER_SESSION OPERATOR_SESSION; do
    case $caller in
        *_KEY) header="X-API-Key: ${!caller}" ;;
        *) header="Authorization: Bearer ${!caller}" ;;
    esac
    echo "== $caller"
    schemathesis/bin/schemathesis --config-file "$here/schemathesis.toml" run "$BASE_URL/openapi.json" \
        --header "$header" "$@" || failed=1
done
exit $failed
