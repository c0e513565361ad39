//! Names of the bots, agents and pages in the demo data.

/// A bot, as the edge reports it.
pub(super) struct Bot {
    pub(super) name: &'static str,
    pub(super) operator: &'static str,
    pub(super) purpose: &'static str,
    pub(super) user_agent: &'static str,
    /// Whether the request comes from an address that the operator publishes.
    pub(super) is_verified: bool,
    pub(super) share: u32,
}

const fn bot(
    (name, operator): (&'static str, &'static str),
    purpose: &'static str,
    user_agent: &'static str,
    is_verified: bool,
    share: u32,
) -> Bot {
    Bot { name, operator, purpose, user_agent, is_verified, share }
}

pub(super) const BOTS: [Bot; 8] = [
    bot(("GPTBot", "OpenAI"), "training", "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)", true, 27),
    bot(("ClaudeBot", "Anthropic"), "training", "Mozilla/5.0 (compatible; ClaudeBot/1.0; +claudebot@anthropic.com)", true, 21),
    bot(
        ("OAI-SearchBot", "OpenAI"),
        "search",
        "Mozilla/5.0 (compatible; OAI-SearchBot/1.0; +https://openai.com/searchbot)",
        true,
        14,
    ),
    bot(
        ("PerplexityBot", "Perplexity"),
        "search",
        "Mozilla/5.0 (compatible; PerplexityBot/1.0; +https://perplexity.ai/perplexitybot)",
        true,
        12,
    ),
    bot(
        ("Amazonbot", "Amazon"),
        "search",
        "Mozilla/5.0 (compatible; Amazonbot/0.1; +https://developer.amazon.com/amazonbot)",
        true,
        9,
    ),
    bot(
        ("meta-externalagent", "Meta"),
        "training",
        "meta-externalagent/1.1 (+https://developers.facebook.com/docs/sharing/webmasters/crawler)",
        true,
        8,
    ),
    bot(("CCBot", "Common Crawl"), "training", "CCBot/2.0 (https://commoncrawl.org/faq/)", true, 5),
    // Claims to be GPTBot, but its address isn't OpenAI's.
    bot(("GPTBot", "unknown"), "training", "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)", false, 4),
];

pub(super) const AGENTS: [&str; 3] = ["demo-answers", "demo-research", "demo-shopping"];

/// Agents of well-known operators, with the user agents of their fetches.
pub(super) const ASSISTANTS: [Bot; 3] = [
    bot(
        ("ChatGPT-User/1.0", "OpenAI"),
        "user",
        "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; +https://openai.com/bot",
        true,
        0,
    ),
    bot(
        ("Claude-User/1.0", "Anthropic"),
        "user",
        "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Claude-User/1.0; +Claude-User@anthropic.com)",
        true,
        0,
    ),
    bot(
        ("Perplexity-User/1.0", "Perplexity"),
        "user",
        "Mozilla/5.0 (compatible; Perplexity-User/1.0; +https://docs.perplexity.ai/guides/bots)",
        true,
        0,
    ),
];

const OWN: Bot = bot(
    ("DemoAgent-User", "Demo Agent"),
    "user",
    "Mozilla/5.0 (compatible; DemoAgent-User/1.0; +https://agent.example.net/bot)",
    true,
    0,
);

/// Returns the bot with which an agent fetches pages.
pub(super) fn bot_of_agent(agent: &str) -> &'static Bot {
    ASSISTANTS.iter().find(|assistant| assistant.name == agent).unwrap_or(&OWN)
}

/// Pages, most popular first.
pub(super) const PAGES: [&str; 24] = [
    "/guides/choosing-a-heat-pump",
    "/news/grid-storage-record",
    "/reviews/induction-cooktops",
    "/guides/insulating-an-old-house",
    "/prices/electricity-tariffs",
    "/news/solar-rules-change",
    "/reviews/balcony-solar-kits",
    "/guides/reading-an-energy-bill",
    "/data/emissions-by-country",
    "/news/heat-network-approved",
    "/reviews/smart-thermostats",
    "/guides/electric-car-at-home",
    "/opinion/who-pays-for-the-grid",
    "/prices/heat-pump-installation",
    "/guides/draughts-and-windows",
    "/news/wind-auction-results",
    "/reviews/dehumidifiers",
    "/data/household-consumption",
    "/guides/renting-and-solar",
    "/opinion/the-case-for-district-heating",
    "/news/battery-recycling-plant",
    "/prices/wood-pellets",
    "/about/how-we-test",
    "/",
];

pub(super) const SITE: &str = "https://www.example.com";
