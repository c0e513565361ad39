//! Injects and repairs the faults.

use super::test_app::{DELIVERER, Deployment, GATEWAY, QUERY, WORKER, report};
use rdkafka::Offset;
use schemas::identity::OrgType;
use service_kit::secret_encryption::{SecretsKey, SecretsSettings};
use service_kit::testing::{Seed, TestLog, client, eventually, free_address};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection, Postgres, Transaction};
use std::time::Duration;
use uuid::Uuid;

/// Longer than the 30 s of `TakeoverSlow`, plus the eight seconds before a takeover begins.
const SLOW_TAKEOVER: Duration = Duration::from_secs(45);
/// Exceeds the threshold of `TakeoversFrequent`, together with the takeovers during earlier faults.
const CRASHES: usize = 4;

impl Deployment {
    pub(super) async fn inject(&mut self, fault: &str) {
        match fault {
            "a worker reads the wrong topic" => {
                let elsewhere = [("TELEMETRY_TOPIC", "another"), ("TELEMETRY_REJECTED_TOPIC", "another.rejected")];
                self.start(WORKER, &elsewhere).await;
                assert_eq!(self.report_events(1_000).await, 201);
            }
            "a record is unreadable" => drop(TestLog::connect(&self.stores.kafka).put(0, b"no record").await),
            "a table is missing" => {
                self.clickhouse("RENAME TABLE progress TO aside").await;
                assert_eq!(self.report_events(1).await, 201);
            }
            "a statement of the previous worker hangs" => self.block_takeover().await,
            "it ends after half a minute" => {
                tokio::time::sleep(SLOW_TAKEOVER).await;
                self.background_reports.take().unwrap().abort();
            }
            "workers crash again and again" => self.crash_workers().await,
            "ClickHouse hangs" => self.freeze_clickhouse().await,
            "PostgreSQL hangs" => {
                assert_eq!(self.report_events(1).await, 201);
                self.database.pause();
                self.background_reports = Some(self.keep_reporting());
            }
            "the brokers hang and the spill folder is missing" => {
                std::fs::rename(self.spill(), self.spill().with_extension("elsewhere")).unwrap();
                self.broker.as_ref().unwrap().pause();
                let all = (0..20).map(|_| self.report_events(1));
                let refused = futures::future::join_all(all).await;
                assert!(refused.iter().all(|status| *status == 503), "{refused:?}");
            }
            "the brokers hang until the spill is full" => while self.report_events(1_000).await == 201 {},
            "a byte of the spill flips" => self.flip_a_byte_of_the_spill().await,
            "ClickHouse still hangs" => {}
            "another session locks the webhook queue" => self.hold_the_queue().await,
            "a receiver is down for the whole schedule" => {
                let queued = self.webhook(&self.secrets).await;
                self.queue("attempts = 7", queued).await;
            }
            "the queues of three organizations are full" => self.fill_three_endpoints().await,
            "the deliverer has a different encryption key" => drop(self.webhook(&SecretsKey::generate()).await),
            "the database rejects writes" => self.let_the_database_take_writes(false).await,
            "the log deletes unread records" => self.delete_unprocessed_records().await,
            "processes are killed" => {
                for name in [WORKER, DELIVERER] {
                    self.processes.get_mut(name).unwrap().kill_9().await;
                }
            }
            other => panic!("unknown fault: {other}"),
        }
    }

    pub(super) async fn repair(&mut self, fault: &str) {
        // The next fault depends on this one.
        if fault == "a statement of the previous worker hangs" {
            return;
        }
        if let Some(beside) = self.background_reports.take() {
            beside.abort();
        }
        match fault {
            "a worker reads the wrong topic" => {
                self.start(WORKER, &[]).await;
                let read = "SELECT throwIf(count() < 1000) FROM reports";
                eventually("the worker reads the topic", || async { self.try_clickhouse(read).await.then_some(()) }).await;
            }
            "a table is missing" => self.clickhouse("RENAME TABLE aside TO progress").await,
            "PostgreSQL hangs" => self.database.resume(),
            "the brokers hang and the spill folder is missing" => {
                std::fs::rename(self.spill().with_extension("elsewhere"), self.spill()).unwrap();
            }
            "ClickHouse still hangs" => self.clickhouse.resume(),
            "the database rejects writes" => self.let_the_database_take_writes(true).await,
            "processes are killed" => {
                for name in [WORKER, DELIVERER] {
                    self.start(name, &[]).await;
                }
            }
            _ => {}
        }
    }

