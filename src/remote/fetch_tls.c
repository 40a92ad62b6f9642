/* remote/fetch_tls: called by remote/fetch. Certificates and names are always verified; what is trusted in place of the
   system's authorities is trusted alone. */
#include "remote/fetch_tls.h"

#include <curl/curl.h>
#include <openssl/x509_vfy.h>
#include <string.h>

#include "base/check.h"

static void set_blob(CURL *easy, CURLoption option, struct slice text)
{
    struct curl_blob blob = {.data = (void *)(uintptr_t)text.p, .len = text.n, .flags = CURL_BLOB_NOCOPY};
    if (text.n) CHECK(curl_easy_setopt(easy, option, &blob) == CURLE_OK, "curl takes PEM from memory");
}

void fetch_tls_set(void *easy, const struct fetch_tls *t)
{
    /* A folder that curl was built with would be asked beside the text. */
    if (t->ca.n) CHECK(curl_easy_setopt(easy, CURLOPT_CAPATH, NULL) == CURLE_OK, "no folder of authorities");
    set_blob(easy, CURLOPT_CAINFO_BLOB, t->ca);
    set_blob(easy, CURLOPT_SSLCERT_BLOB, t->certificate);
    set_blob(easy, CURLOPT_SSLKEY_BLOB, t->key);
}

static const char *certificate_fault(CURL *easy)
{
    long why = X509_V_OK;
    curl_easy_getinfo(easy, CURLINFO_SSL_VERIFYRESULT, &why);
    /* The chain was good, and curl itself found the name to be another. */
    if (why == X509_V_OK || why == X509_V_ERR_UNSPECIFIED) return "the certificate is for another name";
    return X509_verify_cert_error_string(why);
}

/* Alerts of the peer (RFC 8446 6), as OpenSSL words them. */
static const char *alert(const char *said)
{
    static const struct {
        const char *word, *text;
    } alerts[] = {
        {"alert certificate required", "the peer asks for a certificate of ours"},
        {"alert unknown ca", "the peer does not know the authority of our certificate"},
        {"alert certificate expired", "our certificate has expired, says the peer"},
        {"alert certificate revoked", "our certificate is revoked, says the peer"},
        {"alert certificate unknown", "the peer does not take our certificate"},
        {"alert bad certificate", "the peer does not take our certificate"},
        {"alert unsupported certificate", "the peer does not take our certificate"},
        {"alert access denied", "the peer does not take our certificate"},
        {"alert handshake failure", "the peer refuses the TLS handshake"},
        {"alert protocol version", "the peer has no version of TLS that we take"},
        {"unsupported protocol", "the peer has no version of TLS that we take"},
        {"wrong version number", "the peer does not speak TLS"},
        {"packet length too long", "the peer does not speak TLS"},
    };
    for (size_t i = 0; i < sizeof alerts / sizeof *alerts; i++)
        if (strstr(said, alerts[i].word)) return alerts[i].text;
    return NULL;
}

/* With TLS 1.3 the handshake is over for us before the peer has seen our certificate, or that there is none; and what we
   send meanwhile may meet a closed connection, whose reset can overtake the alert. */
static const char *broke_off(CURL *easy, const char *said, bool silent)
{
    curl_off_t secured = 0;
    long fresh = 0;
    const char *text = alert(said);
    curl_easy_getinfo(easy, CURLINFO_APPCONNECT_TIME_T, &secured);
    curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &fresh);
    if (text || !secured || !fresh || !silent) return text;
    return "the peer broke off right behind the TLS handshake: perhaps it wants another certificate of ours";
}

const char *fetch_tls_error(void *easy, int code, const char *said, bool silent)
{
    const char *text;
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
        return certificate_fault(easy);
    case CURLE_SSL_CERTPROBLEM:
        return "our certificate or its key cannot be used";
    case CURLE_SSL_CACERT_BADFILE:
        return "the authorities cannot be read";
    case CURLE_SSL_CONNECT_ERROR:
        text = alert(said);
        return text ? text : "the TLS handshake failed";
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
        return broke_off(easy, said, silent);
    default:
        return NULL;
    }
}
