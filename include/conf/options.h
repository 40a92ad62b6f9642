/* conf/options: the YAML file and the environment to one immutable configuration. The table of options is options.def;
   --print-options, the docs page, the sample file and the reader are made from it. All texts are NUL-terminated. */
#ifndef CONF_OPTIONS_H
#define CONF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/slice.h"
#include "conf/print.h"

struct conf_list {
    struct slice *v;
    size_t n;
};

enum conf_anonymous { ANONYMOUS_REFUSE, ANONYMOUS_JUDGE };
enum conf_verify { VERIFY_KEYS, VERIFY_UPSTREAM };
enum conf_access { ACCESS_AUTHORIZED, ACCESS_AUTHENTICATED, ACCESS_PUBLIC };
enum conf_websocket { WEBSOCKET_OFF, WEBSOCKET_ON, WEBSOCKET_OUTLIVES_TOKEN };
enum conf_balance { BALANCE_LEAST_INFLIGHT, BALANCE_ROUND_ROBIN, BALANCE_FASTEST };
enum conf_client_certificates { CLIENT_CERTIFICATES_OFF, CLIENT_CERTIFICATES_OPTIONAL, CLIENT_CERTIFICATES_REQUIRED };
enum conf_grant_format { CONF_GRANT_JSON, CONF_GRANT_BASE64URL, CONF_GRANT_JWS };

struct conf_net { /* an address block, for trusted_proxies */
    uint8_t bytes[16];
    uint8_t family; /* 4 or 6 */
    uint8_t bits;
};

struct conf_tls { /* of a connection that we open; all of it PEM text, "" when not given */
    struct slice ca;          /* "": the system's authorities */
    struct slice certificate; /* with the rest of its chain */
    struct slice key;
};

struct conf_endpoint {      /* one of an upstream's URLs */
    struct slice url;       /* as given */
    struct slice host;      /* without brackets */
    int port;
    struct slice authority; /* host[:port] as Host: shows it */
};

struct conf_upstream {
    struct slice name;      /* "default" for `upstream` */
    struct slice url;       /* as given; "" with urls */
    struct conf_list urls;
    struct conf_endpoint *endpoints; /* of url or urls; at least one in a valid configuration */
    size_t endpoints_n;
    bool secure;            /* https, all of them */
    struct slice base_path; /* without a trailing slash; "" when none; the same for all */
    bool preserve_host;
    enum conf_balance balance;
    int64_t connect_timeout_ms, response_timeout_ms, idle_timeout_ms;
    int64_t max_idle, max_inflight, dns_ttl_s;
    struct slice health_path; /* "": no active checks */
    int64_t health_interval_ms, health_timeout_ms;
    struct conf_tls tls;
    struct slice tls_server_name; /* "": the host of the endpoint */
};

struct conf_issuer {
    struct slice issuer, jwks_url, jwks /* contents of jwks_file */, secret;
    struct conf_list audiences, algorithms, types;
    bool any_audience;
    int64_t max_stale_s;
    struct conf_tls tls;
};

struct conf_route {
    struct slice name;           /* for logs and metrics: given, or its path */
    struct slice path;           /* without a trailing slash, "" for the prefix / */
    bool prefix;                 /* path and everything below it; else exactly path */
    struct conf_list methods;    /* none: any */
    enum conf_access access;
    const struct conf_upstream *upstream;
    struct slice resource;       /* a name, or $N: the Nth segment of the path; "" means $1 */
    struct slice strip_prefix;   /* taken off the front of the path before it is sent; a prefix of `path`, "" none */
    enum conf_websocket websocket;
    bool source_ip;              /* give the client's address to the policy */
    int64_t decision_ttl_s;      /* 0: the default */
    bool keep_encoded_slashes;
    bool keep_path_parameters;
};

struct conf_policy { /* a file of policy.path */
    struct slice name;  /* below the path, '/' between; of a single file its own */
    struct slice bytes;
};

