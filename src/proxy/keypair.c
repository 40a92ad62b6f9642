/* proxy/keypair: the listener's certificate, and its renewal. Called by wire, listener and whoever handles a reload. Refuses
   to change anything for a pair that does not load or does not belong together: the old one stays. */
#include "proxy/keypair.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/log.h"
#include "base/metric.h"

#define LOOK_EVERY_MS 10000
#define FILE_BYTES_MAX (1 << 20)
#define NAME "listen"

enum part { CERTIFICATE, KEY, CLIENT_CA, PARTS };

/* Another file, or other contents: what a rename, a write or a symbolic link that points elsewhere changes. */
struct mark {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
};

struct keypair {
    const struct conf *conf;
    struct tls_context *context;
    struct loop *loop;
    struct deadline look;
    struct mark marks[PARTS];
    struct buf texts[PARTS]; /* as last read; empty while those of the configuration hold */
    char *told;              /* the last warning, so that it is not said again */
};

static void on_look(struct deadline *d);

static struct slice path_of(const struct keypair *k, enum part part)
{
    const struct slice paths[] = {k->conf->listen.tls.certificate_file, k->conf->listen.tls.key_file,
                                  k->conf->listen.tls.client_ca_file};
    return paths[part];
}

static struct slice known(const struct keypair *k, enum part part)
{
    const struct slice given[] = {k->conf->listen.tls.certificate, k->conf->listen.tls.key, k->conf->listen.tls.client_ca};
    return k->texts[part].n ? buf_slice(&k->texts[part]) : given[part];
}

static const char *option_of(enum part part)
{
    static const char *const options[] = {"listen.tls.certificate_file", "listen.tls.key_file", "listen.tls.client_ca_file"};
    return options[part];
}

static void forget(struct buf *text)
{
    if (text->p) explicit_bzero(text->p, text->cap);
    buf_free(text);
}

static struct tls_context *make(const struct conf *conf, const struct slice texts[PARTS], char **error)
{
    static const enum tls_ask asks[] = {[CLIENT_CERTIFICATES_OFF] = TLS_ASK_NONE,
                                        [CLIENT_CERTIFICATES_OPTIONAL] = TLS_ASK_OPTIONAL,
                                        [CLIENT_CERTIFICATES_REQUIRED] = TLS_ASK_REQUIRED};
    struct tls_config c = {
        .certificate = texts[CERTIFICATE],
        .key = texts[KEY],
        .ca = texts[CLIENT_CA],
        .ask = asks[conf->listen.tls.client_certificates],
        .http = true,
    };
    char *why = NULL, text[400];
    struct tls_context *context = tls_server_create(&c, &why);
    if (context) return context;
    snprintf(text, sizeof text, "listen.tls: %s", why);
    *error = xstrdup(text);
    free(why);
    return NULL;
}

/* The whole file, or false with errno. */
static bool read_whole(const char *path, struct buf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = -1;
    if (fd < 0) return false;
    do {
        buf_reserve(out, 4096);
        n = read(fd, out->p + out->n, 4096);
        if (n > 0) out->n += (size_t)n;
    } while (n > 0 && out->n <= FILE_BYTES_MAX);
    if (n > 0) errno = EFBIG;
    int kept = errno;
    close(fd);
    errno = kept;
    return n == 0;
}

/* True where a file is another one than it was. A file that is not there at the moment is no change. */
static bool look_at(const struct keypair *k, struct mark marks[PARTS])
{
    bool changed = false;
    memcpy(marks, k->marks, sizeof k->marks);
    for (int i = 0; i < PARTS; i++) {
        struct stat s;
        if (path_of(k, i).n == 0 || stat(path_of(k, i).p, &s) != 0) continue;
        marks[i] = (struct mark){s.st_dev, s.st_ino, s.st_size, s.st_mtim};
        const struct mark *was = &k->marks[i];
        changed |= was->device != s.st_dev || was->inode != s.st_ino || was->size != s.st_size ||
                   was->changed.tv_sec != s.st_mtim.tv_sec || was->changed.tv_nsec != s.st_mtim.tv_nsec;
    }
    return changed;
}

