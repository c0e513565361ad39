//! Setup instructions for each log source: the files in `infra/edge`, with the service's address and the drain's key filled in.

mod files;

use std::io::{Cursor, Write};
use zip::write::SimpleFileOptions;

/// Placeholder for the address in the files.
const ADDRESS: &str = "https://telemetry.example.com";
/// Placeholder for the host, in files that need only the host.
const HOST: &str = "telemetry.example.com";
/// Placeholder for the key in files that contain it.
const KEY: &str = "DRAIN_KEY";
/// Shown instead of the key.
const HIDDEN: &str = "YOUR-DRAIN-KEY";

/// A source of logs.
#[derive(Debug)]
pub(crate) struct Platform {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    /// The drain's provider.
    pub(crate) provider: &'static str,
    pub(crate) plan: Option<Plan>,
    /// The drain's role, if it isn't the provider's default.
    pub(crate) role: Option<&'static str>,
    /// Additional drain setting: the API member and its label.
    pub(crate) asks: Option<(&'static str, &'static str)>,
    /// Commands to run with the files, with the placeholders `{url}`, `{host}` and `{key}`. Several commands are alternatives.
    commands: &'static [Command],
    files: &'static [File],
}

/// The provider's plan that a source requires.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) text: &'static str,
    /// Name of a platform for other plans.
    instead: Option<&'static str>,
}

impl Plan {
    pub(crate) fn other(&self) -> Option<&'static Platform> {
        self.instead.and_then(named)
    }
}

/// A file of `infra/edge`.
#[derive(Debug)]
struct File {
    name: &'static str,
    place: &'static str,
    text: &'static str,
    /// Whether the file contains the key.
    holds_key: bool,
}

#[derive(Debug)]
struct Command {
    title: &'static str,
    /// What to do before or after running it.
    place: &'static str,
    /// Doesn't contain comments, because an interactive zsh would run them.
    text: &'static str,
}

#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) title: String,
    pub(crate) place: &'static str,
    pub(crate) text: String,
}

/// Returns all platforms, in the order shown.
pub(crate) fn all() -> &'static [Platform] {
    files::ALL
}

/// Returns the platform with this name.
pub(crate) fn named(name: &str) -> Option<&'static Platform> {
    all().iter().find(|platform| platform.name == name)
}

/// Returns the platforms that use a provider; there is at least one.
pub(crate) fn of_provider(provider: &str) -> Vec<&'static Platform> {
    all().iter().filter(|platform| platform.provider == provider).collect()
}

impl Platform {
    /// Returns the blocks to paste, in order. Without `key`, they contain a placeholder.
    pub(crate) fn blocks(&self, url: &str, key: Option<&str>) -> Vec<Block> {
        let key = key.unwrap_or(HIDDEN);
        let file = |file: &File| {
            let text = file.text.replace(ADDRESS, url).replace(HOST, host(url));
            let text = if file.holds_key { text.replace(KEY, key) } else { text };
            Block { title: file.name.to_owned(), place: file.place, text }
        };
        let command = |command: &Command| {
            let text = command.text.replace("{url}", url).replace("{host}", host(url)).replace("{key}", key);
            Block { title: command.title.to_owned(), place: command.place, text }
        };
        self.files.iter().map(file).chain(self.commands.iter().map(command)).collect()
    }
}

impl Platform {
    /// Returns the files as a ZIP archive that includes instructions, with the address filled in and without a key.
    pub(crate) fn archive(&self, url: &str) -> zip::result::ZipResult<Vec<u8>> {
        let blocks = self.blocks(url, None);
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for file in blocks.iter().take(self.files.len()) {
            archive.start_file(file.title.as_str(), SimpleFileOptions::default())?;
            archive.write_all(file.text.as_bytes())?;
        }
        archive.start_file("README.txt", SimpleFileOptions::default())?;
        archive.write_all(self.steps(url).as_bytes())?;
        Ok(archive.finish()?.into_inner())
    }

    /// Returns what to do with the files, as text without a key.
    pub(crate) fn steps(&self, url: &str) -> String {
        let blocks = self.blocks(url, None);
        let step = |block: &Block| match block.place {
            "" => format!("{}:\n{}\n", block.title, block.text),
            place => format!("{} ({}):\n{}\n", block.title, place.trim_end_matches('.'), block.text),
        };
        let (files, commands) = blocks.split_at(self.files.len());
        let files: String = files.iter().map(|file| format!("- {}: {}\n", file.title, file.place)).collect();
        let commands: Vec<_> = commands.iter().map(step).collect();
        format!("Send the access log of {} to Content Telemetry\n\nFiles:\n{files}\n{}", self.label, commands.join("\n"))
    }
}

