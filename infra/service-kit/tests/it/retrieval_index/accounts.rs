//! What the account of a worker may do with the index, on an engine of the test's own that knows the accounts.

use super::TWO;
use super::oracle::Store;
use crate::clickhouse_accounts::Server;
use service_kit::roles::Role;
use service_kit::stores;

#[tokio::test(flavor = "multi_thread")]
async fn the_worker_s_account_fills_the_index_and_compacts_it_and_the_reader_s_does_neither() {
    let server = Server::start().await;
    let (worker, query) = (Store::at(server.settings(Role::Worker)), Store::at(server.settings(Role::Query)));
    worker.run(TWO).await;
    assert_eq!(worker.count("retrieval_index").await, 2, "the view inserts what the worker inserts");
    let parts = worker.parts().await;
    let insert = query.admin.query("INSERT INTO retrieval_index (site) VALUES ('com.example')").execute().await;
    for refused in [insert, query.compactor.drop_part(&parts[0]).await] {
        assert!(refused.unwrap_err().to_string().contains("ACCESS_DENIED"));
    }
    worker.compactor.compact_all().await.unwrap();
    assert_eq!(worker.parts().await, []);
    worker.agrees("as the worker").await;
    query.agrees("as the reader").await;
    let table = stores::clickhouse(&worker.settings).unwrap();
    for statement in
        ["DROP TABLE retrieval_index", "TRUNCATE TABLE retrieval_index", "ALTER TABLE observations DROP PARTITION tuple()"]
    {
        assert!(table.query(statement).execute().await.unwrap_err().to_string().contains("ACCESS_DENIED"), "{statement}");
    }
}
