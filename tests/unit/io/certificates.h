/* Certificates for the tests of TLS, made by OpenSSL when they are needed: PEM texts on the heap. */
#ifndef UNIT_IO_CERTIFICATES_H
#define UNIT_IO_CERTIFICATES_H

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "base/check.h"
#include "base/slice.h"

struct identity {
    X509 *x;
    EVP_PKEY *key;
    struct slice certificate, key_pem;
};

struct wish {
    const char *subject;            /* CN */
    const char *names;              /* "DNS:a,IP:b", or NULL */
    const struct identity *issuer;  /* NULL: signs itself */
    long from_s, to_s;              /* from now */
    bool authority;
};

static inline struct slice pem_of(BIO *bio)
{
    char *p;
    long n = BIO_get_mem_data(bio, &p);
    char *copy = xzalloc((size_t)n + 1);
    memcpy(copy, p, (size_t)n);
    BIO_free(bio);
    return slice_make(copy, (size_t)n);
}

static inline void add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    CHECK(e && X509_add_ext(x, e, -1), "an extension");
    X509_EXTENSION_free(e);
}

static inline struct identity identity_make(struct wish w)
{
    static long serial = 1;
    struct identity id = {.x = X509_new(), .key = EVP_EC_gen("P-256")};
    X509_NAME *name = X509_get_subject_name(id.x);
    X509 *issuer = w.issuer ? w.issuer->x : id.x;
    X509_set_version(id.x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(id.x), serial++);
    X509_gmtime_adj(X509_getm_notBefore(id.x), w.from_s);
    X509_gmtime_adj(X509_getm_notAfter(id.x), w.to_s);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)w.subject, -1, -1, 0);
    X509_set_issuer_name(id.x, X509_get_subject_name(issuer));
    X509_set_pubkey(id.x, id.key);
    add_extension(id.x, issuer, NID_basic_constraints, w.authority ? "critical,CA:TRUE" : "CA:FALSE");
    add_extension(id.x, issuer, NID_subject_key_identifier, "hash");
    if (w.names) add_extension(id.x, issuer, NID_subject_alt_name, w.names);
    CHECK(X509_sign(id.x, w.issuer ? w.issuer->key : id.key, EVP_sha256()), "signed");
    BIO *bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, id.x);
    id.certificate = pem_of(bio);
    bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PKCS8PrivateKey(bio, id.key, NULL, NULL, 0, NULL, NULL);
    id.key_pem = pem_of(bio);
    return id;
}

static inline void identity_free(struct identity *id)
{
    X509_free(id->x);
    EVP_PKEY_free(id->key);
    free((void *)(uintptr_t)id->certificate.p);
    free((void *)(uintptr_t)id->key_pem.p);
    memset(id, 0, sizeof *id);
}

/* What most tests need: an authority, a server for api.test and 127.0.0.1, a client, and each kind of bad one. */
static struct {
    struct identity ca, server, client, other_ca, foreign, expired, early, lonely;
} ids;

static inline void identities_make(void)
{
    const long year = 365 * 24 * 3600L;
    ids.ca = identity_make((struct wish){"authority", NULL, NULL, -60, year, true});
    ids.other_ca = identity_make((struct wish){"another authority", NULL, NULL, -60, year, true});
    ids.server = identity_make((struct wish){"api.test", "DNS:api.test,IP:127.0.0.1", &ids.ca, -60, year, false});
    ids.client = identity_make((struct wish){"caller, \"one\" \xc3\xa9", NULL, &ids.ca, -60, year, false});
    ids.foreign = identity_make((struct wish){"api.test", "DNS:api.test", &ids.other_ca, -60, year, false});
    ids.expired = identity_make((struct wish){"api.test", "DNS:api.test", &ids.ca, -1000, -60, false});
    ids.early = identity_make((struct wish){"api.test", "DNS:api.test", &ids.ca, 1000, year, false});
    ids.lonely = identity_make((struct wish){"api.test", "DNS:api.test", NULL, -60, year, false});
}

static inline void identities_free(void)
{
    identity_free(&ids.ca);
    identity_free(&ids.server);
    identity_free(&ids.client);
    identity_free(&ids.other_ca);
    identity_free(&ids.foreign);
    identity_free(&ids.expired);
    identity_free(&ids.early);
    identity_free(&ids.lonely);
}

/* Of a group of tests. */
static inline int identities_set_up(void **state)
{
    (void)state;
    identities_make();
    return 0;
}

static inline int identities_tear_down(void **state)
{
    (void)state;
    identities_free();
    return 0;
}

#endif