/// Returns the host of a URL, without scheme, port and path.
fn host(url: &str) -> &str {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    authority.split(['/', ':']).next().unwrap_or(authority)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const URL: &str = "https://own.example.net:8443";

    #[test]
    fn platforms_show_the_files_from_their_document() {
        for (document, names) in [
            (include_str!("../../docs/drains/cloudflare.md"), &["cloudflare"][..]),
            (include_str!("../../docs/drains/worker.md"), &["worker"]),
            (include_str!("../../docs/drains/fastly.md"), &["fastly"]),
            (include_str!("../../docs/drains/akamai.md"), &["akamai"]),
            (include_str!("../../docs/drains/cloudfront.md"), &["cloudfront"]),
            (include_str!("../../docs/drains/vercel.md"), &["vercel"]),
            (include_str!("../../docs/drains/azure.md"), &["azure"]),
            (include_str!("../../docs/drains/nginx.md"), &["nginx", "combined"]),
            (include_str!("../../docs/drains/middleware.md"), &["code"]),
        ] {
            let links = document.split("](../../infra/edge/").skip(1).map(|rest| rest.split(')').next().unwrap());
            let shown = names.iter().flat_map(|name| named(name).unwrap().files).map(|file| file.name);
            assert_eq!(shown.collect::<BTreeSet<_>>(), links.collect::<BTreeSet<_>>(), "{names:?}");
        }
    }

    #[test]
    fn suggests_another_platform_for_unsupported_plans() {
        let other = |name: &str| named(name).unwrap().plan.as_ref().and_then(Plan::other).map(|other| other.name);
        assert_eq!((other("cloudflare"), other("worker"), other("vercel")), (Some("worker"), Some("cloudflare"), Some("code")));
        let text = named("cloudflare").unwrap().plan.as_ref().unwrap().text;
        assert!(text.contains("Enterprise") && text.contains("Free, Pro and Business"), "{text}");
        let document = include_str!("../../docs/drains/cloudflare.md");
        assert!(
            document.contains("Logpush for zones needs Cloudflare's Enterprise plan."),
            "the document must state the plan, too"
        );
    }

    #[test]
    fn every_provider_has_a_platform() {
        for provider in schemas::identity::DrainProvider::ALL {
            assert!(!of_provider(provider.as_str()).is_empty(), "{}", provider.as_str());
        }
        let names: BTreeSet<_> = all().iter().map(|platform| platform.name).collect();
        assert_eq!(names.len(), all().len());
    }

    #[test]
    fn fills_in_the_address_and_the_key() {
        for platform in all() {
            let texts = |key| platform.blocks(URL, key).into_iter().map(|block| block.text).collect::<Vec<_>>().join("\n");
            let (shown, hidden) = (texts(Some("svc_pub_secret")), texts(None));
            assert!(shown.contains("svc_pub_secret") && !shown.contains(HIDDEN), "{}", platform.name);
            assert!(hidden.contains(HIDDEN), "{}", platform.name);
            assert!(shown.contains("own.example.net") && !shown.contains(HOST), "{}", platform.name);
            assert!(!shown.contains("{key}") && !shown.contains("{url}") && !shown.contains("{host}"), "{}", platform.name);
        }
    }

    /// Every account on a machine can list process arguments, but not environment variables or standard input.
    #[test]
    fn s21_pasted_commands_have_no_key_argument() {
        for platform in all() {
            for command in platform.commands {
                for (before, _) in command.text.match_indices("{key}").map(|(at, _)| command.text.split_at(at)) {
                    let is_apart = ["DRAIN_KEY='", "TF_VAR_drain_key='", "<<< 'X-API-Key: ", "printf '%s' '"];
                    assert!(is_apart.iter().any(|apart| before.ends_with(apart)), "{}: {}", platform.name, command.text);
                }
            }
        }
    }

    #[test]
    fn archives_contain_the_address_but_no_key() {
        for platform in all() {
            let mut archive = zip::ZipArchive::new(Cursor::new(platform.archive(URL).unwrap())).unwrap();
            let mut texts = std::collections::BTreeMap::new();
            for at in 0..archive.len() {
                let mut file = archive.by_index(at).unwrap();
                let mut text = String::new();
                std::io::Read::read_to_string(&mut file, &mut text).unwrap();
                texts.insert(file.name().unwrap().into_owned(), text);
            }
            let steps = texts.remove("README.txt").unwrap();
            assert!(steps.contains(HIDDEN) && steps.contains("own.example.net") || platform.name == "worker", "{steps}");
            assert_eq!(texts.len(), platform.files.len(), "{}", platform.name);
            for file in platform.files {
                let own = file.text.replace(ADDRESS, URL).replace(HOST, "own.example.net");
                let own = if file.holds_key { own.replace(KEY, HIDDEN) } else { own };
                assert_eq!(texts[file.name], own, "{}", file.name);
            }
            assert!(texts.values().chain([&steps]).any(|text| text.contains("own.example.net")), "{}", platform.name);
        }
    }

    #[test]
    fn commands_do_not_contain_comments() {
        for platform in all() {
            assert!(!platform.commands.is_empty() && platform.commands.iter().all(|command| !command.text.contains('#')));
        }
    }

    #[test]
    fn host_excludes_the_port() {
        let texts: Vec<String> = named("nginx").unwrap().blocks(URL, None).into_iter().map(|block| block.text).collect();
        assert!(texts.last().unwrap().contains("TELEMETRY_HOST='own.example.net'"), "{texts:?}");
    }

    #[test]
    fn fills_in_the_key_in_files_that_contain_it() {
        let block = &named("cloudflare").unwrap().blocks(URL, Some("svc_pub_secret"))[1];
        let job: serde_json::Value = serde_json::from_str(&block.text).unwrap();
        assert_eq!(job["destination_conf"], "https://own.example.net:8443/drains/cloudflare?header_X-API-Key=svc_pub_secret");
    }
}
