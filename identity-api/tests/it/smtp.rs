//! Email over SMTP, as received by a mail server.

use identity_api::email_address::EmailAddress;
use identity_api::mail::{MailSettings, Mailer};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Serves one SMTP session and returns what it received.
async fn server(answer_to_recipient: &'static str) -> (Mailer, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("smtp://{}", listener.local_addr().unwrap());
    let heard = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let (read, mut write) = stream.into_split();
        let (mut lines, mut heard, mut is_data) = (BufReader::new(read).lines(), String::new(), false);
        write.write_all(b"220 mail.test\r\n").await.unwrap();
        while let Ok(Some(line)) = lines.next_line().await {
            heard += &format!("{line}\n");
            let answer = match line.split([' ', ':']).next().unwrap() {
                "." => "250 taken",
                _ if is_data => continue,
                "DATA" => "354 go on",
                "RCPT" => answer_to_recipient,
                "QUIT" => "221 bye",
                _ => "250 fine",
            };
            is_data = line == "DATA";
            if write.write_all(format!("{answer}\r\n").as_bytes()).await.is_err() {
                break;
            }
        }
        heard
    });
    let settings = MailSettings {
        smtp_url: Some(url.into()),
        mail_from: Some("Telemetry <telemetry@example.com>".to_owned()),
        mail_dir: Some("/nowhere/this-is-not-used".into()),
    };
    (settings.mailer().unwrap(), heard)
}

#[tokio::test]
async fn emails_go_to_the_configured_server() {
    let (mailer, heard) = server("250 fine").await;
    let to = EmailAddress::parse("Jane@Example.com").unwrap();
    mailer.send(&to, "Sign in", "Hello\n.\nBcc: evil@example.com\n").await.unwrap();
    drop(mailer);
    let heard = heard.await.unwrap();
    for line in [
        "MAIL FROM:<telemetry@example.com>",
        "RCPT TO:<jane@example.com>",
        "To: jane@example.com",
        "Subject: Sign in",
        "Hello",
        "..",
    ] {
        assert!(heard.lines().any(|heard| heard.trim_end() == line), "{line}: {heard}");
    }
    assert_eq!(heard.lines().filter(|line| line.starts_with("RCPT")).count(), 1, "{heard}");
}

#[tokio::test]
async fn rejected_emails_are_errors() {
    let (mailer, _heard) = server("550 no such mailbox").await;
    let to = EmailAddress::parse("jane@example.com").unwrap();
    assert!(mailer.send(&to, "Sign in", "Hello\n").await.is_err());
}
