# Response condition of the logging endpoint. Only requests that may be an agent's leave Fastly, and only those that a visitor sent to
# this node: on a shield, client.ip is the address of another Fastly node. The service drops the others as well; this saves the bytes.
fastly.ff.visits_this_service == 0 && (req.method == "GET" || req.method == "HEAD") && req.http.User-Agent ~ "(?i)bot|crawl|spider|gpt|claude|anthropic|perplexity|gemini|google(-|other|agent)|meta-|novaact|devin|omgili|webzio|cotoyogi|yandexadditional|-user\b|-agent\b|ai\b"
