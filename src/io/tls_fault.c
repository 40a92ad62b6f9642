/* io/tls_fault: OpenSSL's errors in our words. Called by io/tls_stream. */
#include "io/tls_fault.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "io/tls.h"

/* Is this alert (RFC 8446 6.2) about the certificate that we showed, or did not show? */
static bool is_of_certificate(int alert)
{
    switch (alert) {
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
    case SSL_AD_CERTIFICATE_REQUIRED:
        return true;
    default:
        return false;
    }
}

int tls_fault(struct ssl_st *ssl, const char *name, char *text, size_t cap)
{
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_REASON(code), error = TLS_PROTOCOL;
    long verified = SSL_get_verify_result(ssl);
    const char *words = code ? ERR_reason_error_string(code) : NULL;
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        error = TLS_CERTIFICATE;
        if (verified == X509_V_ERR_HOSTNAME_MISMATCH || verified == X509_V_ERR_IP_ADDRESS_MISMATCH)
            snprintf(text, cap, "the certificate is not for %s", name);
        else
            snprintf(text, cap, "%s", X509_verify_cert_error_string(verified));
    } else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
        error = TLS_CERTIFICATE;
        snprintf(text, cap, "no certificate was shown");
    } else if (reason >= SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256) {
        const char *alert = words ? strstr(words, "alert ") : NULL; /* "tlsv13 alert certificate required" */
        error = is_of_certificate(reason - SSL_AD_REASON_OFFSET) ? TLS_CERTIFICATE_REFUSED : TLS_REFUSED;
        snprintf(text, cap, "the peer refused: %s", alert ? alert + strlen("alert ") : "an alert");
    } else {
        snprintf(text, cap, "%s", words ? words : "a fault of TLS");
    }
    ERR_clear_error();
    return error;
}
