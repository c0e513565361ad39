#!/bin/sh
# Creates an event hub, an Azure Function that forwards its messages to an azure drain, and the diagnostic setting that
# sends Front Door's access log there. Needs the Azure CLI, signed in (az login), and zip.
#   RESOURCE_GROUP  LOCATION  FRONT_DOOR (the profile's name)  NAME (of what it creates: 3 to 20 lowercase letters and digits, unique in Azure)
#   TELEMETRY_URL (https://telemetry.example.com)
# Prompts for DRAIN_KEY without echo, unless it is in the environment. In piped input, it is one line.
# The key is never a command argument, because every account on a machine can list those.
set -eu

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
# Prints $1 with quotes and backslashes escaped for a JSON string.
escaped() { printf '%s' "$1" | tr '\n' ' ' | sed 's/[\\"]/\\&/g'; }
# Runs the Azure CLI in the resource group, without its output: it can contain keys.
azure() { az "$@" --resource-group "$RESOURCE_GROUP" --output none; }

[ -n "${DRAIN_KEY:-}" ] || DRAIN_KEY=$(hidden DRAIN_KEY)
folder=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
archive=$work/function.zip
(cd "$folder" && zip -q "$archive" host.json forward/function.json forward/index.mjs)

azure eventhubs namespace create --name "$NAME" --location "$LOCATION" --sku Standard
azure eventhubs eventhub create --namespace-name "$NAME" --name front-door --partition-count 2
azure storage account create --name "$NAME" --location "$LOCATION" --sku Standard_LRS
azure functionapp create --name "$NAME" --storage-account "$NAME" --flexconsumption-location "$LOCATION" --runtime node --runtime-version 22

# The function reads the event hub with its own identity, so it needs no connection string.
azure functionapp identity assign --name "$NAME"
identity=$(az functionapp identity show --name "$NAME" --resource-group "$RESOURCE_GROUP" --query principalId --output tsv)
hub=$(az eventhubs namespace show --name "$NAME" --resource-group "$RESOURCE_GROUP" --query id --output tsv)
az role assignment create --assignee-object-id "$identity" --assignee-principal-type ServicePrincipal \
  --role 'Azure Event Hubs Data Receiver' --scope "$hub" --output none
printf '[{"name": "DRAIN_URL", "value": "%s/drains/azure"}, {"name": "DRAIN_KEY", "value": "%s"},
  {"name": "EVENT_HUB__fullyQualifiedNamespace", "value": "%s.servicebus.windows.net"}]' \
  "$(escaped "$TELEMETRY_URL")" "$(escaped "$DRAIN_KEY")" "$(escaped "$NAME")" |
  azure functionapp config appsettings set --name "$NAME" --settings @-
azure functionapp deployment source config-zip --name "$NAME" --src "$archive"

# Only the access log, because the other categories don't describe visitors' requests.
profile=$(az afd profile show --profile-name "$FRONT_DOOR" --resource-group "$RESOURCE_GROUP" --query id --output tsv)
az monitor diagnostic-settings create --name content-telemetry --resource "$profile" --event-hub front-door \
  --event-hub-rule "$hub/authorizationRules/RootManageSharedAccessKey" \
  --logs '[{"category": "FrontDoorAccessLog", "enabled": true}]' --output none
echo "done"
