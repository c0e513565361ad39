//! Keyboard use of the console in real Chromium: the Tab order, and whether the focus is visible.
//!
//! The tests press real keys, because setting the focus in a script would prove neither the order nor the absence of traps.

use super::browser::{Browser, addresses, axe, check_layout, check_page, demo_with_an_event, print};
use serde_json::{Value, json};
use service_kit::testing::eventually;

/// WebDriver's code for the Tab key.
const TAB: &str = "\u{e004}";
/// Number of times to press Tab after the last element, to get back to the first one, partly through the browser's own controls.
const PRESSES_BEYOND: u64 = 5;

/// Stops live pages from updating, because a replaced element loses the focus.
const STAY: &str =
    "['htmx:before:request', 'htmx:before:swap'].forEach(name => addEventListener(name, event => event.preventDefault(), true));";

/// Records which elements get the focus, and whether that changes their appearance. Returns the elements that must get the focus, and how
/// many additional Tab presses date fields need for day, month, year and calendar.
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

/// Checks that Tab visits the page's elements in order, without traps, and that the focus is visible.
async fn check_tab_order(browser: &Browser, address: &str) {
    // Narrow pages have a menu instead of links. Emulated widths take a moment to end.
    eventually("the page is wide", || async { (browser.run("return innerWidth").await.as_u64()? > 900).then_some(()) }).await;
    let watched = browser.run(&format!("{STAY}{WATCH}")).await;
    let names = watched["names"].as_array().unwrap();
    press_tab(browser, names.len() as u64 + watched["of_dates"].as_u64().unwrap() + PRESSES_BEYOND).await;
    let focused = browser.run("return window.focused").await;
    let focused = focused.as_array().unwrap();
    let reached: Vec<&Value> = focused.iter().map(|one| &one["name"]).take(names.len() + 1).collect();
    let expected: Vec<&Value> = names.iter().chain(names.first()).collect();
    assert_eq!(reached, expected, "{address}: Tab order differs from the order of the page");
    let unseen: Vec<&Value> = focused.iter().filter(|one| one["is_seen"] != true).map(|one| &one["name"]).collect();
    assert!(unseen.is_empty(), "{address}: invisible focus on {unseen:?}");
}

#[tokio::test]
async fn u2_u3_pages_are_accessible_and_self_contained() {
    let demo = demo_with_an_event().await;
    let (axe, addresses) = (axe(), addresses(&demo).await);
    let browser = Browser::start().await;
    for (session, addresses) in &addresses {
        browser.sign_in(&demo, session).await;
        for address in addresses {
            check_page(&browser, &demo, &axe, address).await;
            check_tab_order(&browser, address).await;
            print(&browser, address).await;
        }
    }
    browser.sign_in(&demo, "OWNER_SESSION").await;
    check_layout(&browser, &demo).await;
}
