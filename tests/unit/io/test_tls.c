/* io/tls: contexts from good texts and from bad ones: what is wrong is named, and no byte of a key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <time.h>

#include "certificates.h"
#include "io/tls.h"

struct bad {
    struct slice certificate, key, ca;
    enum tls_ask ask;
    const char *error;
};

static void says_what_is_wrong(void **state)
{
    (void)state;
    static char two[8192], cut[4096];
    snprintf(two, sizeof two, "%s-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ids.server.certificate.p);
    snprintf(cut, sizeof cut, "%.*s", 100, ids.server.key_pem.p);
    const struct bad all[] = {
        {SLICE("nothing"), ids.server.key_pem, SLICE(""), TLS_ASK_NONE, "certificate: not a certificate in PEM"},
        {SLICE(""), ids.server.key_pem, SLICE(""), TLS_ASK_NONE, "certificate: not a certificate in PEM"},
        {ids.server.key_pem, ids.server.key_pem, SLICE(""), TLS_ASK_NONE, "certificate: not a certificate in PEM"},
        {slice_str(two), ids.server.key_pem, SLICE(""), TLS_ASK_NONE, "certificate: a certificate of the chain cannot be read"},
        {ids.server.certificate, SLICE("nothing"), SLICE(""), TLS_ASK_NONE, "key: not a private key in PEM"},
        {ids.server.certificate, slice_str(cut), SLICE(""), TLS_ASK_NONE, "key: not a private key in PEM"},
        {ids.server.certificate, ids.client.key_pem, SLICE(""), TLS_ASK_NONE, "key: it does not belong to the certificate"},
        {ids.server.certificate, ids.server.key_pem, SLICE("nothing"), TLS_ASK_REQUIRED, "ca: not a certificate in PEM"},
        {ids.server.certificate, ids.server.key_pem, SLICE(""), TLS_ASK_OPTIONAL, "ca: not a certificate in PEM"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char *error = NULL;
        struct tls_config c = {.certificate = all[i].certificate, .key = all[i].key, .ca = all[i].ca, .ask = all[i].ask};
        assert_null(tls_server_create(&c, &error));
        if (strncmp(error, all[i].error, strlen(all[i].error)) != 0) fail_msg("%zu: %s", i, error);
        free(error);
    }
    struct tls_config c = {.ca = SLICE("nothing")};
    char *error = NULL;
    assert_null(tls_client_create(&c, &error));
    assert_string_equal(error, "ca: not a certificate in PEM");
    free(error);
}

static void needs_a_passphrase(void **state)
{
    (void)state;
    BIO *bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PKCS8PrivateKey(bio, ids.server.key, EVP_aes_128_cbc(), "secret", 6, NULL, NULL);
    struct slice pem = pem_of(bio);
    struct tls_config c = {.certificate = ids.server.certificate, .key = pem};
    char *error = NULL;
    assert_null(tls_server_create(&c, &error));
    assert_string_equal(error, "key: it needs a passphrase, expected one without");
    free(error);
    free((void *)(uintptr_t)pem.p);
}

static void the_same(void **state)
{
    (void)state;
    char *error = NULL;
    struct tls_config all[] = {
        {.ca = ids.ca.certificate},
        {.ca = ids.ca.certificate},
        {.ca = ids.other_ca.certificate},
        {.unverified = false},
        {.ca = ids.ca.certificate, .http = true},
        {.ca = ids.ca.certificate, .unverified = true},
        {.ca = ids.ca.certificate, .certificate = ids.client.certificate, .key = ids.client.key_pem},
    };
    enum { N = sizeof all / sizeof *all };
    struct tls_context *made[N];
    for (int i = 0; i < N; i++) made[i] = tls_client_create(&all[i], &error);
    for (int i = 0; i < N; i++) {
        assert_non_null(made[i]);
        assert_false(tls_context_same(made[i], NULL));
        for (int k = 0; k < N; k++)
            assert_int_equal(tls_context_same(made[i], made[k]), i == k || (i < 2 && k < 2));
    }
    assert_true(tls_context_same(NULL, NULL));
    for (int i = 0; i < N; i++) tls_context_release(made[i]);
}

static void tells_the_expiry(void **state)
{
    (void)state;
    char *error = NULL;
    struct tls_config c = {.certificate = ids.expired.certificate, .key = ids.expired.key_pem};
    struct tls_context *ctx = tls_server_create(&c, &error); /* taken all the same */
    assert_non_null(ctx);
    assert_true(tls_context_expiry(ctx) < time(NULL) && tls_context_expiry(ctx) > time(NULL) - 1000);
    tls_context_release(ctx);
    ctx = tls_client_create(&(struct tls_config){.ca = ids.ca.certificate}, &error);
    assert_int_equal(tls_context_expiry(ctx), 0);
    tls_context_release(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(needs_a_passphrase),
        cmocka_unit_test(tells_the_expiry),
        cmocka_unit_test(the_same),
    };
    return cmocka_run_group_tests(tests, identities_set_up, identities_tear_down);
}
