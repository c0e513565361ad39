//! Organizations as operators see them.

use crate::people::People as _;
use crate::people::Person;
use crate::test_app::{Credentials, Identity, Requests as _, TestApp};
use serde_json::{Value, json};

const ALL: &str = "/api/v1/identity/operator/organizations";

/// Checks a list's sort orders. Equal items stay in the default order, so pages don't overlap.
pub(crate) async fn assert_sorts(
    app: &TestApp,
    (operator, path): (&Person, &str),
    members: &[&str],
    value: impl Fn(&Value, &str) -> String,
) {
    let list = async |query: &str| {
        let listed = app.get(operator.credentials(), &format!("{path}{query}")).await;
        assert_eq!(listed.status, 200, "{query}: {}", listed.body);
        listed.body.as_array().unwrap().clone()
    };
    let usual = list("").await;
    for member in members {
        for (sort, is_descending) in [((*member).to_owned(), false), (format!("-{member}"), true)] {
            let whole = list(&format!("?sort={sort}")).await;
            let mut expected = usual.clone();
            expected.sort_by(|one, other| {
                let order = value(one, member).cmp(&value(other, member));
                if is_descending { order.reverse() } else { order }
            });
            assert_eq!(whole, expected, "{sort}");
            assert_ne!(value(&whole[0], member), value(whole.last().unwrap(), member), "{member} has different values");
            let mut paged = Vec::new();
            for offset in 0..whole.len() {
                paged.extend(list(&format!("?sort={sort}&limit=1&offset={offset}")).await);
            }
            assert_eq!(paged, whole, "{sort}");
        }
    }
    for bad in ["", "-", "id", "--name", "created_at%20DESC", "o.name", "l.url", "Name", "created_at,members"] {
        let refused = app.get(operator.credentials(), &format!("{path}?sort={bad}")).await;
        assert_eq!(refused.refusal(), (400, "invalid_parameter"), "{bad}");
    }
}

#[tokio::test]
async fn operators_sort_organizations() {
    let app = Identity::open().await;
    let operator = app.operator("op@svc.test").await;
    app.create_owner("ada@a.test", "zeta.test").await;
    for name in ["beta.test", "Alpha.test", "alpha.test"] {
        app.org(name).await;
    }
    app.platform("Great Network").await;
    let value =
        |one: &Value, member: &str| one[member].as_str().map_or_else(|| format!("{:0>9}", one[member]), str::to_lowercase);
    assert_sorts(&app, (&operator, ALL), &["name", "org_type", "members", "created_at"], value).await;
    let found = app.get(operator.credentials(), &format!("{ALL}?sort=name&q=alpha")).await.body;
    assert_eq!(found.as_array().unwrap().len(), 2, "also with a search");
}

#[tokio::test]
async fn operators_search_organizations_by_name_or_domain() {
    let app = Identity::open().await;
    let operator = app.operator("op@svc.test").await;
    let (ada, founded) = app.create_owner("ada@a.test", "wished.test").await;
    let (owner, _) = app.owner_of("news.test").await;
    let (network, _) = app.platform("Great Network").await;
    app.trust(network, true).await;
    let list = async |query: &str| {
        let listed = app.get(operator.credentials(), &format!("{ALL}{query}")).await;
        assert_eq!(listed.status, 200, "{}", listed.body);
        listed.body.as_array().unwrap().clone()
    };
    let ids = |listed: &[Value]| listed.iter().map(|org| org["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let all = list("").await;
    let newest_first = [network.to_string(), owner.to_string(), founded.clone()];
    assert_eq!(ids(&all), newest_first);
    assert_eq!((&all[0]["is_trusted_partner"], &all[0]["org_type"]), (&json!(true), &json!("platform")));
    assert_eq!((&all[1]["domains"], &all[1]["members"]), (&json!(["news.test"]), &json!(0)));
    assert_eq!((&all[2]["domains"], &all[2]["members"]), (&json!([]), &json!(1)), "unverified domains are not shown");
    assert_eq!(ids(&list("?q=wished").await), [founded], "found by name");
    assert_eq!(ids(&list("?q=gREAT").await), [network.to_string()]);
    assert_eq!(ids(&list("?q=ews.tes").await), [owner.to_string()]);
    for nobody in ["?q=%25", "?q=_", "?q=%00", "?q='"] {
        assert_eq!(list(nobody).await, Vec::<Value>::new(), "{nobody}");
    }
    sqlx::query("UPDATE organizations SET provisioned_by = $1 WHERE id = $2")
        .bind(network.0)
        .bind(owner.0)
        .execute(&app.stores.pool)
        .await
        .unwrap();
    assert_eq!(ids(&list("?trusted_partner=true").await), [network.to_string()]);
    assert_eq!(ids(&list("?trusted_partner=false&q=news").await), [owner.to_string()]);
    assert_eq!(ids(&list(&format!("?provisioned_by={network}")).await), [owner.to_string()]);
    assert_eq!(list(&format!("?provisioned_by={owner}")).await, Vec::<Value>::new());
    let all = list("").await;
    let pages = [list("?limit=2").await, list("?limit=2&offset=2").await];
    assert_eq!(pages.concat(), all);
    app.seed().verify(owner, "given-back.test").await;
    assert_eq!(ids(&list("?q=given-back").await), [owner.to_string()]);
    let given_back = "UPDATE domains SET released_at = now() WHERE domain = 'given-back.test'";
    sqlx::query(given_back).execute(&app.stores.pool).await.unwrap();
    assert_eq!(list("?q=given-back").await, Vec::<Value>::new(), "released domains are not found");
    assert_eq!(list("").await, all);
    assert_eq!(app.get(operator.credentials(), &format!("{ALL}?limit=0")).await.refusal(), (400, "invalid_parameter"));
    assert_eq!(
        app.get(operator.credentials(), &format!("{ALL}?trusted_partner=yes")).await.refusal(),
        (400, "invalid_parameter")
    );
    assert_eq!(app.get(ada.credentials(), ALL).await.refusal(), (403, "forbidden"));
    assert_eq!(app.get(Credentials::Nothing, ALL).await.refusal(), (401, "unauthenticated"));
}
