//! What to paste at each provider: the files of `infra/edge`, with the address of the service and the key of a drain in them.
//!
//! Must hold no text of such a file: they are those that docs/drains explains and that are tried against the service.

mod files;

/// The address that stands in the files until it is known.
const ADDRESS: &str = "https://telemetry.example.com";
/// Its host, where that stands alone.
const HOST: &str = "telemetry.example.com";
/// What stands for the key in a file that has to hold it.
const KEY: &str = "DRAIN_KEY";
/// What stands for the key on a page that does not show it.
const HIDDEN: &str = "YOUR-DRAIN-KEY";

/// Somewhere a log comes from.
#[derive(Debug)]
pub(crate) struct Platform {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    /// Of the drain that takes it.
    pub(crate) provider: &'static str,
    /// Who writes the log, where it is another than the provider's usual one.
    pub(crate) role: Option<&'static str>,
    /// What such a drain needs besides: the member, and in words.
    pub(crate) asks: Option<(&'static str, &'static str)>,
    /// Commands to run with the files, with `{url}`, `{host}` and `{key}`; several are alternatives.
    commands: &'static [Command],
    files: &'static [File],
}

/// One of `infra/edge`.
#[derive(Debug)]
struct File {
    name: &'static str,
    place: &'static str,
    text: &'static str,
    /// Whether the key itself stands in it.
    holds_key: bool,
}

#[derive(Debug)]
struct Command {
    title: &'static str,
    /// What to do before or after it.
    place: &'static str,
    /// Contains no comment: an interactive zsh runs them.
    text: &'static str,
}

#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) title: String,
    pub(crate) place: &'static str,
    pub(crate) text: String,
}

/// Every platform, in the order in which they are offered.
pub(crate) fn all() -> &'static [Platform] {
    files::ALL
}

/// The platform of a name.
pub(crate) fn named(name: &str) -> Option<&'static Platform> {
    all().iter().find(|platform| platform.name == name)
}

/// Whose drains are of a provider; at least one is.
pub(crate) fn of_provider(provider: &str) -> Vec<&'static Platform> {
    all().iter().filter(|platform| platform.provider == provider).collect()
}

impl Platform {
    /// What to paste, the last thing to do last; without the key a word stands in its place.
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

/// Without scheme, port and path.
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
    fn a_platform_shows_the_files_that_its_document_names_and_no_other() {
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
    fn every_provider_of_a_drain_has_a_platform() {
        for provider in schemas::identity::DrainProvider::ALL {
            assert!(!of_provider(provider.as_str()).is_empty(), "{}", provider.as_str());
        }
        let names: BTreeSet<_> = all().iter().map(|platform| platform.name).collect();
        assert_eq!(names.len(), all().len());
    }

    #[test]
    fn what_is_pasted_has_the_address_and_the_key_in_it() {
        for platform in all() {
            let texts = |key| platform.blocks(URL, key).into_iter().map(|block| block.text).collect::<Vec<_>>().join("\n");
            let (shown, hidden) = (texts(Some("svc_pub_secret")), texts(None));
            assert!(shown.contains("svc_pub_secret") && !shown.contains(HIDDEN), "{}", platform.name);
            assert!(hidden.contains(HIDDEN), "{}", platform.name);
            assert!(shown.contains("own.example.net") && !shown.contains(HOST), "{}", platform.name);
            assert!(!shown.contains("{key}") && !shown.contains("{url}") && !shown.contains("{host}"), "{}", platform.name);
        }
    }

    /// Every account of a machine can list the arguments of its processes; variables and input are its own.
    #[test]
    fn s21_no_command_to_paste_has_a_key_among_its_arguments() {
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
    fn commands_contain_no_comments() {
        for platform in all() {
            assert!(!platform.commands.is_empty() && platform.commands.iter().all(|command| !command.text.contains('#')));
        }
    }

    #[test]
    fn a_host_is_named_without_its_port() {
        let texts: Vec<String> = named("nginx").unwrap().blocks(URL, None).into_iter().map(|block| block.text).collect();
        assert!(texts.last().unwrap().contains("TELEMETRY_HOST='own.example.net'"), "{texts:?}");
    }

    #[test]
    fn a_file_that_has_to_hold_the_key_holds_it() {
        let block = &named("cloudflare").unwrap().blocks(URL, Some("svc_pub_secret"))[1];
        let job: serde_json::Value = serde_json::from_str(&block.text).unwrap();
        assert_eq!(job["destination_conf"], "https://own.example.net:8443/drains/cloudflare?header_X-API-Key=svc_pub_secret");
    }
}
