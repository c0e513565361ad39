# CloudFront real-time logs through Amazon Data Firehose into a drain of the provider firehose. Real-time logs go to a Kinesis
# stream, and from there by Firehose to the drain; what could not be delivered lies in the bucket.
variable "telemetry_url" { default = "https://telemetry.example.com" }
variable "drain_key" { sensitive = true }
variable "backup_bucket_arn" {}

resource "aws_kinesis_stream" "telemetry" {
  name             = "content-telemetry"
  retention_period = 24
  stream_mode_details { stream_mode = "ON_DEMAND" }
}

# Attach it to a cache behaviour with `realtime_log_config_arn`. The parser goes by the place of a field, so that all are chosen, and
# Firehose delivers them in CloudFront's own order whatever the order here.
resource "aws_cloudfront_realtime_log_config" "telemetry" {
  name          = "content-telemetry"
  sampling_rate = 100
  fields = ["timestamp", "c-ip", "time-to-first-byte", "sc-status", "sc-bytes", "cs-method", "cs-protocol", "cs-host", "cs-uri-stem",
    "cs-bytes", "x-edge-location", "x-edge-request-id", "x-host-header", "time-taken", "cs-protocol-version", "c-ip-version",
    "cs-user-agent", "cs-referer", "cs-cookie", "cs-uri-query", "x-edge-response-result-type", "x-forwarded-for", "ssl-protocol",
    "ssl-cipher", "x-edge-result-type", "fle-encrypted-fields", "fle-status", "sc-content-type", "sc-content-len", "sc-range-start",
    "sc-range-end", "c-port", "x-edge-detailed-result-type", "c-country", "cs-accept-encoding", "cs-accept",
  "cache-behavior-path-pattern", "cs-headers", "cs-header-names", "cs-headers-count", "primary-distribution-id", "primary-distribution-dns-name", "origin-fbl", "origin-lbl", "asn"]

  endpoint {
    stream_type = "Kinesis"
    kinesis_stream_config {
      role_arn   = aws_iam_role.cloudfront.arn
      stream_arn = aws_kinesis_stream.telemetry.arn
    }
  }
}

resource "aws_kinesis_firehose_delivery_stream" "telemetry" {
  name        = "content-telemetry"
  destination = "http_endpoint"

  kinesis_source_configuration {
    kinesis_stream_arn = aws_kinesis_stream.telemetry.arn
    role_arn           = aws_iam_role.firehose.arn
  }

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

resource "aws_iam_role" "cloudfront" {
  name               = "content-telemetry-cloudfront"
  assume_role_policy = data.aws_iam_policy_document.cloudfront.json
}

resource "aws_iam_role" "firehose" {
  name               = "content-telemetry-firehose"
  assume_role_policy = data.aws_iam_policy_document.firehose.json
}

data "aws_iam_policy_document" "cloudfront" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["cloudfront.amazonaws.com"]
    }
  }
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

resource "aws_iam_role_policy" "cloudfront" {
  role = aws_iam_role.cloudfront.id
  policy = jsonencode({ Version = "2012-10-17", Statement = [{
    Effect   = "Allow"
    Action   = ["kinesis:DescribeStream", "kinesis:DescribeStreamSummary", "kinesis:PutRecord", "kinesis:PutRecords"]
    Resource = aws_kinesis_stream.telemetry.arn
  }] })
}

resource "aws_iam_role_policy" "firehose" {
  role = aws_iam_role.firehose.id
  policy = jsonencode({ Version = "2012-10-17", Statement = [
    { Effect = "Allow", Action = ["kinesis:DescribeStream", "kinesis:GetShardIterator", "kinesis:GetRecords", "kinesis:ListShards"], Resource = aws_kinesis_stream.telemetry.arn },
    { Effect = "Allow", Action = ["s3:PutObject", "s3:GetBucketLocation", "s3:ListBucket", "s3:AbortMultipartUpload"], Resource = [var.backup_bucket_arn, "${var.backup_bucket_arn}/*"] }
  ] })
}
