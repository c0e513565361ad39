# One image with the one program; who runs it says which service: `docker run IMAGE query-api --help`.
# Health checks stand in docker-compose.yml, because each service listens elsewhere.

FROM rust:1.95-bookworm@sha256:6258907abe69656e41cd992e0b705cdcfabcbbe3db374f92ed2d47121282d4a1 AS build
# This image has what librdkafka's configure and make need: a C compiler, make, and the headers and archives of zlib and
# OpenSSL. OpenSSL is linked in, so that the second image needs none.
WORKDIR /source
COPY . .
# Compiled dependencies live in cache mounts, not in a layer: a changed Cargo.lock recompiles only what it changed, and
# no list of manifests has to be kept here. Our own crates are compiled from nothing every time, because cargo goes by
# the times of the files it knows: it would miss a migration that was added, or take another clone's older files for done.
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/source/target,sharing=locked \
    cargo clean --release --workspace \
 && export OPENSSL_STATIC=1 OPENSSL_INCLUDE_DIR=/usr/include OPENSSL_LIB_DIR=/usr/lib/$(gcc -print-multiarch) \
 && cargo build --release --locked --package telemetry \
 && install -D target/release/telemetry /binaries/telemetry

FROM debian:bookworm-slim@sha256:3783cc01769c7b2b1b83a5c5ad96c815348e28ed7da68e2e3687004faa906251
# Whom to trust over HTTPS; copied, so that this stage installs nothing.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /binaries/ /usr/local/bin/
# No account with this number exists anywhere: it owns nothing but this folder, and volumes mounted there. The file of analyst
# accounts is written as 101, the account of ClickHouse's image, which reads it.
RUN install --directory --mode=700 --owner=10001 --group=10001 /var/lib/ingest-gateway \
 && install --directory --mode=700 --owner=101 --group=101 /var/lib/analysts
USER 10001:10001
ENTRYPOINT ["telemetry"]
