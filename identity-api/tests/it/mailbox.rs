//! Emails that an app has sent, and the tokens in them.

use crate::test_app::{Identified, MAGIC_LINK, TestApp};
use serde_json::json;
use service_kit::testing::{Credentials, TestResponse, eventually};

pub(crate) trait Mailbox: Identified {
    /// Returns every email so far, oldest first.
    fn mails(&self) -> Vec<String> {
        let folder = std::fs::read_dir(self.app().mail_dir.path()).into_iter().flatten().map(|entry| entry.unwrap().path());
        let mut paths: Vec<_> = folder.filter(|path| path.extension().is_some_and(|extension| extension == "eml")).collect();
        paths.sort();
        paths.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
    }

    async fn ask_to_sign_in(&self, email: &str) -> TestResponse {
        self.app().post(Credentials::Nothing, MAGIC_LINK, &json!({"email": email})).await
    }

    /// Returns the token in the newest email to an address, once there are `count` of them.
    async fn token_mailed(&self, email: &str, count: usize) -> String {
        let to = format!("To: {email}\r\n");
        let token = async || {
            let mails: Vec<String> = self.app().mails().into_iter().filter(|mail| mail.contains(&to)).collect();
            (mails.len() == count).then(|| token_in(mails.last().unwrap()))
        };
        eventually(&format!("{email} has {count} mails"), token).await
    }
}

impl Mailbox for TestApp {}

/// Returns the only word in an email that is as long as a token.
pub(crate) fn token_in(mail: &str) -> String {
    let (_, text) = mail.split_once("\r\n\r\n").unwrap();
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.len() == 43);
    words.next().unwrap_or_else(|| panic!("no token in {mail}")).to_owned()
}
