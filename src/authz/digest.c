/* authz/digest: the one place where the room takes SHA-256, and where its random ids come from. Called by token,
   identity and decision for their keys. It uses the plain SHA256 functions, which OpenSSL 3 calls deprecated: its EVP
   allocates at every start of a digest, even in a kept context, and a token found in the cache must cost none. */
#include "authz/digest.h"

#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

static void begin(SHA256_CTX *ctx)
{
    CHECK(SHA256_Init(ctx) == 1, "a digest starts");
}

static void add(SHA256_CTX *ctx, const void *p, size_t n)
{
    CHECK(SHA256_Update(ctx, p, n) == 1, "a digest takes bytes");
}

static void end(SHA256_CTX *ctx, uint8_t out[DIGEST_BYTES])
{
    CHECK(SHA256_Final(out, ctx) == 1, "a digest ends");
}

void digest_parts(const struct slice *parts, size_t n, uint8_t out[DIGEST_BYTES])
{
    SHA256_CTX ctx;
    begin(&ctx);
    for (size_t i = 0; i < n; i++)
        add(&ctx, parts[i].p, parts[i].n);
    end(&ctx, out);
}

void digest_fields(const struct slice *fields, size_t n, uint8_t out[DIGEST_BYTES])
{
    SHA256_CTX ctx;
    begin(&ctx);
    for (size_t i = 0; i < n; i++) {
        uint64_t length = fields[i].n;
        add(&ctx, &length, sizeof length);
        add(&ctx, fields[i].p, fields[i].n);
    }
    end(&ctx, out);
}

void digest_hex(const uint8_t digest[DIGEST_BYTES], char out[DIGEST_HEX_BYTES])
{
    for (size_t i = 0; i < DIGEST_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

void digest_uuid(char out[DIGEST_UUID_BYTES])
{
    uint8_t b[16];
    CHECK(RAND_bytes(b, sizeof b) == 1, "there are random bytes");
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    snprintf(out, DIGEST_UUID_BYTES, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
             b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}
