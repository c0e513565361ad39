//! A browser without scripts: keeps cookies, follows links and submits forms.

use reqwest::header::{COOKIE, LOCATION, ORIGIN, SET_COOKIE};
use std::collections::BTreeMap;

const COOKIE_NAME: &str = "telemetry-session";

/// A person with a browser.
pub(super) struct Reader {
    base: String,
    client: reqwest::Client,
    pub(super) cookies: BTreeMap<String, String>,
}

/// The current page.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) status: u16,
    pub(super) address: String,
    pub(super) headers: reqwest::header::HeaderMap,
    pub(super) html: String,
}

impl Reader {
    /// Creates a browser without a session.
    pub(super) fn new(base: &str) -> Self {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
        let client = client.timeout(std::time::Duration::from_secs(60)).build().unwrap();
        Self { base: base.to_owned(), client, cookies: BTreeMap::new() }
    }

    /// Adds a session.
    pub(super) fn signed_in_with(mut self, session: &str) -> Self {
        self.cookies.insert(COOKIE_NAME.to_owned(), session.to_owned());
        self
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Opens an address and follows redirects.
    pub(super) async fn open(&mut self, path: &str) -> Page {
        let mut page = self.ask(self.client.get(self.url(path)), path).await;
        for _ in 0..5 {
            let Some(next) = page.headers.get(LOCATION).map(|next| next.to_str().unwrap().to_owned()) else { break };
            page = self.ask(self.client.get(self.url(&next)), &next).await;
        }
        page
    }

    /// Requests a part of a page, as its script does.
    pub(super) async fn part(&mut self, path: &str) -> Page {
        self.ask(self.client.get(self.url(path)).header("hx-request", "true"), path).await
    }

    /// Submits a form with all boxes unchecked.
    pub(super) async fn untick(&mut self, page: &Page, action: &str) -> Page {
        let unticked = Page {
            html: page.html.replace(" checked", ""),
            headers: page.headers.clone(),
            address: page.address.clone(),
            ..*page
        };
        self.press(&unticked, action, &[]).await
    }

    /// Submits the form of `action` with these fields.
    pub(super) async fn press(&mut self, page: &Page, action: &str, typed: &[(&str, &str)]) -> Page {
        let form = page.form(action);
        let mut fields: Vec<(String, String)> = form.fields.clone();
        fields.retain(|(name, _)| !typed.iter().any(|(typed, _)| typed == name));
        fields.extend(typed.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let answered = self.post(&form.action, &fields, Some(&self.base.clone())).await;
        match answered.headers.get(LOCATION).map(|next| next.to_str().unwrap().to_owned()) {
            Some(next) => self.open(&next).await,
            None => answered,
        }
    }

    /// Submits a form from any origin.
    pub(super) async fn post(&mut self, path: &str, fields: &[(String, String)], origin: Option<&str>) -> Page {
        let body = url_encoded(fields);
        let mut request = self.client.post(self.url(path)).header("content-type", "application/x-www-form-urlencoded").body(body);
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        self.ask(request, path).await
    }

    async fn ask(&mut self, request: reqwest::RequestBuilder, path: &str) -> Page {
        let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = if cookies.is_empty() { request } else { request.header(COOKIE, cookies.join("; ")) };
        let response = request.send().await.expect("the console should respond");
        for set in response.headers().get_all(SET_COOKIE) {
            let (name, rest) = set.to_str().unwrap().split_once('=').unwrap();
            let value = rest.split(';').next().unwrap_or_default();
            let is_over = rest.contains("Max-Age=0");
            if is_over {
                self.cookies.remove(name)
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned())
            };
        }
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Page { status, address: path.to_owned(), headers, html: response.text().await.expect("the page should arrive") }
    }
}

/// A table: name, headings, and body rows without totals.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: String,
    /// Headings, each with its `aria-sort` order.
    pub(super) headings: Vec<(String, Option<String>)>,
    /// Exact values of figures and times, otherwise the text; empty if unknown.
    pub(super) rows: Vec<Vec<String>>,
}

struct Form {
    action: String,
    /// Initial values.
    fields: Vec<(String, String)>,
}

impl Page {
    /// Returns the first text between two others.
    pub(super) fn between(&self, before: &str, after: &str) -> Option<&str> {
        self.html.split_once(before)?.1.split_once(after).map(|(text, _)| text)
    }