    /// Stops the worker, reports an event and deletes all records from the log. Then restarts the worker, which reads the next
    /// record.
    async fn delete_unprocessed_records(&mut self) {
        let log = TestLog::connect(&self.stores.kafka);
        log.caught_up(&self.stores.clickhouse).await;
        assert_eq!(self.processes.get_mut(WORKER).unwrap().terminate().await, Some(0));
        assert_eq!(self.report_events(1).await, 201);
        let all = stream_workers::progress_by_partition(&self.stores.kafka, &self.stores.clickhouse).await.unwrap().into_keys();
        log.drop_before(all.map(|partition| (partition, Offset::End))).await;
        self.start(WORKER, &[]).await;
        self.background_reports = Some(self.keep_reporting());
    }

    /// Kills the active worker and runs an endless statement with its query id, so that the successor has to wait for it.
    async fn block_takeover(&mut self) {
        self.processes.get_mut(WORKER).unwrap().kill_9().await;
        let client = service_kit::databases::clickhouse(&self.stores.clickhouse).unwrap();
        let slot: String = client.query("SELECT slot FROM writers ORDER BY epoch DESC LIMIT 1").fetch_one().await.unwrap();
        let held = client.query("SELECT sum(sleepEachRow(1)) FROM numbers(100000)").with_setting("max_block_size", "1");
        let held = held.with_setting("query_id", slot).with_setting("readonly", "1");
        let held = held.with_setting("cancel_http_readonly_queries_on_client_close", "1");
        self.background_reports = Some(tokio::spawn(async move { while held.clone().execute().await.is_err() {} }));
        let holds = "SELECT throwIf(count() = 0) FROM system.processes WHERE query LIKE 'SELECT sum(sleepEachRow(1))%'";
        self.clickhouse(holds).await;
        self.start(WORKER, &[]).await;
    }

