# DataStream 2 into a drain of the provider akamai. The property needs the behaviour "DataStream" with this stream, and for the
# correlation header "Log Request Details" with the custom log field {{builtin.AK_HDR_content-telemetry-id}}.
variable "telemetry_url" { default = "https://telemetry.example.com" }
variable "drain_key" { sensitive = true }
variable "contract_id" {}
variable "group_id" {}
variable "properties" { type = list(string) }

# Ids of DataStream 2's catalogue, which `akamai_datastream_dataset_fields` lists: compare the names before you apply.
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
