"""The JSON Schema of the fan-out's channels beside the reader it describes: what one takes and refuses the other does, too."""
import copy
import json
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest
import yaml

from lib.server import MILLRACE
from lib.wait import HANG_S

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "fanout-channels.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
LEVELS = ("configuration", "channel", "fanoutConfig", "subscription", "delivery")


def is_good(config):
    """To an independent validator."""
    return VALIDATOR.is_valid(config)


def read(config, folder):
    """What the reader says of it: nothing when it is good."""
    text = config if isinstance(config, str) else yaml.safe_dump(config)
    done = subprocess.run([MILLRACE, "fanout", "write-config", "--config-dir", folder], input=text, text=True, capture_output=True,
                          timeout=HANG_S)
    assert done.returncode in (0, 1), done.stderr
    return done.stderr if done.returncode else ""


def at(level, name, value):
    """A configuration that is good but for this value, perhaps."""
    subscription = {"subscriber": "http://a/", "uid": "u"}
    channel = {"namespace": "default", "name": "c1", "subscriptions": [subscription]}
    config = {"channels": [channel]}
    if level == "delivery":
        subscription["delivery"] = {"dead_letter": "http://dls/", name: value}
        if name.startswith("deadLetter"):
            del subscription["delivery"]["dead_letter"]
    elif level == "subscription":
        if name in ("subscriberURI", "callableDomain"):
            del subscription["subscriber"]
        subscription[name] = value
    elif level == "fanoutConfig":
        channel["fanoutConfig"] = {"subscriptions": channel.pop("subscriptions")} | {name: value}
    elif level == "channel":
        if name == "fanoutConfig":
            del channel["subscriptions"]
        channel[name] = value
    else:
        if name == "channelConfigs":
            del config["channels"]
        config[name] = value
    return config


def fields():
    for level in LEVELS:
        yield from ((level, name) for name in SCHEMA["$defs"][level]["properties"])


def resolved(schema):
    while isinstance(schema, dict) and "$ref" in schema:
        found = SCHEMA
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    return schema


SAMPLES = {
    "words": ([["x-a"], "x-b", [], ["x-a", "x-c"]], [{"a": 1}, [["x"]], ["x"] * 65]),
    "target": (["http://a/", "b:80/c", {"uri": "http://a/"}, {"url": None}, ""], [["http://a/"], {"uri": "http://a/", "ref": {}}, "x" * 2049]),
    "delivery": ([{}, {"retry": 0}], [7, [], {"rety": 1}]),
    "duration": (["30s", "PT30S", "PT0.5S", "P1D", "1h", "200ms"], ["30", "30 s", "P", "PT", "1.5s", "PT1M1H", "-1s", {}, ["1s"], True]),
    "size": (["64KiB", "65536", 65536, "1MiB"], ["64kb", "1.5MiB", "-1", -1, [], "64 KiB"]),
    "subscriptions": ([[], [{}], [{"subscriber": "a"}]], [{}, 7, [{"subscribr": "a"}]]),
    "filters": ([[], [{"exact": {"type": "a"}}], [{"all": [{"not": {"prefix": {"source": "/"}}}]}], [{"sql": "TRUE"}], [{"exact": {"id": 5}}]],
                [{}, [{"exact": {}}], [{"exact": {"A": "b"}}], [{"exact": {"data": "b"}}], [{"all": []}], [{"exact": {"id": ""}}], [{}],
                 [{"exact": {"a": "b"}, "prefix": {"a": "b"}}], [{"regex": {"a": "b"}}], [{"exact": {"id": None}}], [{"sql": {}}], [7]]),
    "filter": ([{}, {"attributes": {}}, {"attributes": {"type": ""}}, {"attributes": {"type": None}}], [{"attrs": {}}, {"attributes": {"A": "b"}}, []]),
    "ref": ([{"uid": "x"}, {}], []),
    "namespace": (["a", "a-1"], ["A", "", "a.b", "a" * 64, {}, None]),
    "name": (["a", "a.b", "a" * 190], ["A", "", "a/b", "a" * 191, [], None]),
    "ack": (["all", "first", "quorum(1)", "async-memory"], ["ALL", "quorum()", "quorum(x)", "any", {}, "quorum(1"]),
    "on_exhausted": (["nack", "dead-letter", "park", "drop", ["dead-letter", "park"], ["dead-letter", "nack"]],
                     ["retry", {}, "", [], ["dead-letter"], ["park", "drop"], ["dead-letter", "dead-letter"], ["dead-letter", "park", "drop"]]),
    "generation": ([1, "2"], [0, -1, "x", [], 1.5]),
    "channels": ([[], [{"namespace": "a", "name": "b"}]], [{}, 7, [7], [{"name": "b"}]]),
    "fanoutConfig": ([{}, {"subscriptions": []}, {"asyncHandler": True}], [[], {"subscription": []}]),
}
SAMPLES |= {"hosts": (["a.example", ["a.example", "B.example"], "", []], SAMPLES["words"][1]), "uid": (["x", ""], ["u" * 129, {}, ["x"]]),
            "order_key": (["subject", "a"], ["", "a" * 65, []])}


