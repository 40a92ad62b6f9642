# doorward in a container: built and run on Debian 13. The last stage needs no shell: it holds the daemon, the libraries
# it links and the certificates of public authorities. Mount a configuration at /etc/doorward, or set CWMS_API_URL and
# OPA_URL to run in drop-in mode.

# Debian 13 with a Rust that is new enough for rego/.
FROM rust:1.95-slim-trixie AS builder
RUN apt-get update && apt-get install -y --no-install-recommends \
      gcc libc6-dev cmake ninja-build pkg-config libuv1-dev libhiredis-dev libjansson-dev libyaml-dev \
      libcurl4-openssl-dev libssl-dev libjwt-dev libjq-dev libllhttp-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY CMakeLists.txt CMakePresets.json README.md LICENSE ./
COPY cmake cmake
COPY include include
COPY src src
COPY rego rego
COPY config config
COPY policies policies
RUN cmake --preset release -D DOORWARD_EMBEDDED_REGO=ON && cmake --build --preset release && strip build/release/doorward

# The sample API and the token issuer of docker-compose.yml.
FROM debian:trixie-slim AS demo
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-cryptography \
    && rm -rf /var/lib/apt/lists/*
COPY demo /demo
USER 65532:65532

FROM debian:trixie-slim AS runtime
RUN apt-get update && apt-get install -y --no-install-recommends \
      ca-certificates libuv1t64 libhiredis1.1.0 libjansson4 libyaml-0-2 libcurl4t64 libssl3t64 libjwt2 libjq1 \
      libllhttp9.2 \
    && rm -rf /var/lib/apt/lists/* && mkdir /etc/doorward
COPY --from=builder /build/build/release/doorward /usr/bin/doorward
COPY config /usr/share/doorward/config
COPY policies /usr/share/doorward/policies
COPY LICENSE /usr/share/doc/doorward/LICENSE
VOLUME ["/etc/doorward"]
EXPOSE 3001
USER 65532:65532
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["doorward", "--probe"]
ENTRYPOINT ["doorward"]
