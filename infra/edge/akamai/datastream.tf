# DataStream 2 into an akamai drain. The property needs the behavior "DataStream" with this stream. For the correlation
# header it needs "Set Variable", which puts the request header Content-Telemetry-ID into PMUSER_TELEMETRY_ID, and "Log Request
# Details" with the custom log field content-telemetry-id={{user.PMUSER_TELEMETRY_ID}}. Leave the other options of that behavior off:
# cookies, referer and X-Forwarded-For aren't read.
variable "telemetry_url" { default = "https://telemetry.example.com" }
variable "drain_key" { sensitive = true }
variable "contract_id" {}
variable "group_id" {}
variable "properties" { type = list(string) }

# Field ids of DataStream 2, as `akamai_datastream_dataset_fields` lists them: compare the names before you apply.
data "akamai_datastream_dataset_fields" "all" {}

locals {
  wanted = ["reqId", "reqTimeSec", "cliIP", "reqHost", "reqPath", "queryStr", "reqMethod", "statusCode", "bytes", "UA",
  "cacheStatus", "country", "asn", "rspContentType", "customField"]
  by_name = { for field in data.akamai_datastream_dataset_fields.all.dataset_fields : field.dataset_field_json_key => field.dataset_field_id }
}

resource "akamai_datastream" "content_telemetry" {
  active         = true
  stream_name    = "content-telemetry"
  contract_id    = var.contract_id
  group_id       = var.group_id
  properties     = var.properties
  dataset_fields = [for name in local.wanted : local.by_name[name]]

  delivery_configuration {
    format = "JSON"
    frequency {
      interval_in_secs = 30
    }
  }

  https_connector {
    display_name        = "content-telemetry"
    endpoint            = "${var.telemetry_url}/drains/akamai"
    authentication_type = "NONE"
    compress_logs       = true
    content_type        = "application/json"
    custom_header_name  = "X-API-Key"
    custom_header_value = var.drain_key
  }
}