static void warn(struct keypair *k, const char *text)
{
    if (k->told && strcmp(k->told, text) == 0) return;
    free(k->told);
    k->told = xstrdup(text);
    log_event(LOG_WARN, "certificate_kept", slice_str(text));
}

/* Sets the gauge; a certificate that is shown although it is over is worth a line. */
static void tell_expiry(const struct keypair *k)
{
    struct slice name = SLICE(NAME);
    int64_t expires_s = tls_context_expiry(k->context);
    metric_set(METRIC_TLS_EXPIRY, &name, (double)expires_s);
    if (expires_s * 1000 <= loop_wall_ms(k->loop))
        log_event(LOG_WARN, "certificate_expired", SLICE("listen.tls.certificate_file"));
}

/* Reads what stands in the files. False: one cannot be read. */
static bool read_parts(struct keypair *k, struct buf texts[PARTS])
{
    for (int i = 0; i < PARTS; i++) {
        struct slice path = path_of(k, i);
        buf_init(&texts[i], NULL);
        if (path.n == 0 || read_whole(path.p, &texts[i])) continue;
        char text[200];
        snprintf(text, sizeof text, "%s: %s", option_of(i), strerror(errno));
        warn(k, text);
        while (i >= 0) forget(&texts[i--]);
        return false;
    }
    return true;
}

static bool is_news(const struct keypair *k, const struct buf texts[PARTS])
{
    for (int i = 0; i < PARTS; i++)
        if (!slice_eq(buf_slice(&texts[i]), known(k, i))) return true;
    return false;
}

void keypair_renew(struct keypair *k)
{
    struct mark marks[PARTS];
    struct buf texts[PARTS];
    if (!look_at(k, marks) || !read_parts(k, texts)) return;
    char *error = NULL;
    struct tls_context *context = NULL;
    bool news = is_news(k, texts);
    if (news) {
        const struct slice parts[] = {buf_slice(&texts[0]), buf_slice(&texts[1]), buf_slice(&texts[2])};
        context = make(k->conf, parts, &error);
    }
    if (context) {
        tls_context_release(k->context);
        k->context = context;
    }
    for (int i = 0; i < PARTS; i++) {
        forget(context ? &k->texts[i] : &texts[i]);
        if (context) k->texts[i] = texts[i];
    }
    if (news && !context) { /* the marks stay: the rest of a pair may be on its way */
        warn(k, error);
        free(error);
        return;
    }
    memcpy(k->marks, marks, sizeof marks);
    free(k->told);
    k->told = NULL;
    if (!news) return;
    log_event(LOG_INFO, "certificate_renewed", SLICE(NAME));
    tell_expiry(k);
}

static void on_look(struct deadline *d)
{
    struct keypair *k = container_of(d, struct keypair, look);
    keypair_renew(k);
    deadline_after(k->loop, d, LOOK_EVERY_MS);
}

bool keypair_create(const struct conf *conf, struct keypair **out, char **error)
{
    *out = NULL;
    if (conf->listen.tls.certificate.n == 0) return true;
    const struct slice texts[] = {conf->listen.tls.certificate, conf->listen.tls.key, conf->listen.tls.client_ca};
    struct tls_context *context = make(conf, texts, error);
    if (!context) return false;
    struct keypair *k = xzalloc(sizeof *k);
    k->conf = conf;
    k->context = context;
    deadline_init(&k->look, on_look);
    for (int i = 0; i < PARTS; i++) buf_init(&k->texts[i], NULL);
    *out = k;
    return true;
}

void keypair_watch(struct keypair *k, struct loop *l)
{
    k->loop = l;
    tell_expiry(k);
    on_look(&k->look);
}

struct tls_context *keypair_context(const struct keypair *k)
{
    return k->context;
}

void keypair_stop(struct keypair *k)
{
    if (k) deadline_stop(&k->look);
}

void keypair_free(struct keypair *k)
{
    if (!k) return;
    deadline_stop(&k->look);
    tls_context_release(k->context);
    for (int i = 0; i < PARTS; i++) forget(&k->texts[i]);
    free(k->told);
    free(k);
}
