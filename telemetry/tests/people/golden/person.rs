//! Golden output of signing in, organizations and signing out.

use super::transcript::Transcript;
use crate::terminal::Terminal;
use crate::test_service::Service;

#[tokio::test(flavor = "multi_thread")]
async fn person_commands_match_golden_output() {
    let service = Service::start().await;
    let person = Terminal::new().with("TELEMETRY_URL", service.url());
    let mut kept = Transcript::new("person");
    let before = service.mail();
    // The question for the token isn't answered, so that the email can be read first.
    kept.run(&person, &["login", "--email", "owner@example.com"]);
    let link = service.mailed_link(before.as_ref()).await;
    kept.run_with_input(&person, &["login", "--have-token"], &format!("{link}\n"));
    kept.run_in_both_formats(&person, &["whoami"]);

    kept.run(&person, &["org", "create", "A Newspaper", "--domain", "newspaper.example"]);
    kept.run(&person, &["org", "create", "A Magazine", "--domain", "magazine.example", "-o", "json"]);
    let agent = ["--type", "agent", "--admin-email", "ada@example.net", "--use-case", "answers with links to what they rest on"];
    kept.run(&person, &[&["org", "create", "An Agent"][..], &agent].concat());
    kept.run_in_both_formats(&person, &["org", "list"]);
    kept.run_in_both_formats(&person, &["org", "show", "A Newspaper"]);
    kept.run_in_both_formats(&person, &["org", "members", "A Newspaper"]);
    kept.run(&person, &["org", "invite", "A Newspaper", "bob@example.net"]);
    kept.run(&person, &["org", "invite", "A Newspaper", "eve@example.net", "--role", "owner", "-o", "json"]);

    kept.run(&person, &["logout"]);
    kept.run(&person, &["whoami"]);
    kept.check();
}
