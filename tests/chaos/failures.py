"""What happens when a part fails, as one table: test_failures.py makes each row happen, docs/failures.md is written from
it. No row stands here that is not tested.

  python3 failures.py        prints docs/failures.md
"""
import collections
import sys


# dependency, fault; what the client of a request that needs it gets: status, reason; the option that bounds its wait
# (None: at once); the metric that moves: name, labels; texts of one log line. a|b: one or the other, as chance has it
Row = collections.namedtuple("Row", "dependency fault status reason at_most metric line")

FAULTS = {
    "refuse": "refuses connections",
    "name": "its name does not resolve",
    "certificate": "shows a certificate that is not trusted",
    "connect_reset": "resets a connection at once",
    "connect_hang": "takes no connection, says nothing",
    "request_reset": "resets once it has the request",
    "answer_reset": "resets in mid-answer",
    "answer_hang": "takes the request, says nothing",
    "cut_hang": "stops in mid-answer",
    "slow": "answers some bytes a second",
    "half_closed": "ends its side instead of an answer",
    "garbage": "answers what cannot be read",
    "oversized": "answers over the bound",
    "wrong_type": "answers another type",
    "status_400": "answers 400",
    "status_401": "answers 401",
    "status_403": "answers 403",
    "status_404": "answers 404",
    "status_503": "answers 503",
    "rests": "has failed `breakers.failures` times in a row",
}
FAULTS_OF_REDIS = {
    "status_400": "answers with an error (NOPERM)",
    "status_503": "answers with an error (LOADING)",
}


def calls(dependency, kind):
    return "dependency_failures_total", {"dependency": dependency, "kind": kind}


def redis(fault, kind, at_most=None):
    return Row("redis", fault, 200, "forwarded", at_most, calls("redis", kind), ('"context_from":"api"',))


def policy(fault, status, reason, kind, detail, at_most=None):
    return Row("policy", fault, status, reason, at_most, calls("policy", kind), (f'"reason":"{reason}"', detail))


def context(fault, status, reason, kind, detail, at_most=None):
    metric = calls("context", kind) if kind else ("requests_ended_total", {"reason": reason})
    return Row("context", fault, status, reason, at_most, metric, (f'"reason":"{reason}"', detail))


def issuer(fault, kind, detail, at_most=None):
    return Row("issuer", fault, 503, "keys_unavailable", at_most, calls("issuer", kind),
               ('"event":"keys_failed"', detail))


def upstream(fault, status, reason, detail, at_most=None):
    return Row("upstream", fault, status, reason, at_most, ("requests_ended_total", {"reason": reason}), (detail,))


def rests(dependency, reason, status=503):
    """Refused without a call, until the rest is over and one call that tries has succeeded."""
    return Row(dependency, "rests", status, reason, None, calls(dependency, "resting"),
               (f'"reason":"{reason}"', "resting after failures"))


SELF_MADE = "local issuer certificate"
BROKE_OFF = "the policy engine broke off"
OTHER_STATUS = "answered with another status than 200"
NO_ANSWER = "did not answer in time"
API_BROKE_OFF = "the profile API broke off"
KEYS_TIMEOUT = "5 s"  # of one fetch of keys; no option
CLOSED = "closed without an answer"