    /// Returns every text between two others.
    pub(super) fn all_between<'p>(&'p self, before: &'p str, after: &'p str) -> impl Iterator<Item = &'p str> {
        self.html.split(before).skip(1).filter_map(move |rest| rest.split_once(after).map(|(text, _)| text))
    }

    /// Returns the exact value of `<p … data-figure="name">`.
    pub(super) fn figure(&self, name: &str) -> String {
        let shown = self.between(&format!("data-figure=\"{name}\">"), "</p>");
        let shown = shown.unwrap_or_else(|| panic!("{}: no figure {name}:\n{}", self.address, self.html));
        shown.split_once("value=\"").and_then(|(_, rest)| rest.split_once('"')).map_or("none", |(value, _)| value).to_owned()
    }

    /// Returns every table of the page.
    pub(super) fn tables(&self) -> Vec<Table> {
        let tables = self.html.split("aria-label=\"").filter_map(|rest| {
            let (name, table) = rest.split_once("\"><table").filter(|(name, _)| !name.contains('<'))?;
            Some((unescaped(name), table.split("</table>").next()?))
        });
        let table = |(name, table): (String, &str)| {
            let (head, body) = table.split_once("<tbody>").unwrap_or((table, ""));
            let heading = |cell: &str| {
                let (tag, inside) = cell.split_once('>').unwrap_or_default();
                (read(inside), attribute(tag, "aria-sort"))
            };
            let body = body.split("</tbody>").next().unwrap_or_default();
            let rows = body.split("<tr").skip(1).filter(|row| !row.starts_with(" class=\"sum\""));
            let cell = |cell: &str| cell.split_once('>').map(|(_, inside)| exact(inside)).unwrap_or_default();
            let rows = rows.map(|row| row.replace("<th", "<td").split("<td").skip(1).map(cell).collect()).collect();
            Table { name, headings: head.split("<th scope=\"col\"").skip(1).map(heading).collect(), rows }
        };
        tables.map(table).collect()
    }

    /// Returns the page's links, and the addresses of parts that refresh.
    pub(super) fn led_to(&self) -> Vec<String> {
        let here = self.address.split('?').next().unwrap_or_default();
        let links = self.all_between("<a ", ">").filter_map(|tag| attribute(tag, "href"));
        let all = links.chain(self.all_between(" hx-get=\"", "\"").map(unescaped));
        let all = all.map(|to| if to.starts_with('?') { format!("{here}{to}") } else { to });
        all.filter_map(|to| to.split('#').next().map(str::to_owned)).filter(|to| !to.is_empty()).collect()
    }

    /// Returns the addresses of the page's forms.
    pub(super) fn actions(&self) -> Vec<String> {
        let forms = self.all_between("<form method=\"post\" ", ">");
        forms.filter_map(|tag| attribute(tag, "action")).collect()
    }

    fn form(&self, action: &str) -> Form {
        let mut forms = self.all_between("<form method=\"post\" ", "</form>");
        let wanted = forms.find(|form| {
            form.split_once('>').and_then(|(tag, _)| attribute(tag, "action")).is_some_and(|to| to.ends_with(action))
        });
        let form = wanted.unwrap_or_else(|| panic!("{}: no form for {action}:\n{}", self.address, self.html));
        let (tag, inside) = form.split_once('>').unwrap();
        let inputs = inside.split("<input ").skip(1).filter_map(|rest| rest.split_once('>').map(|(tag, _)| tag));
        let sent = inputs.filter(|tag| !tag.contains("type=\"checkbox\"") || tag.contains("checked"));
        let fields =
            sent.filter_map(|tag| Some((attribute(tag, "name")?, attribute(tag, "value").unwrap_or_else(|| "on".to_owned()))));
        Form { action: attribute(tag, "action").unwrap(), fields: fields.collect() }
    }
}

/// Returns the text of a cell or a heading.
pub(super) fn read(html: &str) -> String {
    let html = html.split("<span class=\"help\">").next().unwrap_or_default();
    let html = html.split("</td>").next().unwrap_or_default().split("</th>").next().unwrap_or_default();
    let parts = html.split('<').enumerate().map(|(at, part)| match part.split_once('>') {
        Some((_, text)) if at > 0 => text,
        _ => part,
    });
    unescaped(&parts.collect::<String>()).trim().to_owned()
}

fn exact(inside: &str) -> String {
    if ["<span class=\"muted\">", "<span class=\"none\""].iter().any(|unknown| inside.starts_with(unknown)) {
        return String::new();
    }
    let value = ["<data value=\"", "<time datetime=\""].iter().find_map(|before| inside.split_once(before));
    value.and_then(|(_, rest)| rest.split_once('"')).map_or_else(|| read(inside), |(value, _)| unescaped(value))
}

pub(super) fn attribute(tag: &str, name: &str) -> Option<String> {
    let value = tag.split_once(&format!("{name}=\""))?.1.split_once('"')?.0;
    Some(unescaped(value))
}

/// Unescapes HTML.
pub(super) fn unescaped(text: &str) -> String {
    let references = [
        ("&#38;", "&"),
        ("&#60;", "<"),
        ("&#62;", ">"),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&amp;", "&"),
    ];
    references.iter().fold(text.to_owned(), |text, (reference, meant)| text.replace(reference, meant))
}

fn url_encoded(fields: &[(String, String)]) -> String {
    let encoded = |text: &str| {
        text.bytes()
            .map(|byte| if byte.is_ascii_alphanumeric() { (byte as char).to_string() } else { format!("%{byte:02X}") })
            .collect::<String>()
    };
    fields.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect::<Vec<_>>().join("&")
}
