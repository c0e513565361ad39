# A block of the service, `fastly_service_vcl`: HTTPS logging into a fastly drain.
variable "telemetry_url" { default = "https://telemetry.example.com" }
variable "drain_key" { sensitive = true }

resource "fastly_service_vcl" "site" {
  # … the service as it is …

  condition {
    name      = "may be an agent"
    type      = "RESPONSE"
    statement = trimspace(join(" ", [for line in split("\n", file("${path.module}/condition.vcl")) : line if !startswith(line, "#")]))
  }

  logging_https {
    name               = "content-telemetry"
    url                = "${var.telemetry_url}/drains/fastly"
    method             = "POST"
    content_type       = "application/x-ndjson"
    json_format        = "2"
    compression_codec  = "gzip"
    header_name        = "X-API-Key"
    header_value       = var.drain_key
    format             = trimspace(file("${path.module}/log-format.txt"))
    format_version     = 2
    response_condition = "may be an agent"
    request_max_bytes  = 10485760
  }
}