TABLE = [
    redis("refuse", "unreachable"),
    redis("name", "unreachable"),
    redis("certificate", "unreachable"),
    redis("connect_reset", "unreachable"),
    redis("connect_hang", "unreachable"),
    redis("request_reset", "unreachable"),
    redis("answer_reset", "unreachable"),
    redis("answer_hang", "timeout", "redis.timeout_ms"),
    redis("cut_hang", "timeout", "redis.timeout_ms"),
    redis("slow", "timeout", "redis.timeout_ms"),
    redis("half_closed", "unreachable"),
    redis("garbage", "garbage"),
    redis("oversized", "garbage"),
    redis("wrong_type", "garbage"),
    redis("status_400", "status"),
    redis("status_503", "status"),
    Row("redis", "rests", 200, "forwarded", None, ("breaker_opened_total", {"dependency": "redis"}),
        ('"event":"breaker"', '"dependency":"redis"', '"state":"open"')),

    policy("refuse", 503, "policy_unavailable", "unreachable", "the policy engine cannot be reached"),
    policy("name", 503, "policy_unavailable", "unreachable", "the policy engine cannot be reached"),
    policy("certificate", 503, "policy_unavailable", "tls", SELF_MADE),
    policy("connect_reset", 503, "policy_unavailable", "garbage", BROKE_OFF),
    policy("connect_hang", 504, "policy_timeout", "timeout", NO_ANSWER, "policy.timeout_ms"),
    policy("request_reset", 503, "policy_unavailable", "garbage", BROKE_OFF),
    policy("answer_reset", 503, "policy_unavailable", "garbage", BROKE_OFF),
    policy("answer_hang", 504, "policy_timeout", "timeout", NO_ANSWER, "policy.timeout_ms"),
    policy("cut_hang", 504, "policy_timeout", "timeout", NO_ANSWER, "policy.timeout_ms"),
    policy("slow", 504, "policy_timeout", "timeout", NO_ANSWER, "policy.timeout_ms"),
    policy("half_closed", 503, "policy_unavailable", "garbage", BROKE_OFF),
    policy("garbage", 503, "policy_garbage", "garbage", "the answer is not a JSON object"),
    policy("oversized", 503, "policy_garbage", "garbage", "the answer is over policy.max_response_bytes"),
    policy("status_400", 503, "policy_unavailable", "status", OTHER_STATUS),
    policy("status_503", 503, "policy_unavailable", "status", OTHER_STATUS),
    Row("policy", "wrong_type", 403, "policy_malformed", None, ("requests_ended_total", {"reason": "policy_malformed"}),
        ('"reason":"policy_malformed"', "the result is neither true or false nor an object")),
    rests("policy", "policy_unavailable"),

    context("refuse", 503, "context_unavailable", "unreachable", "the profile API cannot be reached"),
    context("name", 503, "context_unavailable", "unreachable", "the profile API cannot be reached"),
    context("certificate", 503, "context_unavailable", "tls", SELF_MADE),
    context("connect_reset", 503, "context_unavailable", "garbage", API_BROKE_OFF),
    context("connect_hang", 503, "context_unavailable", "timeout", NO_ANSWER, "context.timeout_ms"),
    context("request_reset", 503, "context_unavailable", "garbage", API_BROKE_OFF),
    context("answer_reset", 503, "context_unavailable", "garbage", API_BROKE_OFF),
    context("answer_hang", 503, "context_unavailable", "timeout", NO_ANSWER, "context.timeout_ms"),
    context("cut_hang", 503, "context_unavailable", "timeout", NO_ANSWER, "context.timeout_ms"),
    context("slow", 503, "context_unavailable", "timeout", NO_ANSWER, "context.timeout_ms"),
    context("half_closed", 503, "context_unavailable", "garbage", API_BROKE_OFF),
    context("garbage", 503, "context_malformed", "garbage", "the profile is not a JSON object"),
    context("oversized", 503, "context_unavailable", "garbage", "the profile is too large"),
    context("wrong_type", 503, "context_malformed", "garbage", "the context's shape failed"),
    context("status_400", 503, "context_unavailable", "status", OTHER_STATUS),
    context("status_401", 401, "credential_rejected", None, "the API refused the credential"),
    context("status_403", 503, "context_unavailable", "status", OTHER_STATUS),
    context("status_404", 403, "context_unknown", None, "the API does not know the caller"),
    context("status_503", 503, "context_unavailable", "status", OTHER_STATUS),
    rests("context", "context_unavailable"),

    issuer("refuse", "unreachable", "the issuer cannot be reached"),
    issuer("name", "unreachable", "the issuer cannot be reached"),
    issuer("certificate", "tls", SELF_MADE),
    issuer("connect_reset", "garbage", "the issuer's answer broke off"),
    issuer("connect_hang", "timeout", NO_ANSWER, KEYS_TIMEOUT),
    issuer("request_reset", "garbage", "the issuer's answer broke off"),
    issuer("answer_reset", "garbage", "the issuer's answer broke off"),
    issuer("answer_hang", "timeout", NO_ANSWER, KEYS_TIMEOUT),
    issuer("cut_hang", "timeout", NO_ANSWER, KEYS_TIMEOUT),
    issuer("slow", "timeout", NO_ANSWER, KEYS_TIMEOUT),
    issuer("half_closed", "garbage", "the issuer's answer broke off"),
    issuer("garbage", "garbage", "the key set is not JSON"),
    issuer("oversized", "garbage", "the key set is larger than 1 MiB"),
    issuer("wrong_type", "garbage", "the key set has no array"),
    issuer("status_400", "status", "a status other than 200"),
    issuer("status_503", "status", "a status other than 200"),

    upstream("refuse", 502, "upstream_unreachable", "connection refused"),
    upstream("name", 502, "upstream_unreachable", "the name cannot be resolved"),
    upstream("certificate", 502, "upstream_certificate", SELF_MADE),
    upstream("connect_reset", 502, "upstream_closed|upstream_unreachable", CLOSED + "|connect failed"),
    upstream("connect_hang", 502, "upstream_unreachable", "connect timed out", "upstream.connect_timeout_ms"),
    upstream("request_reset", 502, "upstream_closed", CLOSED),
    upstream("answer_reset", 502, "upstream_closed", "the answer broke off"),
    upstream("answer_hang", 504, "upstream_timeout", "no answer", "upstream.response_timeout_ms"),
    upstream("cut_hang", 504, "upstream_timeout", "the answer stopped", "upstream.response_timeout_ms"),
    upstream("slow", 504, "upstream_timeout", "the answer stopped", "upstream.response_timeout_ms"),
    upstream("half_closed", 502, "upstream_closed", CLOSED),
    upstream("garbage", 502, "upstream_malformed", "the answer is not valid HTTP/1.1"),
    upstream("oversized", 502, "upstream_malformed", "the answer is not valid HTTP/1.1"),
    upstream("wrong_type", 504, "upstream_timeout", "the answer stopped", "upstream.response_timeout_ms"),
    upstream("status_400", 400, "forwarded", '"status":400'),
    upstream("status_503", 503, "forwarded", '"status":503'),
    rests("upstream", "upstream_unreachable", 502),
]

