//! The console without a mouse: where the Tab key leads in real Chromium, and whether one sees where one is.
//!
//! Must press real keys: a focus that a script sets says nothing of the order or of traps.

use super::browser::{Browser, addresses, axe, demo_with_an_event, look_at, look_at_the_layout, print};
use serde_json::{Value, json};

/// WebDriver's code of the Tab key.
const TAB: &str = "\u{e004}";
/// Presses beyond the last element: they lead to the first again, some by way of the browser's own window.
const PRESSES_BEYOND: u64 = 5;

/// Keeps the parts of a live page as they are: an element that is replaced loses the focus.
const STAY: &str =
    "['htmx:before:request', 'htmx:before:swap'].forEach(name => addEventListener(name, event => event.preventDefault(), true));";

/// Goes to the top of the page and notes from there on what gets the focus, and whether that changes its look.
/// Answers with what must get it, and how many presses the fields of the dates take besides: day, month, year and calendar.
const WATCH: &str = "
    const look = one => { const is = getComputedStyle(one);
        return (is.outlineStyle === 'none' ? '' : is.outline) + ' / ' + is.boxShadow; };
    const name = one => one.outerHTML.slice(0, 100).replace(/\\s+/g, ' ');
    document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex');
    const all = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex=\"0\"]')]
        .filter(one => one.checkVisibility({visibilityProperty: true}) && !one.matches(':disabled'));
    const before = new Map([...document.querySelectorAll('*')].map(one => [one, look(one)]));
    window.focused = [];
    let last = null;
    document.addEventListener('focusin', ({target}) => {
        if (target === last) return;
        last = target;
        window.focused.push({name: all.indexOf(target) + ' ' + name(target), is_seen: look(target) !== before.get(target)});
    });
    return {names: all.map((one, place) => place + ' ' + name(one)), of_dates: 3 * all.filter(one => one.type === 'date').length};";

async fn press_tab(browser: &Browser, times: u64) {
    let press = [json!({"type": "keyDown", "value": TAB}), json!({"type": "keyUp", "value": TAB})];
    let presses: Vec<Value> = (0..times).flat_map(|_| press.clone()).collect();
    browser.command("/actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": presses}]})).await;
}

/// Whether the open page is walked in its order, without a trap and with the focus seen.
async fn walk(browser: &Browser, address: &str) {
    let watched = browser.run(&format!("{STAY}{WATCH}")).await;
    let names = watched["names"].as_array().unwrap();
    press_tab(browser, names.len() as u64 + watched["of_dates"].as_u64().unwrap() + PRESSES_BEYOND).await;
    let focused = browser.run("return window.focused").await;
    let focused = focused.as_array().unwrap();
    let reached: Vec<&Value> = focused.iter().map(|one| &one["name"]).take(names.len() + 1).collect();
    let expected: Vec<&Value> = names.iter().chain(names.first()).collect();
    assert_eq!(reached, expected, "{address}: Tab leads to each in the order of the page, and from the last to the first");
    let unseen: Vec<&Value> = focused.iter().filter(|one| one["is_seen"] != true).map(|one| &one["name"]).collect();
    assert!(unseen.is_empty(), "{address}: nobody sees the focus on {unseen:?}");
}

#[tokio::test]
async fn u2_u3_no_page_has_a_barrier_a_violation_or_another_origin() {
    let demo = demo_with_an_event().await;
    let (axe, addresses) = (axe(), addresses(&demo).await);
    let browser = Browser::start().await;
    for (session, addresses) in &addresses {
        browser.sign_in(&demo, session).await;
        for address in addresses {
            look_at(&browser, &demo, &axe, address).await;
            walk(&browser, address).await;
            print(&browser, address).await;
        }
    }
    browser.sign_in(&demo, "OWNER_SESSION").await;
    look_at_the_layout(&browser, &demo).await;
}
