"""What bench/run found, as JSON to keep and as tables to read, with the bars beside it."""
import datetime
import json
import os
import re
import subprocess

import command
import fan
from measure import ROOT

CPU_BAR, MEMORY_BAR_MB, IDLE_BAR, READY_BAR_MS, RAW_BAR, LATENCY_BAR_MS = 0.40, 40, 1000, 300, 0.6, 1.0
FAN_MEMORY_BAR_MB, BUILD_BAR_MS = 15, 50
COMMAND_BAR_MS, COMMAND_BAR_TIMES, IDLE_CPU_BAR = 20, 1.5, 2
REGISTRY_READY_BAR_MS, STORM_BAR_MS, STORM_BAR_TIMES = 2000, 5, 3

RAW, RULE = "raw librdkafka", "millrace, a rule of to_kafka"  # sides


def output_of(*command):
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout.strip()


def describe_machine():
    """Before the run, so that the load is what others did."""
    cpu = re.search(r"model name\s*:\s*(.*)", open("/proc/cpuinfo").read())
    memory = re.search(r"MemTotal:\s*(\d+)", open("/proc/meminfo").read())
    pom = (ROOT / "tools" / "kafka-pom.xml").read_text()
    kafka = re.search(r"<artifactId>kafka_[^<]*</artifactId>\s*<version>([^<]+)", pom)
    mosquitto = re.search(r"mosquitto version (\S+)", output_of("mosquitto", "-h"))
    nginx = re.search(r"nginx/(\S+)", output_of("sh", "-c", "PATH=$PATH:/usr/sbin nginx -v 2>&1"))
    changed = output_of("git", "status", "--porcelain", "--untracked-files=no", "src", "bench")
    return {
        "date": datetime.date.today().isoformat(),
        "commit": output_of("git", "rev-parse", "--short", "HEAD") + ("+changes" if changed else ""),
        "cpu": cpu.group(1) if cpu else "unknown",
        "cores": os.cpu_count(),
        "memory_gb": round(int(memory.group(1)) * 1024 / 1e9, 1),
        "kernel": os.uname().release,
        "load_before": round(os.getloadavg()[0], 2),
        "librdkafka": output_of("pkg-config", "--modversion", "rdkafka"),
        "kafka": kafka.group(1) if kafka else "unknown",
        "mosquitto": mosquitto.group(1) if mosquitto else "unknown",
        "nginx": nginx.group(1) if nginx else "unknown",
    }


