"""Every request accounted for: the client's record, the access log, the API's own record and the metrics are joined by
request id."""
import collections
import json


class Account:
    """client: rows of load.Client.end(); logs: texts of the daemons' logs; record: the API's record file."""

    def __init__(self, client, logs, record):
        self.client = {row[0]: row for row in client}
        assert len(self.client) == len(client), "the client has an id twice"
        self.lines = collections.defaultdict(list)
        self.reasons = collections.Counter()
        names = {row[0].rsplit("-", 1)[0] for row in client}
        for text in logs:
            for line in text.splitlines():
                if b'"event":"request"' not in line:
                    continue
                said = json.loads(line)
                self.reasons[said["reason"]] += 1
                if said["request_id"].rsplit("-", 1)[0] in names:
                    self.lines[said["request_id"]].append(said)
        self.forwarded = collections.defaultdict(list)
        with open(record, encoding="ascii") as file:
            for line in file:
                id, method, path, grants, member = line.split()
                if id.rsplit("-", 1)[0] in names:
                    self.forwarded[id].append((method, path, int(grants), member))

    def by_status(self):
        return dict(sorted(collections.Counter(row.status for row in self.client.values()).items()))

    def by_kind(self):
        seen = collections.defaultdict(collections.Counter)
        for row in self.client.values():
            seen[row.kind][row.status] += 1
        return {kind: dict(sorted(count.items())) for kind, count in sorted(seen.items())}

    def lost(self):
        """Requests without a whole answer."""
        return [row for row in self.client.values() if row.status == 0]

    def crossed(self):
        """Requests that went to a kept connection just as it ended, not to be sent again, and never seen by the daemon:
        HTTP has that (RFC 9112 section 9.5)."""
        return [row for row in self.lost() if row.how == "crossed" and row.id not in self.lines]

    def check_log(self, cut=(), died=True, dropped=0):
        """Each answered request has exactly one access line, with the status the client saw; one that was sent again has
        two. cut: ids whose line may be missing or half done (the daemon was killed). died False: no daemon was killed, so
        that also what broke off has its line, and what the daemon never answered is not ours to miss. dropped: so many
        lines the daemon itself counted as not written."""
        wrong = []
        for id, (_, kind, status, _, _, how, _) in self.client.items():
            lines = self.lines.get(id, [])
            if id in cut or status == 0:
                unseen = how == "crossed" and id not in self.forwarded
                if len(lines) > 2 or (not died and not lines and not unseen):
                    wrong.append((id, kind, "lines", len(lines)))
            elif how == "retried":
                if not any(line["status"] == status for line in lines):
                    wrong.append((id, kind, status, lines))
            elif len(lines) != 1 or lines[0]["status"] != status:
                wrong.append((id, kind, status, [(line["status"], line["reason"]) for line in lines]))
        unwritten = [row for row in wrong if not row[-1]]
        if len(unwritten) <= dropped:
            wrong = [row for row in wrong if row[-1]]
        began = {row[0]: self.client[row[0]].began for row in wrong[:5]}
        assert not wrong, (f"{len(wrong)} requests are not accounted for in the log (of {len(unwritten)} no line, "
                           f"{dropped} lines dropped): {wrong[:5]}, begun {began}")
        strange = [id for id in self.lines if id not in self.client]
        assert not strange, f"in the log, but nobody asked: {strange[:5]}"

    def check_allowed(self, public=("/ping",), killed=False):
        """What reached the API was allowed, by the access line of the same request; it carries one grant, and none where
        the route is public. killed: a daemon's line may have died with it."""
        wrong = []
        for id, arrived in self.forwarded.items():
            lines = self.lines.get(id, [])
            for _, path, grants, _ in arrived:
                is_public = path.startswith(tuple("/cwms-data" + prefix for prefix in public))
                allowed = any(line.get("decision") == "allow" for line in lines) or is_public
                if not allowed and not (killed and not lines):
                    wrong.append((id, path, "not allowed", lines))
                if grants != (0 if is_public else 1):
                    wrong.append((id, path, "grants", grants))
            if len(arrived) > len(lines) + sum(bool(line.get("retried")) for line in lines) and not killed:
                wrong.append((id, "arrived", len(arrived)))
        assert not wrong, f"{len(wrong)} forwarded without an allow or too often: {wrong[:5]}"
        missing = [id for id, (_, kind, status, _, _, _, _) in self.client.items()
                   if status in (200, 101) and kind != "authorize" and id not in self.forwarded]
        assert not missing, f"answered, but the API never saw them: {missing[:5]}"

    def check_metrics(self, counts, dropped=0):
        """requests_ended_total of daemons that were never killed; the scrape itself is not yet counted in itself. dropped:
        so many lines the daemon itself counted as not written."""
        counted = collections.Counter()
        for label, value in counts.items():
            counted[label.split('"')[1]] += int(value)
        logged = {**self.reasons, "answered": self.reasons["answered"] - 1}
        logged = {k: v for k, v in logged.items() if v}
        counted = {k: v for k, v in counted.items() if v}
        if dropped:
            unwritten = {k: counted.get(k, 0) - logged.get(k, 0) for k in {**counted, **logged}}
            assert min(unwritten.values()) >= 0 and sum(unwritten.values()) <= dropped, (unwritten, dropped)
        else:
            assert counted == logged, (counted, logged)

    def slowest(self, kinds=None):
        took = sorted(row.ms for row in self.client.values() if kinds is None or row.kind in kinds)
        return {"p50": took[len(took) // 2], "p99": took[int(len(took) * 0.99)], "max": took[-1]} if took else {}
