//! The table of platforms, each with its files.

use super::{File, Platform};

/// A file of `infra/edge`; with `holds_key` the key itself is written into it.
macro_rules! file {
    ($name:literal, $place:literal) => {
        file!($name, $place, false)
    };
    ($name:literal, $place:literal, $holds_key:literal) => {
        File { name: $name, place: $place, text: include_str!(concat!("../../../infra/edge/", $name)), holds_key: $holds_key }
    };
}

pub(super) const ALL: &[Platform] = &[
    Platform {
        name: "cloudflare",
        label: "Cloudflare",
        provider: "cloudflare",
        role: None,
        asks: None,
        command: "TELEMETRY_URL='{url}' DRAIN_KEY='{key}' CLOUDFLARE_API_TOKEN='…' ZONE_ID='…' sh logpush.sh",
        files: &[
            file!("cloudflare/custom-fields.json", "the headers that are logged besides"),
            file!("cloudflare/logpush-job.json", "the Logpush job, which sends with the key in a header", true),
            file!("cloudflare/logpush.sh", "beside the two others; it makes both of Cloudflare's calls"),
        ],
    },
    Platform {
        name: "fastly",
        label: "Fastly",
        provider: "fastly",
        role: None,
        asks: Some(("fastly_service_id", "Id of the Fastly service")),
        command: "TF_VAR_telemetry_url='{url}' TF_VAR_drain_key='{key}' terraform apply",
        files: &[
            file!("fastly/log-format.txt", "Log format, on one line, version 2"),
            file!("fastly/condition.vcl", "Condition, a response condition"),
            file!("fastly/logging.tf", "the same as Terraform, beside the two others"),
        ],
    },
    Platform {
        name: "akamai",
        label: "Akamai",
        provider: "akamai",
        role: None,
        asks: None,
        command: "TF_VAR_telemetry_url='{url}' TF_VAR_drain_key='{key}' TF_VAR_contract_id='…' TF_VAR_group_id='…' TF_VAR_properties='[\"…\"]' terraform apply",
        files: &[file!("akamai/datastream.tf", "a DataStream 2 stream, as Terraform")],
    },
    Platform {
        name: "cloudfront",
        label: "CloudFront",
        provider: "firehose",
        role: None,
        asks: None,
        command: "TF_VAR_telemetry_url='{url}' TF_VAR_drain_key='{key}' TF_VAR_backup_bucket_arn='…' terraform apply",
        files: &[file!("cloudfront/firehose.tf", "real-time logs through Firehose, as Terraform")],
    },
    Platform {
        name: "vercel",
        label: "Vercel",
        provider: "vercel",
        role: None,
        asks: Some(("secret", "Secret of your own choice, with which Vercel signs")),
        command: "TELEMETRY_URL='{url}' DRAIN_KEY='{key}' DRAIN_SECRET='…' VERCEL_TOKEN='…' TEAM_ID='…' PROJECT_ID='…' sh drain.sh",
        files: &[file!("vercel/drain.sh", "makes the log drain of a project")],
    },
    Platform {
        name: "nginx",
        label: "nginx",
        provider: "ndjson",
        role: None,
        asks: None,
        command: "# with Vector\nTELEMETRY_URL='{url}' DRAIN_KEY='{key}' vector --config vector.yaml\n\n# or with Fluent Bit\nTELEMETRY_HOST='{host}' DRAIN_KEY='{key}' fluent-bit --config fluent-bit.yaml",
        files: &[
            file!("nginx/json-log.conf", "into http { }; its access_log into server { }"),
            file!("vector/vector.yaml", "from the file to the drain, with Vector"),
            file!("fluent-bit/fluent-bit.yaml", "the same with Fluent Bit"),
        ],
    },
    Platform {
        name: "worker",
        label: "Cloudflare Worker",
        provider: "ndjson",
        role: None,
        asks: None,
        command: "printf '%s' '{key}' | npx wrangler secret put DRAIN_KEY\nnpx wrangler deploy   # with DRAIN_URL {url}/drains/ndjson",
        files: &[
            file!("cloudflare/wrangler.toml", "in a folder of its own"),
            file!("cloudflare/worker.mjs", "beside it"),
            file!("lines.mjs", "in the folder above"),
            file!("fastly/compute.mjs", "for Fastly Compute, beside lines.mjs"),
        ],
    },
    Platform {
        name: "code",
        label: "Your own server",
        provider: "ndjson",
        role: Some("origin"),
        asks: None,
        command: "export DRAIN_URL='{url}/drains/ndjson' DRAIN_KEY='{key}'   # then start your server",
        files: &[
            file!("node/middleware.mjs", "Node.js: Express, Connect, node:http"),
            file!("lines.mjs", "for Node.js, in the folder above"),
            file!("python/middleware.py", "Python: any WSGI server"),
        ],
    },
    Platform {
        name: "combined",
        label: "Another log",
        provider: "combined",
        role: None,
        asks: None,
        command: "curl -sS '{url}/drains/combined' -H 'X-API-Key: {key}' -H 'Content-Type: text/plain' --data-binary @access.log",
        files: &[file!("nginx/combined-log.conf", "for nginx: the combined format, with the host and an id of the request")],
    },
];