struct conf {
    int64_t workers;         /* processes; 0: as many as there are cores */
    bool drop_in;
    struct {
        struct slice host;       /* address literal */
        int port;
        struct conf_list hosts;
        int64_t header_timeout_ms, idle_timeout_ms, body_idle_timeout_ms, websocket_idle_timeout_ms;
        int64_t max_body_bytes;  /* 0: no limit */
        int64_t max_header_bytes, max_headers, max_target_bytes;
        int64_t max_connections, max_connections_per_address, max_requests_per_connection; /* 0: no limit, but the first */
        int64_t budget_ms;       /* 0: none */
        int64_t drain_delay_ms, drain_timeout_ms;
        struct {                 /* PEM texts and the files they came from; "" without TLS */
            struct slice certificate, certificate_file, key, key_file, client_ca, client_ca_file;
            enum conf_client_certificates client_certificates;
        } tls;
        struct conf_net *trusted;
        size_t trusted_n;
    } listen;
    struct {
        struct slice host;       /* "" : no admin listener */
        int port;
        struct slice token;
    } admin;
    struct conf_upstream *upstreams; /* [0] is `upstream` */
    size_t upstreams_n;
    struct {
        int64_t leeway_s;
        enum conf_anonymous anonymous;
        enum conf_verify verify;
        bool api_keys;
        struct slice name_claim;
        struct conf_list claims;
        int64_t cache_entries;
        int64_t max_bytes;
        struct conf_issuer *issuers;
        size_t issuers_n;
    } tokens;
    struct {
        struct slice url, service_url, service_authorization;
        struct slice shape;        /* program text; "" none */
        struct slice shape_name;   /* where it came from */
        int64_t ttl_s, memory_entries, memory_ttl_s, stale_s, timeout_ms, max_inflight, max_waiting, max_bytes;
        double jitter;
        struct conf_tls tls;
    } context;
    struct {
        struct slice url; /* "" : no redis */
        int64_t timeout_ms;
        struct slice key_prefix;
        struct conf_list sentinels; /* host:port; then the url's host is the name of the master */
        struct slice sentinel_user, sentinel_password;
        bool cluster;
        struct conf_list nodes;     /* of a cluster, host:port, beside the url's */
        bool tracking;
        struct conf_tls tls;
        struct slice tls_server_name;
    } redis;
    struct {
        struct slice url;        /* of an engine that is asked; "" with path, or where no route asks */
        struct slice path;       /* of policies for the engine in this process, from the working folder; "" none */
        struct conf_policy *files; /* what is there, by name */
        size_t files_n;
        uint64_t mark;           /* policies_mark of them as they were read; 0: not known */
        struct slice rule;       /* data.a.b; "" with url */
        int64_t eval_limit_ms, threads;
        struct slice authorization;
        struct conf_list query;  /* "name" or "name|synonym" */
        int64_t timeout_ms, max_inflight, max_waiting, max_response_bytes;
        bool on_error_allow;
        struct conf_tls tls;
    } policy;
    struct {
        int64_t ttl_s, deny_ttl_s, stale_s, revision_grace_s, max_entries, max_bytes;
        double jitter;
    } decisions;
    struct {                     /* of every dependency and every address of an upstream */
        int64_t failures, volume, window_ms, rest_ms, max_rest_ms;
        double ratio;
    } breakers;
    struct {
        struct slice header;     /* lower case; "" : no grant is sent */
        struct slice shape, shape_name;
        enum conf_grant_format format;
        struct slice key;        /* PEM */
        struct slice issuer;
        int64_t max_bytes;
    } grant;
    struct {
        bool what_if;
        struct slice path_prefix; /* the policy's path is this + resource */
        struct slice shape, shape_name;
        int64_t max_inflight;
    } authorize;
    struct conf_list strip_headers; /* lower case */
    struct conf_route *routes;
    size_t routes_n;
    struct {
        struct conf_list origins; /* "*" reflects any */
        struct conf_list methods, headers, expose;
        bool credentials;
        int64_t max_age_s;
        bool on;
    } cors;
    struct {
        enum log_level level;
        bool access, query;      /* write access lines; with the query */
    } log;
    struct {
        struct slice service;    /* name in /health */
        struct slice metrics_prefix;
        bool public_endpoints;   /* /metrics, /metrics/json, /authorize on the main port too (drop-in) */
        int64_t probe_interval_ms;
    } serve;
};

/* Variables that held secrets: taken out of the environment, kept for when the configuration is read again. Wiped in the
   end. */
struct conf_taken;
struct conf_taken *conf_taken_create(void);
void conf_taken_destroy(struct conf_taken *t);

/* The contents of the files that a configuration was read from, so that another process reads the same, whatever became
   of the files. Secrets are among them: wiped in the end. */
struct conf_files;
struct conf_files *conf_files_create(void);                   /* remembers what is read */
struct conf_files *conf_files_unpack(struct slice packed);    /* is read in place of the files; copied */
void conf_files_pack(const struct conf_files *f, struct buf *out); /* out is the caller's to wipe */
/* What c was read from, to be read once more, but for what is at path now: that is read from there. */
struct conf_files *conf_files_again(const struct conf *c, const char *path);
void conf_files_destroy(struct conf_files *f);

struct conf_source {       /* what main knows from the command line */
    const char *file;      /* --config or NULL */
    bool drop_in;          /* --drop-in */
    bool hurried;          /* others are to be served: nobody waits long for a pipe */
    char **environ;        /* the process's; secrets read from it are removed by unsetenv */
    struct conf_taken *taken; /* where they are kept then, and found; NULL: they are gone */
    struct conf_files *files; /* what is to be remembered of files, or read in their place; NULL: the files */
};

/* All errors at once, one per line in errors ("file:line: key: what is wrong, what was expected"); NULL then.
   warnings: same form (unknown DOORWARD_ variables, names that several issuers share). The result is freed by
   conf_destroy, secrets wiped. */
struct conf *conf_load(const struct conf_source *src, struct buf *errors, struct buf *warnings);
void conf_destroy(struct conf *c);

#endif
