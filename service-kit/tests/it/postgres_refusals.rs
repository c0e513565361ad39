//! Maps PostgreSQL's rejections to API errors.

use crate::database::Database;
use schemas::problem::Code;
use service_kit::http::ApiError;
use service_kit::testing::eventually;

#[tokio::test]
async fn maps_idle_timeout_to_503_and_bad_sql_to_500() {
    let database = Database::empty().await;
    let mut session = database.pool.acquire().await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut *session).await.unwrap();
    sqlx::raw_sql("SET idle_in_transaction_session_timeout = 1; BEGIN").execute(&mut *session).await.unwrap();
    eventually("PostgreSQL ends the session", || async {
        let of_session = sqlx::query_scalar("SELECT count(*) FROM pg_stat_activity WHERE pid = $1").bind(pid);
        let sessions: i64 = of_session.fetch_one(&database.pool).await.unwrap();
        (sessions == 0).then_some(())
    })
    .await;
    let paused = sqlx::query("SELECT 1").execute(&mut *session).await.unwrap_err();
    assert_eq!(paused.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref(), Some("25P03"), "{paused}");
    assert_eq!(ApiError::from(paused).code(), Code::Unavailable);
    let wrong = sqlx::query("SELECT nothing").execute(&database.pool).await.unwrap_err();
    assert_eq!(ApiError::from(wrong).code(), Code::Internal);
}
