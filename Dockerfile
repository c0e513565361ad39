# One image for all services, which are subcommands: `docker run IMAGE query-api --help`.
# Health checks are in docker-compose.yml, because each service has its own.

FROM rust:1.95-bookworm@sha256:6258907abe69656e41cd992e0b705cdcfabcbbe3db374f92ed2d47121282d4a1 AS build
# This image contains what librdkafka's build needs: a C compiler, make, and the headers and archives of zlib and OpenSSL. OpenSSL is
# linked statically, so the second image doesn't need it.
WORKDIR /source
COPY . .
# Compiled dependencies are in cache mounts instead of a layer, so a changed Cargo.lock recompiles only changed dependencies, and this
# file needs no list of manifests. Workspace crates are always recompiled: cargo compares file times, so it would miss a new migration
# or older files of another clone.
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/source/target,sharing=locked \
    cargo clean --release --workspace \
 && export OPENSSL_STATIC=1 OPENSSL_INCLUDE_DIR=/usr/include OPENSSL_LIB_DIR=/usr/lib/$(gcc -print-multiarch) \
 && cargo build --release --locked --package telemetry \
 && install -D target/release/telemetry /binaries/telemetry

FROM debian:bookworm-slim@sha256:3783cc01769c7b2b1b83a5c5ad96c815348e28ed7da68e2e3687004faa906251
# Root certificates for HTTPS, copied so that this stage installs nothing.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /binaries/ /usr/local/bin/
# The account 10001 owns only this folder and volumes mounted there. The file of analyst accounts belongs to 101, the account of the
# ClickHouse image, which reads it.
RUN install --directory --mode=700 --owner=10001 --group=10001 /var/lib/ingest-gateway \
 && install --directory --mode=700 --owner=101 --group=101 /var/lib/analysts
USER 10001:10001
ENTRYPOINT ["telemetry"]
