# CloudFront standard logging (v2) through Amazon Data Firehose into a firehose drain. Firehose stores records that it
# couldn't deliver in the bucket. CloudFront delivers its logs from us-east-1: apply this in that region.
variable "telemetry_url" { default = "https://telemetry.example.com" }
variable "drain_key" { sensitive = true }
variable "distribution_arn" {}
variable "backup_bucket_arn" {}

resource "aws_cloudwatch_log_delivery_source" "telemetry" {
  name         = "content-telemetry"
  log_type     = "ACCESS_LOGS"
  resource_arn = var.distribution_arn
}

resource "aws_cloudwatch_log_delivery_destination" "telemetry" {
  name          = "content-telemetry"
  output_format = "json"

  delivery_destination_configuration {
    destination_resource_arn = aws_kinesis_firehose_delivery_stream.telemetry.arn
  }
}

# Only fields that the service reads. Cookies, the referer, X-Forwarded-For and other headers stay with CloudFront. `c-ip` is the
# address of the connection; without it, `verified` is null.
resource "aws_cloudwatch_log_delivery" "telemetry" {
  delivery_source_name     = aws_cloudwatch_log_delivery_source.telemetry.name
  delivery_destination_arn = aws_cloudwatch_log_delivery_destination.telemetry.arn
  record_fields = ["timestamp(ms)", "c-ip", "sc-status", "sc-bytes", "cs-method", "cs-protocol", "x-host-header", "cs-uri-stem",
  "cs-uri-query", "x-edge-request-id", "cs(User-Agent)", "x-edge-result-type", "sc-content-type", "c-country", "asn"]
}

resource "aws_kinesis_firehose_delivery_stream" "telemetry" {
  name        = "content-telemetry"
  destination = "http_endpoint"
  # Lets the log delivery write into this stream.
  tags = { LogDeliveryEnabled = "true" }

  http_endpoint_configuration {
    name               = "content-telemetry"
    url                = "${var.telemetry_url}/drains/firehose"
    access_key         = var.drain_key
    buffering_size     = 5
    buffering_interval = 60
    retry_duration     = 7200
    role_arn           = aws_iam_role.firehose.arn
    s3_backup_mode     = "FailedDataOnly"

    request_configuration { content_encoding = "GZIP" }

    s3_configuration {
      role_arn   = aws_iam_role.firehose.arn
      bucket_arn = var.backup_bucket_arn
    }
  }
}

resource "aws_iam_role" "firehose" {
  name               = "content-telemetry-firehose"
  assume_role_policy = data.aws_iam_policy_document.firehose.json
}

data "aws_iam_policy_document" "firehose" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["firehose.amazonaws.com"]
    }
  }
}

resource "aws_iam_role_policy" "firehose" {
  role = aws_iam_role.firehose.id
  policy = jsonencode({ Version = "2012-10-17", Statement = [
    { Effect = "Allow", Action = ["s3:PutObject", "s3:GetBucketLocation", "s3:ListBucket", "s3:AbortMultipartUpload"], Resource = [var.backup_bucket_arn, "${var.backup_bucket_arn}/*"] }
  ] })
}