    /// Kills each worker after its takeover.
    async fn crash_workers(&mut self) {
        for _ in 0..CRASHES {
            let epoch = "SELECT max(epoch) FROM writers";
            let client = service_kit::databases::clickhouse(&self.stores.clickhouse).unwrap();
            let before: u64 = client.query(epoch).fetch_one().await.unwrap();
            self.start(WORKER, &[]).await;
            let metrics = format!("{}/metrics", self.metrics(WORKER));
            eventually("the worker takes over and Prometheus has seen it", || async {
                let after: u64 = client.query(epoch).fetch_one().await.ok()?;
                let text = service_kit::testing::client().get(&metrics).send().await.ok()?.text().await.ok()?;
                (after > before && text.contains("worker_active 1")).then_some(())
            })
            .await;
            // Prometheus scrapes twice in that time.
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    }

    async fn clickhouse(&self, statement: &str) {
        eventually(statement, || async { self.try_clickhouse(statement).await.then_some(()) }).await;
    }

    async fn try_clickhouse(&self, statement: &str) -> bool {
        let client = service_kit::databases::clickhouse(&self.stores.clickhouse).unwrap();
        client.query(statement).execute().await.is_ok()
    }

    /// Pauses ClickHouse during reads. The settings permit one read per owner at a time, so the others are rejected, and the
    /// permitted one gets no response.
    async fn freeze_clickhouse(&mut self) {
        assert_eq!(self.report_events(1).await, 201);
        self.clickhouse.pause();
        let (url, key) = (format!("{}/content-owners/summary", self.address(QUERY)), self.owner.clone());
        self.background_reports = Some(tokio::spawn(async move {
            let read = || async {
                client().get(&url).header("x-api-key", &key).send().await.map_or(0, |answer| answer.status().as_u16())
            };
            futures::future::join_all((0..20).map(|_| read())).await;
            loop {
                read().await;
            }
        }));
    }

    fn keep_reporting(&self) -> tokio::task::JoinHandle<()> {
        let (gateway, key) = (self.address(GATEWAY), self.reporter.clone());
        tokio::spawn(async move {
            loop {
                report(&gateway, &key, 1).await;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        })
    }

    /// Flips a byte of the spill while the gateway is down, then restarts the brokers so that the gateway reads the spill.
    async fn flip_a_byte_of_the_spill(&mut self) {
        self.processes.get_mut(GATEWAY).unwrap().kill_9().await;
        let largest = std::fs::read_dir(self.spill()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        let segment = largest.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
        let mut bytes = std::fs::read(&segment).unwrap();
        bytes[100] ^= 1;
        std::fs::write(&segment, bytes).unwrap();
        self.start(GATEWAY, &[]).await;
        self.broker.as_ref().unwrap().resume();
    }

    /// Sets the database's default for new sessions, and ends the existing ones.
    async fn let_the_database_take_writes(&self, takes: bool) {
        let own: PgConnectOptions = self.stores.postgres.database_url.parse().unwrap();
        let name = own.get_database().unwrap().to_owned();
        let mut session = PgConnection::connect_with(&own.options([("default_transaction_read_only", "off")])).await.unwrap();
        let set = if takes { "RESET default_transaction_read_only" } else { "SET default_transaction_read_only = on" };
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
        for statement in [format!("ALTER DATABASE {name} {set}"), end.to_owned()] {
            sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&mut session).await.unwrap();
        }
    }

    /// Creates an endpoint with one message. Its receiver does not run.
    async fn webhook(&self, sealed_with: &SecretsKey) -> Uuid {
        let pool = &self.stores.pool;
        let (org, id) = (Seed(pool).org("receiver", OrgType::Platform).await.id, Uuid::now_v7());
        let sealer = SecretsSettings { secrets_key: Some(sealed_with.clone()) }.sealer().unwrap();
        sqlx::query(
            "INSERT INTO webhook_endpoints (id, organization_id, url, event_types, secret_sealed, created_at) \
             VALUES ($1, $2, $3, '{invite.claimed}', $4, now())",
        )
        .bind(id)
        .bind(org.0)
        .bind(format!("https://{}/", free_address().to_string().replace("127.0.0.1", "localhost")))
        .bind(sealer.seal(schemas::secrets::PlainWebhookSecret::generate().reveal(), id.as_bytes()).unwrap())
        .execute(pool)
        .await
        .unwrap();
        sqlx::query_scalar(
            "INSERT INTO webhook_deliveries (id, endpoint_id, organization_id, event_type, body, created_at) \
             VALUES (uuidv7(), $1, $2, 'invite.claimed', '{}', now()) RETURNING id",
        )
        .bind(id)
        .bind(org.0)
        .fetch_one(pool)
        .await
        .unwrap()
    }

    /// Fills the queues of three endpoints whose receivers are down, then adds one more delivery. The queue size is a connection setting,
    /// as in identity-api.
    async fn fill_three_endpoints(&mut self) {
        for _ in 0..3 {
            let waits = self.webhook(&self.secrets).await;
            let mut transaction = self.stores.pool.begin().await.unwrap();
            let most = "SELECT set_config('telemetry.webhook_pending', '1', true)";
            sqlx::query(most).execute(&mut *transaction).await.unwrap();
            sqlx::query(
                "INSERT INTO webhook_deliveries (id, endpoint_id, organization_id, event_type, body, created_at) \
                 SELECT uuidv7(), endpoint_id, organization_id, event_type, body, now() FROM webhook_deliveries WHERE id = $1",
            )
            .bind(waits)
            .execute(&mut *transaction)
            .await
            .unwrap();
            transaction.commit().await.unwrap();
        }
        // A new deliverer counts dropped deliveries immediately, a running one only every half minute.
        self.start(DELIVERER, &[]).await;
    }

    /// Changes a delivery as if its earlier attempts were hours ago.
    async fn queue(&self, is: &'static str, delivery: Uuid) {
        let statement = format!("UPDATE webhook_queue SET {is}, due_at = now() - interval '10 minutes' WHERE delivery_id = $1");
        sqlx::query(sqlx::AssertSqlSafe(statement)).bind(delivery).execute(&self.stores.pool).await.unwrap();
    }

    /// Locks a delivery that is long overdue in an open transaction, so that a new deliverer skips it.
    async fn hold_the_queue(&mut self) {
        self.processes.get_mut(DELIVERER).unwrap().kill_9().await;
        let delivery = self.webhook(&self.secrets).await;
        self.queue("attempts = 0", delivery).await;
        let mut held: Transaction<'static, Postgres> = self.stores.pool.begin().await.unwrap();
        sqlx::query("SELECT FROM webhook_queue WHERE delivery_id = $1 FOR UPDATE")
            .bind(delivery)
            .execute(&mut *held)
            .await
            .unwrap();
        self.start(DELIVERER, &[]).await;
        self.background_reports = Some(tokio::spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        }));
    }
}