def samples(level, name):
    """Good and bad values of a field, by what the schema says of it."""
    schema = SCHEMA["$defs"][level]["properties"][name]
    primary = schema["$ref"].rsplit("/", 1)[-1] if isinstance(schema, dict) and schema.get("$ref", "").startswith("#/$defs/" + level) else name
    whole = resolved(SCHEMA["$defs"][level]["properties"][primary])
    if whole is True:
        return [1, "x", None, {}], []
    if primary in SAMPLES:
        return SAMPLES[primary]
    named = re.findall(r'#/\$defs/(\w+)"', json.dumps(SCHEMA["$defs"][level]["properties"][primary]))
    if named and named[0] in SAMPLES:
        return SAMPLES[named[0]]
    if "enum" in whole:
        return whole["enum"], ["something else", 77, [], {}]
    if "minimum" in whole:
        low, high = whole["minimum"], whole["maximum"]
        return [low, high, str(low)], [low - 1, high + 1, "x", "1x", 1.5, [], {}]
    raise AssertionError(f"no samples of {level}.{name}: {whole}")


OF_THE_READER = re.compile(r"is not from .* to ")  # how long and how large something may be


def test_it_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("level, name", fields())
def test_the_schema_and_the_reader_agree_on(level, name, tmp_path):
    good, bad = samples(level, name)
    for value in good:
        config = at(level, name, value)
        assert is_good(config), f"{value!r}: {[e.message for e in VALIDATOR.iter_errors(config)]}"
        said = read(config, tmp_path)
        assert not said or OF_THE_READER.search(said), f"{value!r}: {said}"
    for value in bad:
        config = at(level, name, value)
        assert not is_good(config), f"{value!r} passes"
        assert read(config, tmp_path), f"{value!r} is read"


def test_two_names_of_one_field_and_unknown_ones_are_wrong(tmp_path):
    for level in LEVELS:
        properties = SCHEMA["$defs"][level]["properties"]
        for name, schema in properties.items():
            if isinstance(schema, dict) and schema.get("$ref", "").startswith(f"#/$defs/{level}/properties/"):
                config = at(level, name, samples(level, name)[0][0])
                both = copy.deepcopy(config)
                holder = {"configuration": lambda c: c, "channel": lambda c: c["channels"][0], "fanoutConfig": None,
                          "subscription": lambda c: c["channels"][0]["subscriptions"][0],
                          "delivery": lambda c: c["channels"][0]["subscriptions"][0]["delivery"]}[level](both)
                holder[schema["$ref"].rsplit("/", 1)[-1]] = samples(level, name)[0][0]
                assert is_good(config) and not is_good(both) and read(both, tmp_path), (level, name)
        config = at(level, "n0such", 1)
        assert not is_good(config) and "no such field" in read(config, tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "channels:\n", "channelConfigs: []"])
def test_an_empty_configuration_is_good(text, tmp_path):
    assert is_good(yaml.safe_load(text)) and not read(text, tmp_path)


def examples():
    """The configurations of the manual, the manifest and the fuzzer's corpus."""
    manual = (ROOT / "docs" / "FANOUT.md").read_text()
    yield from (block for block in re.findall(r"```yaml\n(.*?)```", manual, re.S))
    for part in yaml.safe_load_all((ROOT / "deploy" / "fanout-sidecar.yaml").read_text()):
        yield from (part or {}).get("data", {}).values() if (part or {}).get("kind") == "ConfigMap" else ()
    for seed in sorted((ROOT / "fuzz" / "corpus" / "fanout_config").iterdir()):
        kind, text = seed.read_bytes()[:1], seed.read_bytes()[1:]
        if kind and kind[0] & 6 == 0:
            yield text.decode()


def test_it_says_of_every_example_what_the_reader_says(tmp_path):
    n = 0
    for text in examples():
        said = read(text, tmp_path)
        if not said:
            assert is_good(yaml.safe_load(text)), text
            n += 1
    assert n >= 4