def bars(results):
    """Rows of (what, found, bar, met)."""
    rows = []

    def at_most(what, value, limit, unit):
        rows.append((what, f"{value:,.2f} {unit}", f"at most {limit} {unit}", value <= limit))

    def at_least(what, value, limit, unit):
        rows.append((what, f"{value:,.2f} {unit}", f"at least {limit} {unit}", value >= limit))

    for case in results.get("ingest", {}).get("cases", []):
        name = f"{case['size']} B, {case['shape']}"
        ours = case["sides"]["millrace"]
        if "vert.x" in case["sides"]:
            at_least(f"{name}: rate beside vert.x", case["sides"]["vert.x"]["millrace_ratio"], 1, "times")
        at_most(f"{name}: processor time per 100,000", ours["cpu_s_per_100k"], CPU_BAR, "s")
        at_most(f"{name}: resident memory at its peak", ours["peak_mb"], MEMORY_BAR_MB, "MB")
        at_least(f"{name}: rate beside raw librdkafka", ours["raw_ratio"], RAW_BAR, "times")
        at_least(f"{name}: the same through a rule of `to_kafka`", case["sides"][RULE]["raw_ratio"], RAW_BAR, "times")
    if "latency" in results:
        sides = results["latency"]["sides"]
        at_most("PUBACK p50 over raw librdkafka's",
                (sides["millrace"]["p50_us"] - sides[RAW]["p50_us"]) / 1000, LATENCY_BAR_MS, "ms")
    for case in results.get("command", []):
        name = f"commands, {command.case_name(case)}"
        for row in case["rates"]:
            limit = max(COMMAND_BAR_MS, round(COMMAND_BAR_TIMES * row["raw"]["p99_us"] / 1000, 1))
            at_most(f"{name}: p50 beside raw librdkafka's at {row['rate']}/s", row["p50_ratio"], COMMAND_BAR_TIMES, "times")
            at_most(f"{name}: p99 at {row['rate']}/s", row["millrace"]["p99_us"] / 1000, limit, "ms")
        at_most(f"{name}: processor time of an idle instance", max(case["idle_percent"]), IDLE_CPU_BAR, "% of a core")
    if "idle" in results:
        at_most(f"idle connection, {results['idle']['connections']:,} of them",
                results["idle"]["sides"]["millrace"]["bytes_per_connection"], IDLE_BAR, "bytes")
    for case in results.get("fan", {}).get("cases", []):
        ours, name = case["sides"][fan.OURS], fan.case_name(case)
        if case["rate"]:
            at_most(f"fan-out, {name}: p99 beside nginx's", ours["ratio"]["p99_us"], 1, "times")
            continue
        at_least(f"fan-out, {name}: rate beside nginx's", ours["ratio"]["rate"], 1, "times")
        at_most(f"fan-out, {name}: p50", ours["ratio"]["p50_us"], 1, "times")
        at_most(f"fan-out, {name}: p99", ours["ratio"]["p99_us"], 1, "times")
        at_most(f"fan-out, {name}: processor time", ours["ratio"]["cpu_s_per_1000"], 1, "times")
        at_most(f"fan-out, {name}: resident memory", ours["resident_mb"], FAN_MEMORY_BAR_MB, "MB")
    if "fan" in results:
        build = results["fan"]["build"]
        at_most(f"{build['subscriptions']:,} subscriptions built", build["processor_ms"], BUILD_BAR_MS, "ms")
    if "registry" in results:
        registry, storm = results["registry"]["table"], results["registry"]["storm"]
        at_most(f"registry of {registry['devices']:,} devices: ready with a warm view", registry["ready_ms"], REGISTRY_READY_BAR_MS, "ms")
        at_most(f"PUBACK p99 while {storm['devices']:,} devices log in", storm["p99_us"] / 1000,
                max(STORM_BAR_MS, round(STORM_BAR_TIMES * storm["quiet_p99_us"] / 1000, 1)), "ms")
    if "start" in results:
        at_most("`serve --dev` ready", results["start"]["ready_ms"], READY_BAR_MS, "ms")
    return rows


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def number(value, places=0):
    return "" if value is None else f"{value:,.{places}f}"


def ingest_text(found):
    rows = []
    for case in found["cases"]:
        for name, side in case["sides"].items():
            rows.append((f"{case['size']} B", case["shape"], name, number(side["rate"]), number(side.get("raw_ratio"), 2),
                         number(side["cpu_s_per_100k"], 3), number(side.get("anonymous_mb"), 1), number(side.get("peak_mb"), 1),
                         number(side["p50_us"] / 1000, 1), number(side["p99_us"] / 1000, 1)))
    text = "## Into Kafka: QoS 1, 50 connections, window 100\n\n"
    text += table(("payload", "as", "side", "records/s", "of raw librdkafka's", "CPU s per 100,000", "anonymous MB", "peak MB",
                   "p50 ms", "p99 ms"), rows)
    text += "\nProcessor time is that of the whole process, librdkafka's threads included, without the load generator's. "
    text += "Raw librdkafka has no MQTT to do and no generator beside it.\n"
    if found["vertx_not_run"]:
        text += f"\nvert.x: not run ({found['vertx_not_run']}).\n"
    return text


def latency_text(found):
    rows = [(name, number(s["p50_us"] / 1000, 2), number(s["p99_us"] / 1000, 2)) for name, s in found["sides"].items()]
    return f"## PUBACK at {found['messages_a_second']:,} messages/s\n\n" + table(("side", "p50 ms", "p99 ms"), rows)