def budget(dependency, fault, step):
    """listen.budget_ms ends before the part's own time does."""
    reason = "budget_exceeded"
    return Row(dependency, fault, 504, reason, "listen.budget_ms", ("requests_ended_total", {"reason": reason}),
               (f'"reason":"{reason}"', f'"step":"{step}"'))


BUDGET = [
    budget("policy", "answer_hang", "decide"),
    budget("context", "connect_hang", "identify"),
    budget("issuer", "answer_hang", "authenticate"),
    budget("upstream", "connect_hang", "connect"),
    budget("upstream", "slow", "forward"),
]

ABOUT = {
    "redis": ("Redis", """
Nobody notices: contexts come from the profile API instead, and the answer is right. `/ready` stays 200 and says
`degraded`. While it is gone no request waits for it; where it takes a question and does not answer, requests wait
`redis.timeout_ms` until the breaker rests it. The link is set up again by itself."""),
    "policy": ("The policy engine", """
A request whose decision is not in memory is refused with 503, or 504 when the engine was too slow; never 403, but where
the engine said what no policy should say: that is a denial, and an alarm. Decisions in memory are used until their end.
`/ready` is 503. With `policy.on_error: allow` the first two rows let the request through instead, each one counted.
When it cannot be reached, is silent, breaks off or says 502 to 504, that counts for its breaker (`breakers`): once open,
requests that need it are refused at once with the rest that is left as Retry-After, until a call that tries succeeds. The
log says `breaker` with the state, the metrics `breaker_state` and `breaker_opened_total`."""),
    "context": ("The profile API", """
Users whose context is neither in memory nor in Redis are refused; all others are served. Its breaker is like that of
the policy engine; the same profile that fails again and again counts once."""),
    "issuer": ("An issuer, before it ever gave its keys", """
Its tokens cannot be verified: 503. Those of other issuers can. The keys are asked for again with back-off up to 5 s.
Once they are known they are used for `max_stale_s`, whatever the issuer does: its failures are then seen in the log,
the metric and the age of the keys only."""),
    "upstream": ("An upstream", """
What it does not answer is 502, or 504 when it was too slow; what it answers is passed on, whatever the status. A request
that came off the pool, is idempotent, sent no body and saw no byte of an answer is sent once more first. An answer that
breaks off after its head has gone to the client is broken off there too."""),
}

ABOUT_BUDGET = """
Where the times of all parts together are too long for a client, `listen.budget_ms` ends the waiting, whatever it is for;
the log names the step."""

HEAD = """# When a part fails

What a client sees whose request needs the part that fails, how long it waits at most, which metric moves, and what the
log says. Requests that do not need the part go on as before; when it is back, so are we, without a hand. Each row is made
to happen, with the real parts, by `make test-chaos`; this page is written from the same table
(`tests/chaos/failures.py`; `make docs`).

"At once" is within the time of a call that works. An option's name is that option's time. All waiting within one request
is bounded by `listen.budget_ms`. Metrics have the prefix of `serve.metrics_prefix`.
"""


def label_text(labels):
    return "".join("{%s}" % ",".join(f'{k}="{v}"' for k, v in labels.items()) if labels else "")


def either(text):
    return text.split("|")


def every(labels):
    """Labels without either-or, all there are."""
    if not any("|" in value for value in labels.values()):
        return [labels]
    (key, value), = labels.items()
    return [{key: one} for one in either(value)]


def fault_text(row):
    return (FAULTS_OF_REDIS if row.dependency == "redis" else {}).get(row.fault) or FAULTS[row.fault]


def page():
    out = [HEAD]
    sections = [(title, about, [row for row in TABLE if row.dependency == dependency], False)
                for dependency, (title, about) in ABOUT.items()]
    for title, about, rows, named in [*sections, ("The budget of a request", ABOUT_BUDGET, BUDGET, True)]:
        out += [f"## {title}\n", about.strip() + "\n",
                "| it | client sees | at most after | metric | log |", "|---|---|---|---|---|"]
        for row in rows:
            name, labels = row.metric
            reasons = " or ".join(f"`{reason}`" for reason in either(row.reason))
            sees = f"{row.status} {reasons}" if row.reason != "forwarded" else \
                "200" if row.status == 200 else f"{row.status}, the API's own"
            wait = "at once" if not row.at_most else f"`{row.at_most}`" if "." in row.at_most else row.at_most
            said = ", ".join(" or ".join(f"`{one}`" for one in either(text)) for text in row.line)
            metric = " or ".join(f"`{name}{label_text(label)}`" for label in every(labels))
            it = f"{ABOUT[row.dependency][0].split(',')[0]}: {fault_text(row)}" if named else fault_text(row)
            out.append(f"| {it} | {sees} | {wait} | {metric} | {said} |")
        out.append("")
    return "\n".join(out)



if __name__ == "__main__":
    sys.stdout.write(page())
