# Response condition of the logging endpoint: only what may be an agent of a machine leaves Fastly, and only what a client asked for.
# The service drops everybody else as well; this saves the bytes.
fastly.ff.visits_this_service == 0 && (req.method == "GET" || req.method == "HEAD") && req.http.User-Agent ~ "(?i)bot|crawl|spider|gpt|claude|anthropic|perplexity|gemini|google(-|other|agent)|meta-|novaact|devin|omgili|webzio|cotoyogi|yandexadditional|-user\b|-agent\b|ai\b"