def down_text(found):
    rows = [(c["qos"], number(c["rate"]), number(c["cpu_us_per_record"], 2)) for c in found["cases"]]
    text = f"## From Kafka to {found['devices']:,} connected devices, by a rule of `to_mqtt`\n\n"
    text += table(("QoS", "records/s delivered", "CPU us a record"), rows)
    return text + (f"\n100 B, {found['records_a_round']:,} records a round, while they are produced on the same cores; "
                   f"{found['peak_mb']:.1f} MB resident at its peak.\n")


def idle_text(found):
    rows = [(name, number(s["bytes_per_connection"]), number(s["rate"]), number(s["cpu_us_per_connect"]),
             number(s["resident_mb"], 1)) for name, s in found["sides"].items()]
    return f"## {found['connections']:,} idle connections over TCP\n\n" + table(
        ("server", "bytes of anonymous memory each", "connects/s", "CPU us a connect", "resident MB then"), rows)


def broker_text(found):
    rows = [(c["case"], c["qos"], name, number(s["rate"]), number(s.get("millrace_ratio"), 2), number(s["cpu_s_per_100k"], 3),
             number(s["p50_us"] / 1000, 1), number(s["p99_us"] / 1000, 1)) for c in found for name, s in c["sides"].items()]
    return "## Between MQTT clients: 100 B, window 100\n\n" + table(
        ("clients", "QoS", "server", "delivered/s", "Millrace's share of it", "CPU s per 100,000", "p50 ms", "p99 ms"), rows)


def fan_text(found):
    rows = [(fan.case_name(c), name, number(s["rate"]), number(s["ratio"]["rate"], 2), number(s["p50_us"]), number(s["p99_us"]),
             number(s["cpu_s_per_1000"], 3), number(s["resident_mb"], 1))
            for c in found["cases"] for name, s in c["sides"].items()]
    text = f"## Fan-out: CloudEvents of {fan.SIZE} B by HTTP to {fan.SINKS} subscribers\n\n"
    text += table(("load", "side", "events/s", "of nginx's", "p50 us", "p99 us", "CPU s per 1,000", "resident MB"), rows)
    text += "\nnginx answers when the first subscriber has, reads no event, and tells nobody when a mirror fails; Millrace waits for all.\n"
    build = found["build"]
    text += (f"\nA configuration of {build['subscriptions']:,} subscriptions with filters, {build['text_bytes'] / 1e6:.1f} MB of YAML, is built in "
             f"{build['processor_ms']:.0f} ms of processor time, beside the request path.\n")
    if found["benthos_not_run"]:
        text += f"\nBenthos: not run ({found['benthos_not_run']}).\n"
    return text


def registry_text(found):
    t, look, storm = found["table"], found["look"], found["storm"]
    text = f"## Registry: {t['devices']:,} devices with credentials in a local table\n\n"
    text += table(("imported/s", "CPU us a device", "anonymous MB after", "resident MB after", "MB on disk",
                   "ready again, median", "slowest", "after kill -9", "anonymous MB then", "resident MB then"),
                  [(number(t["import_per_s"]), number(t["import_cpu_us"]), number(t["anonymous_mb"], 1), number(t["resident_mb"], 1),
                    number(t["disk_mb"]), f"{t['ready_ms']:.0f} ms", f"{t['ready_ms_slowest']:.0f} ms", f"{t['ready_ms_killed']:.0f} ms",
                    number(t["started_anonymous_mb"], 1), number(t["started_resident_mb"], 1))])
    text += "\n" + table(("looked up by", f"{look['few']:,} devices over and over, /s", "all of them, /s", "all of them with password, /s",
                          "reads from the disk", "peak MB"),
                         [(f"{look['threads']} threads", number(look["few_per_s"]), number(look["all_per_s"]), number(look["login_per_s"]),
                           number(look["disk_reads"]), number(look["peak_mb"], 1))])
    text += f"\n{storm['devices']:,} devices log in at once by bcrypt of cost 10; one publishes {storm['rate']} messages/s with QoS 1:\n\n"
    return text + table(("", "PUBACK p50 ms", "p99 ms", "log-ins/s"),
                        [("quiet", number(storm["quiet_p50_us"] / 1000, 2), number(storm["quiet_p99_us"] / 1000, 2), ""),
                         ("meanwhile", number(storm["p50_us"] / 1000, 2), number(storm["p99_us"] / 1000, 2),
                          number(storm["logins_per_s"], 1))])


