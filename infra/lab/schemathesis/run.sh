#!/usr/bin/env bash
# Sends requests made from the OpenAPI document to a running `cargo up`, once as each kind of caller (S8).
# Arguments are those of `schemathesis run`.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../../.local"
. ./demo.env
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
