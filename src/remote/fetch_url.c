/* remote/fetch_url: the forms of URL that remote/fetch takes. Called by it, and by whoever checks a configured URL
   before use. Refuses other schemes, a URL without a host (curl would take the first path segment for one) or with a
   user. */
#include "remote/fetch_url.h"

#include <curl/curl.h>

#include "base/check.h"
#include "remote/fetch.h"

#define MAX_URL_BYTES 4096
#define MAX_SOCKET_PATH_BYTES 107 /* sun_path with its NUL */

void fetch_url_split_unix(struct slice url, struct slice *path, struct slice *target)
{
    url = slice_make(url.p + 5, url.n - 5);
    const char *end = memmem(url.p, url.n, ":/", 2);
    *path = slice_make(url.p, end ? (size_t)(end - url.p) : url.n);
    *target = end ? slice_make(end + 1, url.n - path->n - 1) : SLICE("/");
}

bool fetch_url_is_unix(struct slice url)
{
    return slice_starts(url, SLICE("unix:/"));
}

bool fetch_url_is_http(struct slice url)
{
    return slice_starts(url, SLICE("http://")) || slice_starts(url, SLICE("https://"));
}

const char *fetch_url_check(struct slice url)
{
    static const char bad_host[] = "the url has no host, or is not a url";
    if (url.n == 0) return "the url is empty";
    if (url.n > MAX_URL_BYTES) return "the url is too long";
    for (size_t i = 0; i < url.n; i++)
        if (url.p[i] <= ' ' || url.p[i] > '~') return "the url has a space or a character that must be percent-encoded";
    if (fetch_url_is_unix(url)) {
        struct slice path, target;
        fetch_url_split_unix(url, &path, &target);
        if (path.n < 2) return "the path of the unix socket is missing";
        return path.n > MAX_SOCKET_PATH_BYTES ? "the path of the unix socket is too long" : NULL;
    }
    if (!fetch_url_is_http(url)) return "the url must begin with http://, https:// or unix:/";
    const char *host = (const char *)memmem(url.p, url.n, "://", 3) + 3;
    if (host == url.p + url.n || strchr("/?#:", *host)) return bad_host; /* curl skips slashes until it finds one */
    char text[MAX_URL_BYTES + 1];
    memcpy(text, url.p, url.n);
    text[url.n] = '\0';
    CURLU *parts = curl_url();
    CHECK(parts, "out of memory");
    CURLUcode code = curl_url_set(parts, CURLUPART_URL, text, CURLU_DISALLOW_USER);
    curl_url_cleanup(parts);
    if (code == CURLUE_USER_NOT_ALLOWED) return "a user or password does not belong into the url";
    return code == CURLUE_OK ? NULL : bad_host;
}
