//! The platforms, with their files.

use super::{Command, File, Plan, Platform};

const RUN: &str = "Command to run, with the key";

const fn run(text: &'static str) -> Command {
    Command { title: RUN, place: "", text }
}

/// Includes a file of `infra/edge`. `holds_key` files contain the key.
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
        plan: Some(Plan {
            text: "Logpush for zones needs Cloudflare\u{2019}s Enterprise plan. On the Free, Pro and Business plans, use",
            instead: Some("worker"),
        }),
        role: None,
        asks: None,
        commands: &[run("TELEMETRY_URL='{url}' DRAIN_KEY='{key}' CLOUDFLARE_API_TOKEN='…' ZONE_ID='…' sh logpush.sh")],
        files: &[
            file!("cloudflare/custom-fields.json", "Additional headers to log"),
            file!("cloudflare/logpush-job.json", "The Logpush job, with the drain key in a header", true),
            file!(
                "cloudflare/logpush.sh",
                "Save next to the other two files. Calls the Cloudflare API and keeps your other custom fields. Needs jq."
            ),
        ],
    },
    Platform {
        name: "fastly",
        label: "Fastly",
        provider: "fastly",
        plan: None,
        role: None,
        asks: Some(("fastly_service_id", "Fastly service ID")),
        commands: &[run("TF_VAR_telemetry_url='{url}' TF_VAR_drain_key='{key}' terraform apply")],
        files: &[
            file!("fastly/log-format.txt", "Log format, version 2, on one line"),
            file!("fastly/condition.vcl", "Response condition"),
            file!("fastly/logging.tf", "Terraform: the same logging endpoint. Save next to the other two files."),
        ],
    },
    Platform {
        name: "akamai",
        label: "Akamai",
        provider: "akamai",
        plan: None,
        role: None,
        asks: None,
        commands: &[run(
            "TF_VAR_telemetry_url='{url}' TF_VAR_drain_key='{key}' TF_VAR_contract_id='…' TF_VAR_group_id='…' TF_VAR_properties='[\"…\"]' terraform apply",
        )],
        files: &[file!("akamai/datastream.tf", "Terraform: DataStream 2 stream")],
    },
    Platform {
        name: "cloudfront",
        label: "CloudFront",
        provider: "firehose",
        plan: None,
        role: None,
        asks: None,
        commands: &[run(
            "TF_VAR_telemetry_url='{url}' TF_VAR_drain_key='{key}' TF_VAR_distribution_arn='…' TF_VAR_backup_bucket_arn='…' terraform apply",
        )],
        files: &[file!("cloudfront/firehose.tf", "Terraform: standard logs through Firehose")],
    },
    Platform {
        name: "vercel",
        label: "Vercel",
        provider: "vercel",
        plan: Some(Plan {
            text: "Log drains need Vercel\u{2019}s Pro or Enterprise plan. On the Hobby plan, use",
            instead: Some("code"),
        }),
        role: None,
        asks: Some(("secret", "Signing secret. Choose any value; Vercel uses it to sign requests.")),
        commands: &[run(
            "TELEMETRY_URL='{url}' DRAIN_KEY='{key}' DRAIN_SECRET='…' VERCEL_TOKEN='…' TEAM_ID='…' PROJECT_ID='…' sh drain.sh",
        )],
        files: &[file!("vercel/drain.sh", "Creates the log drain of a Vercel project")],
    },
    Platform {
        name: "azure",
        label: "Azure Front Door",
        provider: "azure",
        plan: None,
        role: None,
        asks: None,
        commands: &[run(
            "TELEMETRY_URL='{url}' DRAIN_KEY='{key}' RESOURCE_GROUP='…' LOCATION='…' FRONT_DOOR='…' NAME='…' sh setup.sh",
        )],
        files: &[
            file!("azure/forward/index.mjs", "Azure Function that forwards the log. Save in the folder forward."),
            file!("azure/forward/function.json", "Save in the same folder"),
            file!("azure/host.json", "Save in the parent folder"),
            file!("azure/setup.sh", "Save next to host.json. Creates the function and the diagnostic setting."),
        ],
    },
    Platform {
        name: "nginx",
        label: "nginx",
        provider: "ndjson",
        plan: None,
        role: None,
        asks: None,
        commands: &[
            Command {
                title: "Command to run Vector, with the key",
                place: "",
                text: "TELEMETRY_URL='{url}' DRAIN_KEY='{key}' vector --config vector.yaml",
            },
            Command {
                title: "Command to run Fluent Bit, with the key",
                place: "Instead of Vector",
                text: "TELEMETRY_HOST='{host}' DRAIN_KEY='{key}' fluent-bit --config fluent-bit.yaml",
            },
        ],
        files: &[
            file!("nginx/json-log.conf", "Add to http { }, and its access_log to server { }"),
            file!("vector/vector.yaml", "Sends the log file to the drain with Vector"),
            file!("fluent-bit/fluent-bit.yaml", "Alternative to Vector: sends the log file with Fluent Bit"),
        ],
    },
    Platform {
        name: "worker",
        label: "Cloudflare Worker",
        provider: "ndjson",
        plan: Some(Plan {
            text: "Works on every Cloudflare plan. The Free plan of Workers includes 100,000 requests per day. On the Enterprise plan, you can also use",
            instead: Some("cloudflare"),
        }),
        role: None,
        asks: None,
        commands: &[Command {
            title: "Commands to run, with the key",
            place: "",
            text: "printf '%s' '{key}' | npx wrangler secret put DRAIN_KEY\nnpx wrangler deploy",
        }],
        files: &[
            file!("cloudflare/wrangler.toml", "Save in a new folder"),
            file!("cloudflare/worker.mjs", "Save in the same folder"),
            file!("lines.mjs", "Save in the parent folder"),
            file!("fastly/compute.mjs", "For Fastly Compute. Save next to lines.mjs."),
        ],
    },
    Platform {
        name: "code",
        label: "Your own server",
        provider: "ndjson",
        plan: None,
        role: Some("origin"),
        asks: None,
        commands: &[Command {
            title: RUN,
            place: "Then start your server in the same shell.",
            text: "export DRAIN_URL='{url}/drains/ndjson' DRAIN_KEY='{key}'",
        }],
        files: &[
            file!("node/middleware.mjs", "Node.js: Express, Connect or node:http"),
            file!("lines.mjs", "For Node.js. Save in the parent folder."),
            file!("python/middleware.py", "Python: any WSGI server"),
        ],
    },
    Platform {
        name: "combined",
        label: "Another log",
        provider: "combined",
        plan: None,
        role: None,
        asks: None,
        commands: &[run(
            "curl -sS '{url}/drains/combined' -H @- -H 'Content-Type: text/plain' --data-binary @access.log <<< 'X-API-Key: {key}'",
        )],
        files: &[file!("nginx/combined-log.conf", "nginx: combined format with the host and a request ID")],
    },
];