def command_text(cases):
    rows = []
    for case in cases:
        for row in case["rates"]:
            ours, raw = row["millrace"], row["raw"]
            rows.append((case["routing"], case["instances"], f"{row['rate']}/s", number(ours["p50_us"] / 1000, 2), number(ours["p99_us"] / 1000, 1),
                         number(raw["p50_us"] / 1000, 2), number(raw["p99_us"] / 1000, 1), number(row["p50_ratio"], 2)))
        full = case["full"]
        rows.append((case["routing"], case["instances"], f"{number(full['rate'])}/s, 64 under way", number(full["p50_us"] / 1000, 2),
                     number(full["p99_us"] / 1000, 1), "", "", ""))
    text = "## Commands: application to device and back\n\n"
    text += table(("design", "instances with devices", "commands", "p50 ms", "p99 ms", "raw p50 ms", "raw p99 ms", "p50 beside raw's"), rows)
    text += "\nRaw librdkafka passes the same records over as many topics, without anybody to route or to answer.\n\n"
    return text + table(("design", "instances", "CPU us a command, all processes", "idle: % of a core each", "resident MB each"),
                        [(c["routing"], c["instances"], number(c["full"]["cpu_us_per_command"]), ", ".join(number(p, 1) for p in c["idle_percent"]),
                          ", ".join(number(m, 1) for m in c["resident_mb"])) for c in cases])


def start_text(found):
    return "## Start\n\n" + table(
        ("`serve --dev` ready, median", "slowest", "stop, median", "binary", "without symbols"),
        [(f"{found['ready_ms']:.0f} ms", f"{found['ready_ms_slowest']:.0f} ms", f"{found['stop_ms']:.0f} ms",
          f"{found['binary_bytes'] / 1e6:.2f} MB", f"{found['binary_bytes_stripped'] / 1e6:.2f} MB")])


TEXTS = {"ingest": ingest_text, "latency": latency_text, "down": down_text, "command": command_text, "idle": idle_text, "broker": broker_text, "fan": fan_text,
         "registry": registry_text, "start": start_text}


def write(about, results, folder):
    """Returns the report; with a folder also writes it there, and the numbers as JSON."""
    rows = bars(results)
    text = (f"# Measured on {about['date']} at {about['commit']}\n\n"
            f"{about['cpu']}, {about['cores']} cores, {about['memory_gb']} GB, Linux {about['kernel']}; load average before: "
            f"{about['load_before']}. Kafka {about['kafka']} on the same machine, librdkafka {about['librdkafka']}, mosquitto "
            f"{about['mosquitto']}, nginx {about['nginx']}. Made by `bench/run`; what is measured how: [bench/README.md](../README.md).\n\n")
    text += table(("bar", "found", "wanted", ""), [(*row, "met" if met else "**not met**") for *row, met in rows])
    text += "".join("\n" + TEXTS[part](results[part]) for part in TEXTS if part in results)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        kept = {"about": about, "bars": [{"what": w, "found": f, "wanted": b, "met": m} for w, f, b, m in rows], **results}
        (folder / f"{about['date']}-{about['commit']}.json").write_text(json.dumps(kept, indent=1) + "\n")
        (folder / "latest.md").write_text(text)
    return text
